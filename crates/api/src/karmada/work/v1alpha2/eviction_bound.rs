//! Limits the replicas of eviction tasks that clients write. A task reserves the capacity of its
//! replicas on the cluster until the eviction ends, so it must not claim more replicas than were
//! there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arrivals::{in_spec, replicas_by};
use crate::tree::{self, Object};
use ballast_resource::Given;

/// Reduces the replicas of each task to the number that the stored binding has on the cluster,
/// assigned or already being evicted. The tasks of a new binding, such as one restored from a
/// backup, share the replicas of the workload.
///
/// Differs from Karmada (D130), which stores any number and reserves no capacity for it.
pub fn lower(binding: &mut Object, given: &Given<'_>) {
    let tasks = |binding| in_spec(binding, "gracefulEvictionTasks");
    if !given.is_by_client || tasks(binding).is_none() || tasks(binding) == given.old.and_then(tasks) {
        return;
    }
    let mut had: BTreeMap<String, Option<i64>> = BTreeMap::new();
    if let Some(old) = given.old {
        for (list, name) in [("clusters", "name"), ("gracefulEvictionTasks", "fromCluster")] {
            for (cluster, replicas) in replicas_by(in_spec(old, list), name) {
                let known = had.entry(cluster).or_default();
                *known = Some(known.unwrap_or_default().max(replicas));
            }
        }
    }
    let has_components = in_spec(binding, "components").and_then(Value::as_array).is_some_and(|list| list.len() > 1);
    let replicas = in_spec(binding, "replicas").and_then(Value::as_i64).unwrap_or_default();
    let mut of_new = given.old.is_none().then_some(replicas);
    let Some(spec) = tree::object(binding, &["spec"]) else { return };
    for (_, task) in tree::items(spec, "gracefulEvictionTasks") {
        let known = had.get_mut(tree::text(task, "fromCluster"));
        let was_there = known.is_some();
        let left = known.and_then(|left| left.as_mut()).or(of_new.as_mut());
        match (task.get("replicas").and_then(Value::as_i64), left) {
            (Some(replicas), Some(left)) => {
                let bound = replicas.min(*left);
                *left -= bound.max(0);
                if bound < replicas {
                    task.insert("replicas".to_owned(), json!(bound));
                }
            }
            (Some(1..), None) => drop(task.insert("replicas".to_owned(), json!(0))),
            // A task without a number of replicas counts as one set of components.
            (None, _) if has_components && !was_there => drop(task.insert("replicas".to_owned(), json!(0))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::Time;

    fn lowered(old: Option<&Value>, tasks: &[(&str, i64)], is_by_client: bool) -> Vec<i64> {
        let task = |(cluster, replicas): &(&str, i64)| json!({"fromCluster": cluster, "replicas": replicas});
        let tasks: Vec<Value> = tasks.iter().map(task).collect();
        let mut binding = json!({"spec": {"replicas": 5, "gracefulEvictionTasks": tasks}}).as_object().unwrap().clone();
        let given = Given { old: old.and_then(Value::as_object), now: Time::from_seconds(0), is_by_client };
        lower(&mut binding, &given);
        let tasks = binding["spec"]["gracefulEvictionTasks"].as_array().unwrap();
        tasks.iter().map(|task| task["replicas"].as_i64().unwrap()).collect()
    }

    #[test]
    fn a_task_of_a_client_has_no_more_replicas_than_were_there() {
        let huge = i64::from(i32::MAX);
        let old = json!({"spec": {"clusters": [{"name": "m1", "replicas": 4}],
            "gracefulEvictionTasks": [{"fromCluster": "m2", "replicas": 3}]}});
        assert_eq!(lowered(None, &[("m1", 2), ("m2", huge), ("m3", huge)], true), [2, 3, 0], "a restored binding");
        assert_eq!(lowered(Some(&old), &[("m1", huge), ("m2", huge), ("m3", huge)], true), [4, 3, 0]);
        assert_eq!(lowered(Some(&old), &[("m1", 3), ("m1", 3)], true), [3, 1], "two tasks share what was there");
        assert_eq!(lowered(Some(&old), &[("m2", 3)], true), [3]);
        assert_eq!(lowered(None, &[("m1", 9)], false), [9], "a controller knows what it evicts");
    }
}
