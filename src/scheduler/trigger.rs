//! What makes a binding worth a pass. Pure.
//!
//! Only what a decision reads counts: the spec (its generation), and the labels that say who manages the
//! binding. A status that moves, which is most of what happens to a binding, is no reason.

use serde::Deserialize;

use crate::k8s::Object;

/// Whether the change from `before` (`None`: it was created) to `after` may change its decision.
pub fn is_dirtied(before: Option<&Object>, after: &Object) -> bool {
    match before {
        _ if after.deleting => false,
        None => true,
        Some(before) => before.generation != after.generation || before.labels != after.labels,
    }
}

/// What the queue and the index of groups need to know of a binding, read without decoding the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `spec.schedulePriority.priority`; 0 where there is none.
    pub priority: i32,
    pub affinity_group: String,
    pub anti_affinity_group: String,
    /// Names of the clusters it is on.
    pub clusters: Vec<String>,
}

/// What cannot be read is left empty: whoever decides the binding will say what is wrong with it.
pub fn head(binding: &Object) -> Head {
    let Ok(Binding { spec }) = serde_json::from_slice(&binding.json) else { return Head::default() };
    let groups = spec.workload_affinity_groups.unwrap_or_default();
    Head {
        priority: spec.schedule_priority.and_then(|priority| priority.priority).unwrap_or_default(),
        affinity_group: groups.affinity_group,
        anti_affinity_group: groups.anti_affinity_group,
        clusters: spec.clusters.into_iter().map(|cluster| cluster.name).collect(),
    }
}

#[derive(Deserialize)]
struct Binding {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    schedule_priority: Option<Priority>,
    workload_affinity_groups: Option<Groups>,
    #[serde(default)]
    clusters: Vec<Cluster>,
}

#[derive(Deserialize)]
struct Priority {
    priority: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Groups {
    affinity_group: String,
    anti_affinity_group: String,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::k8s::{GroupResource, Key, Revision};

    fn object(value: serde_json::Value) -> Object {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        Object::decode(key, Revision(1), serde_json::to_vec(&value).unwrap().into()).unwrap()
    }

    #[test]
    fn a_new_binding_a_new_generation_and_new_labels_count_a_status_does_not() {
        let first = object(json!({"metadata": {"generation": 1}}));
        let status = object(json!({"metadata": {"generation": 1}, "status": {"lastScheduledTime": "x"}}));
        let spec = object(json!({"metadata": {"generation": 2}}));
        let labels = object(json!({"metadata": {"generation": 1, "labels": {"a": "b"}}}));
        assert!(is_dirtied(None, &first));
        assert!(!is_dirtied(Some(&first), &status));
        assert!(is_dirtied(Some(&first), &spec));
        assert!(is_dirtied(Some(&first), &labels));
    }

    #[test]
    fn a_binding_that_is_going_needs_no_place() {
        let going = object(json!({"metadata": {"generation": 2, "deletionTimestamp": "2024-01-01T00:00:00Z"}}));
        assert!(!is_dirtied(None, &going));
    }

    #[test]
    fn the_head_is_empty_where_nothing_is_said() {
        assert_eq!(head(&object(json!({"metadata": {}, "spec": {}}))), Head::default());
        let spec = json!({"schedulePriority": {"priority": 7}, "clusters": [{"name": "m1", "replicas": 2}]});
        let head = head(&object(json!({"metadata": {}, "spec": spec})));
        assert_eq!((head.priority, head.clusters), (7, vec!["m1".to_owned()]));
    }
}
