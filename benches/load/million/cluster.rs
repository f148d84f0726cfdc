//! A cluster with some of the bindings fails.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use ballast::cli::client::Client;
use serde_json::json;

use super::super::process::ServerProcess;
use super::super::setup::{CLUSTERS, binding, larger_clusters, storm};
use super::{CONCURRENT, PATIENCE, idle, metrics, value};

const LONE: &str = "/apis/work.karmada.io/v1alpha2/namespaces/lone/resourcebindings";
const ON_FAILING: usize = 1_000;

/// Evicts some of the bindings with a taint on their cluster.
pub async fn fails(server: &ServerProcess) {
    let client = Arc::new(server.client().await);
    larger_clusters(&client, 900..901).await;
    let sender = client.clone();
    storm(ON_FAILING, CONCURRENT, move |i| {
        let client = sender.clone();
        async move {
            let mut object = binding(i);
            object["metadata"]["namespace"] = "lone".into();
            object["spec"]["resource"]["namespace"] = "lone".into();
            object["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member900", "member901"]});
            client.post(LONE, &object).await.expect("a binding");
        }
    })
    .await;
    on(&client, "member900").await;
    larger_clusters(&client, 901..902).await;
    idle(server).await;
    let keys = |metrics: &str| value(metrics, "ballast_worker_keys_total", r#"worker="failover""#);
    let (before, cpu, begun) = (keys(&metrics(server).await), server.cpu(), Instant::now());
    let taint = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}});
    client.merge_patch(&format!("{CLUSTERS}/member900"), &taint).await.expect("tainted");
    on(&client, "member901").await;
    let (whole, cpu) = (begun.elapsed(), server.cpu() - cpu);
    let looked_at = keys(&metrics(server).await) - before;
    println!("{ON_FAILING} bindings have left after {whole:.2?}, server CPU {cpu:.2?}, {looked_at} keys worked on");
}

/// Waits until all bindings of the small namespace are only on this cluster.
async fn on(client: &Client, cluster: &str) {
    let mut there = BTreeSet::new();
    let seen = client.watch(LONE, |event| {
        let targets = event["object"]["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let is_there = !targets.is_empty() && targets.iter().all(|target| target["name"] == cluster);
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match is_there {
            true => there.insert(name),
            false => there.remove(&name),
        };
        there.len() == ON_FAILING
    });
    let seen = tokio::time::timeout(PATIENCE, seen).await.expect("in time");
    assert!(seen.expect("the watch goes on"), "the watch ended early");
}
