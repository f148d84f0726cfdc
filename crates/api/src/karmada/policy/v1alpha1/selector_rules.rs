//! Rejection of selectors that can match nothing as written (T1): an unknown operator, `In` without
//! values, an invalid key.
//!
//! Differs from Karmada (D84), which accepts them, and then cannot place the workload. Objects that
//! are already stored, or are imported, stay writable: `added` reports only errors that a write
//! introduces.

use super::placement::{ClusterAffinity, FieldSelector, Placement};
use super::resource_selector::ResourceSelector;
use crate::label_rules;
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Fields of clusters that a selector may use.
const FIELDS: [&str; 3] = ["provider", "region", "zone"];

/// Returns the errors of `new`, as `faults` finds them, that `old` does not have.
pub fn added<T: ?Sized>(new: &T, old: Option<&T>, faults: impl Fn(&T, &mut FieldErrors)) -> FieldErrors {
    let mut errors = FieldErrors::default();
    faults(new, &mut errors);
    let Some(old) = old.filter(|_| !errors.is_empty()) else { return errors };
    let mut known = FieldErrors::default();
    faults(old, &mut known);
    errors.without(&known)
}

/// Checks each selector of a placement: in affinities, in their overflow, and in lists of weights,
/// numbers and bounds.
pub fn check_placement(placement: &Placement, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(affinity) = &placement.cluster_affinity {
        check_affinity(affinity, &path.child("clusterAffinity"), errors);
    }
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        let path = path.child("clusterAffinities").index(index);
        check_affinity(&term.affinity, &path, errors);
        for (index, overflow) in term.overflow_affinities.iter().enumerate() {
            check_affinity(&overflow.affinity, &path.child("overflowAffinities").index(index), errors);
        }
    }
    for (index, constraint) in placement.spread_constraints.iter().enumerate() {
        let Some(label) = constraint.spread_by_label.as_deref().filter(|label| !label.is_empty()) else { continue };
        let path = path.child("spreadConstraints").index(index).child("spreadByLabel");
        names::qualified_name_faults(label).into_iter().for_each(|fault| errors.invalid(&path, label, fault));
    }
    let Some(strategy) = &placement.replica_scheduling else { return };
    let path = path.child("replicaScheduling");
    let weights = strategy.weight_preference.iter().flat_map(|preference| &preference.static_weight_list);
    let numbers = strategy.specify_preference.iter().flat_map(|preference| &preference.static_specify_list);
    let extended = strategy.extend_cluster_preferences.iter().flat_map(|preference| &preference.extend_static_list);
    let bounds = strategy.cluster_bounds.iter().map(|entry| &entry.target_cluster);
    check_entries(bounds, &path, "clusterBounds", errors);
    check_entries(weights.map(|entry| &entry.target_cluster), &path, "weightPreference.staticWeightList", errors);
    check_entries(numbers.map(|entry| &entry.target_cluster), &path, "specifyPreference.staticSpecifyList", errors);
    check_entries(
        extended.map(|entry| &entry.target_cluster),
        &path,
        "extendClusterPreferences.extendStaticList",
        errors,
    );
    check_entries(strategy.cluster_bounds.iter().map(|entry| &entry.target_cluster), &path, "clusterBounds", errors);
}

fn check_entries<'a>(
    targets: impl Iterator<Item = &'a ClusterAffinity>,
    path: &FieldPath,
    list: &str,
    errors: &mut FieldErrors,
) {
    for (index, target) in targets.enumerate() {
        check_affinity(target, &path.child(list).index(index).child("targetCluster"), errors);
    }
}

/// Checks a selection of clusters.
pub fn check_affinity(affinity: &ClusterAffinity, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(selector) = &affinity.label_selector {
        label_rules::check_selector(selector, &path.child("labelSelector"), errors);
    }
    if let Some(selector) = &affinity.field_selector {
        check_fields(selector, &path.child("fieldSelector"), errors);
    }
}

/// Checks a field selector. The messages about keys and operators are upstream's.
fn check_fields(selector: &FieldSelector, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let (key, operator) = (requirement.key.as_str(), requirement.operator.as_str());
        if !FIELDS.contains(&key) {
            let detail = format!("unsupported key {key:?}, must be provider, region, or zone");
            errors.invalid(&path.child("key"), key, detail);
        }
        if !["In", "NotIn"].contains(&operator) {
            let detail = format!("unsupported operator {operator:?}, must be In or NotIn");
            errors.invalid(&path.child("operator"), operator, detail);
        } else if requirement.values.is_empty() {
            errors.required(&path.child("values"), label_rules::NEEDS_VALUES);
        }
    }
}

/// Checks the labels by which a policy selects objects.
pub fn check_resources(selectors: &[ResourceSelector], path: &FieldPath, errors: &mut FieldErrors) {
    for (index, selector) in selectors.iter().enumerate() {
        if let Some(labels) = &selector.label_selector {
            label_rules::check_selector(labels, &path.index(index).child("labelSelector"), errors);
        }
    }
}
