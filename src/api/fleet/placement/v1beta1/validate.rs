//! What objects of this family must keep to beyond their schemas. As upstream, the rules of the
//! schema speak first; a webhook is asked only about what they let through.
//! tests/suite/fleet/messages.rs has them one by one.

use super::placement::PlacementSpec;
use super::policy_snapshot::SchedulingPolicySnapshotSpec;
use super::{schema_rules, webhook_rules};
use crate::k8s::{FieldErrors, FieldPath};

pub(super) fn placement(name: &str, spec: &PlacementSpec, old: Option<&PlacementSpec>) -> FieldErrors {
    // What was accepted once is not judged again while it stays: workers must be able to let such a
    // placement go.
    if old == Some(spec) {
        return FieldErrors::default();
    }
    let errors = schema_rules::placement(spec, old);
    if errors.is_empty() { webhook_rules::placement(name, spec, old) } else { errors }
}

/// A snapshot's policy is that of a placement, which was judged as a whole; what its own schema
/// asks is asked here, too.
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
