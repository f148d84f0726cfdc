//! Decides when an eviction is over. Pure.
//!
//! As upstream, a task ends when a user allows it (`suppressDeletion: false`), when its grace
//! period has passed, or when the binding is scheduled and healthy on all its clusters. A task
//! with `suppressDeletion: true` waits for a user.
//!
//! While scheduling is suspended, a task without replacements waits (D87).
//!
//! Differs from Karmada (D120): an eviction does not end while the workload would have fewer ready
//! replicas than before, because the replacements are not placed or not ready (RM20, `last_copy`).
//! The task then stays beyond its grace period. `LastCopy::Leaves` selects upstream's behavior.
//!
//! Differs from Karmada (D26): an eviction is cancelled if the binding is placed on the cluster
//! again, or if the reason of the eviction has ended before the replicas were placed elsewhere.
//! Replicas that were placed elsewhere stay there, and the old ones are removed when the new ones
//! are healthy: nothing moves only because a cluster recovered. But if the old replicas are ready
//! and the new ones are not, the old ones stay and the surplus is removed (RM24).
//!
//! *Invariant:* a cancelled task and its target change together (RM23). At no revision does the
//! cluster have neither, so no agent removes the workload.

use super::last_copy::{LeavingWorkload, Wanted};
use crate::LastCopy;
use crate::eviction_task::APPLICATION_FAILURE;
use ballast_api::karmada::work::v1alpha2::{GracefulEvictionTask, ResourceHealth, TargetCluster};
use ballast_k8s::Time;

/// Maximum number of clusters that a message names. There may be thousands.
const CLUSTERS_TOLD_MAX: usize = 5;

/// The state of the cluster that a task leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrigin {
    /// The taints of the cluster would evict the binding again.
    Hostile,
    /// The cluster has no such taints any more.
    Friendly,
    /// The cluster has no such taints and is not reported as unready.
    Well,
    /// The cluster is being deleted.
    Deleting,
    Gone,
}

/// The relevant parts of the binding.
#[derive(Clone, Copy, Debug)]
pub struct EvictionState<'a> {
    pub tasks: &'a [GracefulEvictionTask],
    pub workload: LeavingWorkload<'a>,
    /// Whether the scheduler has decided this version of the binding.
    pub is_scheduled: bool,
    /// Whether scheduling is suspended, so that no scheduler replaces evicted replicas.
    pub is_suspended: bool,
}

/// Rules for ending tasks.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRules {
    /// The grace period of tasks that do not specify one.
    pub grace_seconds: i64,
    pub last_copy: LastCopy,
    /// Whether tasks wait while scheduling is suspended and the replicas are not replaced.
    pub holds_suspended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// The task is complete. The workload leaves, and lacks this many replicas or copies from now
    /// on.
    Over { lost: i64 },
    /// The binding is placed on the cluster again.
    Placed,
    /// The workload stays on the cluster with this many replicas; `None` for a whole copy.
    CalledOff { replicas: Option<i32> },
}

/// Copies that are kept beyond their grace period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCopies {
    /// CamelCase reason of the condition.
    pub reason: &'static str,
    /// For example `3 replicas have no other place; kept on member1`.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskPlan {
    /// The tasks to write; `None` if nothing changes.
    pub tasks: Option<Vec<GracefulEvictionTask>>,
    /// The targets to write with them; `None` if nothing changes.
    pub targets: Option<Vec<TargetCluster>>,
    /// The clusters of the ended tasks.
    pub ended: Vec<(String, TaskEnd)>,
    /// Copies that are kept although their grace period is over.
    pub kept: Option<KeptCopies>,
    /// The time at which the next period ends.
    pub next_check: Option<Time>,
}

/// Computes the plan. `admits` returns whether the scheduler would keep the workload on these
/// targets.
pub fn plan(
    leaving: EvictionState<'_>,
    rules: EvictionRules,
    origin: impl Fn(&str) -> EvictionOrigin,
    mut admits: impl FnMut(&[TargetCluster]) -> bool,
    now: Time,
) -> TaskPlan {
    let mut plan = TaskPlan::default();
    let mut kept = Vec::with_capacity(leaving.tasks.len());
    let mut targets = leaving.workload.targets.to_vec();
    let mut overdue = Vec::new();
    for task in leaving.tasks {
        let mut task = task.clone();
        // A time in the future comes from a clock that was set back. It would lengthen the
        // eviction.
        let began = task.creation_timestamp.unwrap_or(now).min(now);
        task.creation_timestamp = Some(began);
        let workload = LeavingWorkload { targets: &targets, ..leaving.workload };
        let origin = origin(&task.from_cluster);
        let proposals = returns(&workload, leaving.tasks, &task, origin, rules.last_copy);
        if let Some(back) = proposals.into_iter().find(|targets| admits(targets)) {
            let replicas =
                back.iter().find(|target| target.name == task.from_cluster).and_then(|target| target.replicas);
            plan.ended.push((task.from_cluster, TaskEnd::CalledOff { replicas }));
            targets = back;
            continue;
        }
        let grace = task.grace_period_seconds.map_or(rules.grace_seconds, i64::from);
        let due = began.plus_seconds(grace);
        match stage(leaving, &workload, &task, origin, due, rules.last_copy, now) {
            TaskStage::Ended(end) => plan.ended.push((task.from_cluster, end)),
            TaskStage::Waits { until, is_overdue } => {
                if let Some(until) = until {
                    plan.next_check = Some(plan.next_check.map_or(until, |other| other.min(until)));
                }
                overdue.extend(is_overdue.then(|| task.clone()));
                kept.push(task);
            }
        }
    }
    let workload = LeavingWorkload { targets: &targets, ..leaving.workload };
    plan.kept = kept_copies(&workload, &overdue);
    plan.targets = (targets != leaving.workload.targets).then_some(targets);
    plan.tasks = (kept != leaving.tasks).then_some(kept);
    plan
}

enum TaskStage {
    Ended(TaskEnd),
    Waits {
        /// The time of the next check if nothing changes.
        until: Option<Time>,
        /// The task stays beyond its grace period, because replicas would be lost.
        is_overdue: bool,
    },
}

fn stage(
    leaving: EvictionState<'_>,
    workload: &LeavingWorkload<'_>,
    task: &GracefulEvictionTask,
    origin: EvictionOrigin,
    due: Time,
    last_copy: LastCopy,
    now: Time,
) -> TaskStage {
    if workload.targets.iter().any(|target| target.name == task.from_cluster) {
        return TaskStage::Ended(TaskEnd::Placed);
    }
    let lost = workload.lost_with(task);
    let over = TaskStage::Ended(TaskEnd::Over { lost });
    if origin == EvictionOrigin::Gone {
        // The workload is lost with the cluster, and not by the end of the task.
        return TaskStage::Ended(TaskEnd::Over { lost: 0 });
    }
    match task.suppress_deletion {
        Some(true) => return TaskStage::Waits { until: None, is_overdue: false },
        Some(false) => return over,
        // Differs from Karmada (D87).
        None if leaving.is_suspended && !workload.is_replaced() => {
            return TaskStage::Waits { until: None, is_overdue: false };
        }
        None => {}
    }
    let most = match last_copy {
        LastCopy::Stays { at_most_seconds } if origin != EvictionOrigin::Deleting && lost > 0 => Some(at_most_seconds),
        _ => None,
    };
    let is_healthy = |target: &TargetCluster| {
        workload.report_of(&target.name).is_some_and(|report| report.health == Some(ResourceHealth::Healthy))
    };
    let ends_early = lost == 0 || last_copy == LastCopy::Leaves;
    if ends_early && leaving.is_scheduled && workload.targets.iter().all(is_healthy) {
        return over;
    }
    if now < due {
        return TaskStage::Waits { until: Some(due), is_overdue: false };
    }
    match most {
        None => over,
        Some(None) => TaskStage::Waits { until: None, is_overdue: true },
        Some(Some(seconds)) => {
            let end = due.plus_seconds(seconds);
            if end <= now { over } else { TaskStage::Waits { until: Some(end), is_overdue: true } }
        }
    }
}

/// Returns the possible targets if the workload stays on the cluster of the task, best first. Empty
/// if it leaves.
fn returns(
    workload: &LeavingWorkload<'_>,
    tasks: &[GracefulEvictionTask],
    task: &GracefulEvictionTask,
    origin: EvictionOrigin,
    last_copy: LastCopy,
) -> Vec<Vec<TargetCluster>> {
    if !matches!(origin, EvictionOrigin::Friendly | EvictionOrigin::Well)
        || task.suppress_deletion == Some(false)
        || workload.targets.iter().any(|target| target.name == task.from_cluster)
    {
        return Vec::new();
    }
    let is_healthy_there =
        || workload.report_of(&task.from_cluster).is_some_and(|report| report.health == Some(ResourceHealth::Healthy));
    let has_ended = match &*task.reason {
        _ if task.is_by_taint() => true,
        // Upstream continues such an eviction.
        APPLICATION_FAILURE => last_copy != LastCopy::Leaves && is_healthy_there(),
        _ => false,
    };
    if !has_ended {
        return Vec::new();
    }
    let mut proposals = Vec::new();
    if !workload.is_replaced() {
        proposals.extend(added(workload, task));
    }
    let runs_there = workload.runs_there(task).min(workload.missing());
    if last_copy != LastCopy::Leaves && origin == EvictionOrigin::Well && runs_there > 0 {
        proposals.extend(exchanged(workload, tasks, task, runs_there));
    }
    proposals
}

/// Returns the targets, with the missing replicas added on the cluster of the task.
fn added(workload: &LeavingWorkload<'_>, task: &GracefulEvictionTask) -> Option<Vec<TargetCluster>> {
    let replicas = match workload.wanted {
        Wanted::Divided(wanted) => {
            let back = workload.had(task).min(wanted - workload.placed());
            Some(i32::try_from(back).ok().filter(|&back| back > 0)?)
        }
        Wanted::Copies(replicas) => replicas,
    };
    Some(with(workload.targets.to_vec(), &task.from_cluster, replicas))
}

/// Returns the targets with `back` replicas on the cluster of the task instead of as many that are
/// not ready. Copies that are not whole are removed. A cluster that keeps its workload by a
/// cancelled task gives up none.
fn exchanged(
    workload: &LeavingWorkload<'_>,
    tasks: &[GracefulEvictionTask],
    task: &GracefulEvictionTask,
    back: i64,
) -> Option<Vec<TargetCluster>> {
    let has_stayed = |target: &TargetCluster| tasks.iter().any(|task| task.from_cluster == target.name);
    let mut targets = workload.targets.to_vec();
    if let Wanted::Copies(replicas) = workload.wanted {
        targets.retain(has_stayed);
        return Some(with(targets, &task.from_cluster, replicas));
    }
    let surplus = |target: &TargetCluster| {
        let all = i64::from(target.replicas.unwrap_or_default());
        if has_stayed(target) { 0 } else { all - workload.ready_on(target).min(all) }
    };
    // The cluster with the most unready replicas gives them up first.
    let mut order: Vec<(i64, usize)> = targets.iter().enumerate().map(|(at, target)| (surplus(target), at)).collect();
    order.sort_by_key(|(surplus, at)| (std::cmp::Reverse(*surplus), *at));
    let mut given = 0;
    for (surplus, at) in order {
        let gives = surplus.min(back - given);
        given += gives;
        let left = i64::from(targets[at].replicas.unwrap_or_default()) - gives;
        targets[at].replicas = i32::try_from(left).ok();
    }
    targets.retain(|target| target.replicas.is_none_or(|replicas| replicas > 0));
    let given = i32::try_from(given).ok().filter(|&given| given > 0)?;
    Some(with(targets, &task.from_cluster, Some(given)))
}

/// Returns the targets and this one, sorted by name as the scheduler writes them.
fn with(mut targets: Vec<TargetCluster>, cluster: &str, replicas: Option<i32>) -> Vec<TargetCluster> {
    targets.push(TargetCluster { name: cluster.to_owned(), replicas, ..TargetCluster::default() });
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    targets
}

/// Describes the copies that are kept on the clusters of these tasks.
fn kept_copies(workload: &LeavingWorkload<'_>, tasks: &[GracefulEvictionTask]) -> Option<KeptCopies> {
    if tasks.is_empty() {
        return None;
    }
    let named: Vec<&str> = tasks.iter().take(CLUSTERS_TOLD_MAX).map(|task| &*task.from_cluster).collect();
    let more = match tasks.len().saturating_sub(CLUSTERS_TOLD_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let clusters = format!("{}{more}", named.join(" and "));
    let replicas = match workload.wanted {
        Wanted::Divided(_) => {
            Some(tasks.iter().map(|task| workload.lost_with(task)).sum::<i64>().min(workload.missing()))
        }
        Wanted::Copies(replicas) => replicas.map(i64::from),
    };
    let (what, have, are) = match replicas {
        Some(1) => ("1 replica".to_owned(), "has", "is"),
        Some(replicas) => (format!("{replicas} replicas"), "have", "are"),
        None => ("the object".to_owned(), "has", "is"),
    };
    let has_place = match workload.wanted {
        Wanted::Divided(_) => workload.is_replaced(),
        Wanted::Copies(_) => !workload.targets.is_empty(),
    };
    Some(match has_place {
        false => {
            KeptCopies { reason: "NoOtherPlace", message: format!("{what} {have} no other place; kept on {clusters}") }
        }
        true => KeptCopies {
            reason: "ReplacementNotReady",
            message: format!("{what} {are} not ready elsewhere; kept on {clusters}"),
        },
    })
}

#[cfg(test)]
mod tests;
