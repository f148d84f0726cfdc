//! Divides replicas among clusters that have a minimum and a maximum each, in proportion to
//! weights.

use super::assign;
use crate::webster::{self, Party};

/// A cluster that takes part in a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub rank: u32,
    /// The replicas that it holds, and keeps if possible.
    pub own: i64,
    /// The minimum of its replicas.
    pub floor: i64,
    /// The maximum of its replicas.
    pub most: i64,
    pub weight: i64,
    /// Earlier tiers are filled first.
    pub tier: u16,
}

/// Divides replicas among the parts, in proportion to their weights, within their bounds. Held
/// replicas stay, as far as the bounds allow. The sum of all floors is at most `replicas`, and the
/// sum of all maxima at least. The result has the order of the parts.
pub(super) fn divide(parts: &[Part], replicas: i64, uid: &str) -> Vec<i64> {
    let keep = |part: &Part| part.own.min(part.most).max(part.floor);
    let kept: i64 = parts.iter().map(keep).sum();
    let mut seats: Vec<Seat> = parts
        .iter()
        .map(|part| {
            let order = assign::order(uid, part.rank);
            let keep = keep(part);
            if kept > replicas {
                // Surplus replicas leave in proportion to the held ones.
                return Seat { base: 0, floor: part.floor, most: keep, weight: keep, order, gets: 0 };
            }
            let base = part.own.min(part.most);
            Seat { base, floor: keep - base, most: part.most - base, weight: part.weight, order, gets: 0 }
        })
        .collect();
    let floors: i64 = seats.iter().map(|seat| seat.floor).sum();
    let mut more = replicas - seats.iter().map(|seat| seat.base).sum::<i64>() - floors;
    let mut tiers: Vec<u16> = parts.iter().map(|part| part.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    for tier in tiers {
        let members: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].tier == tier).collect();
        let free: i64 = members.iter().map(|at| seats[*at].most - seats[*at].floor).sum();
        let floor: i64 = members.iter().map(|at| seats[*at].floor).sum();
        let share = more.min(free);
        more -= share;
        seat(&mut seats, members, floor + share);
    }
    seats.iter().map(|seat| seat.base + seat.gets).collect()
}

/// One part during the division.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// The replicas of the part in addition to its seats.
    base: i64,
    floor: i64,
    most: i64,
    weight: i64,
    order: u32,
    gets: i64,
}

/// The most rounds of a division. A round is repeated if some members exceed their bounds. Each
/// round settles at least one of them, and usually most of them.
const ROUNDS_MAX: usize = 32;

/// Assigns `count` seats to the members, in proportion to their weights. Members that exceed their
/// bounds get the bound, and the others share the rest.
fn seat(seats: &mut [Seat], mut members: Vec<usize>, mut count: i64) {
    for _ in 0..ROUNDS_MAX {
        if members.is_empty() {
            return;
        }
        let party = |at: &usize| {
            let Seat { weight, order, .. } = seats[*at];
            Party { id: *at as u32, order, votes: weight.max(0) as u64, seats: 0 }
        };
        let mut parties: Vec<Party> = members.iter().map(party).collect();
        webster::divide(u32::try_from(count).unwrap_or(0), &mut parties);
        members.iter().for_each(|at| seats[*at].gets = 0);
        parties.iter().for_each(|party| seats[party.id as usize].gets = i64::from(party.seats));
        let over: i64 = members.iter().map(|at| (seats[*at].gets - seats[*at].most).max(0)).sum();
        let under: i64 = members.iter().map(|at| (seats[*at].floor - seats[*at].gets).max(0)).sum();
        if over == 0 && under == 0 {
            return;
        }
        // The larger sum decides, so that the others can still share the rest.
        let seats = &mut *seats;
        members.retain(|at| {
            let Seat { floor, most, gets, .. } = seats[*at];
            let is_settled = if over >= under { gets > most } else { gets < floor };
            if is_settled {
                seats[*at].gets = if over >= under { most } else { floor };
                count -= seats[*at].gets;
            }
            !is_settled
        });
    }
    fill_in_order(seats, &members, count);
}

/// Assigns each member its floor, and then the rest to one member after the other.
fn fill_in_order(seats: &mut [Seat], members: &[usize], count: i64) {
    let mut more = count - members.iter().map(|at| seats[*at].floor).sum::<i64>();
    for at in members {
        let seat = &mut seats[*at];
        let share = more.min(seat.most - seat.floor);
        seat.gets = seat.floor + share;
        more -= share;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(own: i64, floor: i64, most: i64, weight: i64) -> Part {
        Part { rank: 0, own, floor, most, weight, tier: 0 }
    }

    fn shares(parts: &[Part], replicas: i64) -> Vec<i64> {
        let ranked: Vec<Part> = parts.iter().zip(0..).map(|(part, rank)| Part { rank, ..*part }).collect();
        divide(&ranked, replicas, "")
    }

    #[test]
    fn s7_what_goes_beyond_its_bound_leaves_the_rest_to_the_others() {
        assert_eq!(shares(&[part(0, 0, 10, 10), part(0, 0, 10, 10)], 10), [5, 5]);
        assert_eq!(shares(&[part(0, 0, 2, 10), part(0, 0, 10, 10), part(0, 0, 10, 20)], 11), [2, 3, 6]);
        assert_eq!(shares(&[part(0, 4, 10, 1), part(0, 0, 10, 9)], 10), [4, 6]);
    }

    #[test]
    fn s7_what_is_there_stays_unless_a_bound_says_otherwise() {
        assert_eq!(shares(&[part(6, 0, 9, 3), part(0, 2, 9, 9)], 8), [6, 2]);
        assert_eq!(shares(&[part(6, 0, 4, 0), part(0, 1, 9, 9)], 6), [4, 2]);
        assert_eq!(shares(&[part(6, 0, 9, 0), part(3, 0, 9, 0)], 6), [4, 2]);
    }

    proptest! {
        #[test]
        fn s7_all_is_divided_and_all_bounds_are_kept(
            parts in prop::collection::vec((0_i64..9, 0_i64..5, 0_i64..9, 0_i64..20, 0_u16..2), 1..8),
            share in 0_i64..=100,
        ) {
            let part = |((own, floor, more, weight, tier), rank)| {
                Part { rank, own, floor, most: floor + more, weight, tier }
            };
            let parts: Vec<Part> = parts.into_iter().zip(0..).map(part).collect();
            let (floor, most) = parts.iter().fold((0, 0), |sums, part| (sums.0 + part.floor, sums.1 + part.most));
            let replicas = floor + (most - floor) * share / 100;
            let result = divide(&parts, replicas, "some uid");
            prop_assert_eq!(result.iter().sum::<i64>(), replicas);
            for (part, gets) in parts.iter().zip(&result) {
                prop_assert!(part.floor <= *gets && *gets <= part.most, "{:?} became {:?}", parts, result);
            }
            let kept = |part: &Part| part.own.min(part.most).max(part.floor);
            if parts.iter().map(kept).sum::<i64>() <= replicas {
                prop_assert!(parts.iter().zip(&result).all(|(part, gets)| *gets >= kept(part)));
            }
        }
    }
}
