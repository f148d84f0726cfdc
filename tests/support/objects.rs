//! Small valid objects.

use serde_json::{Value, json};

pub const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
pub const ALL_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const TASKS: &str = "/apis/task.karmada.io/v1alpha1/rescheduletasks";

/// Returns a cluster without status.
pub fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"syncMode": "Push"},
    })
}

/// Returns the status of a cluster that serves Deployments, with this capacity.
pub fn room(cpu: &str, memory: &str, pods: &str) -> Value {
    json!({"status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "resourceSummary": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}},
    }})
}

/// A binding of a Deployment without a placement. No worker acts on it.
pub fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name}},
    })
}

/// Returns the binding of a Deployment in this namespace, with further fields of its spec.
pub fn binding_in(namespace: &str, name: &str, workload: &str, spec: Value) -> Value {
    let resource = json!({"namespace": namespace, "name": workload});
    let place = json!({"metadata": {"namespace": namespace}, "spec": {"resource": resource}});
    with(with(binding(name), place), json!({"spec": spec}))
}

/// Merges `change` into `object`, as a JSON merge patch does.
pub fn with(mut object: Value, change: Value) -> Value {
    match (&mut object, change) {
        (Value::Object(members), Value::Object(changes)) => {
            for (name, change) in changes {
                match members.remove(&name) {
                    _ if change.is_null() => {}
                    Some(known) => drop(members.insert(name, with(known, change))),
                    None => drop(members.insert(name, change)),
                }
            }
            object
        }
        (_, change) => change,
    }
}

pub fn rebalancer(name: &str) -> Value {
    json!({
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": name},
        "spec": {"workloads": [workload(name)]},
    })
}

pub fn workload(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name})
}

pub fn task(name: &str) -> Value {
    json!({
        "apiVersion": "task.karmada.io/v1alpha1",
        "kind": "RescheduleTask",
        "metadata": {"name": name},
        "spec": {"targetRefResource": [workload(name)]},
    })
}
