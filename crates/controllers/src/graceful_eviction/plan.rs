//! Decides when an eviction is over. Pure.
//!
//! As upstream, a task ends when a user allows it (`suppressDeletion: false`), when its grace
//! period has passed, or when the binding is scheduled and healthy on all its clusters. A task
//! whose deletion is suppressed waits for a user.
//!
//! While scheduling is suspended, a task whose replicas have no other place waits.
//!
//! Differs from Karmada (D26): an eviction is cancelled where the binding is placed on that cluster
//! again, and where the taints have gone before its replicas found another place. Then the replicas
//! stay, and do not wait for the end of a grace period without another place. Replicas that did
//! find another place stay there, and the old ones go when the new ones are well: nothing moves
//! only because a cluster recovered.

use ballast_api::karmada::work::v1alpha2::{AggregatedStatusItem, GracefulEvictionTask, ResourceHealth, TargetCluster};
use ballast_k8s::Time;

/// The state of the cluster that a task leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrigin {
    /// Its taints would evict the binding again.
    Hostile,
    /// It has no such taints any more.
    Friendly,
    Gone,
}

/// The parts of the binding that matter.
#[derive(Clone, Copy, Debug)]
pub struct EvictionState<'a> {
    pub tasks: &'a [GracefulEvictionTask],
    pub targets: &'a [TargetCluster],
    pub reports: &'a [AggregatedStatusItem],
    /// The scheduler has decided this version of the binding.
    pub is_scheduled: bool,
    /// All wanted replicas are placed. False where replicas are not divided.
    pub is_replaced: bool,
    /// Its scheduling is suspended, so no scheduler replaces what leaves.
    pub is_suspended: bool,
}

impl EvictionState<'_> {
    /// Whether the tasks wait, because nothing would replace what leaves.
    fn waits(&self) -> bool {
        self.is_suspended && !self.is_replaced
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// There is nothing left to wait for.
    Over,
    /// The binding stays on the cluster after all.
    Cancelled,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPlan {
    /// The tasks to write; `None` if nothing changes.
    pub tasks: Option<Vec<GracefulEvictionTask>>,
    /// The clusters whose tasks have ended.
    pub ended: Vec<(String, TaskEnd)>,
    /// When the next grace period ends.
    pub next_check: Option<Time>,
}

pub fn plan(
    leaving: EvictionState<'_>,
    grace_seconds: i64,
    origin: impl Fn(&str) -> EvictionOrigin,
    now: Time,
) -> TaskPlan {
    let mut plan = TaskPlan::default();
    let mut kept = Vec::with_capacity(leaving.tasks.len());
    for task in leaving.tasks {
        let mut task = task.clone();
        // A date in the future comes from a clock that has stepped back since. It would lengthen
        // the eviction.
        let began = task.creation_timestamp.unwrap_or(now).min(now);
        task.creation_timestamp = Some(began);
        let grace = task.grace_period_seconds.map_or(grace_seconds, i64::from);
        let due = began.plus_seconds(grace);
        match end(leaving, &task, origin(&task.from_cluster), due, now) {
            Some(end) => plan.ended.push((task.from_cluster, end)),
            None => {
                if task.suppress_deletion != Some(true) && !leaving.waits() {
                    plan.next_check = Some(plan.next_check.map_or(due, |other| other.min(due)));
                }
                kept.push(task);
            }
        }
    }
    plan.tasks = (kept != leaving.tasks).then_some(kept);
    plan
}

fn end(
    leaving: EvictionState<'_>,
    task: &GracefulEvictionTask,
    origin: EvictionOrigin,
    due: Time,
    now: Time,
) -> Option<TaskEnd> {
    let is_target = leaving.targets.iter().any(|target| target.name == task.from_cluster);
    if is_target || (task.is_by_taint() && origin == EvictionOrigin::Friendly && !leaving.is_replaced) {
        return Some(TaskEnd::Cancelled);
    }
    if origin == EvictionOrigin::Gone {
        return Some(TaskEnd::Over);
    }
    match task.suppress_deletion {
        Some(true) => return None,
        Some(false) => return Some(TaskEnd::Over),
        // Differs from Karmada (D87).
        None if leaving.waits() => return None,
        None => {}
    }
    let is_well = leaving.is_scheduled && leaving.targets.iter().all(|target| is_healthy(leaving.reports, target));
    (due <= now || is_well).then_some(TaskEnd::Over)
}

fn is_healthy(reports: &[AggregatedStatusItem], target: &TargetCluster) -> bool {
    let report = reports.iter().find(|report| report.cluster_name == target.name);
    report.is_some_and(|report| report.health == Some(ResourceHealth::Healthy))
}

#[cfg(test)]
mod tests {
    use super::super::super::eviction_task::APPLICATION_FAILURE;
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    fn task() -> GracefulEvictionTask {
        GracefulEvictionTask {
            from_cluster: "member1".to_owned(),
            creation_timestamp: Some(at(100)),
            ..GracefulEvictionTask::by_taint()
        }
    }

    fn on(cluster: &str) -> TargetCluster {
        TargetCluster { name: cluster.to_owned(), ..TargetCluster::default() }
    }

    fn report(cluster: &str, health: ResourceHealth) -> AggregatedStatusItem {
        AggregatedStatusItem {
            cluster_name: cluster.to_owned(),
            health: Some(health),
            ..AggregatedStatusItem::default()
        }
    }

    struct TestCase {
        task: GracefulEvictionTask,
        targets: Vec<TargetCluster>,
        reports: Vec<AggregatedStatusItem>,
        is_scheduled: bool,
        is_replaced: bool,
        is_suspended: bool,
        origin: EvictionOrigin,
    }

    impl Default for TestCase {
        /// Replaced on member2, which has not reported yet.
        fn default() -> TestCase {
            let (targets, reports) = (vec![on("member2")], Vec::new());
            TestCase {
                task: task(),
                targets,
                reports,
                is_scheduled: true,
                is_replaced: true,
                is_suspended: false,
                origin: EvictionOrigin::Hostile,
            }
        }
    }

    impl TestCase {
        fn plan(&self, now: i64) -> TaskPlan {
            let leaving = EvictionState {
                tasks: std::slice::from_ref(&self.task),
                targets: &self.targets,
                reports: &self.reports,
                is_scheduled: self.is_scheduled,
                is_replaced: self.is_replaced,
                is_suspended: self.is_suspended,
            };
            plan(leaving, 600, |_| self.origin, at(now))
        }

        fn end(&self, now: i64) -> Option<TaskEnd> {
            self.plan(now).ended.first().map(|(_, end)| *end)
        }
    }

    #[test]
    fn a_task_ends_with_its_grace_period() {
        let case = TestCase::default();
        assert_eq!(case.plan(699), TaskPlan { next_check: Some(at(700)), ..TaskPlan::default() });
        assert_eq!(case.end(700), Some(TaskEnd::Over));
        let short = TestCase { task: GracefulEvictionTask { grace_period_seconds: Some(30), ..task() }, ..case };
        assert_eq!((short.end(129), short.end(130)), (None, Some(TaskEnd::Over)));
    }

    #[test]
    fn a_task_ends_when_the_scheduled_result_is_healthy_everywhere() {
        let healthy = || vec![report("member2", ResourceHealth::Healthy)];
        assert_eq!(TestCase { reports: healthy(), ..TestCase::default() }.end(101), Some(TaskEnd::Over));
        assert_eq!(TestCase { reports: healthy(), is_scheduled: false, ..TestCase::default() }.end(101), None);
        let targets = vec![on("member2"), on("member3")];
        assert_eq!(TestCase { reports: healthy(), targets, ..TestCase::default() }.end(101), None);
        let unwell = vec![report("member2", ResourceHealth::Unhealthy)];
        assert_eq!(TestCase { reports: unwell, ..TestCase::default() }.end(101), None);
    }

    #[test]
    fn a_task_waits_while_scheduling_is_suspended_and_nothing_replaces_the_replicas() {
        let waiting = || TestCase { is_suspended: true, is_replaced: false, ..TestCase::default() };
        assert_eq!(waiting().plan(9_999), TaskPlan::default(), "also when its grace period is over");
        assert_eq!(TestCase { is_replaced: true, ..waiting() }.end(700), Some(TaskEnd::Over));
        assert_eq!(TestCase { origin: EvictionOrigin::Gone, ..waiting() }.end(101), Some(TaskEnd::Over));
    }

    #[test]
    fn a_suppressed_task_waits_for_a_person() {
        let suppressed = |suppress| GracefulEvictionTask { suppress_deletion: Some(suppress), ..task() };
        let reports = vec![report("member2", ResourceHealth::Healthy)];
        let case = TestCase { task: suppressed(true), reports, ..TestCase::default() };
        assert_eq!(case.plan(9_999), TaskPlan::default());
        assert_eq!(TestCase { task: suppressed(false), ..TestCase::default() }.end(101), Some(TaskEnd::Over));
    }

    #[test]
    fn a_task_is_cancelled_when_the_cluster_recovers_before_the_replicas_found_a_place() {
        let waiting =
            || TestCase { targets: Vec::new(), is_scheduled: false, is_replaced: false, ..TestCase::default() };
        assert_eq!(waiting().end(101), None);
        assert_eq!(TestCase { origin: EvictionOrigin::Friendly, ..waiting() }.end(101), Some(TaskEnd::Cancelled));
        assert_eq!(
            TestCase { origin: EvictionOrigin::Friendly, ..TestCase::default() }.end(101),
            None,
            "they have a place"
        );
        let failed = GracefulEvictionTask {
            producer: "resource-binding-application-failover-controller".to_owned(),
            reason: APPLICATION_FAILURE.to_owned(),
            ..task()
        };
        assert_eq!(
            TestCase { task: failed, origin: EvictionOrigin::Friendly, ..waiting() }.end(101),
            None,
            "taints say nothing"
        );
    }

    #[test]
    fn a_task_is_cancelled_when_the_binding_is_placed_there_again_and_ends_when_the_cluster_is_gone() {
        let back = TestCase { targets: vec![on("member1")], ..TestCase::default() };
        assert_eq!(back.end(101), Some(TaskEnd::Cancelled));
        assert_eq!(TestCase { origin: EvictionOrigin::Gone, ..TestCase::default() }.end(101), Some(TaskEnd::Over));
    }

    #[test]
    fn a_task_without_a_date_is_dated() {
        let case =
            TestCase { task: GracefulEvictionTask { creation_timestamp: None, ..task() }, ..TestCase::default() };
        let plan = case.plan(150);
        assert_eq!(plan.tasks.unwrap()[0].creation_timestamp, Some(at(150)));
        let stepped_back = TestCase::default().plan(50);
        assert_eq!(stepped_back.tasks.unwrap()[0].creation_timestamp, Some(at(50)), "the clock stepped back");
        assert_eq!(plan.next_check, Some(at(750)));
    }
}
