//! What a schema cannot say about bindings. Upstream checks nothing here; the seed documents' rules about
//! placements hold for bindings too, because a scheduler that cannot tell what is meant would guess.

use super::binding_spec::ResourceBindingSpec;
use crate::api::karmada::policy::v1alpha1::placement_rules;
use crate::k8s::{FieldErrors, FieldPath};

/// The rules of both bindings. A placement that was there before is not looked at again: a binding must
/// stay writable for those who did not break it.
pub fn check(spec: &ResourceBindingSpec, old: Option<&ResourceBindingSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Some(placement) = &spec.placement
        && old.is_none_or(|old| old.placement != spec.placement)
    {
        placement_rules::check_promises(placement, &FieldPath::new("spec.placement"), &mut errors);
    }
    errors
}
