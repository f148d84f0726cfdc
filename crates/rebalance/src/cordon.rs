//! The clusters of a drain: their validation, and the taint that closes them (RM34, RM35). Pure.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::nameable::Nameable;
use super::record::CLUSTERS;
use ballast_api::ballast::v1alpha1::Drain;
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::karmada::cluster::v1alpha1::{Cluster, UNSCHEDULABLE};
use ballast_k8s::suggestion::{Hints, closest_name_with_same_digits};
use ballast_k8s::{Edit, FieldErrors, FieldPath, GroupResource, Key, Object, Time};
use ballast_registry::Change;
use ballast_watch::View;

/// The reason why a MemberCluster is not drained.
const OF_FLEET: &str = "is a MemberCluster, and a drain takes bindings of Karmada off Clusters: close it with `ballast \
                        cordon`, and move its placements with a rebalance that selects their kind and placedOn";

/// Validates a new drain: its clusters must exist, and at least one cluster must remain.
pub fn check(view: &View, drain: &Drain, nameable: &Nameable) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let path = FieldPath::new("spec.drain.clusters");
    let known = || view.list(CLUSTERS, None);
    let mut hints = Hints::default();
    for (index, name) in drain.clusters.iter().enumerate() {
        if view.get(&Key::cluster(CLUSTERS, &**name)).is_none() {
            // A trigger decides a placement as a whole (D125).
            let fault = match view.get(&Key::cluster(MEMBER_CLUSTERS, &**name)) {
                Some(_) => OF_FLEET.to_owned(),
                None => {
                    let near = match nameable.has(CLUSTERS) && hints.take() {
                        true => closest_name_with_same_digits(name, known().map(|cluster| &*cluster.key.name)),
                        false => None,
                    };
                    let near = near.map_or_else(String::new, |near| format!("; the nearest known name is {near:?}"));
                    format!("no cluster has this name{near}")
                }
            };
            errors.invalid(&path.index(index), name, fault);
        }
    }
    let drained: HashSet<&str> = drain.clusters.iter().map(String::as_str).collect();
    let takes = |cluster: &Object| {
        let is_drained = drained.contains(&*cluster.key.name);
        !is_drained && !cluster.deleting && !is_closed(cluster)
    };
    if errors.is_empty() && !known().any(|cluster| takes(cluster)) {
        let fault = "no cluster would be left that takes workloads";
        errors.invalid(&path, drain.clusters.join(", "), fault);
    }
    errors
}

/// Returns the writes that close the clusters of a drain to new workloads. Empty if they are
/// closed.
pub fn closing(view: &View, drain: &Drain, now: Time) -> Vec<(Key, (GroupResource, Change))> {
    let open = drain.clusters.iter().filter_map(|name| view.get(&Key::cluster(CLUSTERS, &**name)));
    let open = open.filter(|cluster| !cluster.deleting && !is_closed(cluster));
    let change = |cluster: &std::sync::Arc<Object>| {
        let mut taints = taints_of(cluster);
        taints.push(json!({"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": now}));
        let edits = vec![Edit::set(&["spec", "taints"], Value::Array(taints))];
        (cluster.key.clone(), (CLUSTERS, Change::Edit { base: cluster.clone(), edits }))
    };
    open.map(change).collect()
}

/// Returns the clusters of the drain that are open to new workloads.
pub fn open_clusters(view: &View, drain: &Drain) -> Vec<String> {
    let is_open = |name: &&String| {
        let cluster = view.get(&Key::cluster(CLUSTERS, &***name));
        cluster.is_some_and(|cluster| !cluster.deleting && !is_closed(cluster))
    };
    drain.clusters.iter().filter(is_open).cloned().collect()
}

fn is_closed(cluster: &Object) -> bool {
    // An invalid cluster accepts no workloads.
    cluster
        .typed::<Cluster>()
        .map_or(true, |cluster| cluster.spec.taints.iter().any(|taint| taint.key == UNSCHEDULABLE))
}

fn taints_of(cluster: &Object) -> Vec<Value> {
    let tree = cluster.value().unwrap_or_default();
    tree.get("spec").and_then(|spec| spec["taints"].as_array().cloned()).unwrap_or_default()
}
