//! Small valid objects.

use serde_json::{Value, json};

pub const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
pub const ALL_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const TASKS: &str = "/apis/task.karmada.io/v1alpha1/rescheduletasks";

/// A binding of a Deployment without a placement. No worker acts on it.
pub fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name}},
    })
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
