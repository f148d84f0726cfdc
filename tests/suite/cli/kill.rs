//! SIGKILL during writes and triggers. Afterwards every acknowledged write is stored, the log has
//! no gap, and every acknowledged trigger is served (SH3, RV18).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast::cli::client::Client;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Row};

use crate::process::ServerProcess;
use crate::support::objects;
use crate::support::size::sized;

const WRITERS: usize = 8;
const TARGETS: usize = 10;
/// The machine may be busy, and an unoptimized server needs time for its backlog.
const WITHIN: Duration = Duration::from_secs(300);

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// The acknowledged writes: the resourceVersion in the response, by path.
type Acknowledged = Arc<Mutex<BTreeMap<String, i64>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh3_rv18_kills_under_load_lose_no_acknowledged_write_and_no_trigger() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = Acknowledged::default();
    for round in 0..sized(10, 50) {
        let server = ServerProcess::start(folder.path(), &[]);
        let client = Arc::new(server.client().await);
        if round == 0 {
            make_targets(&client).await;
        }
        let done = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write_until_killed(client.clone(), acknowledged.clone(), done.clone(), round, writer))
            })
            .collect();
        // The moment differs in each round, so that the kill meets every step of a write.
        let enough = 20 + (round * 7) % 40;
        tokio::time::timeout(WITHIN, async {
            while done.load(Ordering::Relaxed) < enough {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the server acknowledges writes");
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }

    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap());
    for (path, version) in &acknowledged {
        let found =
            client.get(path).await.unwrap_or_else(|error| panic!("{path} was acknowledged and is gone: {error}"));
        assert!(version_of(&found) >= *version, "{path} is older than what was acknowledged");
    }
    for path in acknowledged.keys().filter(|path| path.starts_with(REBALANCERS)) {
        let name = path.rsplit('/').next().unwrap();
        await_state(&client, REBALANCERS, name, |rebalancer| rebalancer["status"]["finishTime"].is_string()).await;
    }
    for target in 0..TARGETS {
        await_state(&client, BINDINGS, &format!("target-{target}-deployment"), |binding| {
            let triggered = binding["spec"]["rescheduleTriggeredAt"].as_str();
            let is_pending = !binding["metadata"]["annotations"]["ballast.dev/owed"].is_null();
            triggered.is_some() && !is_pending && triggered <= binding["status"]["lastScheduledTime"].as_str()
        })
        .await;
    }
    let database = server.database();
    assert!(server.terminate().success(), "SIGTERM ends in exit status 0");
    assert_gapless(&database).await;
}

async fn make_targets(client: &Client) {
    let cluster = objects::cluster("m1");
    client.post(CLUSTERS, &cluster).await.unwrap();
    let status = objects::room("1000", "1Ti", "10000");
    client.merge_patch(&format!("{CLUSTERS}/m1/status"), &status).await.unwrap();
    for target in 0..TARGETS {
        client.post(BINDINGS, &binding(&format!("target-{target}"))).await.unwrap();
    }
}

/// Writes bindings, and sometimes a rebalancer, until the connection breaks.
async fn write_until_killed(
    client: Arc<Client>,
    acknowledged: Acknowledged,
    done: Arc<AtomicUsize>,
    round: usize,
    writer: usize,
) {
    for i in 0.. {
        let (collection, object) = if i % 5 == writer % 5 {
            (REBALANCERS, rebalancer(&format!("r{round}-{writer}-{i}")))
        } else {
            (BINDINGS, binding(&format!("r{round}-{writer}-{i}")))
        };
        let Ok(created) = client.post(collection, &object).await else { return };
        let path = format!("{collection}/{}", created["metadata"]["name"].as_str().unwrap());
        acknowledged.lock().unwrap().insert(path, version_of(&created));
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn binding(workload: &str) -> Value {
    let spec = json!({"replicas": 2, "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}});
    objects::binding_in("default", &format!("{workload}-deployment"), workload, spec)
}

fn rebalancer(name: &str) -> Value {
    let workloads: Vec<Value> = (0..TARGETS)
        .map(|i| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("target-{i}"), "namespace": "default"}))
        .collect();
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": workloads}})
}

fn version_of(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a stored object has one")
}

async fn await_state(client: &Client, collection: &str, name: &str, wanted: impl Fn(&Value) -> bool) {
    let path = format!("{collection}?fieldSelector=metadata.name%3D{name}");
    let seen = client.watch(&path, |event| wanted(&event["object"]));
    let seen = tokio::time::timeout(WITHIN, seen).await.unwrap_or_else(|_| panic!("{name} is not as wanted"));
    assert!(seen.unwrap(), "the watch of {name} ended early");
}

async fn assert_gapless(database: &std::path::Path) {
    let mut connection = SqliteConnectOptions::new().filename(database).read_only(true).connect().await.unwrap();
    let row = sqlx::query("select count(*), min(revision), max(revision) from changes")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let (count, first, last): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(count, last - first + 1, "revisions {first} to {last} have gaps");
}
