//! Validation of objectives against the clusters (PL7).

use super::PlanningSnapshot;
use super::survival::{domains, unknown_domain};
use ballast_api::ballast::v1alpha1::{Goal, Objective};

/// Returns the field of an objective that no cluster can satisfy, and the error. Its figure would
/// be 0, as if there were no problem.
pub fn unknown_to_all(snapshot: &PlanningSnapshot, objective: &Objective) -> Option<(&'static str, String)> {
    let by = objective.by.unwrap_or_default();
    let has_clusters = snapshot.clusters.iter().next().is_some();
    if objective.goal == Goal::Survive && has_clusters && domains(&snapshot.without_lost().clusters, by).is_empty() {
        return Some(("by", unknown_domain(by)));
    }
    let resource = objective.resource.as_deref()?;
    let facts = snapshot.facts();
    let is_told = facts.values().any(|facts| !facts.has.is_empty());
    let is_known = facts.values().any(|facts| facts.has.contains_key(resource));
    (is_told && !is_known).then(|| ("resource", format!("no cluster has {resource}")))
}
