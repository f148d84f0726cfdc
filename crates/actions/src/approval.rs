//! The permission to approve a rebalance (BD8): a user that sets `spec.approved` to true needs the
//! verb `approve` on the resource, in addition to the verb of the write itself.
//!
//! The template of a RebalanceSchedule can also approve all ClusterRebalances that are made from
//! it. That needs `approve` on ClusterRebalances of any name.
//!
//! The annotations of `approval_rule` name the users that created, changed and approved the object.
//! Clients cannot set them in any other way.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::approval_rule::{Approvable, Effect, WRITERS_MAX, decide, record, restore_reserved};
use ballast_api::ballast::v1alpha1::{APPROVED_BY, ClusterRebalance, Rebalance, RebalanceSchedule};
use ballast_auth::{Attributes, Authorizer, Permission, ResourceAttributes};
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

const VERB: &str = "approve";
const WHY: &str = "who sets spec.approved to true needs the verb approve";

/// Returns the kinds that can be approved, each with its validator.
pub fn approvals(authorizer: &Arc<Authorizer>) -> [(GroupResource, Arc<dyn Validator>); 3] {
    let of = |kind: Approvable| Arc::new(Approval { authorizer: Arc::clone(authorizer), kind });
    [
        (ClusterRebalance::resource(), of(Approvable::Rebalance)),
        (Rebalance::resource(), of(Approvable::Rebalance)),
        (RebalanceSchedule::resource(), of(Approvable::Schedule)),
    ]
}

struct Approval {
    authorizer: Arc<Authorizer>,
    kind: Approvable,
}

#[async_trait]
impl Validator for Approval {
    async fn validate(
        &self,
        write: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let (kind, user) = (self.kind, &*write.caller.user.name);
        for path in restore_reserved(kind, old, object) {
            write.caller.warnings.warn(&format!("{path} is set by the server alone: the value is left out"));
        }
        let decision = decide(kind, user, old, object);
        match decision.effect {
            Effect::Given => self.authorize(write).await?,
            Effect::Withdrawn => {
                kind.withdraw(object);
                let path = kind.path().join(".");
                let warning = format!("the change takes the approval away: {path}.approved is false now");
                write.caller.warnings.warn(&warning);
            }
            Effect::Kept | Effect::Unapproved => {}
        }
        if decision.writers.len() > WRITERS_MAX {
            let mut errors = FieldErrors::default();
            let detail = format!("{WRITERS_MAX} users have changed it since it was approved: approve it first");
            errors.forbidden(&FieldPath::new("spec"), detail);
            return Err(Status::invalid(write.row.group, write.row.kind, write.name, &errors));
        }
        record(&decision, user, old, object);
        if decision.effect == Effect::Given && !write.dry_run() {
            write.caller.warnings.annotate(APPROVED_BY.to_owned(), user.to_owned());
        }
        Ok(())
    }
}

impl Approval {
    /// Refuses a user without the verb `approve`.
    async fn authorize(&self, write: &AdmissionAttributes<'_>) -> Result<(), Status> {
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
        let attributes = Attributes::Resource(match self.kind {
            Approvable::Rebalance => own,
            Approvable::Schedule => ResourceAttributes { resource: ClusterRebalance::PLURAL, name: "", ..own },
        });
        match self.authorizer.decide(user, &attributes).await {
            Permission::Allow(_) => Ok(()),
            Permission::Deny(reason) if reason.is_empty() => Err(attributes.forbidden(user, WHY)),
            Permission::Deny(reason) => Err(attributes.forbidden(user, &format!("{WHY}: {reason}"))),
            Permission::Failed(why) => Err(Status::internal(why)),
        }
    }
}
