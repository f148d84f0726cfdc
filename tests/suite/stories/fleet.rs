//! Objects that stories begin with.

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::world::World;
use crate::support::objects;

/// member1 and member2, and the Deployment nginx with four replicas, two on each.
pub async fn nginx() -> (World, Key) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    (world, key)
}

/// As `nginx`, but all replicas have come to member2, a while ago.
pub async fn nginx_on_member2() -> (World, Key) {
    let (mut world, key) = nginx().await;
    world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    world.clock.advance_seconds(300);
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4", "nothing moves by itself");
    (world, key)
}

/// A cluster with room for a thousand pods.
pub fn cluster(name: &str) -> Value {
    let mut cluster = objects::with(objects::cluster(name), objects::room("1000", "4000Gi", "1000"));
    let roles = json!({"groupVersion": "rbac.authorization.k8s.io/v1",
                       "resources": [{"kind": "ClusterRole", "name": "clusterroles"}]});
    cluster["status"]["apiEnablements"].as_array_mut().unwrap().push(roles);
    cluster
}

/// A cluster with room for so many pods.
pub fn small_cluster(name: &str, pods: u32) -> Value {
    let mut cluster = cluster(name);
    cluster["status"]["resourceSummary"]["allocatable"]["pods"] = Value::from(pods.to_string());
    cluster
}

/// The binding of the Deployment `default/NAME`, as Karmada's detector makes it.
pub fn binding(name: &str, replicas: i32, placement: Value) -> Value {
    let spec = json!({
        "replicas": replicas,
        "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
        "placement": placement,
    });
    let policy = json!({"metadata": {
        "labels": {"propagationpolicy.karmada.io/permanent-id": "5b1b4b2e-0000-4000-8000-000000000001"},
        "annotations": {
            "propagationpolicy.karmada.io/namespace": "default",
            "propagationpolicy.karmada.io/name": "nginx",
        },
    }});
    objects::with(objects::binding_in("default", &format!("{name}-deployment"), name, spec), policy)
}

/// The binding of a ClusterRole.
pub fn cluster_binding(name: &str, placement: Value) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding",
        "metadata": {
            "name": format!("{name}-clusterrole"),
            "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "5b1b4b2e-0000-4000-8000-000000000002"},
            "annotations": {"clusterpropagationpolicy.karmada.io/name": "roles"},
        },
        "spec": {
            "resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name},
            "placement": placement,
        },
    })
}

/// Replicas divided by the room there is.
pub fn by_room() -> Value {
    json!({
        "clusterAffinity": {"clusterNames": ["member1", "member2", "member3"]},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    })
}

pub fn aggregated() -> Value {
    json!({
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    })
}

/// Two groups, of one cluster each: a primary and a backup.
pub fn primary_and_backup() -> Value {
    json!({
        "clusterAffinities": [
            {"affinityName": "primary", "clusterNames": ["member1"]},
            {"affinityName": "backup", "clusterNames": ["member2"]},
        ],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    })
}

pub fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name})
}

pub fn cluster_role(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name})
}

pub fn rebalancer(name: &str, workloads: Vec<Value>) -> Value {
    json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": name},
        "spec": {"workloads": workloads},
    })
}

pub fn rebalancer_with_ttl(name: &str, workloads: Vec<Value>, ttl_seconds: i32) -> Value {
    let mut rebalancer = rebalancer(name, workloads);
    rebalancer["spec"]["ttlSecondsAfterFinished"] = Value::from(ttl_seconds);
    rebalancer
}

pub fn no_execute(key: &str) -> Value {
    json!({"key": key, "effect": "NoExecute"})
}

/// A quota of the namespace `default`, where each replica of the stories' bindings uses 100m.
pub fn quota(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"overall": {"cpu": cpu}},
    })
}
