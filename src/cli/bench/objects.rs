//! The objects that are created: clusters with room for all, and bindings that are divided by it.

use bytes::Bytes;
use serde_json::{Value, json};

pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
/// How many clusters the own server has.
pub const CLUSTER_COUNT: usize = 20;
/// The scheduler of bindings that are not to be placed. No program has this name.
const NO_SCHEDULER: &str = "ballast-bench-places-nothing";

pub fn bindings_path(namespace: &str) -> String {
    format!("/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings")
}

pub fn cluster(number: usize) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": format!("member{number}")}, "spec": {"syncMode": "Push"},
    })
}

/// With room for everything that is asked for here.
pub fn cluster_status() -> Value {
    let deployments = json!({"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]});
    let allocatable = json!({"cpu": "640000", "memory": "2560Ti", "pods": "11000000"});
    json!({"status": {
        "apiEnablements": [deployments], "resourceSummary": {"allocatable": allocatable, "allocated": {}},
    }})
}

pub fn name(number: usize) -> String {
    format!("web-{number}-deployment")
}

/// About 1 KB as JSON. `is_placed`: by the scheduler that is there; otherwise by none.
pub fn binding(namespace: &str, number: usize, is_placed: bool) -> Bytes {
    let mut object = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": name(number), "namespace": namespace,
            "labels": {"app": "web", "propagationpolicy.karmada.io/permanent-id": "3d5f2a52-7f0e-4c7c-9a65-0c4be4f6f001"},
            "annotations": {"note": "x".repeat(400)},
        },
        "spec": {
            "resource": workload(namespace, number),
            "replicas": 2 + number % 9,
            "replicaRequirements": {"resourceRequest": {"cpu": "250m", "memory": "256Mi"}},
            "placement": {"clusterAffinity": {"clusterNames": []}, "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
        },
    });
    if !is_placed {
        object["spec"]["schedulerName"] = NO_SCHEDULER.into();
    }
    object.to_string().into()
}

pub fn workload(namespace: &str, number: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{number}"), "namespace": namespace})
}
