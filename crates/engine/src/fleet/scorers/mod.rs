//! Scorers rank the clusters that pass the filters. Their scores are added.

mod cluster_affinity;
mod same_placement_affinity;
mod topology_spread_constraints;

use std::ops::AddAssign;

use super::cluster::Cluster;
use super::cycle::Cycle;
use super::decision::Score;
use super::fault::Fault;

pub(super) struct Scorer {
    pub(super) name: &'static str,
    pub(super) score: fn(&Cycle<'_>, &Cluster) -> Result<Rank, Fault>,
}

pub(super) const SCORERS: &[Scorer] = &[
    Scorer { name: "ClusterAffinity", score: cluster_affinity::score },
    Scorer { name: "SamePlacementAffinity", score: same_placement_affinity::score },
    Scorer { name: "TopologySpreadConstraints", score: topology_spread_constraints::score },
];

/// The sort key of clusters, the most important field first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) score: Score,
    /// Ranks clusters that an earlier policy picked first among otherwise equal ones. Not
    /// published.
    pub(super) was_picked_before: i32,
}

impl AddAssign for Rank {
    fn add_assign(&mut self, other: Rank) {
        self.score.topology_spread += other.score.topology_spread;
        self.score.affinity += other.score.affinity;
        self.was_picked_before += other.was_picked_before;
    }
}
