//! Deleted and tainted clusters, with the built server over HTTPS and SIGKILL.

use ballast::cli::client::Client;
use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN, wait};
use crate::support::objects::{self, BINDINGS, CLUSTERS, binding};

/// A deleted cluster must be emptied even if evictions are disabled.
const FLAGS: [&str; 1] = ["--enable-no-execute-taint-eviction=false"];
const FINALIZER: &str = "karmada.io/cluster-controller";

fn named(path: &str, name: &str) -> String {
    format!("{path}?fieldSelector=metadata.name%3D{name}")
}

async fn given_cluster(client: &Client, name: &str) {
    let cluster = objects::cluster(name);
    client.post(CLUSTERS, &cluster).await.unwrap();
    let status = objects::room("100", "400Gi", "1000");
    client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &status).await.unwrap();
    wait(client, &named(CLUSTERS, name), |cluster| cluster["metadata"]["finalizers"] == json!([FINALIZER])).await;
}

/// Returns a binding restored from a backup: divided by capacity, and placed.
fn restored(name: &str, clusters: &Value) -> Value {
    let placement = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }});
    let mut restored = binding(name);
    restored["metadata"]["annotations"] = json!({"policy.karmada.io/applied-placement": placement.to_string()});
    restored["spec"]["replicas"] = json!(4);
    restored["spec"]["placement"] = placement;
    restored["spec"]["clusters"] = clusters.clone();
    restored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_s_deletion_is_remembered_over_a_kill_until_no_binding_is_placed_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &FLAGS);
    let client = server.client().await;
    let unknown = json!([{"name": "elsewhere", "replicas": 4}]);
    client.post(BINDINGS, &restored("stranger", &unknown)).await.unwrap();
    given_cluster(&client, "m1").await;
    given_cluster(&client, "m2").await;
    let mut suspended = restored("web", &json!([{"name": "m1", "replicas": 4}]));
    suspended["spec"]["suspension"] = json!({"scheduling": true});
    client.post(BINDINGS, &suspended).await.unwrap();
    let deleted = client.delete(&format!("{CLUSTERS}/m1")).await.unwrap();
    assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted}");
    server.kill();

    let server = ServerProcess::start(folder.path(), &FLAGS);
    let client = server.client().await;
    let held = client.get(&format!("{CLUSTERS}/m1")).await.unwrap();
    assert_eq!(held["metadata"]["finalizers"], json!([FINALIZER]), "a suspended binding is placed there");
    let resumed = json!({"spec": {"suspension": null}});
    client.merge_patch(&format!("{BINDINGS}/web"), &resumed).await.unwrap();
    let moved = json!([{"name": "m2", "replicas": 4}]);
    wait(&client, &named(BINDINGS, "web"), |binding| binding["spec"]["clusters"] == moved).await;
    let path = format!("{CLUSTERS}/m1");
    let is_gone = async {
        while client.get(&path).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, is_gone).await.expect("nothing holds it any more");
    let stranger = client.get(&format!("{BINDINGS}/stranger")).await.unwrap();
    assert_eq!(stranger["spec"]["clusters"], unknown, "a cluster that is not known may come yet");
}

fn condition_message(binding: &Value, kind: &str) -> String {
    let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().find(|condition| condition["type"] == kind);
    known.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

/// sched-16 as reported: the only cluster is tainted, the grace period expires, the server is
/// killed, and the cluster recovers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm20_rm22_and_rm23_the_last_copy_is_kept_over_a_kill_and_is_a_target_again_when_its_cluster_is_back() {
    let flags = ["--graceful-eviction-timeout=1s", "--resource-eviction-rate=100"];
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &flags);
    let client = server.client().await;
    given_cluster(&client, "m1").await;
    client.post(BINDINGS, &restored("web", &json!([{"name": "m1", "replicas": 4}]))).await.unwrap();
    let tainted = json!({"spec": {"taints": [{"key": "fire", "effect": "NoExecute"}]}});
    client.merge_patch(&format!("{CLUSTERS}/m1"), &tainted).await.unwrap();
    let sentence = "4 replicas have no other place; kept on m1";
    let is_kept = |binding: &Value| condition_message(binding, "LastCopyKept") == sentence;
    wait(&client, &named(BINDINGS, "web"), is_kept).await;
    server.kill();

    let server = ServerProcess::start(folder.path(), &flags);
    let client = server.client().await;
    let kept = client.get(&format!("{BINDINGS}/web")).await.unwrap();
    assert_eq!(kept["spec"]["gracefulEvictionTasks"][0]["fromCluster"], "m1", "{kept}");
    let recovered = json!({"spec": {"taints": null}});
    client.merge_patch(&format!("{CLUSTERS}/m1"), &recovered).await.unwrap();
    let back = json!([{"name": "m1", "replicas": 4}]);
    let is_back = |binding: &Value| {
        let spec = &binding["spec"];
        assert!(spec["clusters"] == back || !spec["gracefulEvictionTasks"].is_null(), "neither: {binding}");
        spec["clusters"] == back
    };
    wait(&client, &named(BINDINGS, "web"), is_back).await;
    let back = client.get(&format!("{BINDINGS}/web")).await.unwrap();
    assert_eq!(
        (condition_message(&back, "LastCopyKept").as_str(), &back["spec"]["gracefulEvictionTasks"]),
        ("", &Value::Null)
    );
}
