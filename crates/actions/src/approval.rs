//! The permission to approve a rebalance (BD8): a user that sets `spec.approved` to true needs the
//! verb `approve` on the resource, in addition to the verb of the write itself.
//!
//! The template of a RebalanceSchedule can also approve all ClusterRebalances that are made from
//! it. That needs `approve` on ClusterRebalances of any name, and so does a change of a template
//! that approves.
//!
//! The annotation `ballast.dev/approved-by` names the user that approved. Clients cannot set it in
//! any other way.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::{APPROVED_BY, ClusterRebalance, Rebalance, RebalanceSchedule};
use ballast_auth::{Attributes, Authorizer, Permission, ResourceAttributes};
use ballast_k8s::{GroupResource, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

const VERB: &str = "approve";
const WHY: &str = "who sets spec.approved to true needs the verb approve";

/// The kinds that can be approved, each with its validator.
pub fn approvals(authorizer: &Arc<Authorizer>) -> [(GroupResource, Arc<dyn Validator>); 3] {
    let own = || Arc::new(Approval { authorizer: Arc::clone(authorizer), field: ApprovalField::Spec });
    let template = Approval { authorizer: Arc::clone(authorizer), field: ApprovalField::Template };
    [
        (ClusterRebalance::resource(), own()),
        (Rebalance::resource(), own()),
        (RebalanceSchedule::resource(), Arc::new(template)),
    ]
}

/// Where an object holds the approval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApprovalField {
    Spec,
    Template,
}

struct Approval {
    authorizer: Arc<Authorizer>,
    field: ApprovalField,
}

#[async_trait]
impl Validator for Approval {
    async fn validate(
        &self,
        write: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if !self.approves(object, old) {
            keep(object, old);
            return Ok(());
        }
        let user = write.caller.user;
        let own = ResourceAttributes {
            verb: VERB,
            group: write.row.group,
            version: write.row.version,
            resource: write.row.plural,
            namespace: write.namespace,
            name: write.name,
            ..ResourceAttributes::default()
        };
        let attributes = Attributes::Resource(match self.field {
            ApprovalField::Spec => own,
            ApprovalField::Template => ResourceAttributes { resource: ClusterRebalance::PLURAL, name: "", ..own },
        });
        match self.authorizer.decide(user, &attributes).await {
            Permission::Allow(_) => {}
            Permission::Deny(reason) if reason.is_empty() => return Err(attributes.forbidden(user, WHY)),
            Permission::Deny(reason) => return Err(attributes.forbidden(user, &format!("{WHY}: {reason}"))),
            Permission::Failed(why) => return Err(Status::internal(why)),
        }
        annotations(object).insert(APPROVED_BY.to_owned(), Value::from(user.name.as_str()));
        if !write.dry_run() {
            write.caller.warnings.annotate(APPROVED_BY.to_owned(), user.name.clone());
        }
        Ok(())
    }
}

impl Approval {
    /// Whether the write approves something that was not approved before.
    fn approves(&self, object: &Map<String, Value>, old: Option<&Map<String, Value>>) -> bool {
        let spec = |object| self.spec(object);
        let approved = |object| spec(object).is_some_and(|spec| spec.get("approved") == Some(&Value::Bool(true)));
        let was_approved = old.is_some_and(approved);
        approved(object)
            && (!was_approved || (self.field == ApprovalField::Template && old.and_then(spec) != spec(object)))
    }

    fn spec<'o>(&self, object: &'o Map<String, Value>) -> Option<&'o Value> {
        let spec = object.get("spec")?;
        match self.field {
            ApprovalField::Spec => Some(spec),
            ApprovalField::Template => spec.get("template")?.get("spec"),
        }
    }
}

/// Leaves the annotation as it was.
fn keep(object: &mut Map<String, Value>, old: Option<&Map<String, Value>>) {
    let known = |object: &Map<String, Value>| object.get("metadata")?.get("annotations")?.get(APPROVED_BY).cloned();
    let was = old.and_then(known);
    match was {
        same if same == known(object) => {}
        Some(name) => drop(annotations(object).insert(APPROVED_BY.to_owned(), name)),
        None => drop(annotations(object).remove(APPROVED_BY)),
    }
}

fn annotations(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("every object has metadata");
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    annotations.as_object_mut().expect("admission has checked the types of metadata")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(value: Value) -> Map<String, Value> {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    fn approval(field: ApprovalField) -> Approval {
        Approval { authorizer: Arc::new(Authorizer::default()), field }
    }

    #[test]
    fn bd8_it_is_an_approval_when_it_was_none_before() {
        let spec = approval(ApprovalField::Spec);
        let object = |approved: bool| tree(json!({"metadata": {}, "spec": {"approved": approved}}));
        assert!(spec.approves(&object(true), None) && spec.approves(&object(true), Some(&object(false))));
        assert!(!spec.approves(&object(true), Some(&object(true))) && !spec.approves(&object(false), None));
    }

    #[test]
    fn bd8_a_template_that_approves_is_approved_anew_when_it_changes() {
        let template = approval(ApprovalField::Template);
        let object = |mode: &str, suspend: bool| {
            let template = json!({"spec": {"approved": true, "mode": mode}});
            tree(json!({"metadata": {}, "spec": {"suspend": suspend, "template": template}}))
        };
        assert!(template.approves(&object("Fresh", false), None));
        assert!(template.approves(&object("Steady", false), Some(&object("Fresh", false))));
        assert!(!template.approves(&object("Fresh", true), Some(&object("Fresh", false))));
    }

    #[test]
    fn bd8_nobody_signs_for_another() {
        let signed = |name: &str| tree(json!({"metadata": {"annotations": {APPROVED_BY: name}}}));
        let bare = tree(json!({"metadata": {"annotations": {}}}));
        let mut forged = signed("mallory");
        keep(&mut forged, None);
        assert_eq!(forged, bare);
        let mut changed = signed("mallory");
        keep(&mut changed, Some(&signed("jane")));
        assert_eq!(changed, signed("jane"));
        let mut removed = bare.clone();
        keep(&mut removed, Some(&signed("jane")));
        assert_eq!(removed, signed("jane"));
    }
}
