//! Measures survivability reviews of 1,000 clusters and 10,000 workloads: `cargo bench --bench load
//! -- thousand`.
//!
//! 300 of the workloads run on every cluster, so the fleet has some 330,000 replicas. Nine regions
//! have 111 clusters each. The figures: the time of a review that assumes the loss of a region, of
//! reviews of the loss of each cluster and of each region, and of `ballast top`; the age of the
//! metrics after a region is lost; the CPU use of the server without requests; and the time to shut
//! down during a request.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::process::{ServerProcess, program};
use super::setup::{ALL_BINDINGS, BINDINGS, CLUSTERS, body_of, storm};

const MEMBERS: usize = 1_000;
const REGIONS: usize = 9;
const WORKLOADS: usize = 10_000;
/// One in this number of workloads runs on every cluster.
const COPIED_EVERY: usize = 33;
const ROUNDS: usize = 3;
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const FLEET_REVIEWS: &str = "/apis/ballast.dev/v1alpha1/fleetreviews";
/// Duration of the measurement without requests.
const QUIET: Duration = Duration::from_secs(60);

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    let (began, cpu) = (Instant::now(), server.cpu());
    fill(&client).await;
    println!("filled and scheduled after {:.1?} (server CPU {:.1?})", began.elapsed(), server.cpu() - cpu);
    let began = Instant::now();
    metric_from(&client, "ballast_survival_timestamp_seconds", |seconds| seconds > 0.0).await;
    println!("the survival metric is there after {:.1?}", began.elapsed());

    let absent: Vec<Value> = (0..MEMBERS)
        .filter(|index| region(*index) == "r1")
        .map(|index| json!({"name": name(index), "absent": true}))
        .collect();
    let what_if = json!({"select": [{}], "mode": "Steady", "limit": 500, "suppose": {"clusters": absent}});
    ask(&server, &client, "a region of 111 clusters is lost", REVIEWS, &what_if).await;
    ask(&server, &client, "survive by cluster", REVIEWS, &json!({"select": [{}], "survive": {"by": "Cluster"}})).await;
    ask(&server, &client, "survive by region", REVIEWS, &json!({"select": [{}], "survive": {"by": "Region"}})).await;
    ask(&server, &client, "FleetReview", FLEET_REVIEWS, &json!({"limit": 0})).await;
    for round in 0..ROUNDS {
        let began = Instant::now();
        let kubeconfig = folder.path().join("certs/admin.kubeconfig");
        let top = Command::new(program()).arg("top").env("KUBECONFIG", kubeconfig).output().expect("it runs");
        assert!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
        println!("round {round}: ballast top: {:.2?}", began.elapsed());
    }

    let taints = json!({"spec": {"taints": [{"key": "cluster.karmada.io/unreachable", "effect": "NoExecute"}]}});
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "r", "message": "m",
        "lastTransitionTime": jiff::Timestamp::now().strftime("%FT%TZ").to_string()}]}});
    let (began, cpu) = (Instant::now(), server.cpu());
    for index in (0..MEMBERS).filter(|index| region(*index) == "r1") {
        let path = format!("{CLUSTERS}/{}", name(index));
        client.merge_patch(&format!("{path}/status"), &unready).await.expect("its status");
        client.merge_patch(&path, &taints).await.expect("a taint");
    }
    let lost = jiff::Timestamp::now().as_second();
    println!("a region of 111 clusters is lost after {:.1?}", began.elapsed());
    let began = Instant::now();
    let on_region = WORKLOADS / 4;
    let displaced = metric_from(&client, "ballast_workloads_displaced", |count| count > on_region as f64).await;
    println!("{displaced} displaced workloads are counted after {:.1?}", began.elapsed());
    metric_from(&client, "ballast_survival_timestamp_seconds", |seconds| seconds >= lost as f64).await;
    println!("the survival metric is about that after {:.1?}", began.elapsed());
    println!("server CPU since the loss: {:.1?}", server.cpu() - cpu);

    let cpu = server.cpu();
    tokio::time::sleep(QUIET).await;
    let share = (server.cpu() - cpu).as_secs_f64() / QUIET.as_secs_f64();
    println!("without requests, the server uses {:.1} % of a core (evictions go on)", 100.0 * share);

    let other = server.client().await;
    let asked = tokio::spawn(async move {
        let survive = question(&json!({"select": [{}], "survive": {"by": "Cluster"}}));
        drop(other.send(Method::POST, REVIEWS, Some("application/json"), survive).await);
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    let ended = server.terminate();
    println!("ended {:.1?} after SIGTERM, while it answered: {ended}", began.elapsed());
    asked.abort();
}

fn name(index: usize) -> String {
    format!("prod-eu-central-1-payments-k8s-{index:04}")
}

fn region(index: usize) -> String {
    format!("r{}", index % REGIONS + 1)
}

async fn fill(client: &Arc<Client>) {
    let sender = Arc::clone(client);
    storm(MEMBERS, 16, move |index| {
        let client = Arc::clone(&sender);
        async move {
            let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name(index)}, "spec": {"syncMode": "Push", "region": region(index)}});
            client.post(CLUSTERS, &cluster).await.expect("a cluster");
            let status = json!({"status": {
                "apiEnablements": [{"groupVersion": "apps/v1",
                    "resources": [{"kind": "Deployment", "name": "deployments"}]}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "resourceSummary": {"allocatable": {"cpu": "128", "memory": "512Gi", "pods": "1000"}},
            }});
            client.merge_patch(&format!("{CLUSTERS}/{}/status", name(index)), &status).await.expect("its status");
        }
    })
    .await;
    let sender = Arc::clone(client);
    storm(WORKLOADS, 32, move |index| {
        let client = Arc::clone(&sender);
        async move {
            client.post(BINDINGS, &binding(index)).await.expect("a binding");
        }
    })
    .await;
    super::setup::await_scheduled(client, WORKLOADS, 0, ballast::cli::bench::placed::Binding::is_placed).await;
    let list = client.get(&format!("{ALL_BINDINGS}?limit=1")).await.expect("a list");
    assert_eq!(list["metadata"]["remainingItemCount"], WORKLOADS - 1);
}

fn binding(index: usize) -> Value {
    let is_copied = index.is_multiple_of(COPIED_EVERY);
    let placement = match is_copied {
        true => json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}),
        false => {
            let names: Vec<String> = (0..4).map(|turn| name((index * 7 + turn) % MEMBERS)).collect();
            json!({"clusterAffinity": {"clusterNames": names}, "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}}})
        }
    };
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
    "metadata": {"name": format!("w{index}-deployment"), "namespace": "default"},
    "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("w{index}"),
            "namespace": "default"},
        "replicas": if is_copied { 1 } else { 3 },
        "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
        "placement": placement,
    }})
}

fn question(spec: &Value) -> Bytes {
    let kind = if spec.get("select").is_some() { "PlacementReview" } else { "FleetReview" };
    let question = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "spec": spec});
    serde_json::to_vec(&question).expect("JSON").into()
}

async fn ask(server: &ServerProcess, client: &Client, what: &str, path: &str, spec: &Value) {
    for round in 0..ROUNDS {
        let (began, cpu) = (Instant::now(), server.cpu());
        let answer = body_of(client, Method::POST, path, Some("application/json"), question(spec)).await;
        println!(
            "round {round}: {what}: {:.2?} (server CPU {:.2?}), {} KB",
            began.elapsed(),
            server.cpu() - cpu,
            answer.len() / 1_000
        );
    }
}

/// Reads the metrics until this one satisfies `wanted`, and returns it.
async fn metric_from(client: &Client, name: &str, wanted: impl Fn(f64) -> bool) -> f64 {
    loop {
        let metrics = body_of(client, Method::GET, "/metrics", None, Bytes::new()).await;
        let metrics = String::from_utf8_lossy(&metrics);
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        if let Some(value) = value.filter(|value| wanted(*value)) {
            return value;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
