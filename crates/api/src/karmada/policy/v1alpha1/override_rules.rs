//! Validation of override policies beyond the schema, as in upstream's webhook and with its
//! messages (QU8).

use super::override_spec::{FieldOverrider, OverrideSpec, Overriders};
use super::selector_rules;
use ballast_k8s::{FieldErrors, FieldPath};

/// Checks the rules that both override policies share.
pub fn check(spec: &OverrideSpec, old: Option<&OverrideSpec>) -> FieldErrors {
    let path = FieldPath::new("spec");
    let mut errors = selector_rules::added(spec, old, |spec, errors| check_selectors(spec, &path, errors));
    if !spec.override_rules.is_empty() {
        let rules = path.child("overrideRules");
        if spec.target_cluster.is_some() {
            errors.invalid(&path.child("targetCluster"), &spec.target_cluster, COEXISTING_TARGET);
        }
        if spec.overriders != Overriders::default() {
            errors.invalid(&path.child("overriders"), &spec.overriders, COEXISTING_OVERRIDERS);
        }
        for (index, rule) in spec.override_rules.iter().enumerate() {
            let path = rules.index(index);
            check_overriders(&rule.overriders, &path.child("overriders"), &mut errors);
        }
    }
    check_overriders(&spec.overriders, &path.child("overriders"), &mut errors);
    errors
}

fn check_selectors(spec: &OverrideSpec, path: &FieldPath, errors: &mut FieldErrors) {
    selector_rules::check_resources(&spec.resource_selectors, &path.child("resourceSelectors"), errors);
    for (index, rule) in spec.override_rules.iter().enumerate() {
        if let Some(affinity) = &rule.target_cluster {
            let path = path.child("overrideRules").index(index).child("targetCluster");
            selector_rules::check_affinity(affinity, &path, errors);
        }
    }
    if let Some(affinity) = &spec.target_cluster {
        selector_rules::check_affinity(affinity, &path.child("targetCluster"), errors);
    }
}

const COEXISTING_TARGET: &str = "overrideRules and targetCluster can't co-exist";
const COEXISTING_OVERRIDERS: &str = "overrideRules and overriders can't co-exist";

fn check_overriders(overriders: &Overriders, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, image) in overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = &image.predicate {
            let path = path.child("imageOverrider").index(index).child("predicate").child("path");
            check_pointer(&predicate.path, &path, errors);
        }
    }
    for (index, field) in overriders.field_overrider.iter().enumerate() {
        check_field(field, &path.child("fieldOverrider").index(index), errors);
    }
}

fn check_field(field: &FieldOverrider, path: &FieldPath, errors: &mut FieldErrors) {
    check_pointer(&field.field_path, &path.child("fieldPath"), errors);
    if field.json.is_empty() == field.yaml.is_empty() {
        errors.invalid(path, field, "exactly one of json and yaml must be set");
    }
    for (index, operation) in field.json.iter().enumerate() {
        check_pointer(&operation.sub_path, &path.child("json").index(index).child("subPath"), errors);
    }
    for (index, operation) in field.yaml.iter().enumerate() {
        check_pointer(&operation.sub_path, &path.child("yaml").index(index).child("subPath"), errors);
    }
}

/// Checks a JSON pointer as in RFC 6901: the empty text, or segments that each follow a slash. In a
/// segment, a tilde is written `~0` and a slash `~1`.
fn check_pointer(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let is_escaped = |(at, _)| matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1'));
    if !text.is_empty() && !text.starts_with('/') {
        errors.invalid(path, text, "JSON pointer must be empty or start with a \"/\"");
    } else if !text.match_indices('~').all(is_escaped) {
        errors.invalid(path, text, "in a JSON pointer, \"~\" is written \"~0\" and \"/\" is written \"~1\"");
    }
}
