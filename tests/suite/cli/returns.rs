//! Workloads with spread constraints return after an outage, with the built binary against a live
//! server (RM37).

use serde_json::{Value, json};

use super::operator::told;
use crate::process::{ServerProcess, wait};
use crate::support::objects::{BINDINGS, CLUSTERS, binding_in, cluster, room, with};

fn targets(binding: &Value) -> String {
    let all = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let one = |it: &Value| format!("{}:{}", it["name"].as_str().unwrap(), it["replicas"]);
    let mut all: Vec<String> = all.iter().map(one).collect();
    all.sort();
    all.join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_with_spread_constraints_returns() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &["--resource-eviction-rate=100"]);
    let client = server.client().await;
    for (name, region) in [("a1", "west"), ("a2", "west"), ("b1", "east"), ("b2", "east")] {
        client.post(CLUSTERS, &with(cluster(name), json!({"spec": {"region": region}}))).await.unwrap();
        client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &room("64", "640Gi", "1000")).await.unwrap();
    }
    let spread = |field: &str, max: i64| json!({"spreadByField": field, "minGroups": 2, "maxGroups": max});
    let spec = json!({
        "replicas": 8, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {"spreadConstraints": [spread("region", 2), spread("cluster", 4)], "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }},
    });
    client.post(BINDINGS, &binding_in("shop", "web-deployment", "web", spec)).await.unwrap();
    let home = "a1:2 a2:2 b1:2 b2:2";
    wait(&client, BINDINGS, |it| targets(it) == home).await;
    let taints = |taints: Value| json!({"spec": {"taints": taints}});
    let lost = taints(json!([{"key": "down", "effect": "NoExecute"}]));
    client.merge_patch(&format!("{CLUSTERS}/a1"), &lost).await.unwrap();
    wait(&client, BINDINGS, |it| targets(it).starts_with("a2:") && targets(it).contains("b2:")).await;
    client.merge_patch(&format!("{CLUSTERS}/a1"), &taints(json!([]))).await.unwrap();
    let displaced = told(folder.path(), "displaced -A", 0);
    assert!(displaced.contains("deployment/web") && !displaced.contains("would no longer be kept"), "{displaced}");
    let done = told(folder.path(), "rebalance -A --displaced --yes --wait", 0);
    assert_eq!(targets(&client.get(BINDINGS).await.unwrap()["items"][0]), home, "{done}");
}
