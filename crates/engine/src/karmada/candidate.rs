//! The candidates of one attempt: the clusters that passed the filters, with the values that
//! selection and assignment compare.

use super::cluster_set::{ClusterIndex, ClusterSet};
use super::components;
use super::filters::AttemptContext;

/// A cluster that passed the filters. It is kept small, because a pass handles hundreds for each
/// binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub index: u32,
    /// The position by name among all clusters.
    pub rank: u32,
    /// The number of replicas that fit in addition to the current ones.
    pub free: i32,
    /// The number of replicas of this workload in the cluster.
    pub own: i32,
    pub score: u8,
    /// Whether filters object to the cluster but spare it because the workload runs there. It keeps
    /// at most its current replicas (D128).
    pub is_closed: bool,
    /// 0 for the group itself. Overflow tiers count from 1.
    pub tier: u16,
    /// Candidates with a larger standing are preferred. It is unique among candidates.
    pub standing: u64,
}

/// The fields of a standing, from the most significant bit on.
const TIER_BITS: u32 = 6;
const SCORE_BITS: u32 = 1;
const AVAILABLE_BITS: u32 = 33;
const OPEN_BITS: u32 = 1;
const RANK_BITS: u32 = 23;

impl Candidate {
    /// Creates a candidate without capacity, replicas, score and tier.
    pub fn of(fleet: &ClusterSet, index: ClusterIndex) -> Candidate {
        let rank = fleet.rank(index);
        Candidate { index: index as u32, rank, free: 0, own: 0, score: 0, is_closed: false, tier: 0, standing: 0 }
    }

    pub fn index(&self) -> ClusterIndex {
        self.index as ClusterIndex
    }

    /// Returns how many replicas of this workload the cluster can hold in total.
    pub fn available(&self) -> i64 {
        i64::from(self.free) + i64::from(self.own)
    }

    /// Computes the standing from the tier, the score, the capacity and the name.
    pub fn rate(&mut self) {
        const { assert!(TIER_BITS + SCORE_BITS + AVAILABLE_BITS + OPEN_BITS + RANK_BITS == u64::BITS) };
        let largest = |bits: u32| (1_u64 << bits) - 1;
        let tier = largest(TIER_BITS) - u64::from(self.tier).min(largest(TIER_BITS));
        let available = (self.available().max(0) as u64).min(largest(AVAILABLE_BITS));
        let rank = largest(RANK_BITS) - u64::from(self.rank).min(largest(RANK_BITS));
        let score = u64::from(self.score > 0);
        let wish = (tier << SCORE_BITS | score) << AVAILABLE_BITS | available;
        self.standing = (wish << OPEN_BITS | 1) << RANK_BITS | rank;
    }

    /// Lowers the standing below that of equal clusters that are not paused.
    pub fn defer(&mut self) {
        self.standing &= !(1 << RANK_BITS);
    }
}

/// Why no cluster can be selected.
pub(super) type Refusal = String;

/// Moves the `count` preferred candidates to the front, best first.
pub(super) fn lead(candidates: &mut [Candidate], count: usize) {
    let by_standing = |candidate: &Candidate| std::cmp::Reverse(candidate.standing);
    let count = count.min(candidates.len());
    if count > 0 && count < candidates.len() {
        candidates.select_nth_unstable_by_key(count - 1, by_standing);
    }
    candidates[..count].sort_unstable_by_key(by_standing);
}

/// Returns whether the cluster lacks capacity for a set of components that one cluster has to hold.
pub(super) fn lacks_room_for_a_set(context: &AttemptContext<'_>, candidate: &Candidate) -> bool {
    goes_whole_to_one_cluster(context) && candidate.available() <= 0
}

/// Returns whether one cluster has to hold all components, and capacity for them is counted.
pub(super) fn goes_whole_to_one_cluster(context: &AttemptContext<'_>) -> bool {
    context.profile.deviates() && components::counts_sets(context)
}
