//! `ballast import` and `ballast export`: objects are imported from another server with their
//! identity, without new decisions, and exported back.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use ballast::k8s::{Key, Revision};
use ballast::store::{self, Candidate};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN, wait};
use crate::support::postgres::Cluster;
use crate::support::wait_for;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/overridepolicies";
const COUNT: usize = 1000;

fn ballast(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ballast")).args(words).stdin(Stdio::null()).output().expect("the binary runs")
}

/// Returns the output of a command that exits with this status.
fn told(words: &[&str], status: i32) -> String {
    let done = ballast(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&done.stdout) + &text(&done.stderr);
    assert_eq!(done.status.code(), Some(status), "ballast {words:?}\n{all}");
    all
}

/// Returns the numbers of a row of the report: read, new, changed, same, only there, refused.
fn numbers(report: &str, kind: &str) -> Vec<usize> {
    let line = report.lines().find(|line| line.split_whitespace().next() == Some(kind));
    let line = line.unwrap_or_else(|| panic!("no {kind} in\n{report}"));
    line.split_whitespace().skip(1).map(|number| number.parse().unwrap()).collect()
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("ballast.db").display())
}

fn admin(folder: &Path) -> String {
    folder.join("certs/admin.kubeconfig").display().to_string()
}

/// Returns all objects of an unused log except events: each without its `resourceVersion`, with the
/// revision as a separate value.
async fn contents(url: &str) -> BTreeMap<Key, (Value, Revision)> {
    let store = store::open(url, &[]).await.unwrap();
    let last = store.bounds().await.unwrap().last;
    let page = store.page(last, Revision::ZERO, usize::MAX >> 1).await.unwrap();
    let mut found = BTreeMap::new();
    for change in page.into_iter().filter(|change| change.key.resource.resource() != "events") {
        let mut object: Value = serde_json::from_slice(&change.object).unwrap();
        let version = object["metadata"].as_object_mut().unwrap().remove("resourceVersion").unwrap();
        assert_eq!(version, change.revision.to_string());
        found.insert(change.key, (object, change.revision));
    }
    found
}

fn objects(contents: &BTreeMap<Key, (Value, Revision)>) -> Vec<(&Key, String)> {
    contents.iter().map(|(key, (object, _))| (key, object.to_string())).collect()
}

fn example(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rebalance").join(name);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn binding(name: &str) -> Value {
    let mut binding = example("bindings.yaml")[0].clone();
    binding["metadata"] = json!({"name": name, "namespace": "shop", "labels": {"app": name}});
    binding["spec"]["resource"]["namespace"] = json!("shop");
    binding["spec"]["resource"]["name"] = json!(name);
    // The clusters of the example have capacity for many small ones.
    binding["spec"]["replicaRequirements"]["resourceRequest"] = json!({"cpu": "1m"});
    binding
}

/// Creates two clusters, `count` placed bindings, one that is being deleted, and a policy.
async fn fill(client: &Client, count: usize) {
    for cluster in example("clusters.yaml") {
        client.post(CLUSTERS, &cluster).await.unwrap();
        let path = format!("{CLUSTERS}/{}/status", cluster["metadata"]["name"].as_str().unwrap());
        // Without reports, the capacity of the example would be reserved for the first ones.
        let mut status = example("cluster-status.yaml")[0].clone();
        status["status"]["resourceSummary"]["allocatable"]["pods"] = json!("100000");
        client.merge_patch(&path, &status).await.unwrap();
    }
    let names: Vec<String> = (0..count).map(|number| format!("web-{number}")).collect();
    for names in names.chunks(100) {
        let posts = names.iter().map(|name| async { client.post(BINDINGS, &binding(name)).await });
        try_join_all(posts).await.unwrap();
    }
    let mut doomed = binding("doomed");
    doomed["metadata"]["finalizers"] = json!(["karmada.io/binding-controller"]);
    client.post(BINDINGS, &doomed).await.unwrap();
    all_placed(client, count + 1).await;
    client.delete(&format!("{BINDINGS}/doomed")).await.unwrap();
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "smaller"}, "spec": {"overrideRules": []}});
    client.post(POLICIES, &policy).await.unwrap();
}

/// Waits until `count` bindings are placed and report it.
async fn all_placed(client: &Client, count: usize) {
    let mut placed = std::collections::BTreeSet::new();
    let seen = client.watch(BINDINGS, |event| {
        let binding = &event["object"];
        let is_placed = binding["spec"]["clusters"].as_array().is_some_and(|clusters| !clusters.is_empty());
        if is_placed && !binding["status"]["lastScheduledTime"].is_null() {
            placed.insert(binding["metadata"]["name"].to_string());
        }
        placed.len() == count
    });
    assert!(matches!(tokio::time::timeout(WITHIN * 5, seen).await, Ok(Ok(true))), "{} placed", placed.len());
}

async fn place(client: &Client, name: &str) {
    client.post(BINDINGS, &binding(name)).await.unwrap();
    wait(client, BINDINGS, |it| it["metadata"]["name"] == name && !it["status"]["lastScheduledTime"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk8_a_thousand_bindings_come_over_as_they_are_rest_there_and_go_back() {
    let (old, new, third) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(old.path(), &[]);
    let client = server.client().await;
    fill(&client, COUNT).await;
    let (from, database) = (admin(old.path()), url(new.path()));
    let import = ["import", "--from", &from, "--database-url", &database];

    let dry = told(&[&import[..], &["--dry-run"]].concat(), 3);
    assert_eq!(numbers(&dry, "resourcebindings.work.karmada.io"), [COUNT + 1, COUNT + 1, 0, 0, 0, 0]);
    assert!(!new.path().join("ballast.db").exists(), "a dry run makes no database");
    let first = told(&import, 0);
    assert_eq!(numbers(&first, "resourcebindings.work.karmada.io"), [COUNT + 1, COUNT + 1, 0, 0, 0, 0], "{first}");
    assert!(first.contains(&format!("Objects written: {};", COUNT + 4)), "{first}");
    let again = told(&import, 0);
    assert_eq!(numbers(&again, "resourcebindings.work.karmada.io"), [COUNT + 1, 0, 0, COUNT + 1, 0, 0], "{again}");
    assert!(again.contains("Objects written: 0;"), "a second run writes nothing: {again}");
    told(&[&import[..], &["--dry-run"]].concat(), 0);

    // Export back, while the source still exists for comparison.
    let back = told(&["export", "--to", &from, "--database-url", &database], 0);
    assert_eq!(numbers(&back, "resourcebindings.work.karmada.io"), [COUNT + 1, 0, 0, COUNT, 0, 0], "{back}");
    drop(client);
    assert!(server.terminate().success());
    let (source, copy) = (contents(&url(old.path())).await, contents(&database).await);
    assert_eq!(source.len(), COUNT + 4);
    assert_eq!(objects(&source), objects(&copy), "every byte but the revisions, uids and managers included");
    let doomed = source.iter().find(|(key, _)| &*key.name == "doomed").unwrap().1;
    assert!(doomed.0["metadata"]["deletionTimestamp"].is_string() && doomed.0["metadata"]["managedFields"].is_array());

    // The first start decides nothing again. The last imported object would be decided last.
    let server = ServerProcess::start(new.path(), &[]);
    let client = server.client().await;
    place(&client, "sentinel").await;
    place(&client, "sentinel-2").await;
    drop(client);
    assert!(server.terminate().success());
    let mut rested = contents(&database).await;
    rested.retain(|key, _| !key.name.starts_with("sentinel"));
    assert_eq!(rested, copy, "revisions at rest: 0");

    // Files contain the same.
    let parts = third.path().join("parts/").display().to_string();
    told(&["export", "--database-url", &database, "--to-file", &parts], 0);
    told(&["import", "--from-file", &parts, "--database-url", &url(third.path())], 0);
    let (all, filed) = (contents(&database).await, contents(&url(third.path())).await);
    assert_eq!(objects(&all), objects(&filed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk8_a_binding_that_is_owed_a_pass_gets_it_and_a_changed_source_is_told() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(old.path(), &[]);
    let client = server.client().await;
    fill(&client, 2).await;
    drop(client);
    assert!(server.terminate().success());
    let file = old.path().join("all.yaml").display().to_string();
    let said = told(&["export", "--database-url", &url(old.path()), "--to-file", &file], 0);
    assert!(said.contains("all.yaml: 6;"), "{said}");
    let database = url(new.path());
    let import = ["import", "--from-file", &file, "--database-url", &database];
    told(&import, 0);

    // Karmada's trigger, which no pass has served, and replicas that all failed over to one
    // cluster.
    let mut all: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let triggered = all.iter_mut().find(|object| object["metadata"]["name"] == "web-0").unwrap();
    triggered["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}]);
    triggered["spec"]["rescheduleTriggeredAt"] = triggered["status"]["lastScheduledTime"].clone();
    triggered["status"]["lastScheduledTime"] = json!("2024-04-17T15:00:00Z");
    let only = json!({"apiVersion": "v1", "kind": "List", "items": all});
    std::fs::write(&file, only.to_string()).unwrap();
    let differs = told(&[&import[..], &["--dry-run"]].concat(), 3);
    assert_eq!(numbers(&differs, "resourcebindings.work.karmada.io"), [3, 0, 1, 2, 0, 0], "{differs}");
    let what = "Differs: resourcebindings.work.karmada.io shop/web-0: spec.clusters, spec.rescheduleTriggeredAt, \
                status.lastScheduledTime";
    assert!(differs.contains(what), "{differs}");
    let changed = told(&import, 0);
    assert!(changed.contains("Objects written: 1;"), "{changed}");

    let server = ServerProcess::start(new.path(), &[]);
    let client = server.client().await;
    let home = |it: &Value| it["metadata"]["name"] == "web-0" && it["spec"]["clusters"].as_array().unwrap().len() == 2;
    wait(&client, BINDINGS, home).await;
    drop(client);
    assert!(server.terminate().success());
}

/// Returns a binding as karmada-scheduler leaves it, over two clusters that Ballast would divide
/// differently.
const OF_KARMADA: &str = r#"
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata:
  annotations:
    policy.karmada.io/applied-placement: '{"clusterAffinity":{"clusterNames":["member1","member2"]},"replicaScheduling":{"replicaDivisionPreference":"Weighted","replicaSchedulingType":"Divided","weightPreference":{"dynamicWeight":"AvailableReplicas"}}}'
    propagationpolicy.karmada.io/name: all
    propagationpolicy.karmada.io/namespace: shop
  creationTimestamp: "2024-04-17T15:00:00Z"
  finalizers: [karmada.io/binding-controller]
  generation: 5
  labels:
    propagationpolicy.karmada.io/permanent-id: 5b3b4a5c-0b1f-4d43-9a4e-6d1a1f6b0a01
    resourcebinding.karmada.io/permanent-id: 5b3b4a5c-0b1f-4d43-9a4e-6d1a1f6b0a02
  managedFields:
  - {manager: karmada-scheduler, operation: Update, apiVersion: work.karmada.io/v1alpha2, fieldsType: FieldsV1,
     fieldsV1: {"f:spec": {"f:clusters": {}}}, time: "2024-04-17T15:00:01Z"}
  name: nginx-deployment
  namespace: shop
  ownerReferences:
  - {apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: Deployment, name: nginx,
     uid: 5b3b4a5c-0b1f-4d43-9a4e-6d1a1f6b0a03}
  resourceVersion: "81234"
  uid: 5b3b4a5c-0b1f-4d43-9a4e-6d1a1f6b0a04
spec:
  clusters:
  - {name: member1, replicas: 1}
  - {name: member2, replicas: 3}
  conflictResolution: Abort
  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference: {dynamicWeight: AvailableReplicas}
  replicaRequirements: {resourceRequest: {cpu: 1m}}
  replicas: 4
  resource: {apiVersion: apps/v1, kind: Deployment, name: nginx, namespace: shop, resourceVersion: "81200",
     uid: 5b3b4a5c-0b1f-4d43-9a4e-6d1a1f6b0a03}
  schedulerName: default-scheduler
status:
  aggregatedStatus:
  - {applied: true, clusterName: member1, health: Healthy, status: {availableReplicas: 1, replicas: 1}}
  - {applied: true, clusterName: member2, health: Healthy, status: {availableReplicas: 3, replicas: 3}}
  conditions:
  - {lastTransitionTime: "2024-04-17T15:00:01Z", message: Binding has been scheduled successfully.,
     reason: Success, status: "True", type: Scheduled}
  - {lastTransitionTime: "2024-04-17T15:00:02Z", message: All works have been successfully applied,
     reason: FullyAppliedSuccess, status: "True", type: FullyApplied}
  lastScheduledTime: "2024-04-17T15:00:01Z"
  schedulerObservedGeneration: 5
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk8_a_binding_that_karmada_has_placed_rests_where_it_is() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(old.path(), &[]);
    let client = server.client().await;
    fill(&client, 0).await;
    drop(client);
    assert!(server.terminate().success());
    let (file, database) = (old.path().join("clusters.yaml").display().to_string(), url(new.path()));
    told(&["export", "--database-url", &url(old.path()), "--to-file", &file], 0);
    let text = std::fs::read_to_string(&file).unwrap() + "---" + OF_KARMADA;
    std::fs::write(&file, text).unwrap();
    told(&["import", "--from-file", &file, "--database-url", &database], 0);
    let before = contents(&database).await;

    let server = ServerProcess::start(new.path(), &["--beneath-karmada"]);
    let client = server.client().await;
    place(&client, "sentinel").await;
    place(&client, "sentinel-2").await;
    drop(client);
    assert!(server.terminate().success());
    let mut after = contents(&database).await;
    after.retain(|key, _| !key.name.starts_with("sentinel"));
    assert_eq!(after, before, "revisions at rest: 0");
    let (binding, _) = after.iter().find(|(key, _)| &*key.name == "nginx-deployment").unwrap().1;
    let mut expected: Value = serde_saphyr::from_str(OF_KARMADA).unwrap();
    expected["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(*binding, expected, "nothing is added and nothing is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk8_an_export_makes_what_is_missing_and_says_what_is_kept() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(old.path(), &[]);
    let client = server.client().await;
    fill(&client, 3).await;
    drop(client);
    assert!(server.terminate().success());
    // No scheduler runs at the target, as with a stopped karmada-scheduler.
    let target = ServerProcess::start(new.path(), &["--controllers=events"]);
    let client = target.client().await;
    place_unscheduled(&client).await;
    let (to, database) = (admin(new.path()), url(old.path()));
    let export = ["export", "--to", &to, "--database-url", &database];
    let dry = told(&[&export[..], &["--dry-run"]].concat(), 3);
    assert_eq!(numbers(&dry, "clusters.cluster.karmada.io"), [2, 2, 0, 0, 0, 0], "{dry}");
    assert_eq!(client.get(CLUSTERS).await.unwrap()["items"], json!([]), "a dry run writes nothing");
    let made = told(&export, 0);
    assert_eq!(numbers(&made, "resourcebindings.work.karmada.io"), [4, 2, 1, 0, 1, 0], "{made}");
    assert!(made.contains("Being deleted here, and left behind: 1 resourcebindings.work.karmada.io"), "{made}");
    assert!(made.contains("Only there: resourcebindings.work.karmada.io shop/stray"), "{made}");
    let again = told(&export, 0);
    assert_eq!(numbers(&again, "resourcebindings.work.karmada.io"), [4, 0, 0, 3, 1, 0], "{again}");
    assert_eq!(numbers(&again, "clusters.cluster.karmada.io"), [2, 0, 0, 2, 0, 0], "{again}");
    let pruned = told(&[&export[..], &["--prune", "-o", "json"]].concat(), 0);
    let pruned: Value = serde_json::from_str(&pruned).unwrap();
    assert_eq!(pruned["onlyThere"][0]["name"], "shop/stray", "{pruned}");

    let there = client.get(BINDINGS).await.unwrap();
    let names: Vec<&Value> = there["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["web-0", "web-1", "web-2"], "the stray is gone");
    let here = contents(&database).await;
    for item in there["items"].as_array().unwrap() {
        let (ours, _) = here.iter().find(|(key, _)| item["metadata"]["name"] == *key.name).unwrap().1;
        assert_eq!(item["spec"].to_string(), ours["spec"].to_string());
        let mut status = ours["status"].clone();
        status["schedulerObservedGeneration"] = item["metadata"]["generation"].clone();
        assert_eq!(item["status"].to_string(), status.to_string());
        assert_ne!(item["metadata"]["uid"], ours["metadata"]["uid"], "an API server gives uids of its own");
    }
    drop(client);
    assert!(target.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk8_an_export_says_that_moves_are_left_behind_because_no_client_writes_them() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(old.path(), &[]);
    let client = server.client().await;
    fill(&client, 2).await;
    // All replicas of both differ from a present decision.
    for name in ["web-0", "web-1"] {
        let away = json!({"spec": {"clusters": [{"name": "member2", "replicas": 4}]}});
        client.merge_patch(&format!("{BINDINGS}/{name}"), &away).await.unwrap();
    }
    let rebalances = "/apis/ballast.dev/v1alpha1/namespaces/shop/rebalances";
    let rebalance = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "Rebalance", "metadata": {"name": "home"},
        "spec": {"select": [{}], "rollout": {"settle": {"when": "Scheduled"}}}});
    client.post(rebalances, &rebalance).await.unwrap();
    wait(&client, rebalances, |it| it["status"]["phase"] == "Completed").await;
    drop(client);
    assert!(server.terminate().success());

    let target = ServerProcess::start(new.path(), &["--controllers=events"]);
    let (to, database) = (admin(new.path()), url(old.path()));
    let made = told(&["export", "--to", &to, "--database-url", &database], 0);
    let sentence = "Left behind, because only the server itself writes them: 2 moves.ballast.dev";
    assert!(made.contains(sentence) && !made.contains("Not served there"), "{made}");
    assert_eq!(numbers(&made, "rebalances.ballast.dev"), [1, 1, 0, 0, 0, 0], "{made}");
    assert!(target.terminate().success());
}

/// A binding that exists here with other content, and one that does not exist here.
async fn place_unscheduled(client: &Client) {
    let mut other = binding("web-0");
    other["spec"]["replicas"] = json!(1);
    client.post(BINDINGS, &other).await.unwrap();
    client.post(BINDINGS, &binding("stray")).await.unwrap();
}

/// Writes a file with `count` clusters.
fn clusters_file(folder: &Path, count: usize) -> String {
    let cluster = |number: usize| {
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": format!("member{number}"), "uid": format!("uid-{number}"), "generation": 3,
                "creationTimestamp": "2024-04-17T15:00:00Z"},
            "spec": {"syncMode": "Push"}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (0..count).map(cluster).collect::<Vec<_>>()});
    let path = folder.join("clusters.json");
    std::fs::write(&path, list.to_string()).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn bk8_an_import_that_was_killed_is_finished_by_another_one() {
    use sqlx::{ConnectOptions, Row};
    const COMMIT_ROWS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = (clusters_file(folder.path(), 6 * COMMIT_ROWS), url(folder.path()));
    let words = ["import", "--from-file", &file, "--database-url", &database];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let mut process = command.args(words).stdout(Stdio::null()).spawn().unwrap();
    let path = folder.path().join("ballast.db");
    let (options, deadline) = (sqlx::sqlite::SqliteConnectOptions::new().filename(&path), Instant::now() + WITHIN);
    let begun = async || {
        let mut connection = options.connect().await.ok()?;
        let row = sqlx::query("SELECT count(*) FROM changes").fetch_one(&mut connection).await.ok()?;
        Some(row.get::<i64, _>(0) > 0)
    };
    while begun().await != Some(true) {
        assert!(Instant::now() < deadline, "nothing is written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    process.kill().unwrap();
    process.wait().unwrap();

    let written = contents(&database).await.len();
    assert!(written > 0 && written.is_multiple_of(COMMIT_ROWS), "whole commits are there: {written}");
    let finished = told(&words, 0);
    let missing = 6 * COMMIT_ROWS - written;
    assert_eq!(numbers(&finished, "clusters.cluster.karmada.io"), [6 * COMMIT_ROWS, missing, 0, written, 0, 0]);
    assert!(finished.contains(&format!("is at revision {}", 6 * COMMIT_ROWS)), "{finished}");
}

#[tokio::test]
async fn bk8_postgresql_takes_the_same_and_nobody_else_writes_meanwhile() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = (clusters_file(folder.path(), 1500), cluster.schema().await);
    let words = ["import", "--from-file", &file, "--database-url", &database];
    let first = told(&words, 0);
    assert_eq!(numbers(&first, "clusters.cluster.karmada.io"), [1500, 1500, 0, 0, 0, 0]);
    told(&["import", "--from-file", &file, "--database-url", &url(folder.path())], 0);
    assert_eq!(contents(&database).await, contents(&url(folder.path())).await, "revisions included");

    // Fewer in the source: objects that are only here remain unless removal is requested.
    let fewer = clusters_file(folder.path(), 1499);
    assert_eq!(fewer, file);
    let left = told(&words, 0);
    assert!(left.contains("Only here, and left alone without --prune: 1"), "{left}");
    told(&[&words[..], &["--dry-run"]].concat(), 3);
    told(&[&words[..], &["--prune"]].concat(), 0);
    told(&[&words[..], &["--dry-run"]].concat(), 0);

    let store = store::open(&database, &[]).await.unwrap();
    let leader = Candidate { name: "anna".into(), address: "anna:7443".into() };
    store.lead(&leader, Duration::from_secs(60)).await.unwrap();
    let refused = told(&words, 1);
    assert!(refused.contains("anna leads") && refused.contains("stop all replicas first"), "{refused}");
    told(&[&words[..], &["--dry-run"]].concat(), 0);
}

#[test]
fn bk8_what_is_lost_left_or_refused_is_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = |name: &str, spec: Value, more: Value| {
        let mut metadata = json!({"name": name, "uid": name, "creationTimestamp": "2024-04-17T15:00:00Z"});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec})
    };
    let push = json!({"syncMode": "Push"});
    let items = vec![
        cluster("newer", json!({"syncMode": "Push", "zonesOfTomorrow": ["a"]}), json!({})),
        cluster("broken", json!({"syncMode": "Sideways"}), json!({})),
        cluster("nobody", push.clone(), json!({"uid": ""})),
        cluster("going", push.clone(), json!({"deletionTimestamp": "2024-04-17T15:00:00Z"})),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    ];
    let file = folder.path().join("some.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let (file, database) = (file.display().to_string(), url(folder.path()));
    let words = ["import", "--from-file", &file, "--database-url", &database];
    let said = told(&words, 1);
    assert_eq!(numbers(&said, "clusters.cluster.karmada.io"), [3, 1, 0, 0, 0, 2], "{said}");
    for words in [
        "spec.zonesOfTomorrow of 1 clusters.cluster.karmada.io (such as newer)",
        "Refused: clusters.cluster.karmada.io broken: ",
        "metadata.uid: Required value",
        "Left out, because it is not served here: 1 ConfigMap of v1",
        "objects refused: 2; all others are there",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }

    let nowhere = folder.path().join("nowhere").display().to_string();
    for (words, says) in [
        (&["import"][..], "--from"),
        (&["import", "--from-file", &file, "--from", &file], "cannot be used with"),
        (&["import", "--from-file", &file, "--database-url", "memory:"], "is gone when the process ends"),
        (&["import", "--from-file", &nowhere], "failed to read"),
        (&["import", "--from", &nowhere], "failed to use"),
        (&["export", "--to-file", &nowhere, "--database-url", "sqlite:///nowhere/a.db"], "there is no database"),
        (&["export", "--to-file", &nowhere, "--prune"], "cannot be used with"),
        (&["import", "--from-file", &file, "--context", "x"], "cannot be used with"),
    ] {
        let said = told(words, 2);
        assert!(said.contains(says), "{words:?}: {said}");
    }
}

/// Returns a profile of another manager.
fn profile(namespace: &str, name: &str, manager: &str, health: &str) -> Value {
    json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"),
            "creationTimestamp": "2026-04-17T15:00:00Z", "labels": {"tier": "gold", "x-k8s.io/cluster-manager": manager}},
        "spec": {"displayName": name, "clusterManager": {"name": manager}},
        "status": {"version": {"kubernetes": "v1.36.2"},
            "conditions": [{"type": "ControlPlaneHealthy", "status": health, "reason": "Probed", "message": "",
                "lastTransitionTime": "2026-05-01T00:00:00Z"}],
            "properties": [{"name": "topology.kubernetes.io/region", "value": "eu"},
                {"name": "topology.kubernetes.io/zone", "value": "eu-a,eu-b"}],
            "accessProviders": [{"name": "x", "cluster": {"server": "https://10.0.0.7:6443"}}]}})
}

#[tokio::test]
async fn iv5_clusters_are_made_of_another_managers_profiles_and_follow_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = (folder.path().join("profiles.json"), url(folder.path()));
    let write = |items: Vec<Value>| {
        std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    };
    let shown = file.display().to_string();
    let import = |more: &[&str], status| {
        let words = ["import", "--cluster-profiles", "--from-file", &shown, "--database-url", &database];
        told(&[&words[..], more].concat(), status)
    };
    write(vec![
        profile("fleet", "one", "ocm", "True"),
        profile("fleet", "two", "ocm", "False"),
        profile("other", "one", "ocm", "True"),
        profile("fleet", "own", "ballast", "True"),
    ]);
    let said = import(&[], 1);
    assert_eq!(numbers(&said, "clusters.cluster.karmada.io"), [3, 2, 0, 0, 0, 1], "{said}");
    assert!(said.contains("other/one: ") && said.contains("Ballast itself has written them: 1 profiles"), "{said}");

    // A workload is placed on the healthy one.
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let cluster = client.get(&format!("{CLUSTERS}/one")).await.unwrap();
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    assert_eq!(cluster["spec"]["apiEndpoint"], "https://10.0.0.7:6443");
    assert_eq!((&cluster["spec"]["region"], &cluster["spec"]["zones"]), (&json!("eu"), &json!(["eu-a", "eu-b"])));
    assert_eq!(cluster["metadata"]["labels"], json!({"tier": "gold", "x-k8s.io/cluster-manager": "ocm"}));
    assert_eq!(cluster["metadata"]["annotations"]["ballast.dev/cluster-profile"], "fleet/one");
    assert_eq!(cluster["status"]["kubernetesVersion"], "v1.36.2");
    let ready = |cluster: &Value| cluster["status"]["conditions"][0]["status"].clone();
    assert_eq!((ready(&cluster), cluster["status"]["conditions"][0]["type"].clone()), (json!("True"), json!("Ready")));
    assert_eq!(ready(&client.get(&format!("{CLUSTERS}/two")).await.unwrap()), "False");
    let mut web = binding("web");
    web["spec"]["placement"] = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}});
    client.post(BINDINGS, &web).await.unwrap();
    let placed = wait(&client, BINDINGS, |web| web["spec"]["clusters"].is_array()).await;
    assert_eq!(placed["spec"]["clusters"][0]["name"], "one");
    let taint = json!({"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}});
    let tainted = client.merge_patch(&format!("{CLUSTERS}/one"), &taint).await.unwrap();
    client
        .post(
            CLUSTERS,
            &json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "three"}, "spec": {"syncMode": "Push"}}),
        )
        .await
        .unwrap();
    assert!(server.terminate().success());

    // An unchanged source changes nothing; changes there are followed, and objects from here
    // remain.
    write(vec![profile("fleet", "one", "ocm", "Unknown"), profile("fleet", "three", "ocm", "True")]);
    let said = import(&[], 1);
    assert_eq!(numbers(&said, "clusters.cluster.karmada.io"), [2, 0, 1, 0, 1, 1], "{said}");
    assert!(said.contains("the Cluster three is there already, and is not made of a profile"), "{said}");
    write(vec![profile("fleet", "one", "ocm", "Unknown")]);
    let said = import(&["--prune"], 0);
    assert_eq!(numbers(&said, "clusters.cluster.karmada.io"), [1, 0, 0, 1, 1, 0], "only what a profile made: {said}");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let cluster = client.get(&format!("{CLUSTERS}/one")).await.unwrap();
    assert_eq!((ready(&cluster), &cluster["spec"]["taints"][0]), (json!("Unknown"), &tainted["spec"]["taints"][0]));
    assert!(client.get(&format!("{CLUSTERS}/two")).await.is_err());
    assert!(client.get(&format!("{CLUSTERS}/three")).await.is_ok());
    assert!(server.terminate().success());

    // A Cluster with a placed workload is deleted as by a client: the workload leaves it when the
    // server starts, even without another candidate, and then the Cluster is removed.
    write(vec![profile("fleet", "own", "ballast", "True")]);
    let said = import(&["--prune"], 0);
    assert_eq!(numbers(&said, "clusters.cluster.karmada.io"), [0, 0, 0, 0, 1, 0], "{said}");
    let again = import(&["--prune"], 0);
    assert!(again.contains("Objects written: 0"), "it is being deleted already: {again}");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    wait(&client, BINDINGS, |web| web["spec"]["clusters"].as_array().is_none_or(Vec::is_empty)).await;
    let path = format!("{CLUSTERS}/one");
    wait_for("the Cluster is gone", async || client.get(&path).await.is_err().then_some(())).await;
    assert!(server.terminate().success());
}
