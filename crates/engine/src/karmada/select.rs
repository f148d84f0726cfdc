//! Selects the clusters to use from the candidates: all of them, or as many groups as the spread
//! constraints ask for.

use super::cluster_set::ClusterIndex;
use super::components;
use super::filters::AttemptContext;
use super::placement::{Division, SpreadBy, SpreadConstraint};
use super::spread;
use super::trace::SpreadGroups;

/// A cluster that passed the filters. It is kept small, because a pass handles hundreds for each
/// binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub index: u32,
    /// The position by name among all clusters.
    pub rank: u32,
    /// How many replicas fit beside those that run there.
    pub free: i32,
    /// How many replicas of this workload run there.
    pub own: i32,
    pub score: u16,
    /// 0 for the group itself. Overflow tiers count from 1.
    pub tier: u16,
    /// Candidates with a larger standing are preferred. It is unique among candidates.
    pub standing: u64,
}

/// How the bits of a standing are used, from the most significant on.
const TIER_BITS: u32 = 6;
const SCORE_BITS: u32 = 1;
const AVAILABLE_BITS: u32 = 33;
const RANK_BITS: u32 = 24;

impl Candidate {
    pub fn index(&self) -> ClusterIndex {
        self.index as ClusterIndex
    }

    /// How many replicas of this workload the cluster can hold in total.
    pub fn available(&self) -> i64 {
        i64::from(self.free) + i64::from(self.own)
    }

    /// Computes the standing from the tier, the score, the capacity and the name.
    pub fn rate(&mut self) {
        const { assert!(TIER_BITS + SCORE_BITS + AVAILABLE_BITS + RANK_BITS == u64::BITS) };
        let largest = |bits: u32| (1_u64 << bits) - 1;
        let tier = largest(TIER_BITS) - u64::from(self.tier).min(largest(TIER_BITS));
        let available = (self.available().max(0) as u64).min(largest(AVAILABLE_BITS));
        let rank = largest(RANK_BITS) - u64::from(self.rank).min(largest(RANK_BITS));
        let score = u64::from(self.score > 0);
        self.standing = ((tier << SCORE_BITS | score) << AVAILABLE_BITS | available) << RANK_BITS | rank;
    }
}

/// Why no cluster can be selected.
pub(super) type Refusal = String;

/// Reduces `candidates` to those that are used. If constraints choose, the candidates are in order
/// of preference afterwards, and `standing` has the same order.
pub(super) fn select(
    context: &AttemptContext<'_>,
    candidates: &mut Vec<Candidate>,
    seen: Option<&mut Option<SpreadGroups>>,
) -> Result<(), Refusal> {
    let placement = context.placement;
    if placement.spread.is_empty() || placement.ignores_spread() {
        return Ok(());
    }
    // The replicas that the selected clusters must have capacity for.
    let needed = match placement.division {
        Division::Duplicated => None,
        _ if components::counts_sets(context.request, placement, context.profile) => Some(1),
        // Differs from Karmada (D8): an object that is not divided needs no capacity for its replicas.
        _ if context.profile.deviates() && !context.request.is_divisible() => None,
        _ => Some(i64::from(context.request.replicas)),
    };
    let by_cluster = placement.spread_by(&SpreadBy::Cluster);
    if spread::applies(context) {
        spread::select(context, candidates, seen)?;
    } else if let Some(constraint) = by_cluster {
        select_clusters(&bounded(context, constraint), needed, candidates)?;
    } else {
        return Err("just support cluster and region spread constraint".to_owned());
    }
    let count = candidates.len() as u64;
    for (position, candidate) in candidates.iter_mut().enumerate() {
        candidate.standing = count - position as u64;
    }
    Ok(())
}

/// The constraint with its bounds filled in.
///
/// Differs from Karmada (D9): a constraint without a maximum has no upper bound, and its minimum is
/// at least one.
pub(super) fn bounded(context: &AttemptContext<'_>, constraint: &SpreadConstraint) -> SpreadConstraint {
    if !context.profile.deviates() {
        return constraint.clone();
    }
    let max = if constraint.max <= 0 { i64::MAX } else { constraint.max };
    SpreadConstraint { by: constraint.by.clone(), min: constraint.min.max(1), max }
}

/// Takes the best clusters. The least of them are exchanged for clusters with more capacity, until
/// there is capacity for all replicas.
fn select_clusters(
    constraint: &SpreadConstraint,
    needed: Option<i64>,
    candidates: &mut Vec<Candidate>,
) -> Result<(), Refusal> {
    let total = candidates.len() as i64;
    if total < constraint.min {
        return Err("the number of feasible clusters is less than spreadConstraint.MinGroups".to_owned());
    }
    let count = constraint.max.clamp(0, total) as usize;
    lead(candidates, count);
    if let Some(needed) = needed
        && !swap_for_capacity(needed, count, candidates)
    {
        return Err(format!("no enough resource when selecting {count} clusters"));
    }
    candidates.truncate(count);
    Ok(())
}

/// Moves the `count` preferred candidates to the front, best first.
pub(super) fn lead(candidates: &mut [Candidate], count: usize) {
    let by_standing = |candidate: &Candidate| std::cmp::Reverse(candidate.standing);
    let count = count.min(candidates.len());
    if count > 0 && count < candidates.len() {
        candidates.select_nth_unstable_by_key(count - 1, by_standing);
    }
    candidates[..count].sort_unstable_by_key(by_standing);
}

/// Exchanges clusters among the first `count` for others until there is capacity for `needed` replicas.
/// Returns false if there is not enough capacity.
fn swap_for_capacity(needed: i64, count: usize, candidates: &mut [Candidate]) -> bool {
    let (chosen, rest) = candidates.split_at_mut(count);
    let mut capacity: i64 = chosen.iter().map(Candidate::available).sum();
    for candidate in chosen.iter_mut().rev() {
        if capacity >= needed {
            break;
        }
        // Of clusters with equal capacity, the preferred one.
        let richest =
            rest.iter_mut().reduce(|best, other| if other.available() > best.available() { other } else { best });
        if let Some(richest) = richest
            && richest.available() > candidate.available()
        {
            capacity += richest.available() - candidate.available();
            std::mem::swap(candidate, richest);
        }
    }
    count > 0 && capacity >= needed
}
