//! The life of a WorkloadRebalancer (R77-R91) through the built server over HTTPS: its list
//! changes, its TTL expires, and the process is killed in between. The bindings have no placement,
//! so no pass follows a stamp.

use ballast::cli::client::Client;
use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN, wait};
use crate::support::objects::{BINDINGS, REBALANCERS, binding, workload};

/// The binding of the Deployment, under the name that Karmada gives it.
async fn bind(client: &Client, name: &str) {
    let mut object = binding(name);
    object["metadata"]["name"] = json!(format!("{name}-deployment"));
    client.post(BINDINGS, &object).await.unwrap();
}

async fn bound(client: &Client, name: &str) -> Value {
    client.get(&format!("{BINDINGS}/{name}-deployment")).await.unwrap()
}

fn rebalancer(workloads: &[&str], ttl_seconds: Option<i32>) -> Value {
    let workloads: Vec<Value> = workloads.iter().map(|name| workload(name)).collect();
    json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": "demo"},
        "spec": {"workloads": workloads, "ttlSecondsAfterFinished": ttl_seconds},
    })
}

/// Waits until the rebalancer has observed this generation of its spec.
async fn observed(client: &Client, generation: i64) -> Value {
    let path = format!("{REBALANCERS}?fieldSelector=metadata.name%3Ddemo");
    wait(client, &path, |demo| demo["status"]["observedGeneration"] == generation).await
}

async fn list(client: &Client, workloads: &[&str], generation: i64) -> Value {
    let workloads: Vec<Value> = workloads.iter().map(|name| workload(name)).collect();
    let patch = json!({"spec": {"workloads": workloads}});
    client.merge_patch(&format!("{REBALANCERS}/demo"), &patch).await.unwrap();
    observed(client, generation).await
}

/// `name result` of each workload, in the order of the status.
fn results(demo: &Value) -> Vec<String> {
    let list = demo["status"]["observedWorkloads"].as_array().unwrap().iter();
    list.map(|entry| format!("{} {}", entry["workload"]["name"], entry["result"]).replace('"', "")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r68_r77_r79_r80_r82_r83_a_list_that_changes_triggers_what_is_new_in_it_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    bind(&client, "web").await;
    bind(&client, "db").await;
    client.post(REBALANCERS, &rebalancer(&["web", "cache"], None)).await.unwrap();
    let first = observed(&client, 1).await;
    assert_eq!(results(&first), ["cache Failed", "web Successful"]);
    assert_eq!(first["status"]["observedWorkloads"][0]["reason"], "ReferencedBindingNotFound");
    let web = bound(&client, "web").await;
    assert_eq!(web["spec"]["rescheduleTriggeredAt"], first["metadata"]["creationTimestamp"]);

    let reordered = list(&client, &["cache", "web"], 2).await;
    assert_eq!(reordered["status"]["observedWorkloads"], first["status"]["observedWorkloads"]);
    assert_eq!(reordered["status"]["finishTime"], first["status"]["finishTime"]);

    bind(&client, "cache").await;
    let grown = list(&client, &["web", "db", "web"], 3).await;
    assert_eq!(results(&grown), ["db Successful", "web Successful"], "what failed and left is forgotten");
    let stamp = bound(&client, "db").await["spec"]["rescheduleTriggeredAt"].clone();
    assert!(stamp.as_str() >= first["metadata"]["creationTimestamp"].as_str(), "{stamp}");

    assert_eq!(
        results(&list(&client, &["db"], 4).await),
        ["db Successful", "web Successful"],
        "what succeeded is kept"
    );
    let again = list(&client, &["web", "cache"], 5).await;
    assert_eq!(results(&again), ["cache Successful", "db Successful", "web Successful"]);
    assert!(bound(&client, "cache").await["spec"]["rescheduleTriggeredAt"].is_string());
    assert_eq!(bound(&client, "web").await, web, "triggered once");
}

/// Waits until the rebalancer is deleted.
async fn gone(client: &Client) {
    let path = format!("{REBALANCERS}/demo");
    let Ok(demo) = client.get(&path).await else { return };
    let version = demo["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{REBALANCERS}?fieldSelector=metadata.name%3Ddemo&resourceVersion={version}");
    let watch = client.watch(&path, |event| event["type"] == "DELETED");
    let seen = tokio::time::timeout(WITHIN, watch).await;
    assert!(matches!(seen, Ok(Ok(true))), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r84_r86_r89_a_finished_rebalancer_goes_when_its_latest_time_to_live_is_over_also_after_kill_nine() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    bind(&client, "web").await;
    client.post(REBALANCERS, &rebalancer(&["web"], Some(0))).await.unwrap();
    gone(&client).await;
    assert!(bound(&client, "web").await["spec"]["rescheduleTriggeredAt"].is_string(), "not before it was served");

    client.post(REBALANCERS, &rebalancer(&["web"], Some(100_000))).await.unwrap();
    observed(&client, 1).await;
    let path = format!("{REBALANCERS}/demo");
    client.merge_patch(&path, &json!({"spec": {"ttlSecondsAfterFinished": 2}})).await.unwrap();
    server.kill();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    gone(&client).await;
    assert!(client.get(&path).await.is_err());
}
