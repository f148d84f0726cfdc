//! Validation of objects of this family beyond the schema.
//!
//! As upstream, the rules of the schema come first. The webhook's rules apply only to objects that
//! satisfy them. tests/suite/fleet/messages.rs has an example of each.

use super::placement::PlacementSpec;
use super::policy_snapshot::SchedulingPolicySnapshotSpec;
use super::{schema_rules, webhook_rules};
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::Scope;

pub(super) fn placement(scope: Scope, name: &str, spec: &PlacementSpec, old: Option<&PlacementSpec>) -> FieldErrors {
    // A spec that does not change is not checked again. Otherwise workers could not update a
    // placement that is no longer valid.
    if old == Some(spec) {
        return FieldErrors::default();
    }
    let errors = schema_rules::placement(scope, spec, old);
    if errors.is_empty() { webhook_rules::placement(name, spec, old) } else { errors }
}

/// Checks the policy of a snapshot, by the rules of its schema only. The webhook checked it in the
/// placement.
pub(super) fn policy_snapshot(
    spec: &SchedulingPolicySnapshotSpec,
    old: Option<&SchedulingPolicySnapshotSpec>,
) -> FieldErrors {
    let mut errors = schema_rules::unchanged(spec, old);
    if let Some(policy) = &spec.policy {
        let at = FieldPath::new("spec.policy.tolerations");
        schema_rules::tolerations(&policy.tolerations, &at, &mut errors);
    }
    errors
}
