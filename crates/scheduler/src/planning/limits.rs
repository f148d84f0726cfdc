//! Reduces a decision to the best one that moves at most the allowed number of copies. Pure.
//!
//! The best result leaves the fewest copies to move later. Missing copies are placed first, because
//! a workload with too few copies is worse off than one with copies on the wrong clusters. Then
//! copies move, one at a time, from the cluster with the largest excess to the cluster with the
//! largest deficit. Names decide among equals.
//!
//! Copies are counted where they arrive. A copy that merely leaves, because the workload needs
//! fewer than it has, is no move and is not bounded.

/// One cluster of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterShare {
    /// Copies on the cluster.
    pub present: i64,
    /// Copies that the decision assigns to the cluster.
    pub wanted: i64,
    /// The number of present copies that may leave for another cluster.
    pub may_leave: i64,
}

impl ClusterShare {
    fn excess(self) -> i64 {
        (self.present - self.wanted).max(0)
    }

    fn deficit(self) -> i64 {
        (self.wanted - self.present).max(0)
    }
}

/// Returns the copies of each cluster, in the order of `shares`, which are sorted by name. At most
/// `most` copies arrive; `None`: as many as the decision needs.
pub fn cut(shares: &[ClusterShare], most: Option<i64>) -> Vec<i64> {
    let sum = |of: fn(&ClusterShare) -> i64| shares.iter().map(of).fold(0, i64::saturating_add);
    let (there, wanted) = (sum(|share| share.present), sum(|share| share.wanted));
    let most = most.unwrap_or(i64::MAX).max(0);
    let mut after: Vec<i64> = shares.iter().map(|share| share.present).collect();

    // The surplus leaves first, starting with copies that may leave.
    let mut free: Vec<i64> = shares.iter().map(|share| share.excess().min(share.may_leave.max(0))).collect();
    let mut bound: Vec<i64> = shares.iter().zip(&free).map(|(share, free)| share.excess() - free).collect();
    let surplus = (there - wanted).max(0);
    let of_free = take_from_largest(&mut free, surplus);
    let rest = surplus - of_free.iter().sum::<i64>();
    let of_bound = take_from_largest(&mut bound, rest);

    let missing = (wanted - there).max(0).min(most);
    let movable = free.iter().fold(0, |sum: i64, free| sum.saturating_add(*free));
    let moved = movable.min(most - missing);
    let leaving = take_from_largest(&mut free, moved);
    let mut deficits: Vec<i64> = shares.iter().map(|share| share.deficit()).collect();
    let arriving = take_from_largest(&mut deficits, missing + moved);
    for (index, after) in after.iter_mut().enumerate() {
        *after += arriving[index] - leaving[index] - of_free[index] - of_bound[index];
    }
    after
}

/// Takes `count` away, each time one from the largest amount, the first of equals. Returns the
/// number taken from each. Takes everything if there is less.
fn take_from_largest(amounts: &mut [i64], count: i64) -> Vec<i64> {
    let above = |level: i64| amounts.iter().fold(0, |sum: i64, amount| sum.saturating_add((amount - level).max(0)));
    // The highest level such that lowering all amounts to it takes at most `count`. Binary search,
    // because a workload can have millions of replicas.
    let (mut low, mut high) = (0, amounts.iter().copied().max().unwrap_or(0).max(0));
    while low < high {
        let middle = low + (high - low) / 2;
        if above(middle) <= count {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let mut rest = (count - above(low)).max(0);
    let mut taken = Vec::with_capacity(amounts.len());
    for amount in amounts {
        // All amounts above this level are now equal to it, so the remainder is taken from the
        // first of them.
        let more = i64::from(low > 0 && *amount >= low && rest > 0);
        rest -= more;
        let took = (*amount - low).max(0) + more;
        *amount -= took;
        taken.push(took);
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(present: i64, wanted: i64) -> ClusterShare {
        ClusterShare { present, wanted, may_leave: present }
    }

    fn arrivals(shares: &[ClusterShare], after: &[i64]) -> i64 {
        shares.iter().zip(after).map(|(share, after)| (after - share.present).max(0)).sum()
    }

    fn distance(shares: &[ClusterShare], after: &[i64]) -> i64 {
        shares.iter().zip(after).map(|(share, after)| (share.wanted - after).max(0)).sum()
    }

    #[test]
    fn the_largest_excess_goes_to_the_largest_deficit_and_names_decide_among_equals() {
        let shares = [share(0, 3), share(0, 3), share(0, 1), share(7, 0)];
        assert_eq!(cut(&shares, Some(1)), [1, 0, 0, 6]);
        assert_eq!(cut(&shares, Some(2)), [1, 1, 0, 5]);
        assert_eq!(cut(&shares, Some(5)), [3, 2, 0, 2]);
        assert_eq!(cut(&shares, None), [3, 3, 1, 0]);
        let shares = [share(5, 1), share(4, 1), share(0, 7)];
        assert_eq!(cut(&shares, Some(3)), [3, 3, 3]);
    }

    #[test]
    fn what_is_missing_comes_first_and_what_is_too_much_leaves_unbounded() {
        assert_eq!(cut(&[share(4, 2), share(0, 5)], Some(3)), [4, 3]);
        assert_eq!(cut(&[share(4, 2), share(0, 5)], Some(4)), [3, 4]);
        assert_eq!(cut(&[share(9, 2), share(0, 1)], Some(0)), [3, 0]);
        assert_eq!(cut(&[share(9, 2), share(0, 1)], Some(1)), [2, 1]);
    }

    #[test]
    fn what_may_not_leave_stays_unless_it_is_too_much() {
        let held = |present, wanted, may_leave| ClusterShare { present, wanted, may_leave };
        assert_eq!(cut(&[held(4, 0, 1), held(0, 4, 0)], None), [3, 1]);
        assert_eq!(cut(&[held(4, 0, 0), held(0, 4, 0)], None), [4, 0]);
        assert_eq!(cut(&[held(4, 1, 0), held(0, 1, 0)], None), [2, 0]);
    }

    /// Computes `take_from_largest` step by step.
    fn one_by_one(amounts: &mut [i64], count: i64) -> Vec<i64> {
        let mut taken = vec![0; amounts.len()];
        for _ in 0..count {
            let largest = amounts.iter().copied().max().unwrap_or(0);
            let Some(index) = amounts.iter().position(|amount| largest > 0 && *amount == largest) else { break };
            amounts[index] -= 1;
            taken[index] += 1;
        }
        taken
    }

    proptest! {
        #[test]
        fn levelling_is_taking_one_by_one(amounts in prop::collection::vec(0_i64..9, 0..6), count in 0_i64..40) {
            let (mut some, mut same) = (amounts.clone(), amounts);
            prop_assert_eq!(take_from_largest(&mut some, count), one_by_one(&mut same, count));
            prop_assert_eq!(some, same);
        }

        #[test]
        fn a_cut_moves_no_more_than_allowed_and_comes_as_near_as_that_allows(
            clusters in prop::collection::vec((0_i64..9, 0_i64..9, 0_i64..9), 0..6),
            most in prop::option::of(0_i64..12),
        ) {
            let shares: Vec<ClusterShare> = clusters
                .into_iter()
                .map(|(present, wanted, may_leave)| ClusterShare { present, wanted, may_leave: may_leave.min(present) })
                .collect();
            let after = cut(&shares, most);
            let bound = most.unwrap_or(i64::MAX);
            let there: i64 = shares.iter().map(|share| share.present).sum();
            let wanted: i64 = shares.iter().map(|share| share.wanted).sum();
            let full: i64 = shares.iter().map(|share| share.deficit()).sum();
            prop_assert!(arrivals(&shares, &after) <= bound);
            // The sum is the wanted one, or includes as many missing copies as may arrive.
            prop_assert_eq!(after.iter().sum::<i64>(), wanted.min(there.saturating_add(bound)));
            // No share exceeds the decision, in either direction.
            for (share, after) in shares.iter().zip(&after) {
                let (low, high) = (share.present.min(share.wanted), share.present.max(share.wanted));
                prop_assert!((low..=high).contains(after), "{share:?} became {after}");
            }
            let allowed: i64 = shares.iter().map(|share| share.excess().min(share.may_leave)).sum();
            let surplus = (there - wanted).max(0);
            let can_come = (wanted - there).max(0) + (allowed - surplus.min(allowed));
            prop_assert_eq!(arrivals(&shares, &after), full.min(can_come).min(bound));
            prop_assert_eq!(distance(&shares, &after), full - arrivals(&shares, &after));
        }

        #[test]
        fn a_limit_of_the_distance_or_more_is_the_decision_itself(
            clusters in prop::collection::vec((0_i64..9, 0_i64..9), 0..6),
            beyond in 0_i64..3,
        ) {
            let shares: Vec<ClusterShare> = clusters.into_iter().map(|(present, wanted)| share(present, wanted)).collect();
            let wanted: Vec<i64> = shares.iter().map(|share| share.wanted).collect();
            prop_assert_eq!(cut(&shares, None), wanted.clone());
            prop_assert_eq!(cut(&shares, Some(distance(&shares, &shares.iter().map(|s| s.present).collect::<Vec<_>>()) + beyond)), wanted);
        }
    }
}
