//! The next targets of a surging move: reads the counts for `surge_step` from a binding, and
//! returns the result as targets. Pure.
//!
//! Divided replicas are counted one by one. A workload that runs as a whole on each of its clusters
//! (Duplicated, or without replicas) moves cluster by cluster: a cluster counts as one, and is
//! ready when the whole workload is.
//!
//! A step adds no more replicas than the bounds of the rollout allow (`maxMovingReplicas`,
//! `maxIncomingPerCluster`), so that a move that is larger than a bound takes several steps. A
//! whole that is larger than a bound cannot be split: it is added alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::settle::{self, ClusterReport, SettleLevel, SettleState};
use super::surge_step::{self, ClusterReplicas, SurgeBounds, SurgeStep};
use ballast_api::ballast::v1alpha1::{Rollout, Share};
use ballast_engine::karmada::{Division, Request, Target};
use ballast_quota as quota;

pub enum NextTargets {
    To(Vec<Target>),
    Wait,
    /// No step is possible, with the reason.
    NoRoom(String),
}

/// The headroom of the quotas for the binding, in units of `surge_step`. `None`: no quota limits
/// it.
pub type QuotaLeft = Option<quota::Headroom>;

/// Returns the replicas of one unit of `surge_step`: the whole workload, or one replica.
pub fn counted_as_one(request: &Request) -> i32 {
    if is_whole(request) { request.replicas } else { 1 }
}

/// Returns the next targets of a move from `from` to `to`. `room` returns the number of additional
/// replicas that fit on a cluster. Its second argument is the number of replicas of this move that
/// the ledger already counts there, although they are not assigned.
pub fn next_targets(
    rollout: &Rollout,
    from: &[Share],
    to: &[Share],
    request: &Request,
    reports: &[ClusterReport<'_>],
    left: QuotaLeft,
    mut room: impl FnMut(&str, i64) -> i64,
) -> NextTargets {
    let is_whole = is_whole(request);
    let mut by_name: BTreeMap<&str, [i64; 3]> = BTreeMap::new();
    let present = request.targets.iter().map(|target| (&*target.name, i64::from(target.replicas)));
    let number = |replicas: i64| if is_whole { 1 } else { replicas };
    for (name, was) in named(from) {
        by_name.entry(name).or_default()[0] = number(was);
    }
    for (name, assigned) in present {
        by_name.entry(name).or_default()[1] = number(assigned);
    }
    for (name, wanted) in named(to) {
        by_name.entry(name).or_default()[2] = number(wanted);
    }
    // The bounds in units of `surge_step`.
    let bound = |most: Option<i64>| match most {
        None => i64::MAX,
        Some(most) if is_whole => (most / i64::from(request.replicas).max(1)).max(1),
        Some(most) => most,
    };
    let mut cluster = |(name, [was, assigned, wanted]): (&&str, &[i64; 3])| {
        let rise = (wanted - assigned).max(0);
        let room = match rise {
            0 => 0,
            _ if is_whole => i64::MAX,
            rise => room(name, rise),
        };
        let ready = match is_whole {
            true => i64::from(is_there(name, request, reports)),
            false if *wanted > *was => settle::replacing(name, *assigned, reports),
            false => settle::ready(name, *assigned, reports),
        };
        let cluster = ClusterReplicas { was: *was, assigned: *assigned, wanted: *wanted, ready, room };
        let left = bound(rollout.max_incoming_per_cluster).saturating_sub(cluster.in_flight());
        ClusterReplicas { room: room.min(left), ..cluster }
    };
    let clusters: Vec<ClusterReplicas> = by_name.iter().map(&mut cluster).collect();
    let total: i64 = clusters.iter().map(|cluster| cluster.wanted).sum();
    let assigned: i64 = clusters.iter().map(|cluster| cluster.assigned).sum();
    let most = left.as_ref().map_or(i64::MAX, |left| assigned.saturating_add(left.copies));
    let in_flight: i64 = clusters.iter().map(ClusterReplicas::in_flight).sum();
    let arriving = bound(rollout.max_moving_replicas).saturating_sub(in_flight).max(0);
    let bounds = SurgeBounds { floor: rollout.floor(total).min(total), surge: rollout.surge(total), most, arriving };
    match surge_step::next_step(&clusters, bounds) {
        SurgeStep::To(next) => {
            let counted = by_name.keys().zip(next).filter(|(_, count)| *count > 0);
            let target = |(name, count): (&&str, i64)| target(name, count, is_whole, to, &request.targets);
            NextTargets::To(counted.map(target).collect())
        }
        SurgeStep::Wait | SurgeStep::Arrived => NextTargets::Wait,
        SurgeStep::NoRoom => {
            let missing: i64 = clusters.iter().map(|cluster| (cluster.wanted - cluster.assigned).max(0)).sum();
            let what = if is_whole { "clusters" } else { "replicas" };
            let by_quota = left.filter(|_| bounds.is_by_quota(&clusters));
            let of_quota = by_quota.map(|left| format!("; {} leaves room for {} more", left.quota, left.copies));
            NextTargets::NoRoom(format!(
                "no step fits: {missing} {what} have still to come, where there is room for {}, with at least {} ready \
                 and at most {} beyond {total}{}",
                clusters
                    .iter()
                    .filter(|cluster| cluster.wanted > cluster.assigned)
                    .map(|cluster| cluster.room.max(0))
                    .sum::<i64>(),
                bounds.floor,
                bounds.surge,
                of_quota.unwrap_or_default(),
            ))
        }
    }
}

/// Returns the present targets without the new replicas that are not ready. `None`: there are none,
/// or the old replicas do not replace all of them.
pub fn rollback_targets(from: &[Share], request: &Request, reports: &[ClusterReport<'_>]) -> Option<Vec<Target>> {
    if is_whole(request) {
        return None;
    }
    let was = |name: &str| named(from).find(|(known, _)| *known == name).map_or(0, |(_, was)| was);
    let back = request.targets.iter().map(|target| {
        let assigned = i64::from(target.replicas);
        let ready = settle::replacing(&target.name, assigned, reports).min(assigned);
        let kept = if assigned > was(&target.name) { ready.max(was(&target.name)) } else { assigned };
        Target { replicas: i32::try_from(kept).unwrap_or(i32::MAX), ..target.clone() }
    });
    let back: Vec<Target> = back.filter(|target| target.replicas > 0).collect();
    let sum = |targets: &[Target]| targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>();
    let surplus = sum(&request.targets) - i64::from(request.replicas);
    (surplus > 0 && sum(&back) == i64::from(request.replicas)).then_some(back)
}

fn is_whole(request: &Request) -> bool {
    let is_duplicated = request.placement.as_ref().is_none_or(|placement| placement.division == Division::Duplicated);
    is_duplicated || request.replicas <= 0 || request.components.len() > 1
}

/// Returns whether the whole workload is ready on a cluster.
fn is_there(name: &str, request: &Request, reports: &[ClusterReport<'_>]) -> bool {
    let assigned = i64::from(request.replicas);
    matches!(
        settle::evaluate(SettleLevel::Healthy, [(name, assigned)], reports),
        SettleState::Settled { observed: true }
    )
}

fn target(name: &str, count: i64, is_whole: bool, to: &[Share], present: &[Target]) -> Target {
    let known = present.iter().find(|target| *target.name == *name);
    let wanted = to.iter().find(|share| share.name == name).map(|share| share.replicas);
    let replicas = match is_whole {
        true => wanted.or(known.map(|target| target.replicas)).unwrap_or_default(),
        false => i32::try_from(count).unwrap_or(i32::MAX),
    };
    let components = known.or(present.first()).map(|target| target.components.clone()).unwrap_or_default();
    Target { name: Arc::from(name), replicas, components }
}

fn named(shares: &[Share]) -> impl Iterator<Item = (&str, i64)> {
    shares.iter().map(|share| (share.name.as_str(), i64::from(share.replicas)))
}

#[cfg(test)]
mod tests {
    use ballast_engine::karmada::{Component, Placement, Shared};

    use super::*;

    const ON_ONE: fn(i32) -> Vec<Target> =
        |replicas| vec![Target { name: "m1".into(), replicas, components: Vec::new() }];

    fn request(division: Division, replicas: i32, components: usize) -> Request {
        let component = |number| Component { name: format!("c{number}").into(), replicas: 1, requirements: None };
        Request {
            placement: Some(Shared::new(Placement { division, ..Placement::default() })),
            replicas,
            components: (0..components).map(component).collect(),
            targets: ON_ONE(replicas),
            ..Request::default()
        }
    }

    /// Returns the first step of a surging move between two clusters; the target has capacity for
    /// one replica.
    fn first_step(request: &Request) -> Vec<(String, i32)> {
        let share = |name: &str| [Share { name: name.to_owned(), replicas: request.replicas }];
        let ready = Some(i64::from(request.replicas));
        let reports = [ClusterReport { cluster: "m1", applied: true, healthy: Some(true), ready }];
        match next_targets(&Rollout::default(), &share("m1"), &share("m2"), request, &reports, None, |_, _| 1) {
            NextTargets::To(targets) => targets.iter().map(|it| (it.name.to_string(), it.replicas)).collect(),
            NextTargets::Wait => vec![("waits".to_owned(), 0)],
            NextTargets::NoRoom(why) => vec![(why, 0)],
        }
    }

    #[test]
    fn replicas_that_are_divided_surge_into_the_room_that_is_there() {
        let step = first_step(&request(Division::Dynamic, 4, 0));
        assert_eq!(step, [("m1".to_owned(), 4), ("m2".to_owned(), 1)]);
        // A single component is a workload like any other.
        assert_eq!(first_step(&request(Division::Aggregated, 4, 1)), step);
    }

    /// Returns the steps of a surging move of four replicas to one cluster; each is ready before
    /// the next step.
    fn steps(rollout: &Rollout, division: Division) -> Vec<Vec<i32>> {
        let (from, to) =
            ([Share { name: "m1".to_owned(), replicas: 4 }], [Share { name: "m2".to_owned(), replicas: 4 }]);
        let mut request = request(division, 4, 0);
        let mut steps = Vec::new();
        loop {
            let report = |target: &Target| (target.name.clone(), i64::from(target.replicas));
            let ready: Vec<_> = request.targets.iter().map(report).collect();
            let report = |(cluster, ready): &'_ (Arc<str>, i64)| (cluster.to_string(), *ready);
            let ready: Vec<_> = ready.iter().map(report).collect();
            let reports: Vec<_> = ready
                .iter()
                .map(|(cluster, ready)| ClusterReport {
                    cluster,
                    applied: true,
                    healthy: Some(true),
                    ready: Some(*ready),
                })
                .collect();
            match next_targets(rollout, &from, &to, &request, &reports, None, |_, _| 9) {
                NextTargets::To(targets) => request.targets = targets,
                NextTargets::Wait => return steps,
                NextTargets::NoRoom(why) => panic!("{why}"),
            }
            steps.push(request.targets.iter().map(|target| target.replicas).collect());
        }
    }

    #[test]
    fn a_move_larger_than_a_bound_goes_in_steps_within_it() {
        let incoming = Rollout { max_incoming_per_cluster: Some(2), ..Rollout::default() };
        let moving = Rollout { max_moving_replicas: Some(2), ..Rollout::default() };
        for rollout in [incoming, moving] {
            let split = steps(&rollout, Division::Dynamic);
            assert_eq!(split, [vec![4, 2], vec![2, 4], vec![4]], "{rollout:?}");
            assert_eq!(steps(&rollout, Division::Duplicated), [vec![4, 4], vec![4]], "a whole is not split");
        }
        assert_eq!(steps(&Rollout::default(), Division::Dynamic), [vec![4, 4], vec![4]]);
    }

    #[test]
    fn no_step_begins_while_the_bound_is_used() {
        let rollout = Rollout { max_incoming_per_cluster: Some(1), ..Rollout::default() };
        let share = |name: &str, replicas| Share { name: name.to_owned(), replicas };
        let mut request = request(Division::Dynamic, 4, 0);
        request.targets.push(Target { name: "m2".into(), replicas: 1, components: Vec::new() });
        let report = |cluster, ready| ClusterReport { cluster, applied: true, healthy: Some(true), ready: Some(ready) };
        let next = |ready| {
            let reports = [report("m1", 4), report("m2", ready)];
            next_targets(&rollout, &[share("m1", 4)], &[share("m2", 4)], &request, &reports, None, |_, _| 9)
        };
        assert!(matches!(next(0), NextTargets::Wait));
        let NextTargets::To(targets) = next(1) else { panic!("there is a next step") };
        assert_eq!(targets.iter().map(|target| target.replicas).collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn a_copy_a_set_of_components_and_what_has_no_replicas_surge_as_a_whole() {
        for (division, replicas, components) in
            [(Division::Duplicated, 4, 0), (Division::Dynamic, 4, 2), (Division::Dynamic, 0, 0)]
        {
            let request = request(division.clone(), replicas, components);
            let whole = [("m1".to_owned(), replicas), ("m2".to_owned(), replicas)];
            assert_eq!(first_step(&request), whole, "{division:?} {replicas} {components}");
            assert_eq!(counted_as_one(&request), replicas);
            let share = [Share { name: "m1".to_owned(), replicas }];
            assert!(
                rollback_targets(&share, &request, &[]).is_none(),
                "{division:?}: a whole is not taken back in parts"
            );
        }
    }
}
