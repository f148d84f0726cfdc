//! Four eyes (NG5): with `--require-approval`, no rebalance of these kinds moves anything before it
//! is approved by a user that is not one of its writers. Behind a host cluster, a label of a
//! namespace requires the same of its Rebalances.
//!
//! `approval` runs first and records the writers, even if no approval is required. A rebalance that
//! an older version stored has no recorded creator, and any user with the verb `approve` may
//! approve it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::approval_rule::{Approvable, decide, writers_of};
use ballast_api::ballast::v1alpha1::{CREATED_BY, ClusterRebalance, Rebalance, RebalanceSchedule};
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

/// Looks up whether the Rebalances of a namespace need an approval. A failed lookup refuses the
/// write.
pub type MarkedNamespaces = Arc<dyn Fn(&str) -> BoxFuture<'static, Result<bool, Status>> + Send + Sync>;

/// Returns the validators of all kinds that can be approved. Approval is required for the kinds in
/// `required`, and for Rebalances of `marked` namespaces. A schedule creates ClusterRebalances, so
/// the same requirement applies to it.
pub fn four_eyes(
    required: &BTreeSet<GroupResource>,
    marked: Option<MarkedNamespaces>,
) -> [(GroupResource, Arc<dyn Validator>); 3] {
    let cluster_wide = required.contains(&ClusterRebalance::resource());
    let of = |required: bool, kind: Approvable, marked: Option<MarkedNamespaces>| {
        Arc::new(FourEyes { required, kind, marked })
    };
    [
        (ClusterRebalance::resource(), of(cluster_wide, Approvable::Rebalance, None)),
        (Rebalance::resource(), of(required.contains(&Rebalance::resource()), Approvable::Rebalance, marked)),
        (RebalanceSchedule::resource(), of(cluster_wide, Approvable::Schedule, None)),
    ]
}

struct FourEyes {
    required: bool,
    kind: Approvable,
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
        let why = match &self.marked {
            _ if self.required => "--require-approval",
            Some(marked) if marked(write.namespace).await? => "a label of the namespace",
            _ => return Ok(()),
        };
        let errors = self.check(&write.caller.user.name, object, old, why);
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(write.row.group, write.row.kind, write.name, &errors)),
        }
    }
}

impl FourEyes {
    /// Checks a write of `user`. The object has the annotations that `approval` records.
    fn check(
        &self,
        user: &str,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        why: &str,
    ) -> FieldErrors {
        let kind = self.kind;
        let mut errors = FieldErrors::default();
        let path = kind.path()[1..].iter().fold(FieldPath::new(kind.path()[0]), |path, member| path.child(member));
        let approval = |object| kind.field(object, "approval").and_then(Value::as_str).unwrap_or("NotRequired");
        // Objects that were stored before the flag was set continue unchanged.
        let is_known =
            old.is_some_and(|old| approval(old) == approval(object)) && !decide(kind, user, old, object).is_changed;
        if approval(object) != "Required" && !is_known {
            let detail = format!(
                "must be Required (--approval of the commands): this server lets nothing move without an approval ({why})"
            );
            errors.invalid(&path.child("approval"), approval(object), &detail);
        }
        let is_given = kind.is_approved(object) && !old.is_some_and(|old| kind.is_approved(old));
        if is_given && writers_of(object).iter().any(|writer| writer == user) {
            let creator = object.get("metadata").and_then(|metadata| metadata["annotations"].get(CREATED_BY));
            let is_creator = creator.and_then(Value::as_str) == Some(user);
            let whom = if is_creator { "the one who created it" } else { "those who have changed it" };
            let detail = format!("another user than {whom} has to approve it ({why})");
            errors.invalid(&path.child("approved"), true, &detail);
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::approval_rule::record;

    fn tree(value: Value) -> Map<String, Value> {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    #[test]
    fn no_writer_approves_and_no_plan_goes_without() {
        let kind = Approvable::Schedule;
        let rule = FourEyes { required: true, kind, marked: None };
        let schedule = |select: &str, approval: &str, approved: bool| {
            let spec = json!({"select": [{"name": select}], "approval": approval, "approved": approved});
            tree(json!({"metadata": {}, "spec": {"template": {"spec": spec}}}))
        };
        let write = |user: &str, old: Option<&Map<String, Value>>, mut new: Map<String, Value>| {
            if let Some(annotations) = old.and_then(|old| old["metadata"].get("annotations")) {
                new["metadata"]["annotations"] = annotations.clone();
            }
            record(&decide(kind, user, old, &new), user, old, &mut new);
            let errors = rule.check(user, &new, old, "why");
            (new, errors.is_empty())
        };
        let (by_alice, ok) = write("alice", None, schedule("a", "Required", false));
        assert!(ok);
        assert!(!write("alice", None, schedule("a", "Required", true)).1, "created with an approval");
        assert!(!write("alice", Some(&by_alice), schedule("a", "Required", true)).1);
        assert!(write("bob", Some(&by_alice), schedule("a", "Required", true)).1);
        assert!(!write("bob", Some(&by_alice), schedule("b", "Required", true)).1, "changed with an approval");
        let (by_both, ok) = write("bob", Some(&by_alice), schedule("b", "Required", false));
        assert!(ok);
        for (user, may) in [("alice", false), ("bob", false), ("carol", true)] {
            assert_eq!(write(user, Some(&by_both), schedule("b", "Required", true)).1, may, "{user}");
        }
        // Stored before the flag was set: it continues, and a change needs an approval.
        let before = schedule("a", "NotRequired", false);
        assert!(write("alice", Some(&before), before.clone()).1);
        assert!(!write("alice", Some(&before), schedule("b", "NotRequired", false)).1);
        assert!(!write("alice", Some(&by_alice), schedule("a", "NotRequired", false)).1);
    }
}
