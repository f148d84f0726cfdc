//! Decides which clusters a workload must leave because it is unhealthy there. Pure.

use std::collections::BTreeMap;

use ballast_api::karmada::work::v1alpha2::{AggregatedStatusItem, GracefulEvictionTask, ResourceHealth, TargetCluster};
use ballast_k8s::Time;

/// Since when the workload is unhealthy, by cluster.
pub type Unhealthy = BTreeMap<String, Time>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationEvictionPlan {
    pub unhealthy: Unhealthy,
    /// The clusters to leave.
    pub leave: Vec<String>,
    /// When the next toleration runs out.
    pub next_check: Option<Time>,
}

/// A report of unknown health changes nothing: the recorded time stays.
pub fn plan(
    targets: &[TargetCluster],
    reports: &[AggregatedStatusItem],
    tasks: &[GracefulEvictionTask],
    known: &Unhealthy,
    toleration_seconds: i64,
    now: Time,
) -> ApplicationEvictionPlan {
    let mut plan = ApplicationEvictionPlan::default();
    for report in reports {
        let cluster = &report.cluster_name;
        let is_target = targets.iter().any(|target| target.name == *cluster);
        let is_leaving = tasks.iter().any(|task| task.from_cluster == *cluster);
        if !is_target || is_leaving {
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
