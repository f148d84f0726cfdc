//! Limits on the cost of scheduling a placement, because all namespaces share the scheduler.
//!
//! Differs from Karmada (D130), which bounds no list. The limits are far above the sizes of real
//! placements.

use super::placement::{ClusterAffinity, Placement};
use ballast_k8s::{FieldErrors, FieldPath};

/// Maximum number of terms of `clusterAffinities`, including their overflow. A term that does not
/// fit is tried with each cluster, and retried later.
pub const TERMS_MAX: usize = 100;
/// Maximum number of conditions of a placement.
pub const CONDITIONS_MAX: usize = 20_000;
const SPREAD_CONSTRAINTS_MAX: usize = 20;

/// The cost of scheduling a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementPrice {
    /// Number of terms that are tried one after the other.
    pub terms: usize,
    /// Number of names, labels, expressions with their values, tolerations, and entries of lists of
    /// clusters.
    pub conditions: usize,
}

impl PlacementPrice {
    pub fn of(placement: &Placement) -> PlacementPrice {
        let terms = &placement.cluster_affinities;
        let overflow = terms.iter().flat_map(|term| &term.overflow_affinities);
        let mut affinities: Vec<&ClusterAffinity> = placement.cluster_affinity.iter().collect();
        affinities.extend(terms.iter().map(|term| &term.affinity));
        affinities.extend(overflow.map(|overflow| &overflow.affinity));
        let terms = affinities.len();
        if let Some(strategy) = &placement.replica_scheduling {
            let weights = strategy.weight_preference.iter().flat_map(|preference| &preference.static_weight_list);
            let numbers = strategy.specify_preference.iter().flat_map(|preference| &preference.static_specify_list);
            let extended =
                strategy.extend_cluster_preferences.iter().flat_map(|preference| &preference.extend_static_list);
            affinities.extend(weights.map(|entry| &entry.target_cluster));
            affinities.extend(numbers.map(|entry| &entry.target_cluster));
            affinities.extend(extended.map(|entry| &entry.target_cluster));
            affinities.extend(strategy.cluster_bounds.iter().map(|entry| &entry.target_cluster));
        }
        let conditions = affinities.into_iter().map(conditions).sum::<usize>() + placement.cluster_tolerations.len();
        PlacementPrice { terms, conditions }
    }
}

fn conditions(affinity: &ClusterAffinity) -> usize {
    let labels = affinity.label_selector.iter().map(|selector| {
        let expressions = selector.match_expressions.iter().map(|wanted| 1 + wanted.values.len());
        selector.match_labels.len() + expressions.sum::<usize>()
    });
    let fields = affinity.field_selector.iter().flat_map(|selector| &selector.match_expressions);
    let fields = fields.map(|wanted| 1 + wanted.values.len());
    1 + affinity.cluster_names.len() + affinity.exclude_clusters.len() + labels.sum::<usize>() + fields.sum::<usize>()
}

/// Rejects a placement that is too expensive.
pub(crate) fn check(placement: &Placement, path: &FieldPath, errors: &mut FieldErrors) {
    let PlacementPrice { terms, conditions } = PlacementPrice::of(placement);
    if terms > TERMS_MAX {
        errors.too_many(&path.child("clusterAffinities"), terms, TERMS_MAX);
    }
    let constraints = placement.spread_constraints.len();
    if constraints > SPREAD_CONSTRAINTS_MAX {
        errors.too_many(&path.child("spreadConstraints"), constraints, SPREAD_CONSTRAINTS_MAX);
    }
    if conditions > CONDITIONS_MAX {
        let detail = format!(
            "the placement has {conditions} conditions (names, labels, expressions, tolerations, entries of lists), \
             and at most {CONDITIONS_MAX} are allowed"
        );
        errors.forbidden(path, detail);
    }
}
