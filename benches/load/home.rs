//! Plans the return of 10,000 workloads from a long log: `cargo bench --bench load -- home`.
//!
//! Everything is placed, changes 20 times, as in 48 hours with a change every 2.4 hours, and moves
//! to clusters that have joined. The server is restarted. A ClusterRebalance of mode AsBefore
//! restores the first placements: as a dry run, and until its plan is stored.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::bench::placed::Binding;
use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

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

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &FLAGS);
    let client = Arc::new(server.client().await);
    make_fleet(&client, CLUSTERS).await;
    make_bindings(&client, COUNT).await;
    let before = newest(&client).await;
    let time = jiff::Timestamp::now().to_string();
    // Times in the log have a resolution of one second.
    tokio::time::sleep(Duration::from_secs(2)).await;
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
    let rows = newest(&client).await;
    drop(client);
    server.terminate();

    let begun = Instant::now();
    let server = ServerProcess::start(folder.path(), &FLAGS);
    let client = server.client().await;
    println!("{rows} revisions; the server is ready after {:.1?}", begun.elapsed());
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
        "spec": {"select": [{"all": true}], "mode": "AsBefore", "before": before, "approval": "Required"}})
}

async fn newest(client: &Client) -> i64 {
    let list = client.get(&format!("{ALL_BINDINGS}?limit=1")).await.expect("a list");
    list["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).expect("a revision")
}
