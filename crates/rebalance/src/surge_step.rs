//! One step of a surging move: new replicas are ready before old ones are removed (BD5). Pure.
//!
//! A step raises the targets that need more, as far as surge and capacity allow, and lowers the
//! targets that need fewer by as many replicas as are ready on the new clusters.
//!
//! *Invariants:* a target only moves towards the wanted number, so the steps terminate. No step
//! lowers the replicas that are assigned and reported ready below the floor; if they are below it
//! already, no step lowers them further. The sum of the targets never exceeds the wanted replicas
//! plus the surge, nor the quota, unless it did before.
//!
//! If a quota leaves no headroom for a surge, old replicas are removed in the step that adds new
//! ones, as many as the floor allows.

/// A cluster of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterReplicas {
    /// Replicas before the move.
    pub was: i64,
    pub assigned: i64,
    pub wanted: i64,
    /// The replicas that are reported as ready.
    pub ready: i64,
    /// The number of additional replicas that fit on the cluster.
    pub room: i64,
}

/// The bounds of the move, in replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurgeBounds {
    /// Minimum number of ready replicas that stay assigned.
    pub floor: i64,
    /// Maximum number of replicas above the wanted number.
    pub surge: i64,
    /// Maximum total of replicas that a quota allows; at least the assigned number.
    pub most: i64,
    /// Maximum number of replicas to add now, according to the bounds of the rollout.
    pub arriving: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurgeStep {
    /// The targets have the wanted replicas.
    Arrived,
    /// The next targets, in the order of the clusters.
    To(Vec<i64>),
    /// No step is possible until more replicas are ready.
    Wait,
    /// No step is possible even if all assigned replicas are ready.
    NoRoom,
}

impl SurgeBounds {
    /// Returns whether a quota allows less than the surge.
    pub fn is_by_quota(&self, clusters: &[ClusterReplicas]) -> bool {
        self.most < clusters.iter().map(|cluster| cluster.wanted).sum::<i64>() + self.surge
    }
}

impl ClusterReplicas {
    fn rise(&self) -> i64 {
        (self.wanted - self.assigned).max(0)
    }

    fn fall(&self) -> i64 {
        (self.assigned - self.wanted).max(0)
    }

    /// Returns the new replicas that are assigned and not ready.
    pub fn in_flight(&self) -> i64 {
        (self.assigned - self.ready_of(self.assigned).max(self.was)).max(0)
    }

    /// Returns the new replicas that are not ready yet, assigned or not.
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

pub fn next_step(clusters: &[ClusterReplicas], bounds: SurgeBounds) -> SurgeStep {
    if clusters.iter().all(|cluster| cluster.assigned == cluster.wanted) {
        return SurgeStep::Arrived;
    }
    let mut next: Vec<i64> = clusters.iter().map(|cluster| cluster.assigned).collect();
    // As many old replicas stay as new ones are not ready yet.
    let to_fall: i64 = clusters.iter().map(ClusterReplicas::fall).sum();
    let to_arrive: i64 = clusters.iter().map(|cluster| cluster.to_arrive()).sum();
    lower(clusters, &mut next, bounds, to_fall - to_arrive);
    raise(clusters, &mut next, bounds);
    if is_other(clusters, &next) {
        return SurgeStep::To(next);
    }
    if clusters.iter().any(|cluster| cluster.wanted > cluster.was && !cluster.is_ready()) {
        return SurgeStep::Wait;
    }
    // All assigned replicas are ready, and no more can be added. Old replicas are removed first, as
    // far as the floor allows and new ones can replace them.
    let can_rise: i64 = clusters.iter().map(|cluster| cluster.rise().min(cluster.room.max(0))).sum();
    let can_rise = can_rise.min(bounds.arriving);
    let is_risen = clusters.iter().all(|cluster| cluster.rise() == 0);
    lower(clusters, &mut next, bounds, if is_risen { to_fall } else { can_rise });
    if bounds.is_by_quota(clusters) {
        // Removed replicas free headroom of the quota, which another workload could take between
        // two steps.
        raise(clusters, &mut next, bounds);
    }
    if is_other(clusters, &next) {
        return SurgeStep::To(next);
    }
    // More ready replicas raise the assigned number above the floor.
    let waits_for_floor = is_risen || can_rise > 0;
    if waits_for_floor && !clusters.iter().all(ClusterReplicas::is_ready) { SurgeStep::Wait } else { SurgeStep::NoRoom }
}

fn is_other(clusters: &[ClusterReplicas], next: &[i64]) -> bool {
    clusters.iter().zip(next).any(|(cluster, next)| cluster.assigned != *next)
}

/// Lowers targets by at most `count` replicas, first the unready ones.
fn lower(clusters: &[ClusterReplicas], next: &mut [i64], bounds: SurgeBounds, count: i64) {
    let mut count = count.max(0);
    let ready: i64 = clusters.iter().map(|cluster| cluster.ready_of(cluster.assigned)).sum();
    let mut spare = (ready - bounds.floor).max(0);
    for costs in [false, true] {
        for (cluster, next) in clusters.iter().zip(&mut *next) {
            let unready = (*next - cluster.ready_of(*next)).max(0);
            let fall = (*next - cluster.wanted).max(0).min(count).min(if costs { spare } else { unready });
            *next -= fall;
            count -= fall;
            spare -= if costs { fall } else { 0 };
        }
    }
}

/// Raises targets as far as surge, quota, the bounds of the rollout and capacity allow.
fn raise(clusters: &[ClusterReplicas], next: &mut [i64], bounds: SurgeBounds) {
    let wanted: i64 = clusters.iter().map(|cluster| cluster.wanted).sum();
    let assigned: i64 = next.iter().sum();
    let mut budget = ((wanted + bounds.surge).min(bounds.most) - assigned).min(bounds.arriving).max(0);
    for (cluster, next) in clusters.iter().zip(next) {
        let rise = cluster.rise().min(cluster.room.max(0)).min(budget);
        *next += rise;
        budget -= rise;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds(floor: i64, surge: i64) -> SurgeBounds {
        SurgeBounds { floor, surge, most: i64::MAX, arriving: i64::MAX }
    }

    /// Returns a cluster that had no replicas.
    fn comes(assigned: i64, wanted: i64, ready: i64, room: i64) -> ClusterReplicas {
        ClusterReplicas { was: 0, assigned, wanted, ready, room }
    }

    /// Returns a cluster that had four replicas.
    fn goes(assigned: i64, wanted: i64, ready: i64) -> ClusterReplicas {
        ClusterReplicas { was: 4, assigned, wanted, ready, room: 0 }
    }

    #[test]
    fn new_replicas_come_first_and_old_ones_go_as_the_new_are_ready() {
        let bounds = self::bounds(4, 4);
        let at = |m1, r1, m2| [comes(m1, 2, r1, 9), goes(m2, 2, m2)];
        assert_eq!(next_step(&at(0, 0, 4), bounds), SurgeStep::To(vec![2, 4]));
        assert_eq!(next_step(&at(2, 0, 4), bounds), SurgeStep::Wait);
        assert_eq!(next_step(&at(2, 1, 4), bounds), SurgeStep::To(vec![2, 3]));
        assert_eq!(next_step(&at(2, 2, 3), bounds), SurgeStep::To(vec![2, 2]));
        assert_eq!(next_step(&at(2, 2, 2), bounds), SurgeStep::Arrived);
    }

    #[test]
    fn a_low_floor_does_not_let_old_replicas_go_before_new_ones_are_ready() {
        let clusters = [comes(2, 2, 1, 9), goes(4, 2, 4)];
        assert_eq!(next_step(&clusters, bounds(1, 4)), SurgeStep::To(vec![2, 3]));
        assert_eq!(next_step(&[comes(2, 2, 0, 9), goes(4, 2, 4)], bounds(1, 4)), SurgeStep::Wait);
    }

    #[test]
    fn without_surge_old_replicas_go_first_within_the_floor() {
        let bounds = self::bounds(3, 0);
        assert_eq!(next_step(&[comes(0, 4, 0, 9), goes(4, 0, 4)], bounds), SurgeStep::To(vec![0, 3]));
        assert_eq!(next_step(&[comes(0, 4, 0, 9), goes(3, 0, 3)], bounds), SurgeStep::To(vec![1, 3]));
        assert_eq!(next_step(&[comes(1, 4, 0, 9), goes(3, 0, 3)], bounds), SurgeStep::Wait);
        assert_eq!(next_step(&[comes(1, 4, 1, 9), goes(3, 0, 3)], bounds), SurgeStep::To(vec![1, 2]));
        let nowhere = self::bounds(4, 0);
        assert_eq!(next_step(&[comes(0, 4, 0, 9), goes(4, 0, 4)], nowhere), SurgeStep::NoRoom);
    }

    #[test]
    fn of_the_old_replicas_those_that_are_not_ready_go_first() {
        let clusters = [comes(2, 4, 2, 0), goes(2, 0, 2), goes(2, 0, 0)];
        assert_eq!(next_step(&clusters, bounds(0, 4)), SurgeStep::To(vec![2, 2, 0]));
    }

    #[test]
    fn where_a_quota_is_full_old_replicas_go_as_new_ones_come_within_the_floor() {
        let full = |floor| SurgeBounds { most: 4, ..self::bounds(floor, 4) };
        assert_eq!(next_step(&[comes(0, 2, 0, 9), goes(4, 2, 4)], full(3)), SurgeStep::To(vec![1, 3]));
        assert_eq!(next_step(&[comes(1, 2, 0, 9), goes(3, 2, 3)], full(3)), SurgeStep::Wait);
        assert_eq!(next_step(&[comes(1, 2, 1, 9), goes(3, 2, 3)], full(3)), SurgeStep::To(vec![2, 2]));
        assert_eq!(next_step(&[comes(0, 2, 0, 9), goes(4, 2, 4)], full(4)), SurgeStep::NoRoom);
        let one_more = SurgeBounds { most: 5, ..self::bounds(4, 4) };
        assert_eq!(next_step(&[comes(0, 2, 0, 9), goes(4, 2, 4)], one_more), SurgeStep::To(vec![1, 4]));
    }

    #[test]
    fn a_full_cluster_leaves_no_room_and_nothing_is_torn_down_for_it() {
        let bounds = self::bounds(0, 4);
        assert_eq!(next_step(&[comes(0, 4, 0, 0), goes(4, 0, 4)], bounds), SurgeStep::NoRoom);
        // Assigned replicas arrive, then their counterparts leave.
        assert_eq!(next_step(&[comes(1, 4, 1, 0), goes(4, 0, 4)], bounds), SurgeStep::To(vec![1, 3]));
        assert_eq!(next_step(&[comes(1, 4, 1, 0), goes(3, 0, 3)], bounds), SurgeStep::NoRoom);
    }

    #[test]
    fn where_too_few_are_ready_nothing_ready_is_taken_away() {
        let bounds = self::bounds(4, 0);
        // Two of four are ready: the two others may leave.
        assert_eq!(next_step(&[comes(0, 4, 0, 9), goes(4, 0, 2)], bounds), SurgeStep::To(vec![0, 2]));
    }

    fn ready(clusters: &[ClusterReplicas], next: &[i64]) -> i64 {
        clusters.iter().zip(next).map(|(cluster, next)| cluster.ready_of(*next)).sum()
    }

    fn sum(values: impl IntoIterator<Item = i64>) -> i64 {
        values.into_iter().sum()
    }

    /// Generates moves between arbitrary targets of the same size, with arbitrary readiness and
    /// capacity.
    fn moves() -> impl Strategy<Value = (Vec<ClusterReplicas>, SurgeBounds)> {
        let cluster = (0..8i64, 0..8i64, 0..8i64, 0..9i64, 0..9i64);
        let left = prop_oneof![Just(i64::MAX), 0..6i64];
        (proptest::collection::vec(cluster, 1..6), 0..20i64, 0..8i64, left).prop_map(
            |(clusters, floor, surge, left)| {
                let clusters = clusters.into_iter().map(|(was, assigned, wanted, ready, room)| ClusterReplicas {
                    was,
                    assigned,
                    wanted,
                    ready,
                    room,
                });
                let clusters: Vec<ClusterReplicas> = clusters.collect();
                let most = sum(clusters.iter().map(|cluster| cluster.assigned)).saturating_add(left);
                (clusters, SurgeBounds { most, ..self::bounds(floor, surge) })
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_step_keeps_floor_surge_and_room_and_goes_towards_what_is_wanted((clusters, bounds) in moves()) {
            let SurgeStep::To(next) = next_step(&clusters, bounds) else { return Ok(()) };
            let before: Vec<i64> = clusters.iter().map(|cluster| cluster.assigned).collect();
            prop_assert_ne!(&next, &before);
            prop_assert!(ready(&clusters, &next) >= bounds.floor.min(ready(&clusters, &before)));
            let most = sum(clusters.iter().map(|cluster| cluster.wanted)) + bounds.surge;
            prop_assert!(sum(next.iter().copied()) <= most.max(sum(before.iter().copied())));
            prop_assert!(sum(next.iter().copied()) <= bounds.most);
            for (cluster, next) in clusters.iter().zip(&next) {
                let (low, high) = (cluster.assigned.min(cluster.wanted), cluster.assigned.max(cluster.wanted));
                prop_assert!((low..=high).contains(next));
                prop_assert!(next - cluster.assigned <= cluster.room);
            }
        }

        #[test]
        fn where_agents_report_and_there_is_room_the_steps_end_at_what_is_wanted(
            (clusters, bounds) in moves(),
            delays in proptest::collection::vec(0..3i64, 1..40),
        ) {
            let total = sum(clusters.iter().map(|cluster| cluster.wanted));
            let start = sum(clusters.iter().map(|cluster| cluster.assigned));
            // A quota that is full at the start and allows the wanted replicas.
            let most = if bounds.most < i64::MAX { start.max(total) } else { bounds.most };
            let bounds = SurgeBounds { floor: bounds.floor.min(total), most, ..bounds };
            // Otherwise the bounds allow no step.
            let can_surge = bounds.surge > 0 && most > total;
            prop_assume!(can_surge || bounds.floor < total);
            let mut clusters: Vec<ClusterReplicas> = clusters
                .into_iter()
                .map(|cluster| ClusterReplicas { was: cluster.assigned, ready: cluster.assigned, room: 99, ..cluster })
                .collect();
            let mut delays = delays.into_iter().cycle();
            for round in 1..10_000 {
                match next_step(&clusters, bounds) {
                    SurgeStep::Arrived => return Ok(()),
                    SurgeStep::To(next) => {
                        for (cluster, next) in clusters.iter_mut().zip(next) {
                            cluster.assigned = next;
                        }
                    }
                    SurgeStep::Wait => {}
                    SurgeStep::NoRoom => {
                        prop_assert!(false, "stuck at {clusters:?} {bounds:?}");
                    }
                }
                // The agents report late and in parts, but eventually completely.
                for cluster in &mut clusters {
                    let by = delays.next().unwrap_or(1);
                    let by = if round % 9 == 0 { 99 } else { by };
                    cluster.ready = (cluster.ready.min(cluster.assigned) + by).min(cluster.assigned);
                }
            }
            prop_assert!(false, "no end: {clusters:?} {bounds:?}");
        }
    }
}
