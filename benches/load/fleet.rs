//! Schedules 500 ClusterResourcePlacements over 100 clusters: `cargo bench --bench load -- fleet`.
//!
//! Measures the time from the first POST until the last of 50,000 bindings is Bound, and for
//! comparison the time that SQLite alone needs for the same rows in the same batches. A placement
//! reports that its rollout has started once all its bindings are Bound, and the bench waits for
//! that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::process::ServerProcess;
use super::rebalance::{rows_since, sqlite_alone};
use super::setup::storm;

const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const MEMBERS: usize = 100;
const COUNT: usize = 500;
const CONCURRENT: usize = 32;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    let mut since = 0;
    for index in 0..MEMBERS {
        let name = format!("member-{index}");
        let cluster = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": {"identity": {"kind": "User", "name": name}}});
        client.post(CLUSTERS, &cluster).await.expect("a cluster");
        let now = jiff::Timestamp::now().to_string();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
        let status = json!({"status": {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": now,
            "conditions": [condition("Joined"), condition("Healthy")]}]}});
        let told = client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &status).await.expect("its status");
        since = told["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(since);
    }
    let cpu_before = server.cpu();
    let begun = Instant::now();
    let sender = client.clone();
    let making = storm(COUNT, CONCURRENT, move |index| {
        let client = sender.clone();
        async move {
            let placement = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": "ClusterResourcePlacement", "metadata": {"name": format!("crp-{index}")},
                "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
                         "policy": {"placementType": "PickAll"}}});
            client.post(PLACEMENTS, &placement).await.expect("a placement");
        }
    });
    let mut done = BTreeSet::new();
    let waiting = client.watch(PLACEMENTS, |event| {
        let conditions = event["object"]["status"]["conditions"].as_array().into_iter().flatten();
        let mut started = conditions.filter(|told| told["type"] == "ClusterResourcePlacementRolloutStarted");
        if started.any(|told| told["status"] == "True") {
            done.insert(event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
        done.len() == COUNT
    });
    let ((made, _), all) = tokio::join!(making, waiting);
    assert!(all.expect("the watch goes on"), "the watch ended early");
    let whole = begun.elapsed();
    let cpu = server.cpu() - cpu_before;
    let batches = rows_since(&server.database(), since).await;
    let rows: usize = batches.iter().map(Vec::len).sum();
    let bytes: usize = batches.iter().flatten().map(|row| row.len()).sum();
    let alone = sqlite_alone(&batches).await;
    println!(
        "{COUNT} placements x {MEMBERS} clusters: posted after {made:.2?}, all bound after {whole:.2?} (server CPU {cpu:.2?}); \
         SQLite alone {alone:.2?} for {rows} rows, {:.0} MB, in {} batches: {:.0}% of it",
        bytes as f64 / 1e6,
        batches.len(),
        100.0 * alone.as_secs_f64() / whole.as_secs_f64(),
    );
}
