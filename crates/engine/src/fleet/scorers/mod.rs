//! Scorers rank the clusters that fit. Their scores add up.

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

/// What clusters are sorted by, the most important field first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) score: Score,
    /// Of otherwise equal clusters, one that an earlier policy picked comes first. This field is
    /// not published.
    pub(super) was_picked_before: i32,
}

impl AddAssign for Rank {
    fn add_assign(&mut self, other: Rank) {
        self.score.topology_spread += other.score.topology_spread;
        self.score.affinity += other.score.affinity;
        self.was_picked_before += other.was_picked_before;
    }
}
