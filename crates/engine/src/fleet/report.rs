//! Builds the status of a policy snapshot: whether it is fulfilled, and the decision about each
//! cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cluster::Cluster;
use super::decision::{ClusterDecision, Report, Score};
use super::filters::Refusal;
use super::pipeline::Ranked;
use super::request::PolicySnapshot;

/// Maximum number of decisions that the API lists.
const DECISIONS_MAX: usize = 1000;
/// Maximum number of these about clusters that were not selected.
const UNSELECTED_MAX: usize = 20;

/// A report without its generations.
pub(super) struct ReportBuilder {
    pub(super) fulfilled: bool,
    /// Number of clusters found for the policy.
    pub(super) found: usize,
    pub(super) decisions: Vec<ClusterDecision>,
}

impl ReportBuilder {
    pub(super) fn into_report(self, snapshot: &PolicySnapshot, placement_generation: i64) -> Report {
        let found = self.found;
        let message = if self.fulfilled {
            format!("found all cluster needed as specified by the scheduling policy, found {found} cluster(s)")
        } else {
            format!(
                "could not find all clusters needed as specified by the scheduling policy, found {found} cluster(s) instead"
            )
        };
        Report {
            observed_generation: placement_generation,
            generation: snapshot.generation,
            fulfilled: self.fulfilled,
            message,
            decisions: self.decisions,
        }
    }
}

impl Report {
    /// Returns whether both reports are equal, regardless of the order of decisions, because the
    /// names of bindings are partly random.
    pub(super) fn says_the_same_as(&self, other: &Report) -> bool {
        let head = |report: &Report| (report.observed_generation, report.generation, report.fulfilled);
        let set = |report: &Report| -> BTreeSet<ClusterDecision> { report.decisions.iter().cloned().collect() };
        head(self) == head(other) && self.message == other.message && set(self) == set(other)
    }
}

/// Lists selected clusters, then clusters with too low a score, then refused clusters.
pub(super) fn list<'d>(
    selected: impl Iterator<Item = &'d ClusterDecision>,
    unpicked: &[Ranked<'_>],
    refused: &[(&Cluster, Refusal<'_>)],
) -> Vec<ClusterDecision> {
    let mut decisions: Vec<ClusterDecision> = selected.take(DECISIONS_MAX).cloned().collect();
    let mut room = UNSELECTED_MAX.min(DECISIONS_MAX - decisions.len());
    let listed: BTreeSet<Arc<str>> = decisions.iter().map(|decision| Arc::clone(&decision.cluster)).collect();
    for ranked in unpicked.iter().take(room) {
        decisions.push(unpicked_decision(ranked));
        room -= 1;
    }
    // A refused cluster may still have a binding. It takes up an entry in the list all the same, as
    // upstream does (group `status`).
    for (cluster, refusal) in refused.iter().take(room) {
        if !listed.contains(&cluster.name) {
            decisions.push(unselected(&cluster.name, None, format!("ClusterUnschedulable, {refusal}")));
        }
    }
    decisions
}

pub(super) fn picked(cluster: &Cluster, score: Score) -> ClusterDecision {
    let name = &cluster.name;
    let Score { affinity, topology_spread } = score;
    let reason = format!(
        "Successfully scheduled resources for placement in {name:?} (affinity score: {affinity}, \
         topology spread score: {topology_spread}): picked by scheduling policy"
    );
    ClusterDecision { cluster: Arc::clone(name), selected: true, score: Some(score), reason }
}

pub(super) fn picked_by_name(cluster: &Cluster) -> ClusterDecision {
    let name = &cluster.name;
    let reason = format!("Successfully scheduled resources for placement in {name:?}: picked by scheduling policy");
    ClusterDecision { cluster: Arc::clone(name), selected: true, score: None, reason }
}

pub(super) fn unselected(cluster: &Arc<str>, score: Option<Score>, reason: String) -> ClusterDecision {
    ClusterDecision { cluster: Arc::clone(cluster), selected: false, score, reason }
}

fn unpicked_decision(ranked: &Ranked<'_>) -> ClusterDecision {
    let name = &ranked.cluster.name;
    let Score { affinity, topology_spread } = ranked.rank.score;
    let reason = format!(
        "Cluster {name:?} does not score high enough (affinity score: {affinity}, \
         topology spread score: {topology_spread})"
    );
    unselected(name, Some(ranked.rank.score), reason)
}
