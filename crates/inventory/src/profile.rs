//! The profile of a Cluster or a MemberCluster.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::subject::MEMBER_SUFFIX;
use super::{CLUSTERS, Inventory, MANAGER, Wanted};
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::multicluster::v1alpha1::{CLUSTER_MANAGER_LABEL, CLUSTER_PROFILES, CONTROL_PLANE_HEALTHY};
use ballast_k8s::{Key, Object, read_json};
use ballast_watch::View;

/// The most characters of a property's value.
const VALUE_CHARS_MAX: usize = 1024;
/// The property of a profile with the region of the cluster. `ZONE` has its zones, separated by
/// commas, and `PROVIDER` its provider.
pub const REGION: &str = "topology.kubernetes.io/region";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const PROVIDER: &str = "ballast.dev/provider";

/// Returns the profiles of the clusters with this name.
pub(crate) fn wanted(inventory: &Inventory, view: &View, name: &str) -> Vec<Wanted> {
    let object = |kind| view.get(&Key::cluster(kind, name));
    let karmadas = object(CLUSTERS).map(|cluster| profile(inventory, name.to_owned(), cluster, of_cluster(cluster)));
    let fleets = object(MEMBER_CLUSTERS)
        .map(|member| profile(inventory, name_of_member(view, name), member, of_member_cluster(member)));
    karmadas.into_iter().chain(fleets).collect()
}

/// Returns the name of the profile of a MemberCluster.
pub(crate) fn name_of_member(view: &View, name: &str) -> String {
    match view.get(&Key::cluster(CLUSTERS, name)) {
        Some(_) => format!("{name}{MEMBER_SUFFIX}"),
        None => name.to_owned(),
    }
}

fn profile(inventory: &Inventory, name: String, cluster: &Object, status: Value) -> Wanted {
    // Selectors of other programs, such as Argo CD's, select clusters by their labels.
    let labels = cluster.labels.iter().map(|(name, value)| (name.to_string(), Value::from(&**value)));
    let mut labels: Map<String, Value> = labels.collect();
    labels.insert(CLUSTER_MANAGER_LABEL.to_owned(), MANAGER.into());
    let spec = json!({"displayName": &*cluster.key.name, "clusterManager": {"name": MANAGER}});
    let members = [("kind", "ClusterProfile".into()), ("spec", spec), ("status", status)];
    Wanted {
        key: Key::namespaced(CLUSTER_PROFILES, inventory.namespace.clone(), name),
        owner: cluster.uid.clone(),
        labels,
        members: members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The fields of both kinds that a profile contains.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Cluster {
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    api_endpoint: String,
    #[serde(rename = "insecureSkipTLSVerification")]
    insecure_skip_tls_verification: bool,
    #[serde(rename = "proxyURL")]
    proxy_url: String,
    provider: String,
    region: String,
    zone: String,
    zones: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    kubernetes_version: String,
    conditions: Vec<Condition>,
    agent_status: Vec<Agent>,
    properties: BTreeMap<String, PropertyValue>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Agent {
    #[serde(rename = "type")]
    type_: String,
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PropertyValue {
    value: String,
}

/// Returns the status of the profile of a Cluster. Empty if the cluster is malformed.
fn of_cluster(object: &Object) -> Value {
    let Cluster { spec, status } = read_json(&object.text.content()).unwrap_or_default();
    let zones = if spec.zones.is_empty() { spec.zone } else { spec.zones.join(",") };
    let properties = [(PROVIDER, spec.provider), (REGION, spec.region), (ZONE, zones)];
    let properties = properties.into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut told = self::status(healthy(&status.conditions, "Ready"), properties, &status.kubernetes_version);
    if !spec.api_endpoint.is_empty() {
        let mut cluster = json!({"server": spec.api_endpoint});
        if spec.insecure_skip_tls_verification {
            cluster["insecure-skip-tls-verify"] = true.into();
        }
        if !spec.proxy_url.is_empty() {
            cluster["proxy-url"] = spec.proxy_url.into();
        }
        told["accessProviders"] = json!([{"name": MANAGER, "cluster": cluster}]);
    }
    told
}

fn of_member_cluster(object: &Object) -> Value {
    let Cluster { status, .. } = read_json(&object.text.content()).unwrap_or_default();
    let agent = status.agent_status.iter().find(|agent| agent.type_ == "MemberAgent");
    let health = agent.and_then(|agent| healthy(&agent.conditions, "Healthy"));
    let health = health.or_else(|| healthy(&status.conditions, "Joined"));
    let properties = status.properties.into_iter().map(|(name, property)| (name, property.value));
    self::status(health, properties, "")
}

/// Converts a condition of the cluster to the condition of a profile.
fn healthy(conditions: &[Condition], type_: &str) -> Option<Value> {
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    let status = if matches!(&*found.status, "True" | "False") { &*found.status } else { "Unknown" };
    let reason = if found.reason.is_empty() { type_ } else { &*found.reason };
    Some(json!({
        "type": CONTROL_PLANE_HEALTHY, "status": status, "reason": reason, "message": found.message,
        "lastTransitionTime": found.last_transition_time,
    }))
}

fn status(health: Option<Value>, properties: impl Iterator<Item = (String, String)>, version: &str) -> Value {
    let fits = |value: &str| !value.is_empty() && value.chars().count() <= VALUE_CHARS_MAX;
    let properties = properties.filter(|(_, value)| fits(value));
    let properties: Vec<Value> = properties.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let mut status = json!({});
    if let Some(health) = health {
        status["conditions"] = json!([health]);
    }
    if !properties.is_empty() {
        status["properties"] = properties.into();
    }
    if !version.is_empty() {
        status["version"] = json!({"kubernetes": version});
    }
    status
}
