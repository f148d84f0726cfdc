//! Shared by the load benches: many requests at a time, and clusters with bindings to place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};

pub const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
pub const ALL_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";
pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";

/// Runs `request` for 0..count with this many at a time. Returns the time of each, sorted.
pub async fn storm<F, Fut>(count: usize, concurrent: usize, request: F) -> (Duration, Vec<Duration>)
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..concurrent)
        .map(|_| {
            let (next, request) = (next.clone(), request.clone());
            tokio::spawn(async move {
                let mut took = Vec::new();
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= count {
                        return took;
                    }
                    let begun = Instant::now();
                    request(turn).await;
                    took.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut took = Vec::with_capacity(count);
    for task in tasks {
        took.extend(task.await.expect("no request panics"));
    }
    let whole = begun.elapsed();
    took.sort_unstable();
    (whole, took)
}

pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// `count` clusters with room for everything.
pub async fn make_fleet(client: &Client, count: usize) {
    add_clusters(client, 0..count, "64000").await;
}

/// Clusters with twice the room of the others. A fresh decision prefers them; with equal room
/// every workload would stay where it is.
pub async fn larger_clusters(client: &Client, numbers: Range<usize>) {
    add_clusters(client, numbers, "128000").await;
}

async fn add_clusters(client: &Client, numbers: Range<usize>, cpu: &str) {
    for i in numbers {
        let name = format!("member{i}");
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name}, "spec": {"syncMode": "Push"}});
        client.post(CLUSTERS, &cluster).await.expect("a cluster");
        let status = json!({"status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
            "resourceSummary": {"allocatable": {"cpu": cpu, "memory": "256Ti", "pods": "1100000"}, "allocated": {}}}});
        client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &status).await.expect("its status");
    }
}

/// A binding of about 1.5 KB as JSON, divided by room.
pub fn binding(i: usize) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": format!("web-{i}-deployment"), "namespace": "default",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "3d5f2a52-7f0e-4c7c-9a65-0c4be4f6f001", "app": "web"},
            "annotations": {"propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "web",
                "note": "x".repeat(420)},
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{i}"), "namespace": "default",
                "uid": format!("3d5f2a52-7f0e-4c7c-9a65-{i:012x}")},
            "replicas": 2 + i % 9,
            "replicaRequirements": {"resourceRequest": {"cpu": "250m", "memory": "256Mi"}},
            "placement": {"clusterAffinity": {"clusterNames": []}, "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
        }
    })
}

/// Gives a binding to a scheduler that nobody runs.
pub fn unscheduled(binding: &mut Value) {
    binding["spec"]["schedulerName"] = "nobody".into();
}

/// Creates `count` bindings that no scheduler handles. Each has about 1.5 KB as it is stored, with
/// its managed fields.
pub async fn make_idle_bindings(client: &Arc<Client>, count: usize) {
    let sender = client.clone();
    storm(count, 64, move |i| {
        let client = sender.clone();
        async move {
            let mut object = binding(i);
            unscheduled(&mut object);
            object["metadata"]["annotations"] = Value::Null;
            client.post(BINDINGS, &object).await.expect("a binding");
        }
    })
    .await;
}

/// Reads the whole body of an answer without decoding it.
pub async fn body_of(client: &Client, method: Method, path: &str, kind: Option<&str>, body: Bytes) -> Bytes {
    let (status, body) = client.send(method, path, kind, body).await.expect("an answer");
    assert!(status.is_success(), "{path}: {status}");
    body.collect().await.expect("the answer ends").to_bytes()
}

/// Creates the bindings `from..to` and waits until all of them are scheduled.
pub async fn make_bindings(client: &Arc<Client>, count: usize) {
    let sender = client.clone();
    storm(count, 64, move |i| {
        let client = sender.clone();
        async move {
            client.post(BINDINGS, &binding(i)).await.expect("a binding");
        }
    })
    .await;
    await_scheduled(client, count, 0, |binding| binding.status.last_scheduled_time.is_some()).await;
}

/// The part of an event that says how far a binding is. A client that decoded more would measure
/// itself.
#[derive(Deserialize)]
struct Seen {
    object: Binding,
}

#[derive(Deserialize)]
pub struct Binding {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub reschedule_triggered_at: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub last_scheduled_time: Option<String>,
}

/// Waits until `count` different bindings are as wanted. It looks at the changes after a revision,
/// or at all bindings if the revision is 0.
pub async fn await_scheduled(client: &Client, count: usize, since: i64, wanted: impl Fn(&Binding) -> bool) {
    let mut done = BTreeSet::new();
    let path = match since {
        0 => ALL_BINDINGS.to_owned(),
        since => format!("{ALL_BINDINGS}?resourceVersion={since}"),
    };
    let all = client
        .watch_lines(&path, |line| {
            let Seen { object } = serde_json::from_slice(line)?;
            if wanted(&object) {
                done.insert(object.metadata.name);
            }
            Ok(done.len() == count)
        })
        .await;
    assert!(all.expect("the watch goes on"), "the watch ended early");
}
