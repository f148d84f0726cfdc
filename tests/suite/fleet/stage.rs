//! A server with HTTPS and SQLite that runs its workers only on demand: a client's request can fall
//! between any two of their steps.

use std::sync::Arc;

use ballast::clock::{Clock, SystemClock};
use ballast::controllers;
use ballast::events::Recorder;
use ballast::k8s::User;
use ballast::scheduler::FleetScheduler;
use ballast::worker::{Runner, Work};
use http::Method;
use serde_json::{Value, json};

pub use crate::support::fleet::{agent, agent_heard, member, placement};
use crate::support::raw::{Connection, Reply};
use crate::support::server::{Database, Options, TestServer};

pub const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
pub const SNAPSHOTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterschedulingpolicysnapshots";
pub const RESOURCES: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcesnapshots";
pub const BINDINGS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings";
pub const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

/// A stage that is still busy after this many turns never settles.
const TURNS_MAX: usize = 500;

pub struct Stage {
    server: TestServer,
    admin: Connection,
    workers: Vec<Runner>,
}

impl Stage {
    pub async fn new() -> Stage {
        let server = TestServer::with(Options { database: Database::Sqlite, ..Options::default() }).await;
        let admin = server.admin().connect().await;
        let workers = workers(&server);
        Stage { server, admin, workers }
    }

    /// Drops the state of the workers, but not the stored one.
    pub fn restart_workers(&mut self) {
        self.workers = workers(&self.server);
    }

    /// One turn of one worker, in rotation.
    pub async fn turn(&mut self, number: usize) {
        let count = self.workers.len();
        self.workers[number % count].turn().await;
    }

    /// Runs one worker until it is idle.
    pub async fn finish(&mut self, number: usize) {
        for _ in 0..TURNS_MAX {
            if !self.workers[number].turn().await {
                return;
            }
        }
        panic!("{} never ends", self.workers[number].name());
    }

    /// Runs all workers until they are idle.
    pub async fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut busy = false;
            for worker in &mut self.workers {
                busy |= worker.turn().await;
            }
            if !busy {
                return;
            }
        }
        panic!("does not settle");
    }

    pub async fn send(&self, method: Method, path: &str, media_type: &str, body: &Value) -> Reply {
        self.admin.send(method, path, &[("content-type", media_type)], body.to_string()).await
    }

    #[track_caller]
    pub fn post(&self, path: &str, object: &Value) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        async move {
            let reply = self.send(Method::POST, path, "application/json", object).await;
            assert_eq!(reply.code, 201, "{place}: {}", reply.text());
            reply.json()
        }
    }

    /// Replaces as `kubectl replace` does: the stored version with the content of the file.
    pub async fn replace(&self, path: &str, object: &Value) -> Reply {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = self.get(path).await["metadata"]["resourceVersion"].clone();
        self.send(Method::PUT, path, "application/json", &object).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Reply {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let reply = self.send(Method::GET, path, "application/json", &Value::Null).await;
        assert_eq!(reply.code, 200, "{path}: {}", reply.text());
        reply.json()
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, "application/json", &json!({})).await
    }

    pub async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().expect("a list").clone()
    }

    /// Returns the events of a watch of one second.
    pub async fn events(&self, path: &str) -> Vec<Value> {
        let path = format!("{path}&watch=1&timeoutSeconds=1");
        let reply = self.send(Method::GET, &path, "application/json", &Value::Null).await;
        reply.text().lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
    }

    /// `a:Bound b:Scheduled`, sorted.
    pub async fn placed(&self) -> String {
        self.placed_by(BINDINGS).await
    }

    pub async fn placed_by(&self, bindings: &str) -> String {
        let bindings = self.list(bindings).await;
        let text = |binding: &Value, field: &str| binding["spec"][field].as_str().expect("text").to_owned();
        let place = |binding| format!("{}:{}", text(binding, "targetCluster"), text(binding, "state"));
        let mut places: Vec<String> = bindings.iter().map(place).collect();
        places.sort();
        places.join(" ")
    }

    /// Returns a member cluster with a recent heartbeat.
    pub async fn join(&self, name: &str, tier: &str) {
        self.post(CLUSTERS, &member(name, tier)).await;
        self.hear(name, 0).await;
    }

    /// Returns a heartbeat of the agent of a member cluster `seconds` ago.
    pub async fn hear(&self, name: &str, seconds_ago: i64) {
        let status = json!({"status": {"agentStatus": [agent_heard(seconds_ago)]}});
        let told = self.merge(&format!("{CLUSTERS}/{name}/status"), &status).await;
        assert_eq!(told.code, 200, "{}", told.text());
    }

    pub async fn stop(self) {
        let Stage { server, workers, .. } = self;
        drop(workers);
        server.stop().await;
    }
}

fn workers(server: &TestServer) -> Vec<Runner> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let registry = &server.registry;
    let mut work: Vec<Box<dyn Work>> = controllers::fleet(registry, &clock);
    work.push(Box::new(FleetScheduler::new(
        registry.client(User::component("scheduler")),
        Arc::clone(&clock),
        &Recorder::new(Arc::clone(&clock)),
    )));
    work.into_iter().map(|work| Runner::new(work, registry.cache().clone(), Arc::clone(&clock))).collect()
}

/// Returns the errors of a placement of this collection. The rules of `statusReportingScope` are
/// for the cluster-scoped kind alone.
pub fn rules_of(collection: &str, faults: &[String]) -> Vec<String> {
    let is_namespaced = collection.contains("/namespaces/");
    faults.iter().filter(|fault| !(is_namespaced && fault.contains("statusReportingScope"))).cloned().collect()
}
