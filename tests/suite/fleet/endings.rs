//! The bindings of a placement: one on each cluster while the placement exists, none after its
//! deletion.

use std::collections::BTreeSet;
use std::time::Duration;

use ballast::cli::client::Client;
use serde_json::{Value, json};

use super::stage::{BINDINGS, CLUSTERS, PLACEMENTS, RESOURCES, SNAPSHOTS, Stage, agent, member, placement};
use crate::process::ServerProcess;

/// More than the workers need to roll a placement out to its clusters.
const STEPS: usize = 14;
/// Generous: the machine may be busy.
const WITHIN: Duration = Duration::from_secs(120);

fn on_all(name: &str) -> Value {
    placement(name, json!({"placementType": "PickAll"}))
}

#[tokio::test]
async fn r162_a_second_live_binding_on_a_cluster_goes_and_the_first_says_so() {
    let mut stage = Stage::new().await;
    stage.join("a", "gold").await;
    stage.join("b", "gold").await;
    stage.post(PLACEMENTS, &on_all("shop")).await;
    stage.settle().await;
    let first = stage.list(BINDINGS).await.remove(0);
    let cluster = first["spec"]["targetCluster"].as_str().unwrap();
    let mut twin = first.clone();
    twin["metadata"] = json!({"name": format!("shop-{cluster}-0000twin"), "labels": first["metadata"]["labels"]});
    twin.as_object_mut().unwrap().remove("status");
    stage.post(BINDINGS, &twin).await;
    stage.settle().await;
    assert_eq!(stage.placed().await, "a:Bound b:Bound");
    let kept = stage.list(BINDINGS).await.into_iter().find(|binding| binding["spec"]["targetCluster"] == cluster);
    let conditions = kept.unwrap()["status"]["conditions"].clone();
    let told = conditions.as_array().unwrap().iter().find(|told| told["type"] == "OnlyBindingOnCluster").unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("SurplusBindingDeleted")));
    assert!(told["message"].as_str().unwrap().starts_with("shop-"), "{told}");
    stage.stop().await;
}

#[tokio::test]
async fn a_placement_deleted_between_any_two_steps_leaves_nothing_behind_whatever_the_workers_forget() {
    let mut stage = Stage::new().await;
    stage.join("a", "gold").await;
    stage.join("b", "gold").await;
    for steps in 0..STEPS {
        let shop = format!("{PLACEMENTS}/shop");
        stage.post(PLACEMENTS, &on_all("shop")).await;
        for step in 0..steps {
            stage.turn(step).await;
        }
        assert_eq!(stage.delete(&shop).await.code, 200);
        // Workers that restart after each of their steps have only the stored state.
        for step in 0..STEPS {
            stage.restart_workers();
            stage.turn(step).await;
        }
        stage.restart_workers();
        stage.settle().await;
        for kind in [PLACEMENTS, SNAPSHOTS, RESOURCES, BINDINGS] {
            assert_eq!(stage.list(kind).await, [] as [Value; 0], "{kind} after {steps} steps");
        }
    }
    stage.stop().await;
}

/// SIGKILL while placements are created and deleted, each time at another moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_clears_away_what_it_had_begun_to() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let server = ServerProcess::start(folder.path(), &[]);
        let client = server.client().await;
        if round == 0 {
            for name in ["a", "b"] {
                client.post(CLUSTERS, &member(name, "gold")).await.unwrap();
                let status = json!({"status": {"agentStatus": [agent()]}});
                client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &status).await.unwrap();
            }
        }
        let names: Vec<String> = (0..8).map(|number| format!("shop-{round}-{number}")).collect();
        for name in &names {
            client.post(PLACEMENTS, &on_all(name)).await.unwrap();
        }
        let mut bound = 0;
        let enough = client.watch(BINDINGS, |_| {
            bound += 1;
            bound > round * 5
        });
        assert!(tokio::time::timeout(WITHIN, enough).await.expect("bindings are made").unwrap());
        for name in &names {
            client.delete(&format!("{PLACEMENTS}/{name}")).await.unwrap();
        }
        server.kill();
    }
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    tokio::time::timeout(WITHIN, gone(&client)).await.expect("what was deleted goes");
    for kind in [SNAPSHOTS, RESOURCES, BINDINGS] {
        assert_eq!(client.get(kind).await.unwrap()["items"], json!([]), "{kind}");
    }
    assert!(server.terminate().success());
}

/// Waits until no placement exists: it is removed last, after all its objects.
async fn gone(client: &Client) {
    let list = client.get(PLACEMENTS).await.unwrap();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let mut left: BTreeSet<String> = list["items"].as_array().unwrap().iter().map(name).collect();
    if left.is_empty() {
        return;
    }
    let since = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{PLACEMENTS}?resourceVersion={since}");
    let ended = client.watch(&path, |event| {
        if event["type"] == "DELETED" {
            left.remove(&name(&event["object"]));
        }
        left.is_empty()
    });
    assert!(ended.await.unwrap(), "the watch ended early");
}
