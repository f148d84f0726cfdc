//! Clusters created from another manager's ClusterProfiles (IV5), to place workloads on clusters
//! that are registered elsewhere. Pure.
//!
//! A profile has fewer fields than a Cluster. Its fields are copied at each import; other fields of
//! the Cluster, such as taints, are kept.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::comparison::{Comparing, Comparison, StoredState};
use super::{Tree, metadata, shown_name};
use ballast_api::multicluster::v1alpha1::{
    CLUSTER_MANAGER_LABEL, CONTROL_PLANE_HEALTHY, ClusterProfile, ClusterProfileStatus,
};
use ballast_controllers::FINALIZER;
use ballast_inventory::{MANAGER, PROVIDER, REGION, ZONE};
use ballast_k8s::{Key, Time};
use ballast_resource::ResourceKind;

/// The profile that a Cluster was created from, as `NAMESPACE/NAME`.
pub const PROFILE_ANNOTATION: &str = "ballast.dev/cluster-profile";

/// The kinds that every cluster of a supported version serves. A profile lists none, and a cluster
/// with an empty list gets no workload.
const BUILT_IN: [(&str, &[&str]); 6] = [
    ("apps/v1", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("batch/v1", &["CronJob", "Job"]),
    ("networking.k8s.io/v1", &["Ingress", "NetworkPolicy"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("v1", &["ConfigMap", "Namespace", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"]),
];

/// Compares the Clusters of the profiles with the Clusters of the log: `here` contains their
/// states, and `clusters` their objects. Also returns the number of profiles that Ballast itself
/// has written.
pub fn compare(
    row: &ResourceKind,
    profiles: Vec<Tree>,
    here: &HashMap<Key, StoredState>,
    mut clusters: BTreeMap<String, Tree>,
) -> (Comparison, usize) {
    let (mut comparing, mut refused, mut own) = (Comparing::begin(row, here), Vec::new(), 0);
    // The profiles by the names of their Clusters.
    let mut taken = BTreeMap::new();
    let is_made = |cluster: &Tree| annotation(cluster).is_some();
    let made: Vec<String> =
        clusters.iter().filter(|(_, cluster)| is_made(cluster)).map(|(name, _)| name.clone()).collect();
    for tree in profiles {
        let name = shown_name(&tree);
        let profile: ClusterProfile = match serde_json::from_value(Value::Object(tree.clone())) {
            Ok(profile) => profile,
            Err(error) => {
                refused.push((name, format!("it is no ClusterProfile: {error}")));
                continue;
            }
        };
        if profile.spec.cluster_manager.name == MANAGER {
            own += 1;
            continue;
        }
        if let Some(first) = taken.insert(metadata(&tree, "name").to_owned(), name.clone()) {
            refused.push((name, format!("{first} has the same name, and a Cluster has no namespace")));
            continue;
        }
        let known = clusters.remove(metadata(&tree, "name"));
        match known {
            Some(known) if annotation(&known) != Some(&*name) => {
                let of = annotation(&known).map_or("is not made of a profile".to_owned(), |it| format!("is of {it}"));
                refused.push((name, format!("the Cluster {} is there already, and {of}", metadata(&known, "name"))));
                clusters.insert(metadata(&known, "name").to_owned(), known);
            }
            known => comparing.add(cluster(&tree, &profile, known)),
        }
    }
    let mut comparison = comparing.end();
    comparison.read += refused.len();
    comparison.refused.extend(refused);
    // A Cluster without the annotation does not belong to the source.
    comparison.only_here.retain(|(key, _)| made.iter().any(|name| **name == *key.name));
    (comparison, own)
}

/// Returns the Cluster after a deletion that waits for the finalizer. `None` if it is being deleted
/// already.
pub fn deleted(cluster: Tree, now: Time) -> Option<Tree> {
    let mut cluster = Value::Object(cluster);
    let metadata = &mut cluster["metadata"];
    if metadata["deletionTimestamp"].is_string() {
        return None;
    }
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten().filter(|it| *it != FINALIZER);
    let finalizers: Vec<Value> = finalizers.cloned().chain([FINALIZER.into()]).collect();
    metadata["finalizers"] = finalizers.into();
    metadata["deletionTimestamp"] = now.to_string().into();
    metadata["deletionGracePeriodSeconds"] = 0.into();
    metadata["generation"] = (metadata["generation"].as_i64().unwrap_or_default() + 1).into();
    cluster.as_object().cloned()
}

/// Returns the profile that a Cluster was created from.
fn annotation(cluster: &Tree) -> Option<&str> {
    cluster.get("metadata")?.get("annotations")?.get(PROFILE_ANNOTATION)?.as_str()
}

/// Returns the Cluster of a profile, based on the existing one.
fn cluster(tree: &Tree, profile: &ClusterProfile, known: Option<Tree>) -> Tree {
    let is_new = known.is_none();
    let mut object = Value::Object(known.unwrap_or_default());
    let (name, time) = (metadata(tree, "name"), metadata(tree, "creationTimestamp"));
    if is_new {
        object = json!({
            "metadata": {"name": name, "uid": metadata(tree, "uid"), "creationTimestamp": time, "generation": 1},
            "spec": {"syncMode": "Pull"},
            "status": {"apiEnablements": BUILT_IN.map(|(group_version, kinds)| {
                let kinds: Vec<Value> = kinds.iter().map(|kind| json!({"kind": kind})).collect();
                json!({"groupVersion": group_version, "resources": kinds})
            })},
        });
    }
    let labels = tree["metadata"].get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let told = Map::from_iter(labels.into_iter().filter(|(_, value)| value.is_string()));
    let before = object["spec"].clone();
    let mut patch = json!({
        "metadata": {"labels": told, "annotations": {PROFILE_ANNOTATION: shown_name(tree)}},
        "spec": spec(&profile.status),
        "status": {"kubernetesVersion": profile.status.version.kubernetes},
    });
    patch["metadata"]["labels"][CLUSTER_MANAGER_LABEL] = profile.spec.cluster_manager.name.clone().into();
    json_patch::merge(&mut object, &patch);
    if !is_new && object["spec"] != before {
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        object["metadata"]["generation"] = (generation + 1).into();
    }
    set_ready(&mut object["status"]["conditions"], ready(&profile.status, time));
    match object {
        Value::Object(tree) => tree,
        _ => unreachable!("it was made as an object"),
    }
}

/// Returns the location of the cluster, as far as the profile contains it.
fn spec(status: &ClusterProfileStatus) -> Value {
    let property = |name: &str| status.properties.iter().find(|property| property.name == name);
    let mut spec = json!({});
    for (member, name) in [("region", REGION), ("provider", PROVIDER)] {
        if let Some(property) = property(name) {
            spec[member] = property.value.clone().into();
        }
    }
    if let Some(zones) = property(ZONE) {
        spec["zones"] = zones.value.split(',').map(str::trim).filter(|zone| !zone.is_empty()).collect();
    }
    let access = status.access_providers.iter().chain(&status.credential_providers);
    if let Some(provider) = access.into_iter().find(|provider| !provider.cluster.server.is_empty()) {
        spec["apiEndpoint"] = provider.cluster.server.clone().into();
        if let Some(proxy) = &provider.cluster.proxy_url {
            spec["proxyURL"] = proxy.clone().into();
        }
    }
    spec
}

/// Returns the health of the profile as the condition Ready. A missing health is unknown.
fn ready(status: &ClusterProfileStatus, created: &str) -> Value {
    match status.conditions.iter().find(|condition| condition.type_ == CONTROL_PLANE_HEALTHY) {
        Some(told) => json!({
            "type": "Ready", "status": told.status, "reason": told.reason, "message": told.message,
            "lastTransitionTime": told.last_transition_time,
        }),
        None => json!({
            "type": "Ready", "status": "Unknown", "reason": "ProfileHasNoHealth",
            "message": "the ClusterProfile has no condition ControlPlaneHealthy", "lastTransitionTime": created,
        }),
    }
}

fn set_ready(conditions: &mut Value, ready: Value) {
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("it is made one above");
    match conditions.iter_mut().find(|condition| condition["type"] == "Ready") {
        Some(found) => *found = ready,
        None => conditions.push(ready),
    }
}
