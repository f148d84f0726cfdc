//! Rules that reject label selectors that can never match (T1).

use super::lean::Pairs;
use super::meta::LabelSelector;
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Error message for `In` and `NotIn` without values, worded as in Kubernetes.
pub const NEEDS_VALUES: &str = "must be specified when `operator` is 'In' or 'NotIn'";

/// Checks the expressions of a selector.
fn check_expressions(selector: &LabelSelector, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        for fault in names::qualified_name_faults(&requirement.key) {
            errors.invalid(&path.child("key"), &requirement.key, fault);
        }
        match (requirement.operator.as_str(), requirement.values.is_empty()) {
            ("In" | "NotIn", true) => {
                errors.required(&path.child("values"), NEEDS_VALUES);
            }
            ("Exists" | "DoesNotExist", false) => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&path.child("values"), detail);
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (other, _) => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
    }
}

/// Checks a whole selector: its expressions with their values, and its labels.
pub fn check_selector(selector: &LabelSelector, path: &FieldPath, errors: &mut FieldErrors) {
    check_expressions(selector, path, errors);
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = path.child("matchExpressions").index(index).child("values");
        for (index, value) in requirement.values.iter().enumerate() {
            for fault in names::label_value_faults(value) {
                errors.invalid(&path.index(index), value, fault);
            }
        }
    }
    check_labels(&selector.match_labels, &path.child("matchLabels"), errors);
}

/// Checks the labels of an object, or the labels that a selector requires.
pub fn check_labels(labels: &Pairs<String>, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, value) in labels {
        for fault in names::qualified_name_faults(key) {
            errors.invalid(path, key, fault);
        }
        for fault in names::label_value_faults(value) {
            errors.invalid(&path.key(key), value, fault);
        }
    }
}
