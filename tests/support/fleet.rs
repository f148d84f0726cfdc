//! The objects of a small fleet that tests begin with.

use ballast::api::karmada::policy::v1alpha1::PurgeMode;
use ballast::clock::{Clock, SystemClock};
use ballast::controllers::{EvictionRate, FailoverOptions, TaintEviction};
use ballast::k8s::Time;
use serde_json::{Value, json};

use super::objects;

/// Returns a cluster with capacity for a thousand pods.
pub fn cluster(name: &str) -> Value {
    let mut cluster = objects::with(objects::cluster(name), objects::room("1000", "4000Gi", "1000"));
    let roles = json!({"groupVersion": "rbac.authorization.k8s.io/v1",
                       "resources": [{"kind": "ClusterRole", "name": "clusterroles"}]});
    cluster["status"]["apiEnablements"].as_array_mut().unwrap().push(roles);
    cluster
}

/// Returns a cluster with capacity for `pods` pods.
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

/// Returns a placement that divides replicas by available capacity.
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

/// Returns two groups of one cluster each: a primary and a backup.
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

/// Returns a quota of the namespace `default`; each replica of the stories' bindings uses 100m.
pub fn quota(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"overall": {"cpu": cpu}},
    })
}

/// Returns a MemberCluster of KubeFleet with the label `tier`.
pub fn member(name: &str, tier: &str) -> Value {
    json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
           "metadata": {"name": name, "labels": {"tier": tier}}, "spec": {"identity": {"kind": "User", "name": name}}})
}

/// Returns the status that the agent of a joined, healthy member reports.
pub fn agent() -> Value {
    agent_heard(0)
}

/// Like the above, with a heartbeat `seconds` ago.
pub fn agent_heard(seconds_ago: i64) -> Value {
    let now = Time::from_seconds(SystemClock.now().seconds() - seconds_ago).to_string();
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
    json!({"type": "MemberAgent", "lastReceivedHeartbeat": now, "conditions": [condition("Joined"), condition("Healthy")]})
}

/// Returns a KubeFleet placement of the namespace `shop`.
pub fn placement(name: &str, policy: Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": policy,
        },
    })
}

/// Returns the server's defaults, without a limit on the eviction rate.
pub fn without_a_rate() -> FailoverOptions {
    let rate = EvictionRate { per_second: f64::INFINITY, ..EvictionRate::default() };
    let taints = TaintEviction::By { purge_mode: PurgeMode::Gracefully, rate };
    FailoverOptions { taints, ..FailoverOptions::default() }
}
