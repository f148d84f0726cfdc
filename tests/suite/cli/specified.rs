//! Specified replicas (seed 003) with the real server: from the sample to the decision, and to the
//! event for inconsistent numbers.

use ballast::cli::client::Client;
use ballast::node::certs::Files;
use http::Method;
use serde_json::{Value, json};

use crate::process::{ServerProcess, wait};
use crate::support::objects;
use crate::support::raw::Raw;

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const YAML: (&str, &str) = ("content-type", "application/yaml");

async fn given_cluster(client: &Client, name: &str, region: &str) {
    let cluster = objects::with(objects::cluster(name), json!({"spec": {"region": region}}));
    client.post(CLUSTERS, &cluster).await.unwrap();
    let status = objects::room("100", "400Gi", "1000");
    client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &status).await.unwrap();
}

/// Creates the binding of nginx, as Karmada's detector does from the policy.
async fn bind(client: &Client, placement: &Value, replicas: i32) {
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "nginx-deployment"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginx"},
            "replicas": replicas, "placement": placement,
        },
    });
    client.post(BINDINGS, &binding).await.unwrap();
}

fn is_on(binding: &Value, clusters: Value) -> bool {
    binding["spec"]["clusters"] == clusters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r130_r132_r139_r147_the_sample_is_taken_with_its_correction_scheduled_and_refused_when_it_does_not_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    given_cluster(&client, "member1", "RegionA").await;
    given_cluster(&client, "member2", "RegionB").await;

    // C15: the corrections of the sample are warnings, and the causes of a strict rejection.
    let sample = include_str!("../../data/seeds/specify-replicas-solution-1-clusters.yaml");
    let raw = Raw::admin(server.address, &Files::in_dir(&folder.path().join("certs")));
    let strict = raw.send(Method::POST, &format!("{POLICIES}?fieldValidation=Strict"), &[YAML], sample).await;
    assert_eq!(strict.code, 400, "{}", strict.text());
    let taken = raw.send(Method::POST, &format!("{POLICIES}?fieldValidation=Warn"), &[YAML], sample).await;
    assert_eq!(taken.code, 201, "{}", taken.text());
    let warnings: Vec<&str> = taken.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let corrected = r#"{"targetCluster":{"clusterNames":["member1"]},"replicas":2}"#;
    let refusal = strict.json()["message"].as_str().unwrap().to_owned();
    for part in ["clusterNames", "member1", "replicas"] {
        assert!(warnings[0].starts_with("299 - ") && warnings[0].contains(part), "{warnings:?}");
    }
    let entry: Value = serde_json::from_str(corrected).unwrap();
    assert!(refusal.contains("was read as {") && refusal.contains("member1"), "{refusal}");
    let placement = taken.json()["spec"]["placement"].clone();
    let list = &placement["replicaScheduling"]["specifyPreference"]["staticSpecifyList"];
    assert_eq!(list[0], entry, "what was read is what is stored");

    // R147: two replicas on each cluster.
    bind(&client, &placement, 4).await;
    let path = format!("{BINDINGS}?fieldSelector=metadata.name=nginx-deployment");
    let two_each = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]);
    wait(&client, &path, |binding| is_on(binding, two_each.clone())).await;

    // R139: five replicas, but the numbers add up to four. Nothing moves, and the condition and the
    // events contain the reason.
    client.merge_patch(&format!("{BINDINGS}/nginx-deployment"), &json!({"spec": {"replicas": 5}})).await.unwrap();
    let is_refused = |binding: &Value| {
        let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Scheduled" && condition["status"] == "False")
    };
    let refused = wait(&client, &path, is_refused).await;
    assert!(is_on(&refused, two_each), "{refused}");
    for kind in ["ResourceBinding", "Deployment"] {
        let events = format!(
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind={kind},reason=ScheduleBindingFailed"
        );
        let event = wait(&client, &events, |event| event["type"] == "Warning").await;
        let message = event["message"].as_str().unwrap();
        assert!(message.contains("sum up to 4") && message.contains("has 5"), "{message}");
    }

    // After the correction the binding is scheduled at once.
    client.merge_patch(&format!("{BINDINGS}/nginx-deployment"), &json!({"spec": {"replicas": 4}})).await.unwrap();
    let is_scheduled = |binding: &Value| !is_refused(binding) && binding["spec"]["replicas"] == 4;
    wait(&client, &path, is_scheduled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_cluster_in_two_entries_is_warned_of_under_any_validation() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let entry = |replicas: i64| json!({"targetCluster": {"clusterNames": ["member1"]}, "replicas": replicas});
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "twice"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified",
                "specifyPreference": {"staticSpecifyList": [entry(2), entry(3)]},
            }},
        },
    });
    let raw = Raw::admin(server.address, &Files::in_dir(&folder.path().join("certs")));
    let path = format!("{POLICIES}?fieldValidation=Strict");
    let json = [("content-type", "application/json")];
    let taken = raw.send(Method::POST, &path, &json, policy.to_string()).await;
    assert_eq!(taken.code, 201, "{}", taken.text());
    let warning = taken.header("warning").unwrap_or_default();
    assert!(warning.contains("staticSpecifyList[1]") && warning.contains("is in entry 0 already"), "{warning}");
}
