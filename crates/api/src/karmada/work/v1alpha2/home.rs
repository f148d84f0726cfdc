//! The annotation of a binding that is not at its placement before a failure: `ballast.dev/home`
//! (RM36).
//!
//! The placement before the failure is the last one that a decision, a rebalance or a user chose
//! before the first loss that the binding has not returned from. A loss is an eviction, a target on
//! a deleted cluster, or a fallback to another affinity group.
//!
//! The write that records the first loss also adds the annotation. Later losses, passes, scaling
//! and moves do not change it. It is removed when the binding has returned (a different number of
//! replicas is divided in the same proportion), or gets a new placement from changed placement
//! rules or a Fresh decision. Since it is part of the object, it outlives the history in the log,
//! survives a restart and an import, and works attached to Karmada as well.

use serde::{Deserialize, Serialize};

use super::{AnyBinding, GracefulEvictionTask};
use crate::Pairs;
use crate::ballast::v1alpha1::Share;
use ballast_k8s::Time;

pub const HOME: &str = "ballast.dev/home";

/// Maximum length of the annotation in bytes: half of the 256 KiB that Kubernetes allows for all
/// annotations of an object. The other half is left to users.
const TEXT_BYTES_MAX: usize = 128 * 1024;

/// The placement of a binding before it lost targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Home {
    /// Sorted by name.
    pub targets: Vec<Share>,
    /// Time at which the annotation was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

impl Home {
    /// Reads the annotation. A malformed one counts as absent.
    pub fn of(annotations: &Pairs<String>) -> Option<Home> {
        let mut home: Home = serde_json::from_str(annotations.get(HOME)?).ok()?;
        home.targets.sort_unstable();
        (!home.targets.is_empty()).then_some(home)
    }

    /// Returns the current targets, plus the targets that evictions have removed since the last
    /// decision. An eviction that a later decision has taken into account belongs to an earlier
    /// loss, even if it has not ended: its replicas are among the targets of that decision.
    pub fn before(binding: &AnyBinding, now: Time) -> Home {
        let share =
            |name: &String, replicas: Option<i32>| Share { name: name.clone(), replicas: replicas.unwrap_or_default() };
        let spec = &binding.spec;
        let mut targets: Vec<Share> = spec.clusters.iter().map(|target| share(&target.name, target.replicas)).collect();
        for task in undecided_tasks(binding) {
            if targets.iter().all(|target| target.name != task.from_cluster) {
                targets.push(share(&task.from_cluster, task.replicas));
            }
        }
        targets.sort_unstable();
        Home { targets, since: Some(now) }
    }

    /// Returns the value of the annotation, or `None` if there are too many targets for it. The
    /// placement is then available only from the history in the log; the binding leaves a lost
    /// cluster nonetheless.
    pub fn text(&self) -> Option<String> {
        let text = serde_json::to_string(self).expect("names and numbers can be written");
        (text.len() <= TEXT_BYTES_MAX).then_some(text)
    }
}

/// Returns the eviction tasks that no decision has taken into account.
pub fn undecided_tasks(binding: &AnyBinding) -> impl Iterator<Item = &GracefulEvictionTask> {
    let AnyBinding { metadata, spec, status } = binding;
    let is_observed = status.scheduler_observed_generation.is_some_and(|seen| metadata.generation == Some(seen));
    let is_later = |task: &&GracefulEvictionTask| {
        let times = task.creation_timestamp.zip(status.last_scheduled_time);
        times.is_none_or(|(began, decided)| began >= decided)
    };
    spec.graceful_eviction_tasks.iter().filter(move |_| !is_observed).filter(is_later)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_eviction_that_a_decision_followed_is_no_part_of_it() {
        let home = |status: serde_json::Value| {
            let binding: AnyBinding = serde_json::from_value(json!({"metadata": {"generation": 7}, "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "clusters": [{"name": "m2", "replicas": 2}],
                "gracefulEvictionTasks": [{"fromCluster": "m1", "replicas": 3, "reason": "r", "producer": "p",
                    "creationTimestamp": "2024-01-01T00:00:10Z"}],
            }, "status": status}))
            .unwrap();
            Home::before(&binding, Time::from_seconds(5)).targets.len()
        };
        assert_eq!(home(json!({"schedulerObservedGeneration": 7})), 1);
        assert_eq!(home(json!({"lastScheduledTime": "2024-01-01T00:00:11Z"})), 1);
        assert_eq!(home(json!({"schedulerObservedGeneration": 6, "lastScheduledTime": "2024-01-01T00:00:09Z"})), 2);
        assert_eq!(home(json!({})), 2);
    }

    #[test]
    fn rm36_home_is_where_the_binding_is_and_what_leaves_it() {
        let binding: AnyBinding = serde_json::from_value(json!({"metadata": {}, "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": [{"name": "m2", "replicas": 2}],
            "gracefulEvictionTasks": [{"fromCluster": "m1", "replicas": 3, "reason": "r", "producer": "p"}],
        }}))
        .unwrap();
        let home = Home::before(&binding, Time::from_seconds(5));
        let share = |name: &str, replicas| Share { name: name.to_owned(), replicas };
        assert_eq!(home.targets, [share("m1", 3), share("m2", 2)]);
        let annotations = |text: &str| [(HOME.to_owned(), text.to_owned())].into_iter().collect::<Pairs<String>>();
        assert_eq!(Home::of(&annotations(&home.text().unwrap())), Some(home));
        let targets = (0..4_000).map(|number| Share { name: format!("{number:032}"), replicas: 1 }).collect();
        assert_eq!(Home { targets, since: None }.text(), None);
        for odd in ["", "home", "{}", r#"{"targets": []}"#, r#"{"targets": [{"name": 7}]}"#] {
            assert_eq!(Home::of(&annotations(odd)), None, "{odd}");
        }
    }
}
