//! One step of a move that surges: new replicas are ready before old ones go (BD5). Pure.
//!
//! A step raises the targets that want more, as far as surge and room allow, and lowers those that
//! want fewer by as many replicas as are ready at the new places.
//!
//! *Invariants:* a target only ever goes towards what is wanted, so the steps come to an end. No
//! step lowers the replicas that are assigned and reported ready below the floor; where they are
//! below it already, no step lowers them further. All targets together never exceed the wanted
//! replicas plus the surge, nor what a quota allows, unless they did before.
//!
//! Where a quota leaves no room for a surge, old replicas go at the moment at which new ones come,
//! as many as the floor lets go.

/// A cluster of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Before the move.
    pub was: i64,
    pub assigned: i64,
    pub wanted: i64,
    /// The replicas that are ready there, as reported.
    pub ready: i64,
    /// How many more the cluster can take.
    pub room: i64,
}

/// What the move may do to the workload, in replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Ready replicas that must stay assigned.
    pub floor: i64,
    /// Replicas above the wanted number at once.
    pub surge: i64,
    /// Replicas in all that a quota allows. It is no less than what is assigned.
    pub most: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The targets are what is wanted.
    Arrived,
    /// The next targets, in the order of the places.
    To(Vec<i64>),
    /// Nothing can be done until more replicas are ready.
    Wait,
    /// Nothing can be done even when all assigned replicas are ready.
    NoRoom,
}

impl Bounds {
    /// Whether a quota leaves less than the surge.
    pub fn is_by_quota(&self, places: &[Place]) -> bool {
        self.most < places.iter().map(|place| place.wanted).sum::<i64>() + self.surge
    }
}

impl Place {
    fn rise(&self) -> i64 {
        (self.wanted - self.assigned).max(0)
    }

    fn fall(&self) -> i64 {
        (self.assigned - self.wanted).max(0)
    }

    /// The new replicas that are not ready yet, assigned or not.
    fn to_arrive(self) -> i64 {
        let all = (self.wanted - self.was).max(0);
        all - (self.ready_of(self.assigned) - self.was).clamp(0, all)
    }

    fn is_ready(&self) -> bool {
        self.ready_of(self.assigned) == self.assigned
    }

    fn ready_of(&self, assigned: i64) -> i64 {
        assigned.min(self.ready.max(0))
    }
}

pub fn step(places: &[Place], bounds: Bounds) -> Step {
    if places.iter().all(|place| place.assigned == place.wanted) {
        return Step::Arrived;
    }
    let mut next: Vec<i64> = places.iter().map(|place| place.assigned).collect();
    // As many old replicas stay as new ones are not ready yet.
    let to_fall: i64 = places.iter().map(Place::fall).sum();
    let to_arrive: i64 = places.iter().map(|place| place.to_arrive()).sum();
    lower(places, &mut next, bounds, to_fall - to_arrive);
    raise(places, &mut next, bounds);
    if is_other(places, &next) {
        return Step::To(next);
    }
    if places.iter().any(|place| place.wanted > place.was && !place.is_ready()) {
        return Step::Wait;
    }
    // What has come is ready, and no more can come. Old replicas go first, as far as the floor
    // allows and as others can take their places.
    let can_rise: i64 = places.iter().map(|place| place.rise().min(place.room.max(0))).sum();
    let is_risen = places.iter().all(|place| place.rise() == 0);
    lower(places, &mut next, bounds, if is_risen { to_fall } else { can_rise });
    if bounds.is_by_quota(places) {
        // What goes leaves room below the quota. Nobody else is to take it in between.
        raise(places, &mut next, bounds);
    }
    if is_other(places, &next) {
        return Step::To(next);
    }
    // More ready replicas lift what is assigned above the floor.
    let waits_for_floor = is_risen || can_rise > 0;
    if waits_for_floor && !places.iter().all(Place::is_ready) { Step::Wait } else { Step::NoRoom }
}

fn is_other(places: &[Place], next: &[i64]) -> bool {
    places.iter().zip(next).any(|(place, next)| place.assigned != *next)
}

/// Lowers targets by `count` replicas at most. Those that are not ready go first, as they cost
/// nothing.
fn lower(places: &[Place], next: &mut [i64], bounds: Bounds, count: i64) {
    let mut count = count.max(0);
    let ready: i64 = places.iter().map(|place| place.ready_of(place.assigned)).sum();
    let mut spare = (ready - bounds.floor).max(0);
    for costs in [false, true] {
        for (place, next) in places.iter().zip(&mut *next) {
            let unready = (*next - place.ready_of(*next)).max(0);
            let fall = (*next - place.wanted).max(0).min(count).min(if costs { spare } else { unready });
            *next -= fall;
            count -= fall;
            spare -= if costs { fall } else { 0 };
        }
    }
}

/// Raises targets as far as surge, quota and room allow.
fn raise(places: &[Place], next: &mut [i64], bounds: Bounds) {
    let wanted: i64 = places.iter().map(|place| place.wanted).sum();
    let assigned: i64 = next.iter().sum();
    let mut budget = ((wanted + bounds.surge).min(bounds.most) - assigned).max(0);
    for (place, next) in places.iter().zip(next) {
        let rise = place.rise().min(place.room.max(0)).min(budget);
        *next += rise;
        budget -= rise;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds(floor: i64, surge: i64) -> Bounds {
        Bounds { floor, surge, most: i64::MAX }
    }

    /// A cluster that had nothing.
    fn comes(assigned: i64, wanted: i64, ready: i64, room: i64) -> Place {
        Place { was: 0, assigned, wanted, ready, room }
    }

    /// A cluster that had four replicas.
    fn goes(assigned: i64, wanted: i64, ready: i64) -> Place {
        Place { was: 4, assigned, wanted, ready, room: 0 }
    }

    #[test]
    fn new_replicas_come_first_and_old_ones_go_as_the_new_are_ready() {
        let bounds = self::bounds(4, 4);
        let at = |m1, r1, m2| [comes(m1, 2, r1, 9), goes(m2, 2, m2)];
        assert_eq!(step(&at(0, 0, 4), bounds), Step::To(vec![2, 4]));
        assert_eq!(step(&at(2, 0, 4), bounds), Step::Wait);
        assert_eq!(step(&at(2, 1, 4), bounds), Step::To(vec![2, 3]));
        assert_eq!(step(&at(2, 2, 3), bounds), Step::To(vec![2, 2]));
        assert_eq!(step(&at(2, 2, 2), bounds), Step::Arrived);
    }

    #[test]
    fn a_low_floor_does_not_let_old_replicas_go_before_new_ones_are_ready() {
        let places = [comes(2, 2, 1, 9), goes(4, 2, 4)];
        assert_eq!(step(&places, bounds(1, 4)), Step::To(vec![2, 3]));
    }

    #[test]
    fn without_surge_old_replicas_go_first_within_the_floor() {
        let bounds = self::bounds(3, 0);
        assert_eq!(step(&[comes(0, 4, 0, 9), goes(4, 0, 4)], bounds), Step::To(vec![0, 3]));
        assert_eq!(step(&[comes(0, 4, 0, 9), goes(3, 0, 3)], bounds), Step::To(vec![1, 3]));
        assert_eq!(step(&[comes(1, 4, 0, 9), goes(3, 0, 3)], bounds), Step::Wait);
        assert_eq!(step(&[comes(1, 4, 1, 9), goes(3, 0, 3)], bounds), Step::To(vec![1, 2]));
        let nowhere = self::bounds(4, 0);
        assert_eq!(step(&[comes(0, 4, 0, 9), goes(4, 0, 4)], nowhere), Step::NoRoom);
    }

    #[test]
    fn of_the_old_replicas_those_that_are_not_ready_go_first() {
        let places = [comes(2, 4, 2, 0), goes(2, 0, 2), goes(2, 0, 0)];
        assert_eq!(step(&places, bounds(0, 4)), Step::To(vec![2, 2, 0]));
    }

    #[test]
    fn where_a_quota_is_full_old_replicas_go_as_new_ones_come_within_the_floor() {
        let full = |floor| Bounds { floor, surge: 4, most: 4 };
        assert_eq!(step(&[comes(0, 2, 0, 9), goes(4, 2, 4)], full(3)), Step::To(vec![1, 3]));
        assert_eq!(step(&[comes(1, 2, 0, 9), goes(3, 2, 3)], full(3)), Step::Wait);
        assert_eq!(step(&[comes(1, 2, 1, 9), goes(3, 2, 3)], full(3)), Step::To(vec![2, 2]));
        assert_eq!(step(&[comes(0, 2, 0, 9), goes(4, 2, 4)], full(4)), Step::NoRoom);
        let one_more = Bounds { floor: 4, surge: 4, most: 5 };
        assert_eq!(step(&[comes(0, 2, 0, 9), goes(4, 2, 4)], one_more), Step::To(vec![1, 4]));
    }

    #[test]
    fn a_full_cluster_leaves_no_room_and_nothing_is_torn_down_for_it() {
        let bounds = self::bounds(0, 4);
        assert_eq!(step(&[comes(0, 4, 0, 0), goes(4, 0, 4)], bounds), Step::NoRoom);
        // What is assigned comes, then its counterpart goes.
        assert_eq!(step(&[comes(1, 4, 1, 0), goes(4, 0, 4)], bounds), Step::To(vec![1, 3]));
        assert_eq!(step(&[comes(1, 4, 1, 0), goes(3, 0, 3)], bounds), Step::NoRoom);
    }

    #[test]
    fn where_too_few_are_ready_nothing_ready_is_taken_away() {
        let bounds = self::bounds(4, 0);
        // Of four, two are ready: the two that are not may go.
        assert_eq!(step(&[comes(0, 4, 0, 9), goes(4, 0, 2)], bounds), Step::To(vec![0, 2]));
    }

    fn ready(places: &[Place], next: &[i64]) -> i64 {
        places.iter().zip(next).map(|(place, next)| place.ready_of(*next)).sum()
    }

    fn sum(values: impl IntoIterator<Item = i64>) -> i64 {
        values.into_iter().sum()
    }

    /// From anywhere to anywhere of the same size, and how ready and roomy it is.
    fn moves() -> impl Strategy<Value = (Vec<Place>, Bounds)> {
        let place = (0..8i64, 0..8i64, 0..8i64, 0..9i64, 0..9i64);
        let left = prop_oneof![Just(i64::MAX), 0..6i64];
        (proptest::collection::vec(place, 1..6), 0..20i64, 0..8i64, left).prop_map(|(places, floor, surge, left)| {
            let places = places.into_iter().map(|(was, assigned, wanted, ready, room)| Place {
                was,
                assigned,
                wanted,
                ready,
                room,
            });
            let places: Vec<Place> = places.collect();
            let most = sum(places.iter().map(|place| place.assigned)).saturating_add(left);
            (places, Bounds { floor, surge, most })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_step_keeps_floor_surge_and_room_and_goes_towards_what_is_wanted((places, bounds) in moves()) {
            let Step::To(next) = step(&places, bounds) else { return Ok(()) };
            let before: Vec<i64> = places.iter().map(|place| place.assigned).collect();
            prop_assert_ne!(&next, &before);
            prop_assert!(ready(&places, &next) >= bounds.floor.min(ready(&places, &before)));
            let most = sum(places.iter().map(|place| place.wanted)) + bounds.surge;
            prop_assert!(sum(next.iter().copied()) <= most.max(sum(before.iter().copied())));
            prop_assert!(sum(next.iter().copied()) <= bounds.most);
            for (place, next) in places.iter().zip(&next) {
                let (low, high) = (place.assigned.min(place.wanted), place.assigned.max(place.wanted));
                prop_assert!((low..=high).contains(next));
                prop_assert!(next - place.assigned <= place.room);
            }
        }

        #[test]
        fn where_agents_report_and_there_is_room_the_steps_end_at_what_is_wanted(
            (places, bounds) in moves(),
            delays in proptest::collection::vec(0..3i64, 1..40),
        ) {
            let total = sum(places.iter().map(|place| place.wanted));
            let start = sum(places.iter().map(|place| place.assigned));
            // A quota that is full at the start and allows what is wanted.
            let most = if bounds.most < i64::MAX { start.max(total) } else { bounds.most };
            let bounds = Bounds { floor: bounds.floor.min(total), most, ..bounds };
            // Otherwise there is no step that the bounds allow.
            let can_surge = bounds.surge > 0 && most > total;
            prop_assume!(can_surge || bounds.floor < total);
            let mut places: Vec<Place> = places
                .into_iter()
                .map(|place| Place { was: place.assigned, ready: place.assigned, room: 99, ..place })
                .collect();
            let mut delays = delays.into_iter().cycle();
            for round in 1..10_000 {
                match step(&places, bounds) {
                    Step::Arrived => return Ok(()),
                    Step::To(next) => {
                        for (place, next) in places.iter_mut().zip(next) {
                            place.assigned = next;
                        }
                    }
                    Step::Wait => {}
                    Step::NoRoom => {
                        prop_assert!(false, "stuck at {places:?} {bounds:?}");
                    }
                }
                // The agents report late and little by little, and at last.
                for place in &mut places {
                    let by = delays.next().unwrap_or(1);
                    let by = if round % 9 == 0 { 99 } else { by };
                    place.ready = (place.ready.min(place.assigned) + by).min(place.assigned);
                }
            }
            prop_assert!(false, "no end: {places:?} {bounds:?}");
        }
    }
}
