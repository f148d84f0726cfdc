//! Whether the member clusters report that a move has arrived. Pure.
//!
//! A move has settled when clusters report it (BD4). Only if no cluster reports anything about a
//! binding, its targets count.

/// The condition under which a move settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleLevel {
    /// The targets are written.
    Scheduled,
    /// All targets report that the object is applied.
    Applied,
    /// All targets report that the object is healthy, and as many ready replicas as assigned, if
    /// they report a number.
    Healthy,
}

/// The report of a cluster about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterReport<'a> {
    pub cluster: &'a str,
    pub applied: bool,
    /// `None`: unknown.
    pub healthy: Option<bool>,
    /// `None`: no number is reported.
    pub ready: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleState {
    /// It has settled. `observed`: clusters reported it.
    Settled { observed: bool },
    /// It has not settled. The message names the first cluster with a missing condition.
    Missing(String),
    /// All replicas exist, and a cluster reports the workload as unhealthy.
    Unhealthy(String),
}

/// Evaluates the targets, with the replicas assigned to each.
pub fn evaluate<'a>(
    level: SettleLevel,
    targets: impl IntoIterator<Item = (&'a str, i64)>,
    reports: &[ClusterReport<'_>],
) -> SettleState {
    if level == SettleLevel::Scheduled || reports.is_empty() {
        return SettleState::Settled { observed: !reports.is_empty() };
    }
    let mut unwell = None;
    for (cluster, assigned) in targets {
        let Some(report) = reports.iter().find(|report| report.cluster == cluster) else {
            return SettleState::Missing(format!("{cluster} reports nothing yet"));
        };
        if !report.applied {
            return SettleState::Missing(format!("{cluster} does not say that it is applied"));
        }
        if level == SettleLevel::Applied {
            continue;
        }
        if let Some(ready) = report.ready
            && ready < assigned
        {
            return SettleState::Missing(format!("{cluster} has {ready} of {assigned} replicas ready"));
        }
        match report.healthy {
            Some(true) => {}
            Some(false) => unwell = unwell.or_else(|| Some(format!("{cluster} says that it is unhealthy"))),
            None => return SettleState::Missing(format!("{cluster} does not say that it is healthy")),
        }
    }
    unwell.map_or(SettleState::Settled { observed: true }, SettleState::Unhealthy)
}

/// Returns the number of ready replicas on a cluster, as far as it reports. A cluster that reports
/// health and no number has all or none.
pub fn ready(cluster: &str, assigned: i64, reports: &[ClusterReport<'_>]) -> i64 {
    let Some(report) = reports.iter().find(|report| report.cluster == cluster) else { return 0 };
    match (report.ready, report.healthy) {
        (Some(ready), _) => ready.max(0),
        (None, Some(true)) if report.applied => assigned,
        (None, _) => 0,
    }
}

/// Returns the number of assigned replicas that may replace others: the ready ones, and none if the
/// cluster reports the workload as unhealthy although all of them are ready.
pub fn replacing(cluster: &str, assigned: i64, reports: &[ClusterReport<'_>]) -> i64 {
    let ready = ready(cluster, assigned, reports);
    let is_unhealthy = reports.iter().any(|report| report.cluster == cluster && report.healthy == Some(false));
    if is_unhealthy && ready >= assigned { 0 } else { ready }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(cluster: &str, applied: bool, healthy: Option<bool>, ready: Option<i64>) -> ClusterReport<'_> {
        ClusterReport { cluster, applied, healthy, ready }
    }

    #[test]
    fn what_is_not_applied_is_missing_however_well_it_looks() {
        let reports = [report("member1", false, Some(true), Some(2))];
        for level in [SettleLevel::Applied, SettleLevel::Healthy] {
            let state = evaluate(level, [("member1", 2)], &reports);
            assert_eq!(state, SettleState::Missing("member1 does not say that it is applied".to_owned()));
        }
    }

    #[test]
    fn replicas_of_an_unhealthy_workload_replace_no_others() {
        let replacing = |healthy, ready| replacing("m1", 4, &[report("m1", true, healthy, ready)]);
        assert_eq!(replacing(Some(false), Some(4)), 0);
        assert_eq!(replacing(Some(false), Some(3)), 3, "the missing replica is what is unhealthy");
        assert_eq!((replacing(Some(true), Some(4)), replacing(None, Some(4))), (4, 4));
        assert_eq!((replacing(Some(false), None), replacing(Some(true), None)), (0, 4));
    }

    #[test]
    fn each_depth_sees_more() {
        let targets = [("member1", 2), ("member2", 1)];
        let well = report("member1", true, Some(true), Some(2));
        let applied = [well.clone(), report("member2", true, None, None)];
        let short = [report("member1", true, Some(true), Some(1)), report("member2", true, Some(true), None)];
        let healthy = [well.clone(), report("member2", true, Some(true), None)];
        let half = [well];
        let is_settled = |level, reports: &[ClusterReport<'_>]| {
            evaluate(level, targets, reports) == SettleState::Settled { observed: true }
        };
        for (reports, expected) in [
            (&half[..], [true, false, false]),
            (&applied[..], [true, true, false]),
            (&short[..], [true, true, false]),
            (&healthy[..], [true, true, true]),
        ] {
            let seen = [SettleLevel::Scheduled, SettleLevel::Applied, SettleLevel::Healthy]
                .map(|level| is_settled(level, reports));
            assert_eq!(seen, expected, "{reports:?}");
        }
    }

    #[test]
    fn where_nobody_reports_the_targets_count_and_it_says_so() {
        for level in [SettleLevel::Scheduled, SettleLevel::Applied, SettleLevel::Healthy] {
            assert_eq!(evaluate(level, [("member1", 2)], &[]), SettleState::Settled { observed: false });
        }
    }

    #[test]
    fn what_is_missing_is_said_with_numbers() {
        let seen = evaluate(SettleLevel::Healthy, [("member1", 3)], &[report("member1", true, Some(false), Some(1))]);
        assert_eq!(seen, SettleState::Missing("member1 has 1 of 3 replicas ready".to_owned()));
        let unwell = [report("member1", true, Some(false), Some(3)), report("member2", true, None, None)];
        let seen = |targets: &[(&'static str, i64)]| evaluate(SettleLevel::Healthy, targets.iter().copied(), &unwell);
        assert_eq!(seen(&[("member1", 3)]), SettleState::Unhealthy("member1 says that it is unhealthy".to_owned()));
        let silent = SettleState::Missing("member2 does not say that it is healthy".to_owned());
        assert_eq!(seen(&[("member1", 3), ("member2", 1)]), silent);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_deeper_look_never_sees_more_settled(
            assigned in proptest::collection::vec(0..4i64, 0..4),
            reports in proptest::collection::vec((0..4usize, any::<bool>(), any::<Option<bool>>(), proptest::option::of(0..5i64)), 1..6),
        ) {
            let names = ["a", "b", "c", "d"];
            let targets: Vec<(&str, i64)> = names.into_iter().zip(assigned).collect();
            let reports: Vec<ClusterReport<'_>> =
                reports.into_iter().map(|(at, applied, healthy, ready)| report(names[at], applied, healthy, ready)).collect();
            let settled = |level| matches!(evaluate(level, targets.iter().copied(), &reports), SettleState::Settled { .. });
            prop_assert!(settled(SettleLevel::Scheduled));
            prop_assert!(settled(SettleLevel::Applied) || !settled(SettleLevel::Healthy));
        }
    }
}
