//! Four eyes (NG5): with `--require-approval`, no rebalance of these kinds moves anything before
//! another user than the one who created it has approved it. Behind a host cluster, a label of a
//! namespace asks for the same of its Rebalances.
//!
//! The annotation `ballast.dev/created-by` names the user that created a rebalance or a schedule,
//! also where nobody has to approve it. Clients cannot set it in any other way. A rebalance that an
//! older version stored names no creator, and anybody with the verb `approve` may approve it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::{CREATED_BY, ClusterRebalance, Rebalance, RebalanceSchedule};
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

/// Whether the Rebalances of a namespace need an approval.
pub type MarkedNamespaces = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The validators of all kinds that can be approved. Those in `required` need an approval, and
/// Rebalances of `marked` namespaces. A schedule makes ClusterRebalances, so it counts as one.
pub fn four_eyes(
    required: &BTreeSet<GroupResource>,
    marked: Option<MarkedNamespaces>,
) -> [(GroupResource, Arc<dyn Validator>); 3] {
    let cluster_wide = required.contains(&ClusterRebalance::resource());
    let of = |required: bool, path: &'static [&'static str], marked: Option<MarkedNamespaces>| {
        Arc::new(FourEyes { required, path, marked })
    };
    [
        (ClusterRebalance::resource(), of(cluster_wide, &["spec"], None)),
        (Rebalance::resource(), of(required.contains(&Rebalance::resource()), &["spec"], marked)),
        (RebalanceSchedule::resource(), of(cluster_wide, &["spec", "template", "spec"], None)),
    ]
}

struct FourEyes {
    required: bool,
    /// Where the object has the fields of a rebalance.
    path: &'static [&'static str],
    marked: Option<MarkedNamespaces>,
}

#[async_trait]
impl Validator for FourEyes {
    async fn validate(
        &self,
        write: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let user = &*write.caller.user.name;
        let creator = match old {
            None => Some(user.to_owned()),
            Some(old) => annotation(old),
        };
        set_annotation(object, creator.as_deref());
        let is_marked = || self.marked.as_ref().is_some_and(|marked| marked(write.namespace));
        let why = match self.required {
            true => "--require-approval",
            false if is_marked() => "a label of the namespace",
            false => return Ok(()),
        };
        let mut errors = FieldErrors::default();
        let path = self.path[1..].iter().fold(FieldPath::new(self.path[0]), |path, member| path.child(member));
        let approval = self.field(object, "approval").and_then(Value::as_str).unwrap_or("NotRequired");
        // What was stored before the flag was set goes on.
        let was = old.map(|old| self.field(old, "approval").and_then(Value::as_str).unwrap_or("NotRequired"));
        if approval != "Required" && was != Some(approval) {
            let detail = format!("must be Required: this server lets nothing move without an approval ({why})");
            errors.invalid(&path.child("approval"), approval, &detail);
        }
        let approved = |object: &Map<String, Value>| self.field(object, "approved") == Some(&Value::Bool(true));
        if approved(object) && !old.is_some_and(approved) && creator.as_deref() == Some(user) {
            let detail = format!("another user than the one who created it has to approve it ({why})");
            errors.invalid(&path.child("approved"), true, &detail);
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(write.row.group, write.row.kind, write.name, &errors)),
        }
    }
}

impl FourEyes {
    fn field<'o>(&self, object: &'o Map<String, Value>, name: &str) -> Option<&'o Value> {
        let spec = self.path[1..].iter().try_fold(object.get(self.path[0])?, |value, member| value.get(member))?;
        spec.get(name)
    }
}

fn annotation(object: &Map<String, Value>) -> Option<String> {
    object.get("metadata")?.get("annotations")?.get(CREATED_BY)?.as_str().map(str::to_owned)
}

/// Sets the annotation, or takes away what the client has written there.
fn set_annotation(object: &mut Map<String, Value>, creator: Option<&str>) {
    if annotation(object).as_deref() == creator {
        return;
    }
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("every object has metadata");
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    let annotations = annotations.as_object_mut().expect("it was made one");
    match creator {
        Some(creator) => drop(annotations.insert(CREATED_BY.to_owned(), creator.into())),
        None => drop(annotations.remove(CREATED_BY)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(value: Value) -> Map<String, Value> {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    #[test]
    fn ng5_fields_are_found_in_a_rebalance_and_in_the_template_of_a_schedule() {
        let all = four_eyes(&BTreeSet::from([ClusterRebalance::resource()]), None);
        assert_eq!(all.len(), 3);
        let own = FourEyes { required: true, path: &["spec"], marked: None };
        let template = FourEyes { required: true, path: &["spec", "template", "spec"], marked: None };
        let rebalance = tree(json!({"spec": {"approval": "Required"}}));
        let schedule = tree(json!({"spec": {"template": {"spec": {"approval": "Required"}}}}));
        assert_eq!(own.field(&rebalance, "approval"), Some(&json!("Required")));
        assert_eq!(template.field(&schedule, "approval"), Some(&json!("Required")));
        assert_eq!(template.field(&rebalance, "approval"), None);
    }

    #[test]
    fn ng5_no_client_says_who_created_it() {
        let mut object = tree(json!({"metadata": {"annotations": {CREATED_BY: "anna", "a": "b"}}}));
        set_annotation(&mut object, Some("bob"));
        assert_eq!(annotation(&object).as_deref(), Some("bob"));
        set_annotation(&mut object, None);
        assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));
    }
}
