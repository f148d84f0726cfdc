//! Plans the way back of 10,000 workloads out of a long log: `cargo bench --bench load -- home`.
//!
//! Everything is placed, changes 20 times, and moves to clusters that have joined. The log is then
//! told that this took 48 hours. A ClusterRebalance of mode AsBefore is to bring everything back to
//! where it was at the beginning: as a dry run, and until its plan is stored.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::bench::placed::Binding;
use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::preview::REBALANCES;
use super::process::ServerProcess;
use super::setup::{
    ALL_BINDINGS, BINDINGS, REBALANCERS, await_scheduled, body_of, larger_clusters, make_bindings, make_fleet, storm,
};

const COUNT: usize = 10_000;
const CLUSTERS: usize = 20;
const CHANGES: usize = 20;
const ROUNDS: usize = 5;
const FLAGS: [&str; 4] = ["--history", "49h", "--history-max-changes", "1000000"];
const TWO_DAYS_MS: i64 = 48 * 3_600 * 1_000;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &FLAGS);
    let client = Arc::new(server.client().await);
    make_fleet(&client, CLUSTERS).await;
    make_bindings(&client, COUNT).await;
    let before = newest(&client).await;
    for turn in 0..CHANGES {
        let sender = Arc::clone(&client);
        storm(COUNT, 64, move |i| {
            let client = Arc::clone(&sender);
            async move {
                let path = format!("{BINDINGS}/web-{i}-deployment");
                let patch = format!(r#"{{"metadata":{{"labels":{{"turn":"{turn}"}}}}}}"#);
                body_of(&client, Method::PATCH, &path, Some("application/merge-patch+json"), patch.into()).await;
            }
        })
        .await;
    }
    larger_clusters(&client, CLUSTERS..2 * CLUSTERS).await;
    let since = newest(&client).await;
    let workload =
        |i| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{i}"), "namespace": "default"});
    let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "all"}, "spec": {"workloads": (0..COUNT).map(workload).collect::<Vec<_>>()}});
    client.post(REBALANCERS, &rebalancer).await.expect("created");
    await_scheduled(&client, COUNT, since, Binding::is_decided_again).await;
    drop(client);
    let database = server.database();
    server.terminate();
    let (rows, time) = stretched(&database, before).await;

    let begun = Instant::now();
    let server = ServerProcess::start(folder.path(), &FLAGS);
    let client = server.client().await;
    println!("{rows} rows in a log of 48 hours; the server is ready after {:.1?}", begun.elapsed());
    for (name, moment) in [("time", json!({"time": time})), ("revision", json!({"revision": before.to_string()}))] {
        for round in 0..ROUNDS {
            let body = Bytes::from(serde_json::to_vec(&rebalance("dry", &moment)).expect("JSON"));
            let (begun, cpu) = (Instant::now(), server.cpu());
            let path = format!("{REBALANCES}?dryRun=All");
            let answer = body_of(&client, Method::POST, &path, Some("application/json"), body).await;
            let (took, cpu) = (begun.elapsed(), server.cpu() - cpu);
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            let to_move = &answer["status"]["summary"]["toMove"];
            println!("round {round}: a dry run by {name}: {took:.2?} (server CPU {cpu:.2?}), {to_move} to move");
        }
    }
    for round in 0..ROUNDS {
        let name = format!("planned-{round}");
        let (begun, cpu) = (Instant::now(), server.cpu());
        client.post(REBALANCES, &rebalance(&name, &json!({"time": time}))).await.expect("created");
        let path = format!("{REBALANCES}?fieldSelector=metadata.name%3D{name}");
        let planned = client.watch(&path, |event| event["object"]["status"]["phase"] == "Planned").await;
        assert!(planned.expect("the watch goes on"));
        let (took, cpu): (Duration, Duration) = (begun.elapsed(), server.cpu() - cpu);
        println!("round {round}: until the plan is stored: {took:.2?} (server CPU {cpu:.2?})");
    }
}

fn rebalance(name: &str, before: &Value) -> Value {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": name},
        "spec": {"select": [{}], "mode": "AsBefore", "before": before, "approval": "Required"}})
}

async fn newest(client: &Client) -> i64 {
    let list = client.get(&format!("{ALL_BINDINGS}?limit=1")).await.expect("a list");
    list["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).expect("a revision")
}

/// Spreads the times of all rows over the last 48 hours, in their order. Returns how many rows
/// there are, and the time of a revision.
async fn stretched(database: &Path, revision: i64) -> (i64, String) {
    let mut file = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    let sql = "WITH ends AS (SELECT min(time_ms) AS first, max(time_ms) AS last, min(revision) AS low, \
               max(revision) AS high FROM changes) \
               UPDATE changes SET time_ms = (SELECT last - ? + ? * (changes.revision - low) / (high - low) FROM ends)";
    sqlx::query(sql).bind(TWO_DAYS_MS).bind(TWO_DAYS_MS).execute(&mut file).await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM changes").fetch_one(&mut file).await.unwrap();
    let time_ms: i64 =
        sqlx::query_scalar("SELECT time_ms FROM changes WHERE revision <= ? ORDER BY revision DESC LIMIT 1")
            .bind(revision)
            .fetch_one(&mut file)
            .await
            .unwrap();
    (rows, jiff::Timestamp::from_second(time_ms / 1_000).unwrap().to_string())
}
