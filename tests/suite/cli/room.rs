//! Capacity is assigned once, with the built server over HTTPS: the faults sched-01, sched-07 and
//! sre-01, with agents that report late.

use std::collections::BTreeMap;
use std::time::Instant;

use ballast::cli::client::Client;
use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN};
use crate::support::objects::{BINDINGS, CLUSTERS, REBALANCERS, binding_in, cluster, workload};

/// Returns the report of an agent about a cluster.
async fn reports(client: &Client, name: &str, cpu: i64, used: i64) {
    let status = json!({
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "resourceSummary": {
            "allocatable": {"cpu": cpu.to_string(), "memory": "1000Gi", "pods": "1000"},
            "allocated": {"cpu": used.to_string(), "pods": used.to_string()},
        },
    });
    client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &json!({"status": status})).await.unwrap();
}

async fn given(client: &Client, name: &str, cpu: i64) {
    client.post(CLUSTERS, &cluster(name)).await.unwrap();
    reports(client, name, cpu, 0).await;
}

/// Returns a Deployment with a request of one CPU per replica.
fn deployment(name: &str, replicas: i32, scheduling: Value) -> Value {
    let spec = json!({
        "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {"replicaScheduling": scheduling},
    });
    binding_in("shop", &format!("{name}-deployment"), name, spec)
}

fn aggregated() -> Value {
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
}

fn by_room() -> Value {
    json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    })
}

/// Waits until the bindings satisfy a condition, and returns them.
async fn until(client: &Client, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let list = client.get(BINDINGS).await.unwrap();
        let items = list["items"].as_array().unwrap().clone();
        if wanted(&items) {
            return items;
        }
        assert!(began.elapsed() < WITHIN, "{what}: {items:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn scheduled(binding: &Value) -> Option<(bool, String)> {
    let mut conditions = binding["status"]["conditions"].as_array()?.iter();
    let condition = conditions.find(|condition| condition["type"] == "Scheduled")?;
    Some((condition["status"] == "True", condition["message"].as_str().unwrap_or_default().to_owned()))
}

/// Returns whether every binding has been decided by a pass.
fn are_decided(items: &[Value], count: usize) -> bool {
    items.len() == count && items.iter().all(|binding| scheduled(binding).is_some())
}

fn by_cluster(items: &[Value]) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for target in items.iter().flat_map(|binding| binding["spec"]["clusters"].as_array().into_iter().flatten()) {
        *sums.entry(target["name"].as_str().unwrap().to_owned()).or_default() +=
            target["replicas"].as_i64().unwrap_or_default();
    }
    sums
}

fn sums(list: &[(&str, i64)]) -> BTreeMap<String, i64> {
    list.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect()
}

async fn rebalance(client: &Client, name: &str, workloads: &[String], path: &str) -> Value {
    let workloads: Vec<Value> = workloads.iter().map(|name| workload(name)).collect();
    let object = json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": workloads},
    });
    client.post(&format!("{REBALANCERS}{path}"), &object).await.unwrap()
}

/// Returns whether every trigger was served: no binding waits for a Fresh pass, unless it failed.
fn are_answered(items: &[Value]) -> bool {
    items.iter().all(|binding| {
        let owed = binding["metadata"]["annotations"].get("ballast.dev/owed").is_some();
        !owed || scheduled(binding).is_some_and(|(is_scheduled, _)| !is_scheduled)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm1_sre_01_what_is_created_in_one_go_fills_the_clusters_and_the_rest_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    for name in ["a", "b"] {
        given(&client, name, 4).await;
    }
    for number in 0..12 {
        client.post(BINDINGS, &deployment(&format!("w{number}"), 1, aggregated())).await.unwrap();
    }
    let items = until(&client, "all are decided", |items| are_decided(items, 12)).await;
    assert_eq!(by_cluster(&items), sums(&[("a", 4), ("b", 4)]));
    let waiting: Vec<String> =
        items.iter().filter_map(scheduled).filter(|(is_scheduled, _)| !is_scheduled).map(|(_, why)| why).collect();
    assert_eq!(waiting.len(), 4);
    let told = "cluster a: 4 free, 4 promised to others (shop/w";
    assert!(waiting[0].contains(told) && waiting[0].contains(", 0 left"), "{}", waiting[0]);

    // A restart loses all memory, and reads the same.
    server.kill();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    client.post(BINDINGS, &deployment("late", 1, aggregated())).await.unwrap();
    let items = until(&client, "the late one is decided", |items| are_decided(items, 13)).await;
    assert_eq!(by_cluster(&items), sums(&[("a", 4), ("b", 4)]));

    // Capacity that a binding releases is used at once, without a report of a cluster.
    let placed = items.iter().find(|binding| binding["spec"]["clusters"].is_array()).unwrap();
    let name = placed["metadata"]["name"].as_str().unwrap();
    client.delete(&format!("{BINDINGS}/{name}")).await.unwrap();
    until(&client, "another one takes the place", |items| {
        items.len() == 12 && by_cluster(items) == sums(&[("a", 4), ("b", 4)])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm4_sched_01_a_trigger_over_many_fills_the_cluster_that_came_back_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    given(&client, "home", 60).await;
    given(&client, "away", 130).await;
    let taint = json!({"spec": {"taints": [{"key": "lost", "effect": "NoExecute"}]}});
    client.merge_patch(&format!("{CLUSTERS}/home"), &taint).await.unwrap();
    let names: Vec<String> = (0..30).map(|number| format!("w{number:02}")).collect();
    for name in &names {
        client.post(BINDINGS, &deployment(name, 4, aggregated())).await.unwrap();
    }
    let away = sums(&[("away", 120)]);
    until(&client, "all are away", |items| by_cluster(items) == away).await;
    reports(&client, "away", 130, 120).await;
    client.merge_patch(&format!("{CLUSTERS}/home"), &json!({"spec": {"taints": []}})).await.unwrap();

    rebalance(&client, "all-home", &names, "").await;
    let items = until(&client, "all are answered", |items| {
        are_answered(items) && by_cluster(items).get("home").is_some_and(|home| *home >= 56)
    })
    .await;
    // For the last one, four replicas fit on either side, and names decide.
    assert_eq!(by_cluster(&items), sums(&[("away", 64), ("home", 56)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm4_sched_07_triggers_over_many_come_to_rest() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    for name in ["a", "b", "c"] {
        given(&client, name, 20).await;
    }
    let names: Vec<String> = (0..6).map(|number| format!("w{number}")).collect();
    for name in &names {
        client.post(BINDINGS, &deployment(name, 5, by_room())).await.unwrap();
    }
    let mut items = until(&client, "all are placed", |items| by_cluster(items).values().sum::<i64>() == 30).await;
    for round in 0..3 {
        for (name, used) in by_cluster(&items) {
            reports(&client, &name, 20, used).await;
        }
        let before = by_cluster(&items);
        rebalance(&client, &format!("r{round}"), &names, "").await;
        let is_served = |items: &[Value]| {
            let asked = |binding: &Value| binding["spec"]["rescheduleTriggeredAt"].as_str().map(str::to_owned);
            items.iter().all(|binding| asked(binding).is_some()) && are_answered(items)
        };
        items = until(&client, "the round is answered", is_served).await;
        let after = by_cluster(&items);
        assert!(after.values().all(|sum| (9..=11).contains(sum)), "round {round}: {after:?}");
        assert!(round == 0 || before == after, "round {round} moves replicas again: {before:?}, {after:?}");
    }
}
