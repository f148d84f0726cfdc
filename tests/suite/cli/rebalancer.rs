//! The life cycle of a WorkloadRebalancer (R77-R91) with the built server over HTTPS: its list
//! changes, its TTL expires, and the process is killed in between. Most bindings have no placement,
//! so no pass follows a trigger.

use ballast::cli::client::Client;
use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN, wait};
use crate::support::objects::{self, BINDINGS, CLUSTERS, REBALANCERS, binding, workload};

/// Creates the binding of the Deployment, under the name that Karmada gives it.
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

/// Returns `name result` of each workload, in the order of the status.
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
    let timestamp = bound(&client, "db").await["spec"]["rescheduleTriggeredAt"].clone();
    assert!(timestamp.as_str() >= first["metadata"]["creationTimestamp"].as_str(), "{timestamp}");

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

fn pending_pass(binding: &Value) -> &Value {
    &binding["metadata"]["annotations"]["ballast.dev/owed"]
}

/// A pending pass is internal, and survives SIGKILL. The binding has no placement, so the pass
/// stays pending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk9_c10_what_is_owed_stays_whatever_a_client_writes_also_after_kill_nine() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    bind(&client, "web").await;
    let path = format!("{BINDINGS}/web-deployment");
    let forged = json!({"metadata": {"annotations": {"ballast.dev/owed": "7"}}});
    client.merge_patch(&path, &forged).await.unwrap();
    assert!(pending_pass(&bound(&client, "web").await).is_null(), "nobody owes it");
    client.post(REBALANCERS, &rebalancer(&["web"], None)).await.unwrap();
    let demo = observed(&client, 1).await;
    let triggered = bound(&client, "web").await;
    assert_eq!(triggered["spec"]["rescheduleTriggeredAt"], demo["metadata"]["creationTimestamp"]);
    assert!(pending_pass(&triggered).is_string());
    for patch in [forged, json!({"metadata": {"annotations": null}, "spec": {"rescheduleTriggeredAt": null}})] {
        client.merge_patch(&path, &patch).await.unwrap();
        assert_eq!(pending_pass(&bound(&client, "web").await), pending_pass(&triggered), "{patch}");
    }
    server.kill();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let after = bound(&client, "web").await;
    assert_eq!(pending_pass(&after), pending_pass(&triggered));
    assert_eq!(after["spec"]["rescheduleTriggeredAt"], triggered["spec"]["rescheduleTriggeredAt"]);
}

/// The times alone would suggest that the pass after the trigger has run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk9_c10_a_stamp_is_the_time_of_creation_and_counts_also_where_the_last_pass_is_not_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let cluster = objects::cluster("m1");
    client.post(CLUSTERS, &cluster).await.unwrap();
    let status = objects::room("10", "1Gi", "100");
    client.merge_patch(&format!("{CLUSTERS}/m1/status"), &status).await.unwrap();
    let mut object = binding("web");
    object["metadata"]["name"] = json!("web-deployment");
    object["spec"]["replicas"] = json!(1);
    object["spec"]["placement"] = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Aggregated"}});
    client.post(BINDINGS, &object).await.unwrap();
    let path = format!("{BINDINGS}?fieldSelector=metadata.name%3Dweb-deployment");
    wait(&client, &path, |binding| binding["status"]["lastScheduledTime"].is_string()).await;
    let ahead = json!({"status": {"lastScheduledTime": "2100-01-01T00:00:00Z"}});
    client.merge_patch(&format!("{BINDINGS}/web-deployment/status"), &ahead).await.unwrap();
    let created = client.post(REBALANCERS, &rebalancer(&["web"], None)).await.unwrap();
    let since = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut triggered = Value::Null;
    let path = format!("{path}&resourceVersion={since}");
    let watch = client.watch(&path, |event| {
        let is_answered = !triggered.is_null() && pending_pass(&event["object"]).is_null();
        triggered = pending_pass(&event["object"]).clone();
        is_answered
    });
    let seen = tokio::time::timeout(WITHIN, watch).await;
    assert!(matches!(seen, Ok(Ok(true))), "{seen:?}");
    let served = bound(&client, "web").await;
    assert_eq!(served["spec"]["rescheduleTriggeredAt"], created["metadata"]["creationTimestamp"]);
    assert_eq!(served["status"]["lastScheduledTime"], "2100-01-01T00:00:00Z", "it does not go back");
}
