//! Decides which clusters a workload must leave because it is unhealthy there, and when the next
//! attempt may begin. Pure.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use ballast_api::karmada::work::v1alpha2::{AggregatedStatusItem, GracefulEvictionTask, ResourceHealth, TargetCluster};
use ballast_k8s::Time;

/// The annotation that counts the evictions of an unhealthy workload. Its value is an `Attempts`.
/// It is written together with the eviction, so that the count survives a restart (RM26).
pub const ATTEMPTS: &str = "ballast.dev/application-failover";

/// The wait after the first attempt. It doubles with each further attempt.
const WAIT_FIRST_SECONDS: i64 = 60;
const WAIT_MAX_SECONDS: i64 = 30 * 60;
/// A workload that has run for this long after an attempt starts again at zero, as the kubelet's
/// backoff does after twice the maximum wait.
const FORGOTTEN_AFTER_SECONDS: i64 = 2 * WAIT_MAX_SECONDS;

/// The number of consecutive evictions of an unhealthy workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    pub count: u32,
    pub last: Time,
}

impl Attempts {
    /// Parses the value of the annotation. An invalid value counts as no attempts.
    pub fn read(annotation: Option<&str>) -> Option<Attempts> {
        annotation.and_then(|text| serde_json::from_str(text).ok())
    }

    /// Returns the time of the next attempt: 1, 2, 4 … minutes after the last one, at most 30.
    pub fn next_from(self, now: Time) -> Time {
        let doublings = self.count.saturating_sub(1).min(16);
        // A timestamp in the future comes from a clock that was set back.
        self.last.min(now).plus_seconds((WAIT_FIRST_SECONDS << doublings).min(WAIT_MAX_SECONDS))
    }

    /// Returns the attempts including one that begins now.
    pub fn and_now(known: Option<Attempts>, now: Time) -> Attempts {
        let recent = known.filter(|known| now < known.last.min(now).plus_seconds(FORGOTTEN_AFTER_SECONDS));
        Attempts { count: recent.map_or(0, |known| known.count).saturating_add(1), last: now }
    }
}

/// The time since when the workload is unhealthy, by cluster.
pub type Unhealthy = BTreeMap<String, Time>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationEvictionPlan {
    pub unhealthy: Unhealthy,
    /// The clusters to leave.
    pub leave: Vec<String>,
    /// The time at which the next toleration expires.
    pub next_check: Option<Time>,
}

/// Computes the plan. A report of unknown health changes nothing: the recorded time stays.
pub fn plan(
    targets: &[TargetCluster],
    reports: &[AggregatedStatusItem],
    tasks: &[GracefulEvictionTask],
    known: &Unhealthy,
    toleration_seconds: i64,
    now: Time,
) -> ApplicationEvictionPlan {
    let mut plan = ApplicationEvictionPlan::default();
    let targets: HashSet<&str> = targets.iter().map(|target| &*target.name).collect();
    let leaving: HashSet<&str> = tasks.iter().map(|task| &*task.from_cluster).collect();
    for report in reports {
        let cluster = &report.cluster_name;
        if !targets.contains(&**cluster) || leaving.contains(&**cluster) {
            continue;
        }
        let since = match (report.health, known.get(cluster)) {
            (Some(ResourceHealth::Unhealthy), since) => since.copied().unwrap_or(now).min(now),
            (Some(ResourceHealth::Healthy), _) | (_, None) => continue,
            (_, Some(since)) => {
                plan.unhealthy.insert(cluster.clone(), *since);
                continue;
            }
        };
        plan.unhealthy.insert(cluster.clone(), since);
        let due = since.plus_seconds(toleration_seconds);
        if due <= now {
            plan.leave.push(cluster.clone());
        } else {
            plan.next_check = Some(plan.next_check.map_or(due, |other| other.min(due)));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    fn reported(health: ResourceHealth) -> [AggregatedStatusItem; 1] {
        [AggregatedStatusItem {
            cluster_name: "member1".to_owned(),
            health: Some(health),
            ..AggregatedStatusItem::default()
        }]
    }

    fn plan_at(health: ResourceHealth, known: &Unhealthy, now: i64) -> ApplicationEvictionPlan {
        let target = TargetCluster { name: "member1".to_owned(), ..TargetCluster::default() };
        plan(&[target], &reported(health), &[], known, 300, at(now))
    }

    #[test]
    fn a_workload_leaves_when_it_was_unhealthy_for_as_long_as_is_tolerated() {
        let noticed = plan_at(ResourceHealth::Unhealthy, &Unhealthy::new(), 100);
        assert_eq!(noticed.unhealthy, Unhealthy::from([("member1".to_owned(), at(100))]));
        assert_eq!((noticed.leave.len(), noticed.next_check), (0, Some(at(400))));
        assert_eq!(plan_at(ResourceHealth::Unhealthy, &noticed.unhealthy, 399).leave.len(), 0);
        assert_eq!(plan_at(ResourceHealth::Unhealthy, &noticed.unhealthy, 400).leave, ["member1"]);
    }

    #[test]
    fn rm26_attempts_wait_longer_each_time_up_to_half_an_hour() {
        let mut attempts = None;
        let mut now = at(1_000);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let next = Attempts::and_now(attempts, now);
            waits.push((next.next_from(now).seconds() - now.seconds()) / 60);
            now = next.next_from(now);
            attempts = Some(next);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        let written = serde_json::to_string(&attempts.unwrap()).unwrap();
        assert_eq!(Attempts::read(Some(&written)), attempts);
        assert_eq!((Attempts::read(Some("often")), Attempts::read(None)), (None, None));
        assert_eq!(Attempts::and_now(attempts, now.plus_seconds(3_600)).count, 1, "it ran well for an hour");
        let ahead = Attempts { count: 1, last: at(9_000) };
        assert_eq!(ahead.next_from(at(100)), at(160), "the clock stepped back");
    }

    #[test]
    fn one_that_is_well_again_starts_anew_and_an_unknown_state_changes_nothing() {
        let known = Unhealthy::from([("member1".to_owned(), at(100))]);
        assert_eq!(plan_at(ResourceHealth::Healthy, &known, 200), ApplicationEvictionPlan::default());
        let unknown = plan_at(ResourceHealth::Unknown, &known, 999);
        assert_eq!((unknown.unhealthy, unknown.leave.len()), (known, 0));
    }

    #[test]
    fn a_cluster_that_is_left_already_or_no_target_is_not_left_again() {
        let known = Unhealthy::from([("member1".to_owned(), at(100))]);
        let reports = reported(ResourceHealth::Unhealthy);
        assert_eq!(plan(&[], &reports, &[], &known, 0, at(999)), ApplicationEvictionPlan::default());
        let target = TargetCluster { name: "member1".to_owned(), ..TargetCluster::default() };
        let task = GracefulEvictionTask { from_cluster: "member1".to_owned(), ..GracefulEvictionTask::default() };
        assert_eq!(plan(&[target], &reports, &[task], &known, 0, at(999)), ApplicationEvictionPlan::default());
    }
}
