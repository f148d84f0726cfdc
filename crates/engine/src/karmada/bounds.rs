//! Bounds the replicas of each cluster that gets any (S7).
//!
//! Differs from Karmada (D101), which has no such bounds. They hold where replicas are divided by
//! the room that clusters have.

use super::cluster::Cluster;
use super::filters::AttemptContext;
use crate::bits::Bits;

/// The bounds of the clusters that one entry of the placement selects.
pub(super) type Bounded = (Bits, Limit);

/// How many replicas a cluster has that gets any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub min: i64,
    pub max: i64,
}

/// Whether bounds hold in this attempt.
pub(super) fn apply(context: &AttemptContext<'_>) -> bool {
    !context.placement.bounds.is_empty()
        && context.profile.deviates()
        && context.placement.divides_by_room()
        && context.request.is_divisible()
}

/// The bounds of the placement, with the clusters that each selects.
pub(super) fn of_placement(context: &AttemptContext<'_>) -> Vec<Bounded> {
    let bounds = context.placement.bounds.iter();
    bounds.map(|bound| (bound.target.select(context.fleet), Limit { min: bound.min, max: bound.max })).collect()
}

/// The bounds of one cluster. Where several entries select it, all of them hold.
pub(super) fn limit(bounded: &[Bounded], index: usize) -> Limit {
    let applying = bounded.iter().filter(|(selected, _)| selected.contains(index));
    applying.fold(Limit::default(), |all, (_, one)| all.and(*one))
}

/// The bounds of one cluster, for an explanation.
pub(super) fn limit_of(context: &AttemptContext<'_>, cluster: &Cluster) -> Limit {
    let applying = context.placement.bounds.iter().filter(|bound| bound.target.matches(cluster));
    applying.fold(Limit::default(), |all, bound| all.and(Limit { min: bound.min, max: bound.max }))
}

impl Default for Limit {
    /// No bounds.
    fn default() -> Limit {
        Limit { min: 0, max: i64::MAX }
    }
}

impl Limit {
    fn and(self, other: Limit) -> Limit {
        Limit { min: self.min.max(other.min), max: self.max.min(other.max) }
    }
}
