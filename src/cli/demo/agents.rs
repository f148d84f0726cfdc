//! Simulated agents of the member clusters. They send a heartbeat for each cluster, and report the
//! resources of each binding as applied and available, through the HTTPS API that real agents use.
//! They apply nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cli::client::Client;
use ballast_base::clock::{Clock, SystemClock};

const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const BINDINGS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings";
/// Pause after a report that was rejected (the object changed, or the server shuts down).
const PAUSE: Duration = Duration::from_millis(50);

/// The running agents. They stop when this is dropped.
pub struct Agents {
    tasks: [JoinHandle<()>; 2],
}

impl Agents {
    pub fn start(for_clusters: Client, for_bindings: Client) -> Agents {
        let clusters = tokio::spawn(tend(for_clusters, CLUSTERS, hello));
        let bindings = tokio::spawn(tend(for_bindings, BINDINGS, applied));
        Agents { tasks: [clusters, bindings] }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Reports on each object that lacks a report, one after the other. Each watch starts with the
/// current state.
async fn tend(client: Client, path: &str, report: fn(&Value) -> Option<Value>) {
    loop {
        let mut found = None;
        let watched = client.watch(path, |event| {
            let object = &event["object"];
            let status = if event["type"] == "DELETED" { None } else { report(object) };
            found = status.map(|status| (object["metadata"].clone(), status));
            found.is_some()
        });
        let is_told = match (watched.await, &found) {
            (Ok(true), Some((metadata, status))) => {
                let name = metadata["name"].as_str().unwrap_or_default();
                let patch = json!({"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status});
                client.merge_patch(&format!("{path}/{name}/status"), &patch).await.is_ok()
            }
            _ => false,
        };
        if !is_told {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns the first heartbeat of a cluster's agent.
fn hello(cluster: &Value) -> Option<Value> {
    if cluster["status"]["agentStatus"].is_array() {
        return None;
    }
    let now = SystemClock.now().to_string();
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
    Some(json!({"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": now,
                                 "conditions": [condition("Joined"), condition("Healthy")]}]}))
}

/// Returns an agent's report on a binding with resources to apply. `None` for other bindings.
fn applied(binding: &Value) -> Option<Value> {
    let generation = &binding["metadata"]["generation"];
    let is_there = binding["spec"]["state"] != "Scheduled" && binding["metadata"]["deletionTimestamp"].is_null();
    let known: Vec<Value> = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_told = known.iter().any(|told| told["type"] == "Available" && told["observedGeneration"] == *generation);
    if !is_there || is_told {
        return None;
    }
    const REPORTED: [&str; 3] = ["WorkSynchronized", "Applied", "Available"];
    let now = SystemClock.now().to_string();
    let others = known.into_iter().filter(|told| !REPORTED.iter().any(|type_| told["type"] == *type_));
    let told = REPORTED.map(|type_| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": generation,
               "lastTransitionTime": now})
    });
    Some(json!({"conditions": others.chain(told).collect::<Vec<Value>>()}))
}
