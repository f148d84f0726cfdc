//! Validation of placements beyond the schema: the rules of upstream's webhook, and rules for
//! fields that upstream does not have (R105, R107, R140-R145).
//!
//! The messages are upstream's. Where upstream reports a whole list as the invalid field, these
//! rules report the item.

use std::collections::BTreeSet;

use super::cluster_bounds;
use super::placement::{
    ClusterAffinity, ClusterAffinityTerm, Placement, SpreadConstraint, SpreadField, WorkloadAffinity,
};
use super::replica_scheduling::{
    DynamicWeightFactor, ReplicaDivisionPreference, ReplicaSchedulingStrategy, ReplicaSchedulingType,
};
use crate::core::Toleration;
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Checks all rules for placements of policies, except the rules for selectors in `selector_rules`.
pub fn check(placement: &Placement, path: &FieldPath, errors: &mut FieldErrors) {
    check_promises(placement, path, errors);
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        let path = path.child("clusterAffinities").index(index);
        check_term(term, placement.replica_scheduling.as_ref(), &path, errors);
    }
    for (index, toleration) in placement.cluster_tolerations.iter().enumerate() {
        check_toleration(toleration, &path.child("clusterTolerations").index(index), errors);
    }
    check_spread(&placement.spread_constraints, &path.child("spreadConstraints"), errors);
    if let Some(affinity) = &placement.workload_affinity {
        check_workload_affinity(affinity, &path.child("workloadAffinity"), errors);
    }
}

/// Checks the rules without which a placement is ambiguous. They apply to bindings too, although
/// upstream copies the placement of a binding from a policy and does not check it again.
pub fn check_promises(placement: &Placement, path: &FieldPath, errors: &mut FieldErrors) {
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        errors.invalid(path, placement, "clusterAffinities cannot co-exist with clusterAffinity");
    }
    let mut seen = BTreeSet::new();
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        if !seen.insert(term.affinity_name.as_str()) {
            let path = path.child("clusterAffinities").index(index).child("affinityName");
            errors.invalid(&path, &term.affinity_name, "each affinity term in a policy must have a unique name");
        }
    }
    if let Some(strategy) = &placement.replica_scheduling {
        let path = path.child("replicaScheduling");
        check_specified(strategy, &path, errors);
        cluster_bounds::check(&strategy.cluster_bounds, &path.child("clusterBounds"), errors);
    }
}

fn check_term(
    term: &ClusterAffinityTerm,
    strategy: Option<&ReplicaSchedulingStrategy>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    check_name(&term.affinity_name, &path.child("affinityName"), errors);
    let overflow_path = path.child("overflowAffinities");
    if !term.overflow_affinities.is_empty() {
        if term.affinity == ClusterAffinity::default() {
            let detail = "overflowAffinities can only be used together with the inline ClusterAffinity";
            errors.forbidden(&overflow_path, detail);
        }
        if !strategy.is_some_and(fills_by_room) {
            let detail = "overflowAffinities can only be used together with dynamic weight or aggregated scheduling";
            errors.forbidden(&overflow_path, detail);
        }
    }
    let mut seen = BTreeSet::from([term.affinity_name.as_str()]);
    for (index, overflow) in term.overflow_affinities.iter().enumerate() {
        let path = overflow_path.index(index);
        let name = overflow.affinity_name.as_str();
        check_name(name, &path.child("affinityName"), errors);
        if !seen.insert(name) {
            let detail =
                "overflow affinity name must be unique and must not duplicate the primary group's affinityName";
            errors.invalid(&path.child("affinityName"), name, detail);
        }
    }
}

/// Returns whether replicas are divided by capacity. Only then can a group overflow.
pub(super) fn fills_by_room(strategy: &ReplicaSchedulingStrategy) -> bool {
    let weighted_by_room = strategy.weight_preference.as_ref().and_then(|preference| preference.dynamic_weight)
        == Some(DynamicWeightFactor::AvailableReplicas);
    strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Divided)
        && match strategy.replica_division_preference {
            Some(ReplicaDivisionPreference::Aggregated) => true,
            Some(ReplicaDivisionPreference::Weighted) => weighted_by_room,
            Some(ReplicaDivisionPreference::Specified) | None => false,
        }
}

fn check_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for fault in names::qualified_name_faults(name) {
        errors.invalid(path, name, fault);
    }
}

fn check_toleration(toleration: &Toleration, path: &FieldPath, errors: &mut FieldErrors) {
    let operator = toleration.operator.as_deref().unwrap_or_default();
    if !["", "Equal", "Exists"].contains(&operator) {
        errors.not_supported(&path.child("operator"), operator, &["Equal", "Exists"]);
    }
}

fn check_spread(constraints: &[SpreadConstraint], path: &FieldPath, errors: &mut FieldErrors) {
    let mut fields: BTreeSet<SpreadField> = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let (min, max) = (constraint.min_groups.unwrap_or(0), constraint.max_groups.unwrap_or(0));
        let by_label = constraint.spread_by_label.as_deref().is_some_and(|label| !label.is_empty());
        if constraint.spread_by_field.is_some() && by_label {
            errors.invalid(&path, constraint, "spreadByLabel should not co-exist with spreadByField");
        }
        if min < 0 {
            errors.invalid(&path.child("minGroups"), min, "minGroups lower than 0 is not allowed");
        }
        if max < 0 {
            errors.invalid(&path.child("maxGroups"), max, "maxGroups lower than 0 is not allowed");
        }
        if max > 0 && max < min {
            errors.invalid(&path.child("maxGroups"), max, "maxGroups lower than minGroups is not allowed");
        }
        if let Some(field) = constraint.spread_by_field
            && !fields.insert(field)
        {
            let name = serde_json::to_value(field).unwrap_or_default();
            let name = name.as_str().unwrap_or_default();
            let detail = format!("multiple {name} spread constraints are not allowed");
            errors.invalid(&path.child("spreadByField"), name, detail);
        }
    }
    if !fields.is_empty() && !fields.contains(&SpreadField::Cluster) {
        let detail = "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField \
                      is enabled";
        errors.invalid(path, constraints, detail);
    }
}

fn check_workload_affinity(affinity: &WorkloadAffinity, path: &FieldPath, errors: &mut FieldErrors) {
    let terms = [("affinity", &affinity.affinity), ("antiAffinity", &affinity.anti_affinity)];
    for (name, term) in terms {
        if let Some(term) = term {
            check_name(&term.group_by_label_key, &path.child(name).child("groupByLabelKey"), errors);
        }
    }
    if affinity.affinity.is_some() && affinity.affinity == affinity.anti_affinity {
        errors.invalid(path, affinity, "affinity and antiAffinity must not use the same groupByLabelKey");
    }
}

fn check_specified(strategy: &ReplicaSchedulingStrategy, path: &FieldPath, errors: &mut FieldErrors) {
    let specified = strategy.replica_division_preference == Some(ReplicaDivisionPreference::Specified);
    if specified && strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Duplicated) {
        let detail = "replicas can only be specified when replicaSchedulingType is Divided";
        errors.invalid(&path.child("replicaDivisionPreference"), "Specified", detail);
    }
    let entries = strategy.specify_preference.iter().flat_map(|preference| &preference.static_specify_list);
    for (index, entry) in entries.enumerate() {
        let path = path.child("specifyPreference").child("staticSpecifyList").index(index);
        if entry.replicas > i64::from(i32::MAX) {
            let detail = format!("must be less than or equal to {}", i32::MAX);
            errors.invalid(&path.child("replicas"), entry.replicas, detail);
        }
    }
}
