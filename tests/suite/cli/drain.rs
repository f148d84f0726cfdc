//! Several clusters are drained and restored, with the built binary against a live server (RM40).

use ballast::cli::client::Client;
use serde_json::{Value, json};

use super::operator::told;
use crate::process::{ServerProcess, wait};
use crate::support::objects::{BINDINGS, CLUSTERS, binding_in, cluster};

/// Creates three clusters of equal capacity, and a workload with two replicas on each.
async fn three_clusters(server: &ServerProcess) -> Client {
    let client = server.client().await;
    for name in ["member1", "member2", "member3"] {
        client.post(CLUSTERS, &cluster(name)).await.unwrap();
        let status = json!({
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]},
            ],
            "resourceSummary": {"allocatable": {"cpu": "100", "memory": "1000Gi", "pods": "1000"}},
        });
        client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &json!({"status": status})).await.unwrap();
    }
    let spec = json!({
        "replicas": 6, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {"replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }},
    });
    client.post(BINDINGS, &binding_in("shop", "web-deployment", "web", spec)).await.unwrap();
    wait(&client, BINDINGS, |it| targets(it) == HOME).await;
    client
}

const HOME: &str = "member1:2 member2:2 member3:2";

fn targets(binding: &Value) -> String {
    let all = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let one = |it: &Value| format!("{}:{}", it["name"].as_str().unwrap(), it["replicas"]);
    let mut all: Vec<String> = all.iter().map(one).collect();
    all.sort();
    all.join(" ")
}

async fn placed(client: &Client) -> String {
    targets(&client.get(BINDINGS).await.unwrap()["items"][0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm40_clusters_that_were_drained_together_come_back_together_or_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = three_clusters(&server).await;
    let run = |line: &str| told(folder.path(), line, 0);

    run("drain member1 member3 --name both --yes --wait");
    assert_eq!(placed(&client).await, "member2:6");
    let back = run("uncordon member1 member3 --return --yes --wait");
    assert!(back.contains("cluster/member1 uncordoned") && back.contains("cluster/member3 uncordoned"), "{back}");
    assert!(back.contains("Back to member1, member3, what the drain both has taken off:"), "{back}");
    assert!(back.contains("4 replicas moved"), "{back}");
    assert_eq!(placed(&client).await, HOME);

    run("drain member1 member3 --name again --yes --wait");
    let tried = run("uncordon member3 --return --dry-run");
    assert!(tried.contains("member3 would be opened first") && !tried.contains("uncordoned"), "{tried}");
    let one = run("uncordon member3 --return --yes --wait");
    assert!(one.contains("cluster/member3 uncordoned"), "a dry run leaves it closed: {one}");
    let sentence = "Back to member3, what the drain again has taken off; what left member1 stays away:";
    assert!(one.contains(sentence) && one.contains("2 replicas moved"), "{one}");
    assert_eq!(placed(&client).await, "member2:4 member3:2");
    assert!(run("uncordon member3 --return --yes").contains("nothing is brought back"));
    let other = run("uncordon member1 --return --yes --wait");
    assert!(other.contains("2 replicas moved"), "{other}");
    assert_eq!(placed(&client).await, HOME);
    assert!(run("uncordon member1 member3 --return --yes").contains("nothing is brought back"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm40_clusters_that_were_drained_one_after_the_other_come_back_the_way_they_went() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = three_clusters(&server).await;
    let run = |line: &str| told(folder.path(), line, 0);

    run("drain member1 --name first --yes --wait");
    assert_eq!(placed(&client).await, "member2:3 member3:3");
    run("drain member3 --name another --yes --wait");
    assert_eq!(placed(&client).await, "member2:6");
    let asked = told(folder.path(), "uncordon member1 member3 --return", 2);
    assert!(asked.contains("--yes"), "{asked}");
    // It waits for the first of them without a flag.
    let back = run("uncordon member1 member3 --return --yes");
    let (another, first) = (back.find("the drain another"), back.find("the drain first"));
    assert!(another.is_some() && another < first, "{back}");
    wait(&client, BINDINGS, |it| targets(it) == HOME).await;
}

/// Adds a workload, and waits until it is placed.
async fn add(client: &Client, name: &str, spec: Value) {
    client.post(BINDINGS, &binding_in("shop", &format!("{name}-deployment"), name, spec)).await.unwrap();
    wait(client, BINDINGS, |it| it["spec"]["resource"]["name"] == *name && targets(it).contains("member3")).await;
}

async fn rebalance(client: &Client, name: &str) -> Value {
    client.get(&format!("/apis/ballast.dev/v1alpha1/clusterrebalances/{name}")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_lists_what_stays_and_ends_with_status_3() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = three_clusters(&server).await;
    add(&client, "copy", json!({"replicas": 1, "placement": {}})).await;
    let said = told(folder.path(), "drain member3 --name out --yes --wait", 3);
    assert!(said.contains("copy stays (Duplicated)") && said.contains("--all"), "{said}");
    assert!(said.contains("is completed: 2 replicas moved, 1 workload failed"), "{said}");
    assert_eq!(rebalance(&client, "out").await["status"]["summary"]["failed"], 1);
    let all = told(folder.path(), "drain member3 --all --name rest --yes --wait", 0);
    assert!(all.contains("is completed"), "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncordon_ends_the_drain_in_progress_and_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = three_clusters(&server).await;
    let spec = client.get(BINDINGS).await.unwrap()["items"][0]["spec"].clone();
    add(&client, "api", json!({"replicas": 6, "placement": spec["placement"]})).await;
    let run = |line: &str| told(folder.path(), line, 0);
    run("drain member3 --name out --yes --no-wait --max-concurrent 1 --interval 1h --order name");
    wait(&client, "/apis/ballast.dev/v1alpha1/clusterrebalances", |it| it["status"]["summary"]["settled"] == 1).await;
    let back = run("uncordon member3 --return --yes --wait");
    assert!(back.contains("clusterrebalance/out aborted") && back.contains("cluster/member3 uncordoned"), "{back}");
    assert!(back.contains("is completed: 2 replicas moved"), "{back}");
    let drain = rebalance(&client, "out").await;
    assert_eq!((&drain["status"]["phase"], &drain["status"]["summary"]["settled"]), (&json!("Aborted"), &json!(1)));
    for binding in client.get(BINDINGS).await.unwrap()["items"].as_array().unwrap() {
        assert!(targets(binding).contains("member3:2"), "{binding}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_of_a_rebalance_in_progress_aborts_it_first() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = three_clusters(&server).await;
    let spec = client.get(BINDINGS).await.unwrap()["items"][0]["spec"].clone();
    add(&client, "api", json!({"replicas": 6, "placement": spec["placement"]})).await;
    let all_on_1 = json!({"spec": {"clusters": [{"name": "member1", "replicas": 6}]}});
    for name in ["api", "web"] {
        let path = format!("{BINDINGS}/{name}-deployment");
        client.merge_patch(&path, &all_on_1).await.unwrap();
    }
    let run = |line: &str| told(folder.path(), line, 0);
    run("rebalance --all -A --name even --yes --no-wait --max-concurrent 1 --interval 1h --order name");
    wait(&client, "/apis/ballast.dev/v1alpha1/clusterrebalances", |it| it["status"]["summary"]["settled"] == 1).await;
    let back = run("undo even --yes --wait");
    assert!(back.contains("clusterrebalance/even is Running, and is aborted first"), "{back}");
    assert_eq!(rebalance(&client, "even").await["status"]["phase"], "Aborted");
    for binding in client.get(BINDINGS).await.unwrap()["items"].as_array().unwrap() {
        assert_eq!(targets(binding), "member1:6");
    }
}
