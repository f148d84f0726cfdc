//! Why the targets of a binding changed, out of two of its versions. The server's events say it
//! better, and are kept for an hour; the versions are kept as long as the log.

use ballast_api::ballast::v1alpha1::Share;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, GracefulEvictionTask, LeftClusters, Trigger};

use super::names::targets;
use ballast_scheduler::cause::Cause;
use ballast_scheduler::move_annotation::MoveAnnotation;

/// Why `after` has other targets than `before`, as far as the two say it.
pub fn between(before: Option<&AnyBinding>, after: &AnyBinding) -> String {
    let Some(before) = before else { return "because it was created".to_owned() };
    let (old, new) = (&before.spec, &after.spec);
    let is_new_eviction = |cluster: &str| {
        let left =
            |binding: &AnyBinding| binding.spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == cluster);
        left(after) && !left(before)
    };
    if let Some(task) = new.graceful_eviction_tasks.iter().find(|task| is_new_eviction(&task.from_cluster)) {
        return format!("because it was evicted from {} ({})", task.from_cluster, task.reason);
    }
    let left = |binding: &AnyBinding| LeftClusters::of(&binding.metadata.annotations);
    if let Some(left) = left(after).or_else(|| left(before)) {
        return Cause::ClustersLost(left.clusters).to_string();
    }
    let under_way = |binding: &AnyBinding| MoveAnnotation::of(&binding.metadata.annotations);
    if let Some(moved) = under_way(after).or_else(|| under_way(before)) {
        let (kind, name) = moved.by.rsplit_once('/').unwrap_or(("", &moved.by));
        let kind = if kind.starts_with("cluster") { "ClusterRebalance" } else { "Rebalance" };
        return format!("because of {kind} {name}");
    }
    let stays = |cluster: &str| {
        let is_on = |binding: &AnyBinding| binding.spec.clusters.iter().any(|target| target.name == cluster);
        is_on(after) && !is_on(before)
    };
    let called_off = old.graceful_eviction_tasks.iter().find(|task| stays(&task.from_cluster));
    if let Some(task) = called_off.filter(|_| !was_pending(Trigger::of(before))) {
        return format!("because its eviction from {} was called off", task.from_cluster);
    }
    if targets(before).is_empty() {
        let words = match before.status.last_scheduled_time {
            None => "because it was placed for the first time",
            Some(_) => "because it had no place, and found one",
        };
        return words.to_owned();
    }
    if was_pending(Trigger::of(before)) {
        let at = old.reschedule_triggered_at.map_or_else(String::new, |at| format!(" of {at}"));
        return format!("because of the trigger{at}");
    }
    let sum = |binding: &AnyBinding| -> i64 {
        binding.spec.clusters.iter().map(|it| i64::from(it.replicas.unwrap_or_default())).sum()
    };
    let (assigned, wanted) = (sum(before), i64::from(new.replicas.unwrap_or_default()));
    // Missing replicas of a workload that is being evicted are those that the eviction took away.
    let is_evicted = |task: &&GracefulEvictionTask| !stays(&task.from_cluster);
    if let Some(task) = old.graceful_eviction_tasks.iter().find(is_evicted).filter(|_| assigned < wanted) {
        return format!("because it was evicted from {} ({})", task.from_cluster, task.reason);
    }
    // The change has to be the one that the number asks for.
    if assigned != wanted && assigned > 0 && sum(after) == wanted {
        return format!("because {wanted} replicas are wanted, not {assigned}");
    }
    "the cause is not remembered".to_owned()
}

/// Whether a pass was pending. What a profile makes of the fields is not known here.
fn was_pending(trigger: Trigger) -> bool {
    let Trigger { force, triggered_at, last_scheduled, pending_pass } = trigger;
    let is_newer = triggered_at.is_some_and(|at| last_scheduled.is_none_or(|last| last < at));
    force || is_newer || pending_pass.is_some()
}

/// What changed: `member1 0 to 2, member2 4 to 2`.
pub fn shift(from: &[Share], to: &[Share]) -> String {
    let on = |shares: &[Share], name: &str| shares.iter().find(|it| it.name == name).map(|it| it.replicas);
    let mut names: Vec<&str> = from.iter().chain(to).map(|it| &*it.name).collect();
    names.sort_unstable();
    names.dedup();
    let one = |name: &str| match (on(from, name), on(to, name)) {
        (had, has) if had == has => None,
        (None | Some(0), Some(0)) => Some(format!("joins {name}")),
        (Some(0), None) => Some(format!("leaves {name}")),
        (had, has) => Some(format!("{name} {} to {}", had.unwrap_or_default(), has.unwrap_or_default())),
    };
    names.into_iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::karmada::work::v1alpha2::PENDING_PASS;
    use serde::Deserialize;
    use serde_json::{Value, json};

    fn binding(spec: Value) -> AnyBinding {
        let mut spec = spec;
        spec["resource"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        AnyBinding::deserialize(&json!({"metadata": {}, "spec": spec, "status": {}})).unwrap()
    }

    #[test]
    fn the_versions_tell_the_cause() {
        let there = json!([{"name": "m1", "replicas": 4}]);
        let before = binding(json!({"replicas": 4, "clusters": there}));
        let task = json!([{"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "x"}]);
        let after = binding(json!({"replicas": 4, "gracefulEvictionTasks": task}));
        assert_eq!(between(Some(&before), &after), "because it was evicted from m1 (TaintUntolerated)");
        assert_eq!(between(Some(&after), &before), "because its eviction from m1 was called off");
        let grown = binding(json!({"replicas": 6, "clusters": [{"name": "m1", "replicas": 6}]}));
        assert_eq!(between(Some(&before), &grown), "because 6 replicas are wanted, not 4");
        let at = "2026-11-22T15:00:00Z";
        let asked = binding(json!({"replicas": 4, "clusters": there, "rescheduleTriggeredAt": at}));
        let moved = binding(json!({"replicas": 4, "clusters": [{"name": "m2", "replicas": 4}]}));
        assert_eq!(between(Some(&asked), &moved), format!("because of the trigger of {at}"));
        // Stamped in the second of the last pass: only the pending pass says that a pass is
        // pending.
        let mut same_second = asked.clone();
        same_second.status.last_scheduled_time = asked.spec.reschedule_triggered_at;
        assert_eq!(between(Some(&same_second), &moved), "the cause is not remembered");
        same_second.metadata.annotations.insert(PENDING_PASS.to_owned(), "7".to_owned());
        assert_eq!(between(Some(&same_second), &moved), format!("because of the trigger of {at}"));
        assert_eq!(between(Some(&before), &moved), "the cause is not remembered");
        assert_eq!(between(None, &moved), "because it was created");
        let mut nowhere = binding(json!({"replicas": 4}));
        assert_eq!(between(Some(&nowhere), &moved), "because it was placed for the first time");
        nowhere.status.last_scheduled_time = Some(at.parse().unwrap());
        assert_eq!(between(Some(&nowhere), &moved), "because it had no place, and found one");
    }

    #[test]
    fn a_shift_names_who_changes() {
        let share = |name: &str, replicas| Share { name: name.to_owned(), replicas };
        assert_eq!(shift(&[share("m2", 4)], &[share("m1", 2), share("m2", 2)]), "m1 0 to 2, m2 4 to 2");
        assert_eq!(shift(&[share("m2", 0)], &[share("m1", 0)]), "joins m1, leaves m2");
    }
}
