//! Previews and executes moves: `cargo bench --bench load -- preview | moves`.
//!
//! `preview` measures a PlacementReview of every binding over 100 clusters, with concurrent GETs.
//! `moves` measures the memory of 100,000 Moves, and whether it is released with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::process::ServerProcess;
use super::setup::{ALL_BINDINGS, BINDINGS, body_of, larger_clusters, make_bindings, make_fleet, percentile};

pub const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const MOVES: &str = "/apis/ballast.dev/v1alpha1/moves";
const ROUNDS: usize = 5;
/// Timeout for the removal of all Moves of a deleted rebalance.
const CLEAN_WITHIN: Duration = Duration::from_secs(300);
/// Texts are packed after they were unused for ten to twenty seconds, and a thread returns free
/// memory to the system every ten seconds.
pub const MEMORY_SETTLES: Duration = Duration::from_secs(45);

/// Measures a PlacementReview. Half of the clusters join after everything is placed, and they are
/// larger, so most workloads are displaced.
pub async fn preview() {
    for (bindings, clusters) in [(10_000, 100), (100_000, 100)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = ServerProcess::start(folder.path(), &[]);
        let client = Arc::new(server.client().await);
        make_fleet(&client, clusters / 2).await;
        make_bindings(&client, bindings).await;
        larger_clusters(&client, clusters / 2..clusters).await;
        println!("{bindings} bindings over {clusters} clusters");
        for select in [json!({}), json!({"displaced": true})] {
            review(&server, &client, &select).await;
        }
    }
}

async fn review(server: &ServerProcess, client: &Client, select: &Value) {
    let question = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview",
        "spec": {"select": [select], "mode": "Fresh", "limit": 500}});
    let body = Bytes::from(serde_json::to_vec(&question).expect("JSON"));
    for round in 0..ROUNDS {
        let is_over = Arc::new(AtomicBool::new(false));
        let beside = tokio::spawn(get_until(server.client().await, Arc::clone(&is_over)));
        let (begun, cpu) = (Instant::now(), server.cpu());
        let answer = body_of(client, Method::POST, REVIEWS, Some("application/json"), body.clone()).await;
        let (took, cpu) = (begun.elapsed(), server.cpu() - cpu);
        is_over.store(true, Ordering::Relaxed);
        let mut gets = beside.await.expect("no panic");
        gets.sort_unstable();
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let summary = &answer["status"]["summary"];
        println!(
            "round {round}: select {select}: {took:.2?} (server CPU {cpu:.2?}), {} selected, {} would move; \
             {} GETs beside it: p50 {:.1?}, p99 {:.1?}",
            summary["selected"],
            summary["toMove"],
            gets.len(),
            percentile(&gets, 50),
            percentile(&gets, 99),
        );
    }
}

/// Sends one GET after the other, on a separate connection.
async fn get_until(client: Client, is_over: Arc<AtomicBool>) -> Vec<Duration> {
    let mut took = Vec::new();
    while !is_over.load(Ordering::Relaxed) || took.is_empty() {
        let path = format!("{BINDINGS}/web-{}-deployment", took.len() % 10_000);
        let begun = Instant::now();
        body_of(&client, Method::GET, &path, None, Bytes::new()).await;
        took.push(begun.elapsed());
    }
    took
}

type Client = ballast::cli::client::Client;

/// Creates a ClusterRebalance, waits until it has finished, and returns it.
pub async fn rebalanced(client: &Client, name: &str, spec: Value) -> Value {
    let rebalance = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
        "metadata": {"name": name}, "spec": spec});
    client.post(REBALANCES, &rebalance).await.expect("created");
    let mut last = Value::Null;
    let path = format!("{REBALANCES}?fieldSelector=metadata.name%3D{name}");
    let ended = client
        .watch(&path, |event| {
            last = event["object"].clone();
            last["status"]["finishTime"].is_string()
        })
        .await;
    assert!(ended.expect("the watch goes on"), "the watch ended early: {last}");
    last
}

/// Returns the number of objects in a collection.
pub async fn count(client: &Client, collection: &str) -> usize {
    let list = client.get(&format!("{collection}?limit=1")).await.expect("a list");
    let first = list["items"].as_array().map_or(0, Vec::len);
    first + list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default() as usize
}

pub async fn moves() {
    const BINDINGS: usize = 100_000;
    const CLUSTERS: usize = 20;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    make_fleet(&client, CLUSTERS / 2).await;
    make_bindings(&client, BINDINGS).await;
    larger_clusters(&client, CLUSTERS / 2..CLUSTERS).await;
    let resident = || server.resident_bytes() / 1_000_000;
    tokio::time::sleep(MEMORY_SETTLES).await;
    println!("{} scheduled bindings: {} MB", count(&client, ALL_BINDINGS).await, resident());
    let spec = json!({"select": [{"all": true}], "mode": "Fresh", "approval": "Required"});
    let rebalance = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
        "metadata": {"name": "all"}, "spec": spec});
    let (begun, cpu) = (Instant::now(), server.cpu());
    client.post(REBALANCES, &rebalance).await.expect("created");
    let path = format!("{REBALANCES}?fieldSelector=metadata.name%3Dall");
    let planned = client.watch(&path, |event| event["object"]["status"]["phase"] == "Planned").await;
    assert!(planned.expect("the watch goes on"));
    println!("planned after {:.2?} (server CPU {:.2?})", begun.elapsed(), server.cpu() - cpu);
    tokio::time::sleep(MEMORY_SETTLES).await;
    println!("{} Moves are planned: {} MB", count(&client, MOVES).await, resident());
    client.delete(&format!("{REBALANCES}/all")).await.expect("deleted");
    let begun = Instant::now();
    while count(&client, MOVES).await > 0 {
        assert!(begun.elapsed() < CLEAN_WITHIN, "the Moves do not go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("the Moves are gone after {:.1?}", begun.elapsed());
    tokio::time::sleep(MEMORY_SETTLES).await;
    println!("after them: {} MB", resident());
}
