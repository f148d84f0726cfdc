//! What makes a binding worth a pass. Pure.
//!
//! Only what a decision reads counts: the spec (its generation), and the labels that say who
//! manages the binding. A status that moves, which is most of what happens to a binding, is no
//! reason.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::engine::karmada::{Component, Placement, Request, Requirements, Shared, Target};
use crate::k8s::Object;

/// Whether the change from `before` (`None`: it was created) to `after` may change its decision.
pub fn is_dirtied(before: Option<&Object>, after: &Object) -> bool {
    match before {
        _ if after.deleting => false,
        None => true,
        Some(before) => before.generation != after.generation || before.labels != after.labels,
    }
}

/// What the queue and the indexes need to know of a binding, read without decoding the rest.
#[derive(Debug, Default)]
pub struct Head<'a> {
    /// `spec.schedulePriority.priority`; 0 where there is none.
    pub priority: i32,
    pub affinity_group: String,
    pub anti_affinity_group: String,
    /// As it is written.
    pub placement: Option<&'a str>,
    pub replicas: i32,
    /// Says what a replica needs, if only that it needs nothing.
    pub has_requirements: bool,
    pub component_count: usize,
    pub clusters: Vec<Cluster>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Cluster {
    pub name: String,
    #[serde(default)]
    pub replicas: Option<i32>,
}

/// What cannot be read is left empty: whoever decides the binding will say what is wrong with it.
pub fn head(binding: &Object) -> Head<'_> {
    let Ok(Binding { spec }) = serde_json::from_slice(binding.text.content()) else { return Head::default() };
    let groups = spec.workload_affinity_groups.unwrap_or_default();
    Head {
        priority: spec.schedule_priority.and_then(|priority| priority.priority).unwrap_or_default(),
        affinity_group: groups.affinity_group,
        anti_affinity_group: groups.anti_affinity_group,
        placement: spec.placement.map(RawValue::get),
        replicas: spec.replicas.unwrap_or_default(),
        has_requirements: spec.replica_requirements.is_some(),
        component_count: spec.components.map_or(0, |components| components.len()),
        clusters: spec.clusters.unwrap_or_default(),
    }
}

impl Head<'_> {
    /// `Request::is_settled`, of as much of the binding as that looks at.
    pub fn is_settled(&self, placement: Option<&Shared<Placement>>) -> bool {
        let target = |cluster: &Cluster| Target {
            name: cluster.name.as_str().into(),
            replicas: cluster.replicas.unwrap_or_default().max(0),
            components: Vec::new(),
        };
        let component = || Component { name: Box::default(), replicas: 0, requirements: None };
        let request = Request {
            placement: placement.cloned(),
            replicas: self.replicas,
            requirements: self.has_requirements.then(|| Shared::new(Requirements::default())),
            components: (0..self.component_count).map(|_| component()).collect(),
            targets: self.clusters.iter().map(target).collect(),
            ..Request::default()
        };
        request.is_settled()
    }
}

#[derive(Deserialize)]
struct Binding<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    schedule_priority: Option<Priority>,
    workload_affinity_groups: Option<Groups>,
    #[serde(borrow)]
    placement: Option<&'a RawValue>,
    replicas: Option<i32>,
    replica_requirements: Option<IgnoredAny>,
    components: Option<Vec<IgnoredAny>>,
    clusters: Option<Vec<Cluster>>,
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
        let silent = object(json!({"metadata": {}, "spec": {}}));
        let head_of_silent = head(&silent);
        assert!(head_of_silent.placement.is_none() && head_of_silent.clusters.is_empty());
        let spec = json!({
            "schedulePriority": {"priority": 7},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2"}],
            "placement": {"clusterAffinity": {}},
            "replicaRequirements": {},
            "components": [{}, {}],
        });
        let binding = object(json!({"metadata": {}, "spec": spec}));
        let head = head(&binding);
        let clusters: Vec<_> = head.clusters.iter().map(|cluster| (&*cluster.name, cluster.replicas)).collect();
        assert_eq!((head.priority, clusters), (7, vec![("m1", Some(2)), ("m2", None)]));
        assert_eq!(head.placement, Some(r#"{"clusterAffinity":{}}"#));
        assert_eq!((head.has_requirements, head.component_count), (true, 2));
    }
}
