//! The eviction task by which a binding leaves a cluster, shared by all controllers that evict.
//! Pure.
//!
//! The target is removed immediately, so that the scheduler finds missing replicas and moves them
//! elsewhere. The task describes how the workload that still runs there is removed, and keeps the
//! scheduler from selecting the cluster again (R43). The agents that remove workloads from clusters
//! read the tasks. `graceful_eviction` ends them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use ballast_api::Pairs;
use ballast_api::karmada::policy::v1alpha1::{PurgeMode, StatePreservation};
use ballast_api::karmada::work::v1alpha2::{
    AggregatedStatusItem, AnyBinding, GracefulEvictionTask, HOME, Home, LAST_CHANGE, TargetCluster, shares,
};
use ballast_api::tree::object_or_new;
use ballast_k8s::json_path::JsonPath;
use ballast_k8s::{Key, Time};
use ballast_scheduler::cause::{self, Cause, Eviction};
use ballast_scheduler::home;
use ballast_watch::View;

/// The reason of an eviction of an unhealthy workload, as upstream spells it.
pub const APPLICATION_FAILURE: &str = "ApplicationFailure";

/// Removes the target and adds the task, which records the replicas of the target. A binding that
/// already has a task for the cluster gets no second one. Returns `None` if there is no such
/// target.
pub fn evict(binding: &mut Map<String, Value>, mut task: GracefulEvictionTask) -> Option<()> {
    let spec = binding.get_mut("spec")?.as_object_mut()?;
    let clusters = spec.get_mut("clusters")?.as_array_mut()?;
    let at = clusters.iter().position(|cluster| cluster["name"] == *task.from_cluster)?;
    let target = clusters.remove(at);
    let tasks = spec.entry("gracefulEvictionTasks").or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
    if tasks.iter().any(|known| known["fromCluster"] == *task.from_cluster) {
        return Some(());
    }
    let replicas = target["replicas"].as_i64().and_then(|replicas| i32::try_from(replicas).ok());
    task.replicas = replicas.filter(|&replicas| replicas > 0);
    tasks.push(serde_json::to_value(task).ok()?);
    Some(())
}

/// Records the placement before the failure on a binding that is about to lose targets, unless the
/// binding already has one (RM36).
pub fn remember_home(tree: &mut Map<String, Value>, binding: &AnyBinding, key: &Key, view: &View, now: Time) {
    if Home::of(&binding.metadata.annotations).is_some() {
        return;
    }
    let Some(home) = home::former(binding, key, view, now).text() else { return };
    if let Some(annotations) = object_or_new(tree, &["metadata", "annotations"]) {
        annotations.insert(HOME.to_owned(), home.into());
    }
}

/// Records the cause of a change of targets. `tree` contains the new targets, `binding` the old
/// ones.
pub fn record_change(tree: &mut Map<String, Value>, binding: &AnyBinding, cause: &Cause, now: Time) {
    let targets = tree.get("spec").and_then(|spec| Vec::<TargetCluster>::deserialize(spec.get("clusters")?).ok());
    let targets = targets.unwrap_or_default();
    let Some(text) = cause::recorded(binding, shares(&targets), cause, now) else { return };
    if let Some(annotations) = object_or_new(tree, &["metadata", "annotations"]) {
        annotations.insert(LAST_CHANGE.to_owned(), text.into());
    }
}

/// Returns the cause of evictions from these clusters, each with its reason.
pub fn evicted_from<'c>(binding: &AnyBinding, clusters: impl Iterator<Item = (&'c str, &'c str)>) -> Cause {
    let targets = binding.spec.clusters.iter().rev();
    let assigned: HashMap<&str, i32> =
        targets.map(|target| (&*target.name, target.replicas.unwrap_or_default())).collect();
    let replicas = |name: &str| assigned.get(name).copied().unwrap_or_default();
    Cause::Evicted(
        clusters
            .map(|(name, reason)| Eviction {
                cluster: name.to_owned(),
                replicas: replicas(name),
                reason: reason.to_owned(),
            })
            .collect(),
    )
}

/// Adds the state to preserve to the task, and the clusters that do not need it because the
/// workload ran there. The error describes why the state is not known yet. In this case the caller
/// must not evict, because the state would be lost.
pub fn preserve(
    rules: Option<&StatePreservation>,
    binding: &AnyBinding,
    task: &mut GracefulEvictionTask,
) -> Result<(), String> {
    task.preserved_label_state = preserved(rules, &task.from_cluster, &binding.status.aggregated_status)?;
    if !task.preserved_label_state.is_empty() {
        task.clusters_before_failover = binding.spec.clusters.iter().map(|target| target.name.clone()).collect();
    }
    Ok(())
}

/// Returns the preserved state as labels.
fn preserved(
    rules: Option<&StatePreservation>,
    cluster: &str,
    reports: &[AggregatedStatusItem],
) -> Result<Pairs<String>, String> {
    let mut state = Pairs::default();
    let Some(rules) = rules.map(|preservation| &preservation.rules).filter(|rules| !rules.is_empty()) else {
        return Ok(state);
    };
    let report = reports.iter().find(|item| item.cluster_name == cluster).and_then(|item| item.status.as_ref());
    let Some(status) = report.map(ballast_api::FreeForm::value) else {
        return Err(format!("the status of the workload on {cluster} has not been collected"));
    };
    for rule in rules {
        let path = rule.json_path.trim();
        let path = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path).trim();
        let found = JsonPath::parse(path).and_then(|path| path.find(&status).cloned());
        let value = match found {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => return Err(format!("{} is not in the workload's status", rule.json_path)),
            Some(other) => other.to_string(),
        };
        state.insert(rule.alias_label_name.clone(), value);
    }
    Ok(state)
}

/// Returns whether the deletion is suppressed. Such a task stays until a user allows the deletion.
pub fn suppresses_deletion(mode: PurgeMode) -> Option<bool> {
    (mode == PurgeMode::Never).then_some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ballast_api::karmada::policy::v1alpha1::StatePreservationRule;

    fn task(cluster: &str) -> GracefulEvictionTask {
        GracefulEvictionTask { from_cluster: cluster.to_owned(), ..GracefulEvictionTask::by_taint() }
    }

    fn binding() -> Map<String, Value> {
        let clusters = json!([{"name": "member1", "replicas": 2}, {"name": "member2"}]);
        json!({"spec": {"clusters": clusters}}).as_object().unwrap().clone()
    }

    #[test]
    fn the_target_goes_and_the_task_says_how_many_replicas_leave() {
        let mut binding = binding();
        evict(&mut binding, task("member1")).unwrap();
        assert_eq!(binding["spec"]["clusters"], json!([{"name": "member2"}]));
        assert_eq!(
            binding["spec"]["gracefulEvictionTasks"],
            json!([{"fromCluster": "member1", "replicas": 2, "reason": "TaintUntolerated", "producer": "TaintManager"}])
        );
        evict(&mut binding, task("member2")).unwrap();
        assert!(binding["spec"]["gracefulEvictionTasks"][1].get("replicas").is_none());
        assert_eq!(evict(&mut binding, task("member3")), None);
    }

    #[test]
    fn a_binding_leaves_a_cluster_once() {
        let mut binding = binding();
        evict(&mut binding, task("member1")).unwrap();
        binding["spec"]["clusters"] = json!([{"name": "member1", "replicas": 5}]);
        evict(&mut binding, task("member1")).unwrap();
        assert_eq!(binding["spec"]["clusters"], json!([]));
        assert_eq!(binding["spec"]["gracefulEvictionTasks"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn state_goes_along_as_labels_and_missing_state_holds_the_eviction_back() {
        let rule = |label: &str, path: &str| StatePreservationRule {
            alias_label_name: label.to_owned(),
            json_path: path.to_owned(),
        };
        let rules =
            StatePreservation { rules: vec![rule("app/updated", "{ .updatedReplicas }"), rule("app/job", "{.jobID}")] };
        let report = AggregatedStatusItem {
            cluster_name: "member1".to_owned(),
            status: Some((&json!({"updatedReplicas": 2, "jobID": "x7"})).into()),
            ..AggregatedStatusItem::default()
        };
        let reports = [report];
        let state = preserved(Some(&rules), "member1", &reports).unwrap();
        assert_eq!((state.get("app/updated"), state.get("app/job")), (Some(&"2".to_owned()), Some(&"x7".to_owned())));
        assert!(preserved(Some(&rules), "member2", &reports).is_err());
        let absent = StatePreservation { rules: vec![rule("a", "{.none}")] };
        assert!(preserved(Some(&absent), "member1", &reports).is_err());
        assert!(preserved(None, "member2", &reports).unwrap().is_empty());
    }
}
