//! The commands of an operator during an outage, against a live server (NG).

use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::operator::after_an_outage;
use crate::process::{ServerProcess, wait};
use crate::support::fleet::{aggregated, binding, cluster};
use crate::support::objects::with;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/demo-deploy-1-deployment";

/// Returns output and errors of a line that exits with this status.
fn told(folder: &Path, words: &[&str], status: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(words).stdin(Stdio::null()).current_dir(folder);
    let done = command.env("KUBECONFIG", folder.join("certs/admin.kubeconfig")).output().expect("the binary runs");
    let told = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert_eq!(done.status.code(), Some(status), "ballast {words:?}\n{told}");
    told
}

/// Deletes all events of the namespace.
async fn without_events(client: &ballast::cli::client::Client) {
    let events = client.get("/api/v1/namespaces/default/events").await.unwrap();
    for event in events["items"].as_array().unwrap() {
        let path = format!("/api/v1/namespaces/default/events/{}", event["metadata"]["name"].as_str().unwrap());
        // It may have expired meanwhile.
        let _gone = client.delete(&path).await;
    }
}

/// D123.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_writer_records_its_cause_and_no_event_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &["--resource-eviction-rate=100"]);
    let client = after_an_outage(&server).await;
    let run = |line: &str| told(folder.path(), &line.split_whitespace().collect::<Vec<_>>(), 0);
    // Returns the cause of the last change, without any event.
    let why = async || {
        without_events(&client).await;
        let why = run("why deployment/demo-deploy-1");
        why.lines().find(|line| line.contains("Last change")).unwrap_or_default().to_owned()
    };
    let last = why().await;
    assert!(last.contains("evicted from member1 (2 replicas, TaintUntolerated)"), "{last}");
    run("rebalance --displaced -A --name home --yes --wait");
    let last = why().await;
    assert!(last.contains("because of ClusterRebalance home."), "{last}");
    run("undo home --yes --wait");
    let last = why().await;
    assert!(last.contains("because of ClusterRebalance home-undo"), "{last}");
    let clusters = json!([{"name": "member1", "replicas": 3}, {"name": "member2", "replicas": 1}]);
    let forged = json!({"metadata": {"annotations": {"ballast.dev/last-change": "because of the weather"}},
        "spec": {"clusters": clusters}});
    client.merge_patch(BINDING, &forged).await.unwrap();
    let last = why().await;
    assert!(last.contains("because user ") && last.contains(" changed its clusters."), "{last}");
    client.merge_patch(BINDING, &json!({"spec": {"replicas": 6}})).await.unwrap();
    let sum = |it: &Value| -> i64 {
        it["spec"]["clusters"].as_array().into_iter().flatten().filter_map(|it| it["replicas"].as_i64()).sum()
    };
    wait(&client, BINDINGS, |it| sum(it) == 6).await;
    let last = why().await;
    assert!(last.contains("because 6 replicas are wanted, not 4."), "{last}");
    run("drain member1 --name empty --yes --wait");
    let last = why().await;
    assert!(last.contains("because of ClusterRebalance empty."), "{last}");
    run("uncordon member1");
    let target =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "demo-deploy-1"});
    let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "again"}, "spec": {"workloads": [target]}});
    client.post("/apis/apps.karmada.io/v1alpha1/workloadrebalancers", &rebalancer).await.unwrap();
    wait(&client, BINDINGS, |it| it["spec"]["clusters"].as_array().is_some_and(|it| it.len() == 2)).await;
    let last = why().await;
    assert!(last.contains("because of WorkloadRebalancer again."), "{last}");

    let history: Value = serde_json::from_str(&run("history deployment/demo-deploy-1 -o json")).unwrap();
    let rows = history.as_array().unwrap();
    let causes: Vec<&str> = rows.iter().map(|row| row["cause"].as_str().unwrap()).collect();
    let evicted = "evicted from member1 (2 replicas, TaintUntolerated)";
    assert_eq!(causes[..4], ["placed for the first time", evicted, evicted, "ClusterRebalance home"]);
    let times: Vec<&str> = rows.iter().map(|row| row["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let table = run("history deployment/demo-deploy-1");
    assert!(table.contains("ClusterRebalance home-undo") && table.contains("WorkloadRebalancer again"), "{table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng1_top_says_how_much_is_missing_from_the_moment_of_the_loss() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let report = json!({"status": {"aggregatedStatus": [
        {"clusterName": "member2", "applied": true, "status": {"replicas": 4, "readyReplicas": 4}}]}});
    client.merge_patch(&format!("{BINDING}/status"), &report).await.unwrap();
    let top = told(folder.path(), &["top"], 0);
    assert!(top.contains("Replicas: all 4 wanted are ready."), "{top}");
    // Evicted replicas are desired elsewhere.
    told(folder.path(), &["evictions", "--hold", "--note", "INC-4711"], 0);
    let held = told(folder.path(), &["top"], 0);
    assert!(held.contains("holds all evictions, set by ballast-admin: INC-4711."), "{held}");
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-11-27T03:00:00Z"}]}});
    client.merge_patch(&format!("{CLUSTERS}/member2/status"), &lost).await.unwrap();
    let data: Value = serde_json::from_str(&told(folder.path(), &["top", "-o", "json"], 0)).unwrap();
    assert_eq!((&data[1]["counts"]["missing"], &data[1]["cpu"]["allocatable"]), (&json!(4), &json!(32.0)), "{data}");
    let top = told(folder.path(), &["top"], 0);
    assert!(top.contains("0 of 4 wanted are ready, 4 missing"), "{top}");
    wait(&client, BINDINGS, |it| it["metadata"]["name"] == "demo-deploy-1-deployment").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng2_evictions_are_held_and_hastened_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let _server = ServerProcess::start(folder.path(), &[]);
    let run = |words: &[&str]| told(folder.path(), words, 0);
    let quiet = run(&["evictions"]);
    assert!(quiet.contains("Nothing waits for an eviction. Rate: 0.5 a second."), "{quiet}");
    let fast = run(&["evictions", "--rate", "5", "--for", "30m", "--note", "INC-4711"]);
    assert!(fast.contains("Rate: 5 a second, by EvictionLimit/fleet until 20"), "{fast}");
    assert!(fast.contains("Z, set by ballast-admin: INC-4711."), "{fast}");
    let held = run(&["evictions", "--hold"]);
    assert!(held.contains("EvictionLimit/fleet holds all evictions, set by ballast-admin."), "{held}");
    let data: Value = serde_json::from_str(&run(&["evictions", "-o", "json"])).unwrap();
    assert_eq!((&data["perSecond"], &data["rateFrom"]), (&json!("0"), &json!("EvictionLimit")), "{data}");
    assert!(run(&["evictions", "--reset"]).contains("Rate: 0.5 a second."));
    assert!(run(&["evictions", "--reset"]).contains("Rate: 0.5 a second."), "it is reset already");
    for (words, fault) in [
        (vec!["evictions", "--rate", "fast"], "from 0 to 1000"),
        (vec!["evictions", "--rate", "-1"], ""),
        (vec!["evictions", "--note", "why"], "need --rate or --hold"),
        (vec!["evictions", "--hold", "--reset"], "cannot be used with"),
    ] {
        let told = told(folder.path(), &words, 2);
        assert!(told.contains(fault), "{words:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng4_version_tells_the_program_and_the_server_and_a_server_that_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let _server = ServerProcess::start(folder.path(), &[]);
    let both = told(folder.path(), &["version"], 0);
    assert!(both.contains(&format!("ballast  {}", env!("CARGO_PKG_VERSION"))) && both.contains("server   v"), "{both}");
    assert!(!told(folder.path(), &["version", "--client"], 0).contains("server"));
    let away = told(folder.path(), &["version", "--server", "https://127.0.0.1:1"], 1);
    assert!(away.contains("ballast  ") && away.contains("is not reachable"), "{away}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng7_why_names_the_constraint_and_the_value_and_advises_nothing_about_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    for number in 1..=6 {
        let region = json!({"spec": {"region": if number == 6 { "us-east" } else { "eu-west" }}, "status": {}});
        let name = format!("member{number}");
        client.post(CLUSTERS, &with(cluster(&name), region)).await.unwrap();
        let path = format!("{CLUSTERS}/{name}/status");
        client.merge_patch(&path, &json!({"status": cluster(&name)["status"]})).await.unwrap();
    }
    let region = json!({"key": "region", "operator": "In", "values": ["us-east"]});
    let affinity = json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [region]}}});
    client.post(BINDINGS, &binding("web", 2, with(aggregated(), affinity))).await.unwrap();
    wait(&client, BINDINGS, |it| it["spec"]["clusters"].is_array()).await;
    let why = told(folder.path(), &["why", "deployment/web", "-o", "json"], 0);
    assert!(why.contains("wants region=us-east, has eu-west"), "{why}");
    let why = told(folder.path(), &["why", "deployment/web"], 0);
    let line = why.lines().find(|line| line.contains("5 clusters")).unwrap_or_default().to_owned();
    assert!(line.contains("wants region=us-east, has eu-west"), "like reasons are one line: {why}");
    assert!(why.contains("for member1, member2, member3 and 2 more: a placement that selects them"), "{why}");

    // The only possible cluster fails: no advice mentions it, and no advice is repeated.
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-11-27T03:00:00Z"}]}});
    client.merge_patch(&format!("{CLUSTERS}/member6/status"), &lost).await.unwrap();
    wait(&client, CLUSTERS, |it| {
        it["metadata"]["name"] == "member6" && it["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty())
    })
    .await;
    let affinity = json!({"clusterAffinity": {"clusterNames": ["member6"]}});
    client.post(BINDINGS, &binding("api", 2, with(aggregated(), affinity))).await.unwrap();
    wait(&client, BINDINGS, |it| {
        it["metadata"]["name"] == "api-deployment" && it["status"]["conditions"][0]["status"] == "False"
    })
    .await;
    let why = told(folder.path(), &["why", "deployment/api"], 3);
    let (_, advice) = why.split_once("What would change it").unwrap_or_else(|| panic!("{why}"));
    assert!(!advice.contains("member6") && advice.matches("  - ").count() <= 3, "{why}");
    assert_eq!(why.matches("member1 would fit if").count(), 1, "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng8_a_binding_is_told_to_have_no_scale() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let refused = client.get(&format!("{BINDING}/scale")).await.unwrap_err().to_string();
    assert!(refused.contains("has no subresource scale; scale the workload that the binding is for"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng5_with_four_eyes_nobody_approves_what_they_have_created() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &["--require-approval=clusterrebalances"]);
    let client = server.client().await;
    let path = "/apis/ballast.dev/v1alpha1/clusterrebalances";
    let rebalance = |name: &str, approval: &str| {
        json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": name},
            "spec": {"select": [{}], "approval": approval}})
    };
    let refused = client.post(path, &rebalance("a", "NotRequired")).await.unwrap_err().to_string();
    assert!(refused.contains("--require-approval"), "{refused}");
    client.post(path, &rebalance("b", "Required")).await.unwrap();
    let approved = json!({"spec": {"approved": true}});
    let refused = client.merge_patch(&format!("{path}/b"), &approved).await.unwrap_err().to_string();
    assert!(refused.contains("another user than the one who created it"), "{refused}");
    let made = client.get(&format!("{path}/b")).await.unwrap();
    assert!(made["metadata"]["annotations"]["ballast.dev/created-by"].is_string(), "{made}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sre_07_a_workload_that_the_plan_cannot_place_counts_among_the_failed_moves() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    for name in ["a", "b"] {
        let made = with(cluster(name), json!({"status": {}}));
        client.post(CLUSTERS, &made).await.unwrap();
        client
            .merge_patch(&format!("{CLUSTERS}/{name}/status"), &json!({"status": cluster(name)["status"]}))
            .await
            .unwrap();
    }
    for (name, on) in [("w1", json!(["a", "b"])), ("w2", json!(["a"]))] {
        let placement = with(aggregated(), json!({"clusterAffinity": {"clusterNames": on}}));
        client.post(BINDINGS, &binding(name, 2, placement)).await.unwrap();
    }
    let name = "w2-deployment";
    wait(&client, BINDINGS, |it| it["metadata"]["name"] == name && it["spec"]["clusters"].is_array()).await;
    let taint = json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
    client.merge_patch(&format!("{CLUSTERS}/a"), &taint).await.unwrap();
    let rebalances = "/apis/ballast.dev/v1alpha1/namespaces/default/rebalances";
    let rebalance = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "Rebalance", "metadata": {"name": "r"},
        "spec": {"select": [{"name": "w2"}]}});
    client.post(rebalances, &rebalance).await.unwrap();
    wait(&client, rebalances, |it| it["status"]["summary"]["failed"] == 1 && it["status"]["phase"] == "Completed")
        .await;
    let (_, body) = client.send(Method::GET, "/metrics", None, Bytes::new()).await.unwrap();
    let metrics = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(metrics.contains("ballast_moves_total{outcome=\"failed\"} 1\n"), "{metrics}");
}
