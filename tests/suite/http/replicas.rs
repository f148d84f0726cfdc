//! Three servers over one log: each accepts writes, and one leads.

use std::sync::Arc;
use std::time::Duration;

use ballast::cli::client::{Client, Credentials};
use ballast::node::certs::Files;
use ballast::node::config::ServeArgs;
use ballast::node::serve::{self, Running};
use ballast::store::MemoryStore;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";

struct Deployment {
    store: Arc<MemoryStore>,
    home: TempDir,
    lease_seconds: u16,
}

impl Deployment {
    fn new() -> Deployment {
        Deployment { store: Arc::new(MemoryStore::new()), home: tempfile::tempdir().unwrap(), lease_seconds: 2 }
    }

    async fn start(&self) -> (Running, Client) {
        let mut args = ServeArgs { secure_port: 0, cert_dir: self.home.path().join("certs"), ..ServeArgs::default() };
        args.replicas.leader_lease_seconds = self.lease_seconds;
        let running = serve::join(args, self.store.clone()).await.unwrap();
        let files = Files::in_dir(&self.home.path().join("certs"));
        let credentials = Credentials { ca: &files.ca_cert, certificate: &files.admin_cert, key: &files.admin_key };
        let client = Client::connect(running.address, &credentials).await.unwrap();
        (running, client)
    }
}

fn rebalancer(name: &str) -> Value {
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"});
    json!({
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": name},
        "spec": {"workloads": [workload]},
    })
}

/// Waits until the workers of the leader have finished this rebalancer.
async fn finished(client: &Client, name: &str) {
    let done = client.watch(REBALANCERS, |event| {
        event["object"]["metadata"]["name"] == name && !event["object"]["status"]["finishTime"].is_null()
    });
    assert!(tokio::time::timeout(PATIENCE, done).await.unwrap().unwrap(), "{name}");
}

#[tokio::test]
async fn a_write_to_any_replica_is_seen_at_once_at_every_other_and_worked_on_once() {
    let deployment = Deployment::new();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(deployment.start().await);
    }
    for (number, (_, writer)) in replicas.iter().enumerate() {
        let name = format!("r{number}");
        let made = writer.post(REBALANCERS, &rebalancer(&name)).await.unwrap();
        for (_, reader) in &replicas {
            let seen = reader.get(&format!("{REBALANCERS}/{name}")).await.unwrap();
            assert_eq!(seen["metadata"]["uid"], made["metadata"]["uid"]);
        }
        finished(&replicas[(number + 1) % 3].1, &name).await;
    }
    let refused = replicas[1].1.post(REBALANCERS, &json!({"kind": "WorkloadRebalancer"})).await;
    assert!(refused.is_err(), "admission at the leader refuses what comes through a follower");
    for (running, _) in replicas {
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_leader_that_is_asked_to_end_hands_over_long_before_its_lease_ends() {
    // The guarantee is a second. The lease distinguishes the two cases, also on a busy machine.
    let deployment = Deployment { lease_seconds: 50, ..Deployment::new() };
    let (first, _client) = deployment.start().await;
    // It leads, as the only server.
    let (second, client) = deployment.start().await;
    client.post(REBALANCERS, &rebalancer("before")).await.unwrap();
    let after = rebalancer("after");
    let write = async {
        let asked = std::time::Instant::now();
        client.post(REBALANCERS, &after).await.unwrap();
        asked.elapsed()
    };
    let (stopped, took) = tokio::join!(first.stop(), write);
    stopped.unwrap();
    assert!(took < Duration::from_secs(25), "{took:?}");
    finished(&client, "after").await;
    second.stop().await.unwrap();
}
