//! Webster's (Sainte-Laguë's) method: divides whole seats among parties in proportion to their
//! votes.
//!
//! Seats are given one by one, each to the party with the largest votes / (2 * seats + 1). Of equal
//! parties the one with fewer seats comes first, then the one with the smaller order. All
//! arithmetic is on integers, so that close quotients compare exactly and large votes lose no
//! digits. Seats that are beyond dispute are given at once, so the cost depends on the number of
//! parties, not of seats.

/// A party that takes part in a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The caller's id of the party.
    pub id: u32,
    /// Breaks ties: the party with the smaller number comes first. Unique among the parties.
    pub order: u32,
    pub votes: u64,
    pub seats: u32,
}

/// Divides `seats` among the parties, which must hold no seats yet. Without any votes, the parties
/// take seats in turn. Keeps only parties that got seats, in no particular order.
pub fn divide(seats: u32, parties: &mut Vec<Party>) {
    // A party that is not among the first `seats` by votes gets no seat: each party before it takes
    // at least one first.
    if (seats as usize) < parties.len() {
        if seats > 0 {
            parties.select_nth_unstable_by(seats as usize - 1, |a, b| b.claim().cmp(&a.claim()));
        }
        parties.truncate(seats as usize);
    }
    let undisputed = give_undisputed(seats, parties);
    let mut remaining = seats - undisputed;
    // This heap is written by hand so that the caller keeps the buffer.
    for root in (0..parties.len() / 2).rev() {
        sift_down(parties, root);
    }
    while remaining > 0 && !parties.is_empty() {
        parties[0].seats += 1;
        remaining -= 1;
        sift_down(parties, 0);
    }
    parties.retain(|party| party.seats > 0);
}

impl Party {
    fn claim(&self) -> (u64, std::cmp::Reverse<u32>) {
        (self.votes, std::cmp::Reverse(self.order))
    }

    fn precedes(&self, other: &Party) -> bool {
        let own_product = u128::from(self.votes) * (2 * u128::from(other.seats) + 1);
        let other_product = u128::from(other.votes) * (2 * u128::from(self.seats) + 1);
        if own_product != other_product {
            return own_product > other_product;
        }
        (self.seats, self.order) < (other.seats, other.order)
    }
}

/// Gives the seats that are beyond dispute, and returns their number.
///
/// With the quotient q = votes of all / (2 * seats - parties), at most `seats` seats have a
/// quotient of q or more. So all of these can be given, whatever the rest looks like.
fn give_undisputed(seats: u32, parties: &mut [Party]) -> u32 {
    let total: u128 = parties.iter().map(|party| u128::from(party.votes)).sum();
    let divisor = (2 * u128::from(seats)).saturating_sub(parties.len() as u128);
    // With few seats the heap is cheaper than a division for each party.
    if total == 0 || u128::from(seats) <= 2 * parties.len() as u128 {
        return 0;
    }
    let mut given = 0;
    for party in parties {
        // Seats s with votes / (2s + 1) >= total / divisor: s from 0 to (votes * divisor / total -
        // 1) / 2.
        let quotients = u128::from(party.votes) * divisor / total;
        party.seats = quotients.div_ceil(2) as u32;
        given += party.seats;
    }
    given
}

fn sift_down(parties: &mut [Party], mut root: usize) {
    loop {
        let left = 2 * root + 1;
        if left >= parties.len() {
            return;
        }
        let right = left + 1;
        let first = if right < parties.len() && parties[right].precedes(&parties[left]) { right } else { left };
        if !parties[first].precedes(&parties[root]) {
            return;
        }
        parties.swap(first, root);
        root = first;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parties(votes: &[u64]) -> Vec<Party> {
        votes
            .iter()
            .enumerate()
            .map(|(n, votes)| Party { id: n as u32, order: n as u32, votes: *votes, seats: 0 })
            .collect()
    }

    fn divided(seats: u32, votes: &[u64]) -> Vec<u32> {
        let mut parties = parties(votes);
        divide(seats, &mut parties);
        let mut result = vec![0; votes.len()];
        parties.iter().for_each(|party| result[party.id as usize] = party.seats);
        result
    }

    /// The definition of the method, seat by seat.
    fn one_by_one(seats: u32, votes: &[u64]) -> Vec<u32> {
        let mut parties = parties(votes);
        for _ in 0..seats {
            let first = (0..parties.len()).reduce(|a, b| if parties[b].precedes(&parties[a]) { b } else { a });
            if let Some(first) = first {
                parties[first].seats += 1;
            }
        }
        parties.iter().map(|party| party.seats).collect()
    }

    #[test]
    fn known_divisions() {
        assert_eq!(divided(9, &[1, 2]), [3, 6]);
        assert_eq!(divided(7, &[53_000, 24_000, 23_000]), [3, 2, 2]);
        assert_eq!(divided(2, &[1, 1, 1]), [1, 1, 0]);
        assert_eq!(divided(3, &[0, 0]), [2, 1]);
        assert_eq!(divided(5, &[]), [0_u32; 0]);
        assert_eq!(divided(0, &[1]), [0]);
    }

    #[test]
    fn huge_numbers_neither_wrap_nor_take_long() {
        let seats = u32::MAX / 2;
        let result = divided(seats, &[u64::MAX, u64::MAX, 1]);
        assert_eq!(result.iter().map(|n| u64::from(*n)).sum::<u64>(), u64::from(seats));
        assert_eq!(result[2], 0);
    }

    proptest! {
        #[test]
        fn the_short_cut_changes_nothing(votes in prop::collection::vec(0_u64..40, 1..12), seats in 0_u32..120) {
            prop_assert_eq!(divided(seats, &votes), one_by_one(seats, &votes));
        }

        #[test]
        fn nor_for_close_large_votes(votes in prop::collection::vec(1_u64 << 62..(1 << 62) + 3, 1..6), seats in 0_u32..60) {
            prop_assert_eq!(divided(seats, &votes), one_by_one(seats, &votes));
        }
    }
}
