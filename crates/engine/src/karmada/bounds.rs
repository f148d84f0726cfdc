//! Bounds for the replicas of each cluster that gets any (S7).
//!
//! Differs from Karmada (D101), which has no such bounds. They apply where replicas are divided by
//! the free capacity of clusters.

use super::cluster::Cluster;
use super::filters::AttemptContext;
use crate::bits::Bits;

/// The bounds of the clusters that one entry of the placement selects.
pub(super) type Bounded = (Bits, Limit);

/// The bounds for the replicas of a cluster that gets any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub min: i64,
    pub max: i64,
}

/// Returns whether bounds apply to this attempt.
pub(super) fn apply(context: &AttemptContext<'_>) -> bool {
    !context.placement.bounds.is_empty()
        && context.profile.deviates()
        && context.placement.divides_by_room()
        && context.request.is_divisible()
}

/// Returns the bounds of the placement, with the clusters that each selects.
pub(super) fn of_placement(context: &AttemptContext<'_>) -> Vec<Bounded> {
    let bounds = context.placement.bounds.iter();
    bounds.map(|bound| (bound.target.select(context.fleet), Limit { min: bound.min, max: bound.max })).collect()
}

/// Returns the bounds of one cluster. If several entries select it, all of them apply.
pub(super) fn limit(bounded: &[Bounded], index: usize) -> Limit {
    let applying = bounded.iter().filter(|(selected, _)| selected.contains(index));
    applying.fold(Limit::default(), |all, (_, one)| all.and(*one))
}

/// Returns the bounds of one cluster, for an explanation.
pub(super) fn limit_of(context: &AttemptContext<'_>, cluster: &Cluster) -> Limit {
    let applying = context.placement.bounds.iter().filter(|bound| bound.target.matches(cluster));
    applying.fold(Limit::default(), |all, bound| all.and(Limit { min: bound.min, max: bound.max }))
}

impl Default for Limit {
    /// Returns no bounds.
    fn default() -> Limit {
        Limit { min: 0, max: i64::MAX }
    }
}

impl Limit {
    fn and(self, other: Limit) -> Limit {
        Limit { min: self.min.max(other.min), max: self.max.min(other.max) }
    }
}
