//! Selects the clusters to use: all candidates, or as many groups of them as the spread constraints
//! require.

use super::candidate::{Candidate, Refusal, lead};
use super::components;
use super::filters::AttemptContext;
use super::placement::{Division, SpreadBy, SpreadConstraint};
use super::spread::{self, bounded};
use super::trace::SpreadGroups;

/// Reduces `candidates` to the clusters to use. If constraints choose, the candidates are in order
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
    // The number of replicas that the selected clusters must have capacity for.
    let needed = match placement.division {
        Division::Duplicated => None,
        _ if components::counts_sets(context) => Some(1),
        // Differs from Karmada (D8): an object that is not divided needs no capacity for its
        // replicas.
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

/// Selects the best clusters. The least preferred of them are exchanged for clusters with more
/// capacity, until there is capacity for all replicas.
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

/// Exchanges clusters among the first `count` for others until there is capacity for `needed`
/// replicas. Returns false if there is not enough capacity.
fn swap_for_capacity(needed: i64, count: usize, candidates: &mut [Candidate]) -> bool {
    let (chosen, rest) = candidates.split_at_mut(count);
    let mut capacity: i64 = chosen.iter().map(Candidate::available).sum();
    for candidate in chosen.iter_mut().rev() {
        if capacity >= needed {
            break;
        }
        // Of clusters with equal capacity, this takes the preferred one.
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
