//! Divides replicas by the numbers that the user specifies (R130-R137, R156).
//!
//! Each entry has a total for the clusters that it selects. A cluster belongs to the first entry
//! that selects it, and replicas of an entry go to no clusters of another one. Within an entry, a
//! Fresh pass divides the total evenly. A Steady pass keeps the current replicas and shares the
//! difference evenly. The remainder goes to the clusters with the fewest replicas, or comes from
//! those with the most. No cluster goes below zero.

use std::sync::Arc;

use super::candidate::Candidate;
use super::cluster_set::ClusterSet;
use super::placement::Share;
use super::request::Mode;
use crate::bits::Bits;

/// Returns the sum of all entries.
pub(super) fn total(shares: &[Share]) -> i64 {
    shares.iter().fold(0, |sum, share| sum.saturating_add(share.replicas.max(0)))
}

/// A cluster that several entries select, with the positions of these entries. Only the first entry
/// applies to it (C22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub cluster: Arc<str>,
    pub entries: Vec<usize>,
}

/// Returns all overlaps, by the name of the cluster.
pub(super) fn overlaps(shares: &[Share], fleet: &ClusterSet) -> Vec<Overlap> {
    let selected: Vec<Bits> = shares.iter().map(|share| share.target.select(fleet)).collect();
    let overlap = |index: usize| {
        let entries = selected.iter().enumerate().filter(|(_, entry)| entry.contains(index));
        Overlap { cluster: fleet.cluster(index).name.clone(), entries: entries.map(|(position, _)| position).collect() }
    };
    fleet.indexes_by_name().map(overlap).filter(|overlap| overlap.entries.len() > 1).collect()
}

/// A cluster with its current and its future replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    rank: u32,
    held: i64,
    gets: i64,
    /// Whether the cluster takes no more replicas than it holds.
    is_closed: bool,
}

/// Returns the replicas of each cluster, by rank. The error is the position of an entry with
/// replicas that no candidate takes.
pub(super) fn divide<'a>(
    entries: impl Iterator<Item = (&'a Bits, i64)>,
    candidates: &[Candidate],
    mode: Mode,
) -> Result<Vec<(u32, i64)>, usize> {
    let mut taken = Bits::default();
    let mut result = Vec::with_capacity(candidates.len());
    for (position, (selected, replicas)) in entries.enumerate() {
        let mut members = Vec::new();
        for candidate in candidates {
            if selected.contains(candidate.index()) && !taken.contains(candidate.index()) {
                taken.insert(candidate.index());
                let held = if mode == Mode::Fresh { 0 } else { i64::from(candidate.own) };
                let is_closed = candidate.is_closed;
                members.push(Member { rank: candidate.rank, held, gets: held, is_closed });
            }
        }
        if !level(replicas.max(0), &mut members) {
            return Err(position);
        }
        result.extend(members.iter().map(|member| (member.rank, member.gets)));
    }
    Ok(result)
}

/// Changes the future replicas of the members until their sum is `total`. Returns false if no
/// member can take more.
fn level(total: i64, members: &mut [Member]) -> bool {
    let held: i64 = members.iter().map(|member| member.held).sum();
    if total > held {
        return grow(total - held, members);
    }
    shrink(held - total, members);
    true
}

fn grow(more: i64, members: &mut [Member]) -> bool {
    members.sort_unstable_by_key(|member| (member.is_closed, member.held, member.rank));
    let count = members.iter().take_while(|member| !member.is_closed).count();
    for (position, member) in (0..).zip(&mut members[..count]) {
        member.gets += more / count as i64 + i64::from(position < more % count as i64);
    }
    count > 0
}

fn shrink(mut less: i64, members: &mut [Member]) {
    members.sort_unstable_by_key(|member| (std::cmp::Reverse(member.held), member.rank));
    // A cluster that reaches zero leaves the rest to the others, so there is at most one round per
    // member.
    while less > 0 {
        let holding = members.iter().filter(|member| member.gets > 0).count() as i64;
        if holding == 0 {
            return;
        }
        let (each, mut odd) = (less / holding, less % holding);
        for member in members.iter_mut().filter(|member| member.gets > 0) {
            // The remainder is taken last, when every holding cluster can give one.
            let one = i64::from(each == 0 && odd > 0);
            odd -= one;
            let gives = (each + one).min(member.gets);
            member.gets -= gives;
            less -= gives;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn levelled(total: i64, held: &[i64]) -> Vec<i64> {
        let mut members: Vec<Member> = held
            .iter()
            .zip(0..)
            .map(|(held, rank)| Member { rank, held: *held, gets: *held, is_closed: false })
            .collect();
        assert!(level(total, &mut members));
        members.sort_unstable_by_key(|member| member.rank);
        members.iter().map(|member| member.gets).collect()
    }

    #[test]
    fn r134_r135_by_region() {
        // Region A has the first cluster. Region B has the others.
        assert_eq!((levelled(3, &[2]), levelled(8, &[1, 4])), (vec![3], vec![3, 5]));
        assert_eq!((levelled(1, &[2]), levelled(2, &[1, 4])), (vec![1], vec![0, 2]));
    }

    #[test]
    fn r136_one_list_of_regions() {
        assert_eq!(levelled(11, &[2, 1, 4]), [3, 3, 5]);
        assert_eq!(levelled(3, &[2, 1, 4]), [1, 0, 2]);
    }

    #[test]
    fn r156_from_nothing_it_is_an_even_split() {
        assert_eq!(levelled(8, &[0, 0]), [4, 4]);
        assert_eq!(levelled(7, &[0, 0, 0]), [3, 2, 2]);
    }

    #[test]
    fn closed_clusters_keep_what_they_hold_and_take_no_more() {
        let member = |rank, held, is_closed| Member { rank, held, gets: held, is_closed };
        let gets = |members: &[Member]| members.iter().map(|member| (member.rank, member.gets)).collect::<Vec<_>>();
        let mut members = [member(0, 1, true), member(1, 2, false), member(2, 2, false)];
        assert!(level(8, &mut members));
        assert_eq!(gets(&members), [(1, 4), (2, 3), (0, 1)]);
        let mut members = [member(0, 3, true)];
        assert!(level(3, &mut members) && level(2, &mut members));
        assert_eq!(gets(&members), [(0, 2)]);
        assert!(!level(4, &mut [member(0, 3, true)]));
    }

    proptest! {
        #[test]
        fn r137_differences_are_even_unless_a_cluster_runs_empty(
            held in prop::collection::vec(0_i64..40, 1..9),
            total in 0_i64..400,
        ) {
            let result = levelled(total, &held);
            prop_assert_eq!(result.iter().sum::<i64>(), total);
            prop_assert!(result.iter().all(|replicas| *replicas >= 0));
            let changes: Vec<i64> =
                result.iter().zip(&held).filter(|(gets, _)| **gets > 0).map(|(gets, held)| gets - held).collect();
            if let (Some(least), Some(most)) = (changes.iter().min(), changes.iter().max()) {
                prop_assert!(most - least <= 1, "{held:?} became {result:?}");
            }
        }
    }
}
