//! Helpers for Karmada Clusters that several controllers share.

use ballast_api::core::ObjectReference;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_k8s::{GroupResource, Key, Object};
use ballast_watch::Event;

pub const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

pub fn cluster_key(name: &str) -> Key {
    Key::cluster(CLUSTERS, name)
}

/// Returns the object reference for events about a cluster.
pub fn reference_to_cluster(cluster: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some("cluster.karmada.io/v1alpha1".to_owned()),
        kind: Some("Cluster".to_owned()),
        name: Some(cluster.key.name.to_string()),
        uid: Some(cluster.uid.to_string()),
        ..ObjectReference::default()
    }
}

pub fn taints_changed(event: &Event) -> bool {
    let before = event.previous.as_ref().and_then(|object| object.typed::<Cluster>().ok());
    let after = event.object.typed::<Cluster>().ok();
    before.map(|cluster| cluster.spec.taints.clone()) != after.map(|cluster| cluster.spec.taints.clone())
}

/// Returns whether the cluster is Ready or has no such condition.
pub fn is_ready(cluster: &Cluster) -> bool {
    let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.is_none_or(|ready| ready.status == "True")
}

/// Returns whether the event changes the result of `is_ready`.
pub fn readiness_changed(event: &Event) -> bool {
    let ready = |object: &Object| object.typed::<Cluster>().ok().map(|cluster| is_ready(&cluster));
    event.previous.as_deref().and_then(ready) != ready(&event.object)
}
