//! Measures decisions that follow a mass rebalance: `cargo bench --bench load -- inventory`.
//!
//! There are two servers, one of which publishes the inventory of clusters and decisions. On each
//! in turns, a ClusterRebalance without bounds moves 10,000 bindings, and its undo moves them back.
//! A PlacementDecision changes in the transaction of its binding.

use std::sync::Arc;

use serde_json::json;

use super::process::ServerProcess;
use super::rebalance::move_all;
use super::setup::{larger_clusters, make_bindings, make_fleet};

const BINDINGS: usize = 10_000;
const CLUSTERS: usize = 20;
const ROUNDS: usize = 4;
const DECISIONS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/placementdecisions?limit=1";

pub async fn run() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let flags: [&[&str]; 2] = [&[], &["--cluster-inventory-namespace", "fleet"]];
    let mut servers = Vec::new();
    for (folder, flags) in folders.iter().zip(flags) {
        let server = ServerProcess::start(folder.path(), flags);
        let client = Arc::new(server.client().await);
        make_fleet(&client, CLUSTERS).await;
        make_bindings(&client, BINDINGS).await;
        larger_clusters(&client, CLUSTERS..2 * CLUSTERS).await;
        servers.push(server);
    }
    let told = servers[1].client().await.get(DECISIONS).await.expect("the decisions");
    println!("decisions: 1 and {} more", told["metadata"]["remainingItemCount"]);
    for round in 0..ROUNDS {
        let there = format!("there-{round}");
        for (name, spec) in [
            (there.clone(), json!({"select": [{"all": true}], "mode": "Fresh"})),
            (format!("back-{round}"), json!({"undo": {"name": there}})),
        ] {
            let mut whole = Vec::new();
            for server in &servers {
                whole.push(move_all(server, &name, spec.clone()).await);
            }
            println!("with the inventory {:.2} times as long", whole[1].as_secs_f64() / whole[0].as_secs_f64());
        }
    }
}
