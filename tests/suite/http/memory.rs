//! The memory of a server process per stored byte, per rejected request and per namespace, and its
//! log per object.

use http::Method;
use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::support::raw::{Raw, Reply};
use crate::support::{metric, wait_for};
use ballast::node::certs::Files;

const JSON: (&str, &str) = ("content-type", "application/json");
const MIB: usize = 1024 * 1024;

fn policies(namespace: &str) -> String {
    format!("/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies")
}

/// Returns a policy with `count` selectors, each by a distinct label.
fn policy(name: &str, selectors: usize) -> Value {
    let selector = |number: usize| {
        let labels = json!({"matchLabels": {"app": format!("a{number}")}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": labels})
    };
    let selectors: Vec<Value> = (0..selectors).map(selector).collect();
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "placement": {}}})
}

async fn create(admin: &Raw, namespace: &str, object: &Value) -> Reply {
    admin.send(Method::POST, &policies(namespace), &[JSON], object.to_string()).await
}

/// Returns the peak resident set size in bytes.
fn peak(server: &ServerProcess) -> usize {
    let line = server.kernel_says("VmHWM").expect("Linux");
    line.split_whitespace().next().and_then(|kib| kib.parse::<usize>().ok()).expect("a number") * 1024
}

#[tokio::test]
async fn stored_policies_take_a_few_times_their_size() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let admin = Raw::admin(server.address, &Files::in_dir(&home.path().join("certs")));
    // A binding of the namespace has the controller read its policies.
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web", "annotations": {"propagationpolicy.karmada.io/namespace": "shop",
            "propagationpolicy.karmada.io/name": "p0"}},
        "spec": {"replicas": 1, "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop",
            "name": "web"}}});
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    assert_eq!(admin.send(Method::POST, bindings, &[JSON], binding.to_string()).await.code, 201);
    let (before, mut sent) = (server.resident_bytes(), 0);
    for number in 0..120 {
        let object = policy(&format!("p{number}"), 500);
        sent += object.to_string().len();
        assert_eq!(create(&admin, "shop", &object).await.code, 201);
    }
    let after = peak(&server);
    assert!(server.terminate().success());
    // The text, its parsed form and the log take less than ten bytes each; fifty in a former
    // version.
    let grown = after.saturating_sub(before);
    assert!(grown < 10 * sent + 48 * MIB, "{} MiB for {} MiB", grown / MIB, sent / MIB);
    let again = ServerProcess::start(home.path(), &[]);
    let admin = Raw::admin(again.address, &Files::in_dir(&home.path().join("certs")));
    assert_eq!(admin.get(&policies("shop")).await.code, 200);
    let grown = peak(&again).saturating_sub(before);
    assert!(grown < 10 * sent + 48 * MIB, "{} MiB for {} MiB after a restart", grown / MIB, sent / MIB);
    assert!(again.terminate().success());
}

#[tokio::test]
async fn a_refused_request_takes_a_bounded_amount_of_memory() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let admin = Raw::admin(server.address, &Files::in_dir(&home.path().join("certs")));
    let body = |selector: &str, count: usize| {
        let mut text = policy("p", 0).to_string();
        let list = vec![selector; count].join(",");
        text = text.replace("\"resourceSelectors\":[]", &format!("\"resourceSelectors\":[{list}]"));
        assert!(text.len() > count);
        text
    };
    let before = peak(&server);
    let empty = admin.send(Method::POST, &policies("shop"), &[JSON], body("{}", 330_000)).await;
    assert_eq!((empty.code.as_u16(), empty.json()["reason"].as_str()), (422, Some("Invalid")));
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB for a body of 1 MiB", grown / MIB);
    // Each of these would take 700 bytes.
    let filled = admin.send(Method::POST, &policies("shop"), &[JSON], body(r#"{"a":1}"#, 350_000)).await;
    let status = filled.json();
    assert_eq!((filled.code.as_u16(), status["reason"].as_str()), (413, Some("RequestEntityTooLarge")), "{status}");
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB for a body of 3 MiB", grown / MIB);
    assert!(server.terminate().success());
}

#[tokio::test]
async fn a_full_namespace_takes_no_more_and_others_do() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &["--max-namespace-bytes=1Mi"]);
    let admin = Raw::admin(server.address, &Files::in_dir(&home.path().join("certs")));
    for number in 0..4 {
        assert_eq!(create(&admin, "shop", &policy(&format!("p{number}"), 2_000)).await.code, 201);
    }
    let refused = create(&admin, "shop", &policy("p4", 4_000)).await;
    let status = refused.json();
    let message = status["message"].as_str().unwrap();
    assert_eq!((refused.code.as_u16(), status["reason"].as_str()), (403, Some("Forbidden")), "{status}");
    assert!(message.contains("exceeded quota: stored bytes of namespace \"shop\", requested: "), "{message}");
    assert!(message.ends_with("limited: 1048576 (--max-namespace-bytes)"), "{message}");
    assert_eq!(status["details"]["name"], "p4");
    // An object there may shrink, or have a label, but not grow.
    let path = format!("{}/p3", policies("shop"));
    let put = async |object: Value| admin.send(Method::PUT, &path, &[JSON], object.to_string()).await;
    let stored = admin.get(&path).await.json();
    let mut larger = policy("p3", 6_000);
    larger["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    assert_eq!(put(larger).await.code, 403);
    let mut labelled = stored;
    labelled["metadata"]["labels"]["team"] = json!("a");
    let labelled = put(labelled).await;
    assert_eq!(labelled.code, 200, "{}", labelled.text());
    let mut smaller = policy("p3", 1_000);
    smaller["metadata"]["resourceVersion"] = labelled.json()["metadata"]["resourceVersion"].clone();
    let smaller = put(smaller).await;
    assert_eq!(smaller.code, 200, "{}", smaller.text());
    assert_eq!(create(&admin, "other", &policy("p4", 4_000)).await.code, 201);
    assert_eq!(admin.send(Method::DELETE, &format!("{}/p0", policies("shop")), &[], "").await.code, 200);
    assert_eq!(create(&admin, "shop", &policy("p4", 3_000)).await.code, 201);
    let metrics = admin.get("/metrics").await.text().to_owned();
    assert_eq!(metric(&metrics, "ballast_store_namespace_bytes_refused_total"), 2.0);
    assert!(metric(&metrics, "ballast_store_namespace_bytes_max") > 500_000.0);
    assert!(server.terminate().success());
}

#[tokio::test]
async fn evictions_that_end_together_are_one_log_line() {
    const TASKS: usize = 2_000;
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let admin = Raw::admin(server.address, &Files::in_dir(&home.path().join("certs")));
    // Clusters that do not exist keep no workload.
    let task = |number: usize| json!({"fromCluster": format!("c{number}"), "reason": "R", "producer": "p"});
    let tasks: Vec<Value> = (0..TASKS).map(task).collect();
    let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"});
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "resource": resource, "gracefulEvictionTasks": tasks}});
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    assert_eq!(admin.send(Method::POST, bindings, &[JSON], binding.to_string()).await.code, 201);
    let log = || std::fs::read_to_string(home.path().join("log")).unwrap();
    wait_for("the end of the evictions", async || log().contains("evictions ended").then_some(())).await;
    let path = format!("{bindings}/web");
    wait_for("a binding without tasks", async || {
        let tasks = admin.get(&path).await.json()["spec"]["gracefulEvictionTasks"].clone();
        tasks.is_null().then_some(())
    })
    .await;
    let log = log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("evictions ended")).collect();
    assert!(lines.iter().any(|line| line.contains(&format!("evictions={TASKS}"))), "{lines:?}");
    assert!(lines.len() <= 3, "{} lines", lines.len());
    assert!(server.terminate().success());
}
