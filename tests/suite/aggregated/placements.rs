//! Validating webhooks of the host cluster review the scheduler's placements (AD13), over HTTPS.

use http::Method;
use serde_json::{Value, json};

use super::admission::{CONFIGURATIONS, MASTER};
use crate::support::aggregated::Aggregated;
use crate::support::fleet;
use crate::support::raw::Reply;
use crate::support::webhook::Webhook;
use crate::support::{metric, wait_for};

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const SCHEDULER: &str = "system:ballast:scheduler";

fn allowed(_: &Value) -> Option<Value> {
    Some(json!({"allowed": true}))
}

async fn send(server: &Aggregated, method: Method, path: &str, body: &Value) -> Reply {
    server.proxy().send(method, path, &MASTER, body.to_string()).await
}

/// Starts a server with a cluster and the namespace default, and this webhook for bindings. `shape`
/// may change its configuration.
async fn guarded(hook: &Webhook, shape: impl FnOnce(&mut Value)) -> Aggregated {
    let server = Aggregated::start().await;
    register(&server, hook, shape);
    prepare(&server).await;
    server
}

const PATCH: [(&str, &str); 3] = [MASTER[0], MASTER[1], ("Content-Type", "application/merge-patch+json")];

async fn prepare(server: &Aggregated) {
    let namespace = json!({"metadata": {"name": "default", "labels": {"team": "a"}}});
    server.host.put("/api/v1/namespaces/default", namespace);
    let cluster = fleet::cluster("member1");
    assert_eq!(send(server, Method::POST, CLUSTERS, &cluster).await.code, 201);
    let path = format!("{CLUSTERS}/member1/status");
    let body = json!({"status": cluster["status"]}).to_string();
    assert_eq!(server.proxy().send(Method::PATCH, &path, &PATCH, body).await.code, 200);
}

fn register(server: &Aggregated, hook: &Webhook, shape: impl FnOnce(&mut Value)) {
    let mut webhook = json!({
        "name": "guard.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
        "clientConfig": hook.client_config(), "timeoutSeconds": 30,
        "rules": [{"apiGroups": ["work.karmada.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
            "resources": ["resourcebindings", "clusterresourcebindings"], "scope": "*"}],
    });
    shape(&mut webhook);
    let configuration = json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard"},
        "apiVersion": "admissionregistration.k8s.io/v1", "webhooks": [webhook]});
    server.host.put(&format!("{CONFIGURATIONS}/validatingwebhookconfigurations/guard"), configuration);
}

async fn create(server: &Aggregated, name: &str, labels: Value) {
    let mut binding = fleet::binding(name, 2, fleet::by_room());
    binding["metadata"]["labels"].as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    let reply = send(server, Method::POST, BINDINGS, &binding).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
}

/// Waits until the configuration is active: until the scheduler sends reviews of new bindings.
async fn known(server: &Aggregated, hook: &Webhook) {
    let mut number = 0;
    wait_for("the first question", async || {
        number += 1;
        create(server, &format!("probe-{number}"), json!({})).await;
        (!hook.asked().is_empty()).then_some(())
    })
    .await;
}

async fn get(server: &Aggregated, name: &str) -> Value {
    send(server, Method::GET, &format!("{BINDINGS}/{name}-deployment"), &Value::Null).await.json()
}

async fn placed(server: &Aggregated, name: &str) {
    wait_for(&format!("the place of {name}"), async || {
        (get(server, name).await["spec"]["clusters"] == json!([{"name": "member1", "replicas": 2}])).then_some(())
    })
    .await;
}

/// Waits until the condition Scheduled has this reason, and returns its message.
async fn told(server: &Aggregated, name: &str, reason: &str) -> String {
    wait_for(&format!("{reason} of {name}"), async || {
        let binding = get(server, name).await;
        let mut conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
        let condition = conditions.find(|known| known["type"] == "Scheduled")?;
        (condition["reason"] == reason).then(|| condition["message"].as_str().unwrap().to_owned())
    })
    .await
}

#[tokio::test]
async fn ad13_a_placement_is_asked_about_over_tls_and_refused_or_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Webhook::start(folder.path(), allowed).await;
    let server = guarded(&hook, |_| {}).await;
    known(&server, &hook).await;
    hook.answer(|request| {
        let status = json!({"code": 403, "reason": "QuotaExceeded", "message": "too much of it"});
        Some(match request["name"] == "web-deployment" && request["userInfo"]["username"] == SCHEDULER {
            true => json!({"allowed": false, "status": status}),
            false => json!({"allowed": true}),
        })
    });
    for name in ["web", "db"] {
        create(&server, name, json!({})).await;
    }
    placed(&server, "db").await;
    let message = told(&server, "web", "QuotaExceeded").await;
    assert_eq!(message, "admission webhook \"guard.example.com\" denied the request: too much of it");
    assert!(get(&server, "web").await["spec"]["clusters"].is_null());
    let asked = hook.asked();
    let request = asked.iter().find(|request| request["name"] == "web-deployment").unwrap();
    assert_eq!((&request["operation"], &request["dryRun"]), (&json!("UPDATE"), &json!(false)));
    assert_eq!(request["resource"]["resource"], "resourcebindings");
    assert_eq!(request["options"]["fieldManager"], "ballast-scheduler");
    assert_eq!(request["object"]["spec"]["clusters"], json!([{"name": "member1", "replicas": 2}]));
    assert!(request["oldObject"]["spec"]["clusters"].is_null());
    let text = server.proxy().send(Method::GET, "/metrics", &MASTER, "").await;
    let refused = "ballast_worker_questions_total{answer=\"refused\",worker=\"scheduler\"}";
    assert!(metric(text.text(), refused) >= 1.0, "{}", text.text());
    hook.answer(allowed);
    placed(&server, "web").await;
    told(&server, "web", "Success").await;
    server.stop().await;
}

#[tokio::test]
async fn ad13_a_slow_webhook_holds_up_only_what_it_means() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Webhook::start(folder.path(), allowed).await;
    let server = guarded(&hook, |hook| {
        hook["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
        hook["objectSelector"] = json!({"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]});
        let expression = "request.userInfo.username == 'system:ballast:scheduler' && object.spec.replicas > 1";
        hook["matchConditions"] = json!([{"name": "ours", "expression": expression}]);
    })
    .await;
    known(&server, &hook).await;
    hook.answer(|request| (request["name"] != "slow-deployment").then(|| json!({"allowed": true})));
    create(&server, "slow", json!({})).await;
    wait_for("the question", async || hook.asked().iter().any(|it| it["name"] == "slow-deployment").then_some(()))
        .await;
    // One binding that does not match, and one that matches and is allowed.
    create(&server, "free", json!({"free": "yes"})).await;
    create(&server, "web", json!({})).await;
    for name in ["free", "web"] {
        placed(&server, name).await;
    }
    assert!(hook.asked().iter().all(|request| request["name"] != "free-deployment"));
    assert!(get(&server, "slow").await["spec"]["clusters"].is_null());
    hook.answer(allowed);
    placed(&server, "slow").await;
    server.stop().await;
}

#[tokio::test]
async fn ad13_a_webhook_that_is_down_refuses_or_is_passed_over_as_its_policy_says() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Webhook::start(folder.path(), allowed).await;
    let server = guarded(&hook, |_| {}).await;
    known(&server, &hook).await;
    let gone = |policy: &'static str| {
        move |hook: &mut Value| {
            hook["failurePolicy"] = json!(policy);
            hook["clientConfig"]["url"] = json!("https://127.0.0.1:1/");
        }
    };
    register(&server, &hook, gone("Fail"));
    let mut number = 0;
    let message = wait_for("a webhook that is down", async || {
        number += 1;
        let name = format!("down-{number}");
        create(&server, &name, json!({})).await;
        let told = wait_for("a decision", async || {
            let binding = get(&server, &name).await;
            let mut conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
            conditions.find(|known| known["type"] == "Scheduled").cloned()
        });
        Some(told.await).filter(|condition| condition["status"] == "False")
    })
    .await;
    assert_eq!(message["reason"], "SchedulerError");
    let text = message["message"].as_str().unwrap();
    assert!(text.starts_with("Internal error occurred: failed calling webhook \"guard.example.com\""), "{text}");
    register(&server, &hook, gone("Ignore"));
    placed(&server, &format!("down-{number}")).await;
    server.stop().await;
}

#[tokio::test]
async fn ad13_a_flag_leaves_workers_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Webhook::start(folder.path(), |_| Some(json!({"allowed": false}))).await;
    let server = Aggregated::with(|args, _| args.host.admission_webhooks_for_workers = false).await;
    register(&server, &hook, |_| {});
    prepare(&server).await;
    create(&server, "probe", json!({})).await;
    // A client's write is rejected, so the configuration is active.
    wait_for("a refusal", async || {
        let path = format!("{BINDINGS}/probe-deployment");
        let body = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        (server.proxy().send(Method::PATCH, &path, &PATCH, body).await.code == 400).then_some(())
    })
    .await;
    create(&server, "web", json!({})).await;
    placed(&server, "web").await;
    assert!(hook.asked().iter().all(|request| request["userInfo"]["username"] != SCHEDULER));
    server.stop().await;
}
