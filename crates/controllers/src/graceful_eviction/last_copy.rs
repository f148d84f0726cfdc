//! Computes the effect of ending an eviction: how much of the workload is ready elsewhere, and how
//! much may still run on the cluster that it leaves. Pure.
//!
//! The computation uses the reports of the clusters. If no cluster reports anything about the
//! workload, its targets count as ready (BD4). A cluster being left without a report may still run
//! everything that was there.

use std::collections::HashMap;

use ballast_api::karmada::work::v1alpha2::{AggregatedStatusItem, GracefulEvictionTask, ResourceHealth, TargetCluster};

/// The desired amount of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Number of replicas over all targets.
    Divided(i64),
    /// One copy on each target, with this many replicas; `None` if the object has no replicas.
    Copies(Option<i32>),
}

/// A workload that is being evicted from clusters.
#[derive(Clone, Copy, Debug)]
pub struct LeavingWorkload<'a> {
    pub wanted: Wanted,
    pub targets: &'a [TargetCluster],
    pub reports: &'a Reports<'a>,
}

/// The reports of a binding by cluster. If several are about one cluster, the first counts.
#[derive(Debug, Default)]
pub struct Reports<'a>(HashMap<&'a str, &'a AggregatedStatusItem>);

impl<'a> Reports<'a> {
    pub fn new(reports: &'a [AggregatedStatusItem]) -> Reports<'a> {
        Reports(reports.iter().rev().map(|report| (&*report.cluster_name, report)).collect())
    }
}

impl<'a> LeavingWorkload<'a> {
    /// Returns whether all desired replicas are placed. Always false if replicas are not divided.
    pub fn is_replaced(&self) -> bool {
        matches!(self.wanted, Wanted::Divided(wanted) if wanted > 0 && self.placed() >= wanted)
    }

    /// Returns the number of placed replicas.
    pub fn placed(&self) -> i64 {
        self.targets.iter().map(|target| i64::from(target.replicas.unwrap_or_default())).sum()
    }

    /// Returns the desired replicas that are not ready on any target, or 1 if no copy is whole.
    pub fn missing(&self) -> i64 {
        match self.wanted {
            Wanted::Divided(wanted) => {
                let ready: i64 = self.targets.iter().map(|target| self.ready_on(target)).sum();
                (wanted - ready).max(0)
            }
            Wanted::Copies(_) => {
                let is_whole = |target: &TargetCluster| self.ready_on(target) >= assigned(target);
                i64::from(!self.targets.iter().any(is_whole))
            }
        }
    }

    /// Returns the replicas that the workload would lack if it left the cluster of the task now.
    pub fn lost_with(&self, task: &GracefulEvictionTask) -> i64 {
        self.may_run(task).min(self.missing())
    }

    /// Returns the number of ready replicas on a target, or 1 for a ready object without replicas.
    /// Returns 0 if the application is unhealthy although its replicas are ready.
    ///
    /// Differs from Karmada (D133).
    pub fn ready_on(&self, target: &TargetCluster) -> i64 {
        let all = assigned(target);
        if self.reports.0.is_empty() {
            return all;
        }
        let Some(report) = self.report_of(&target.name) else { return 0 };
        if report.is_unwell(all) {
            return 0;
        }
        match (report.ready_replicas(), report.health) {
            (Some(ready), _) => ready.clamp(0, all),
            (None, Some(ResourceHealth::Healthy)) => all,
            // Kinds without replicas often have no health either.
            (None, _) if target.replicas.is_none() && report.applied == Some(true) => all,
            (None, _) => 0,
        }
    }

    /// Returns the replicas that may still run on the cluster of the task. Without a report, all
    /// may.
    fn may_run(&self, task: &GracefulEvictionTask) -> i64 {
        let had = self.had(task);
        let Some(report) = self.report_of(&task.from_cluster) else { return had };
        match (report.ready_replicas(), report.health) {
            (Some(ready), _) => ready.clamp(0, had),
            (None, Some(ResourceHealth::Unhealthy)) => 0,
            (None, _) => had,
        }
    }

    /// Returns the replicas that the cluster of the task had, or 1 for a copy.
    pub fn had(&self, task: &GracefulEvictionTask) -> i64 {
        match self.wanted {
            // A task that a user wrote may lack the number of replicas.
            Wanted::Divided(wanted) => task.replicas.map_or(wanted, i64::from).max(0),
            Wanted::Copies(_) => 1,
        }
    }

    /// Returns the ready replicas that the cluster of the task reports, or 1 for a whole copy.
    pub fn runs_there(&self, task: &GracefulEvictionTask) -> i64 {
        let Some(report) = self.report_of(&task.from_cluster) else { return 0 };
        let had = self.had(task);
        if report.is_unwell(task.replicas.map_or(had, i64::from)) {
            return 0;
        }
        let is_healthy = report.health == Some(ResourceHealth::Healthy);
        match (self.wanted, report.ready_replicas()) {
            (Wanted::Divided(_), Some(ready)) => ready.clamp(0, had),
            (Wanted::Copies(Some(replicas)), Some(ready)) => i64::from(ready >= i64::from(replicas)),
            _ => {
                if is_healthy {
                    had
                } else {
                    0
                }
            }
        }
    }

    pub fn report_of(&self, cluster: &str) -> Option<&'a AggregatedStatusItem> {
        self.reports.0.get(cluster).copied()
    }
}

/// Returns the replicas of a target, or 1 for an object without replicas.
fn assigned(target: &TargetCluster) -> i64 {
    target.replicas.map_or(1, |replicas| i64::from(replicas.max(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on(cluster: &str, replicas: Option<i32>) -> TargetCluster {
        TargetCluster { name: cluster.to_owned(), replicas, ..TargetCluster::default() }
    }

    fn report(cluster: &str, health: Option<ResourceHealth>, ready: Option<i64>) -> AggregatedStatusItem {
        AggregatedStatusItem {
            cluster_name: cluster.to_owned(),
            health,
            status: ready.map(|ready| (&json!({"replicas": 9, "readyReplicas": ready})).into()),
            ..AggregatedStatusItem::default()
        }
    }

    fn task(replicas: Option<i32>) -> GracefulEvictionTask {
        GracefulEvictionTask { from_cluster: "member1".to_owned(), replicas, ..GracefulEvictionTask::by_taint() }
    }

    fn lost(wanted: Wanted, targets: &[TargetCluster], reports: &[AggregatedStatusItem], left: Option<i32>) -> i64 {
        LeavingWorkload { wanted, targets, reports: &Reports::new(reports) }.lost_with(&task(left))
    }

    #[test]
    fn what_has_no_other_place_is_lost_and_what_is_ready_elsewhere_is_not() {
        let wanted = Wanted::Divided(4);
        assert_eq!(lost(wanted, &[], &[], Some(3)), 3, "no cluster reports, and nothing is placed");
        assert_eq!(lost(wanted, &[on("member2", Some(4))], &[], Some(3)), 0, "no cluster reports: targets count");
        let half = [report("member2", None, Some(2))];
        assert_eq!(lost(wanted, &[on("member2", Some(4))], &half, Some(3)), 2);
        let whole = [report("member2", None, Some(9))];
        assert_eq!(lost(wanted, &[on("member2", Some(4))], &whole, Some(3)), 0, "the number counts");
        assert_eq!(lost(wanted, &[on("member2", Some(3))], &whole, Some(3)), 1, "no more than is assigned");
        let unwell = |ready| [report("member2", Some(ResourceHealth::Unhealthy), Some(ready))];
        for (ready, missing) in [(4, 4), (9, 4), (3, 1), (0, 4)] {
            let seen = lost(wanted, &[on("member2", Some(4))], &unwell(ready), Some(4));
            assert_eq!(seen, missing, "{ready} of 4 ready, and not healthy");
        }
        let wordless = [report("member2", Some(ResourceHealth::Healthy), None)];
        assert_eq!(lost(wanted, &[on("member2", Some(4))], &wordless, Some(3)), 0);
        assert_eq!(lost(Wanted::Divided(0), &[], &[], Some(3)), 0, "nothing is wanted any more");
    }

    #[test]
    fn what_does_not_run_any_more_cannot_be_lost() {
        let wanted = Wanted::Divided(4);
        let down = [report("member1", Some(ResourceHealth::Unhealthy), None)];
        assert_eq!(lost(wanted, &[], &down, Some(4)), 0);
        let one = [report("member1", Some(ResourceHealth::Unhealthy), Some(1))];
        assert_eq!(lost(wanted, &[], &one, Some(4)), 1);
        let unknown = [report("member1", Some(ResourceHealth::Unknown), None)];
        assert_eq!(lost(wanted, &[], &unknown, Some(4)), 4);
        assert_eq!(lost(wanted, &[], &unknown, None), 4, "a user's task says no number");
    }

    #[test]
    fn a_copy_is_the_last_one_while_no_other_is_whole() {
        let wanted = Wanted::Copies(Some(2));
        let others = [on("member2", Some(2)), on("member3", Some(2))];
        let none = [report("member2", Some(ResourceHealth::Unhealthy), None), report("member3", None, Some(1))];
        assert_eq!(lost(wanted, &others, &none, Some(2)), 1);
        assert_eq!(lost(wanted, &others, &[report("member3", None, Some(2))], Some(2)), 0);
        let object = [on("member2", None)];
        let applied = |applied| AggregatedStatusItem { applied: Some(applied), ..report("member2", None, None) };
        assert_eq!(lost(Wanted::Copies(None), &object, &[applied(false)], None), 1);
        assert_eq!(lost(Wanted::Copies(None), &object, &[applied(true)], None), 0);
    }
}
