//! The objects of the benchmark: clusters, and bindings that are divided by free capacity. Also
//! used by the benches (`benches/load`).

use serde_json::{Value, json};

pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
/// The scheduler of bindings that must not be placed. No program has this name.
const NO_SCHEDULER: &str = "nobody";

pub fn bindings_path(namespace: &str) -> String {
    format!("/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings")
}

pub fn cluster(number: usize) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": format!("member{number}")}, "spec": {"syncMode": "Push"},
    })
}

/// Returns a merge patch of the status of a cluster with this cpu and capacity for a million pods.
pub fn cluster_status(cpu: &str) -> Value {
    json!({"status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "resourceSummary": {"allocatable": {"cpu": cpu, "memory": "256Ti", "pods": "1100000"}, "allocated": {}}}})
}

pub fn name(number: usize) -> String {
    format!("web-{number}-deployment")
}

/// Returns a binding of about 1.5 KB as JSON, divided by free capacity.
pub fn binding(namespace: &str, number: usize) -> Value {
    let mut resource = workload(namespace, number);
    resource["uid"] = format!("3d5f2a52-7f0e-4c7c-9a65-{number:012x}").into();
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": name(number), "namespace": namespace,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "3d5f2a52-7f0e-4c7c-9a65-0c4be4f6f001", "app": "web"},
            "annotations": {"propagationpolicy.karmada.io/namespace": namespace, "propagationpolicy.karmada.io/name": "web",
                "note": "x".repeat(420)},
        },
        "spec": {
            "resource": resource,
            "replicas": 2 + number % 9,
            "replicaRequirements": {"resourceRequest": {"cpu": "250m", "memory": "256Mi"}},
            "placement": {"clusterAffinity": {"clusterNames": []}, "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
        }
    })
}

/// Assigns a binding to a scheduler that does not exist.
pub fn unscheduled(binding: &mut Value) {
    binding["spec"]["schedulerName"] = NO_SCHEDULER.into();
}

pub fn workload(namespace: &str, number: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{number}"), "namespace": namespace})
}
