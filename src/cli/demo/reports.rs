//! Simulated agents of Karmada's member clusters. They report each binding as applied and healthy
//! in its targets, with as many ready replicas as are assigned there, through the HTTPS API that
//! real agents use. They apply nothing. A story can make new replicas fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Endpoint;
use crate::cli::client::Client;

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";
/// Pause before a watch restarts, or a rejected report is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// The running agents. They stop when this is dropped.
pub struct Reports {
    tasks: [JoinHandle<()>; 2],
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The bindings that changed since their last report, in their newest state: at most one entry
    /// for each binding.
    changed: Mutex<BTreeMap<String, Value>>,
    /// The cluster and the namespace in which no new replica becomes ready.
    broken: Mutex<Option<(&'static str, &'static str)>>,
    /// Milliseconds before each report.
    pace: AtomicU64,
    wake: Notify,
}

impl Reports {
    pub async fn start(server: &Endpoint) -> anyhow::Result<Reports> {
        let shared = Arc::new(Shared::default());
        let (to_watch, to_report) = (Agent::connect(server).await?, Agent::connect(server).await?);
        let (watching, reporting) = (shared.clone(), shared.clone());
        let tasks = [tokio::spawn(watch(to_watch, watching)), tokio::spawn(report(to_report, reporting))];
        Ok(Reports { tasks, shared })
    }

    /// Makes new replicas of `namespace` on `cluster` not ready.
    pub fn break_new_replicas(&self, cluster: &'static str, namespace: &'static str) {
        *self.shared.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some((cluster, namespace));
    }

    /// Delays each report by this time after the previous one.
    pub fn slow_down(&self, pace: Duration) {
        self.shared.pace.store(u64::try_from(pace.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Ends the failure of new replicas.
    pub fn mend(&self) {
        *self.shared.broken.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn note(&self, event: &Value) {
        let object = &event["object"];
        let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
        let key = format!("{}/{}", namespace.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => drop(changed.insert(key, object.clone())),
            Some("DELETED") => drop(changed.remove(&key)),
            _ => return,
        }
        self.wake.notify_one();
    }

    fn next(&self) -> Option<Value> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).pop_first().map(|(_, binding)| binding)
    }
}

/// A connection that is reopened when the server has closed it, as it does after minutes of
/// inactivity.
struct Agent {
    server: Endpoint,
    client: Client,
}

impl Agent {
    async fn connect(server: &Endpoint) -> anyhow::Result<Agent> {
        Ok(Agent { server: server.clone(), client: server.connect().await? })
    }

    async fn client(&mut self) -> &Client {
        while self.client.is_closed() {
            match self.server.connect().await {
                Ok(client) => self.client = client,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        &self.client
    }
}

async fn watch(mut agent: Agent, shared: Arc<Shared>) {
    loop {
        // A watch without a resourceVersion starts with the current state.
        let _ended = agent
            .client()
            .await
            .watch(BINDINGS, |event| {
                shared.note(event);
                false
            })
            .await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn report(mut agent: Agent, shared: Arc<Shared>) {
    loop {
        let Some(binding) = shared.next() else {
            shared.wake.notified().await;
            continue;
        };
        let broken = *shared.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told(&binding, broken);
        let known = binding["status"]["aggregatedStatus"].as_array().map_or(&[][..], Vec::as_slice);
        if told == known {
            continue;
        }
        let metadata = &binding["metadata"];
        let (namespace, name) = (metadata["namespace"].as_str(), metadata["name"].as_str());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let path = format!("/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/{name}/status");
        // If the binding has changed in the meantime, its event is here or on its way.
        let patch = json!({"metadata": {"resourceVersion": metadata["resourceVersion"]},
                           "status": {"aggregatedStatus": told}});
        let _refused = agent.client().await.merge_patch(&path, &patch).await;
        tokio::time::sleep(Duration::from_millis(shared.pace.load(Ordering::Relaxed))).await;
    }
}

/// Returns the status reported by the agents of the binding's targets.
fn told(binding: &Value, broken: Option<(&str, &str)>) -> Vec<Value> {
    let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
    let of_target = |target: &Value| {
        let cluster = target["name"].as_str().unwrap_or_default();
        let assigned = target["replicas"].as_i64().unwrap_or_default();
        let is_broken = broken == Some((cluster, namespace));
        let ready = if is_broken { assigned.min(ready_on(binding, cluster)) } else { assigned };
        json!({"clusterName": cluster, "applied": true,
               "health": if ready < assigned { "Unhealthy" } else { "Healthy" },
               "status": {"replicas": assigned, "readyReplicas": ready, "availableReplicas": ready}})
    };
    binding["spec"]["clusters"].as_array().into_iter().flatten().map(of_target).collect()
}

/// Returns the number of replicas that were reported as ready on the cluster.
pub fn ready_on(binding: &Value, cluster: &str) -> i64 {
    let items = binding["status"]["aggregatedStatus"].as_array().into_iter().flatten();
    let ready = |item: &Value| item["status"]["readyReplicas"].as_i64().unwrap_or_default();
    items.filter(|item| item["clusterName"] == cluster).map(ready).sum()
}
