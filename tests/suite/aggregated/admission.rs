//! Admission webhooks of the host cluster are called for the kinds served here, and enforced (AD3).

use base64::Engine;
use http::Method;
use serde_json::{Value, json};

use crate::support::aggregated::Aggregated;
use crate::support::host::{Fault, Host};
use crate::support::raw::Reply;
use crate::support::wait_for;

pub(super) const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
pub(super) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
pub(super) const MASTER: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];

pub(super) fn rebalancer(name: &str) -> Value {
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "no", "namespace": "shop"}]}})
}

/// Registers a webhook for rebalancers at `/hooks/{name}` of the host cluster. `shape` may change
/// the configuration.
pub(super) fn register(server: &Aggregated, sort: &str, name: &str, shape: impl FnOnce(&mut Value)) {
    let mut hook = json!({
        "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": format!("http://{}/hooks/{name}", server.host.address)},
        "rules": [{"apiGroups": ["apps.karmada.io"], "apiVersions": ["*"], "resources": ["workloadrebalancers"],
            "operations": ["CREATE", "UPDATE", "DELETE"], "scope": "*"}],
    });
    shape(&mut hook);
    let kind =
        if sort.starts_with("mutating") { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let path = format!("{CONFIGURATIONS}/{sort}/{name}");
    let configuration = json!({"kind": kind, "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": name}, "webhooks": [hook]});
    server.host.put(&path, configuration);
}

pub(super) async fn create(server: &Aggregated, name: &str) -> Reply {
    server.proxy().send(Method::POST, REBALANCERS, &MASTER, rebalancer(name).to_string()).await
}

/// Creates objects with new names until the answer is as expected. A configuration takes a moment
/// to arrive.
pub(super) async fn create_until(server: &Aggregated, what: &str, code: u16) -> Reply {
    let mut number = 0;
    wait_for(what, async || {
        number += 1;
        Some(create(server, &format!("{}-{number}", what.replace(' ', "-"))).await).filter(|it| it.code == code)
    })
    .await
}

#[tokio::test]
async fn ad3_a_validating_webhook_that_says_no_is_obeyed_in_its_words() {
    let server = Aggregated::start().await;
    server.host.answer_webhook("/hooks/guard", |review| {
        let request = &review["request"];
        let is_fine = request["operation"] != "CREATE" || request["userInfo"]["username"] != "admin";
        json!({"allowed": is_fine, "warnings": ["mind the gap"],
            "status": {"message": "not today", "code": 409, "reason": "Conflict"}})
    });
    register(&server, "validatingwebhookconfigurations", "guard", |_| {});
    let refused = create_until(&server, "a refusal", 409).await.json();
    assert_eq!(refused["message"], "admission webhook \"guard.example.com\" denied the request: not today");
    assert_eq!(refused["reason"], "Conflict");
    let jane = [("X-Remote-User", "jane"), MASTER[1], MASTER[2]];
    let reply = server.proxy().send(Method::POST, REBALANCERS, &jane, rebalancer("hers").to_string()).await;
    assert_eq!((reply.code.as_u16(), reply.header("warning")), (201, Some("299 - \"mind the gap\"")));
    let asked = server.host.asked("/hooks/guard").pop().unwrap();
    let request = &asked["request"];
    assert_eq!((&asked["kind"], &asked["apiVersion"]), (&json!("AdmissionReview"), &json!("admission.k8s.io/v1")));
    assert_eq!(request["resource"]["resource"], "workloadrebalancers");
    assert_eq!(
        (&request["name"], &request["dryRun"], &request["oldObject"]),
        (&json!("hers"), &json!(false), &Value::Null)
    );
    assert!(request["object"]["metadata"]["uid"].is_string(), "what is judged is what is stored");

    let path = format!("{REBALANCERS}/hers");
    let patch = [MASTER[0], MASTER[1], ("Content-Type", "application/merge-patch+json")];
    let labelled = server.proxy().send(Method::PATCH, &path, &patch, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!(labelled.code, 200, "{}", labelled.text());
    assert_eq!(server.proxy().send(Method::DELETE, &path, &MASTER, "").await.code, 200);
    let operations: Vec<Value> =
        server.host.asked("/hooks/guard").iter().rev().take(2).map(|it| it["request"]["operation"].clone()).collect();
    assert_eq!(operations, ["DELETE", "UPDATE"]);
    let deleted = server.host.asked("/hooks/guard").pop().unwrap();
    assert_eq!(deleted["request"]["object"], Value::Null);
    assert_eq!(deleted["request"]["oldObject"]["metadata"]["labels"]["a"], "b");
    server.stop().await;
}

/// As observed at a kube-apiserver: the webhook's code, reason and details reach the client
/// unchanged.
#[tokio::test]
async fn ad3_a_refusal_has_the_code_and_the_reason_of_the_webhook_or_400_and_none() {
    let server = Aggregated::start().await;
    register(&server, "validatingwebhookconfigurations", "guard", |_| {});
    let details = json!({"causes": [{"message": "too many", "field": "spec.workloads"}]});
    for (number, (status, code, reason, why)) in [
        (Value::Null, 400, Value::Null, " without explanation"),
        (json!({"message": "no"}), 400, Value::Null, ": no"),
        (json!({"reason": "Odd"}), 400, json!("Odd"), ": Odd"),
        (json!({"code": 200, "message": "no"}), 400, Value::Null, ": no"),
        (json!({"code": 403}), 403, Value::Null, " without explanation"),
        (json!({"code": 422, "reason": "Invalid", "message": "no", "details": details}), 422, json!("Invalid"), ": no"),
    ]
    .into_iter()
    .enumerate()
    {
        let answered = status.clone();
        server.host.answer_webhook("/hooks/guard", move |_| json!({"allowed": false, "status": answered}));
        let refused = create_until(&server, &format!("refusal {number}"), code).await.json();
        let expected = json!(format!("admission webhook \"guard.example.com\" denied the request{why}"));
        assert_eq!((&refused["message"], &refused["reason"]), (&expected, &reason), "{status}");
        assert_eq!(refused["details"], status["details"], "{status}");
    }
    server.stop().await;
}

#[tokio::test]
async fn ad3_a_mutating_webhook_changes_what_is_stored_and_cannot_make_another_object_of_it() {
    let server = Aggregated::start().await;
    let patch = |patch: Value| base64::engine::general_purpose::STANDARD.encode(patch.to_string());
    let labels = patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}},
        {"op": "add", "path": "/spec/unknown", "value": 1}]));
    server
        .host
        .answer_webhook("/hooks/label", move |_| json!({"allowed": true, "patchType": "JSONPatch", "patch": labels}));
    register(&server, "mutatingwebhookconfigurations", "label", |_| {});
    let labelled = wait_for("a label", async || {
        let reply = create(&server, &format!("n{}", server.host.asked("/hooks/label").len())).await.json();
        (reply["metadata"]["labels"]["by"] == "hook").then_some(reply)
    });
    assert_eq!(labelled.await["spec"]["unknown"], Value::Null, "what no schema knows is dropped");
    let change = |path: &str, value: &str| {
        let patch = patch(json!([{"op": "replace", "path": path, "value": value}]));
        let answer = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch});
        server.host.answer_webhook("/hooks/label", move |_| answer.clone());
    };
    change("/apiVersion", "apps.karmada.io/v2");
    assert_eq!(create(&server, "changed").await.code, 500);
    change("/metadata/name", "other");
    let renamed = create(&server, "renamed").await;
    assert_eq!((renamed.code.as_u16(), &renamed.json()["metadata"]["name"]), (201, &json!("other")), "as upstream");
    server.stop().await;
}

#[tokio::test]
async fn ad3_failures_are_refused_or_passed_over_as_the_policy_says() {
    let server = Aggregated::start().await;
    server.host.break_below("/hooks/strict", Fault::Code(500));
    register(&server, "validatingwebhookconfigurations", "strict", |_| {});
    let refused = create_until(&server, "a failure", 500).await.json();
    let expected = "Internal error occurred: failed calling webhook \"strict.example.com\": failed to call webhook";
    assert!(refused["message"].as_str().unwrap().starts_with(expected), "{refused}");
    server.host.break_below("/hooks/strict", Fault::Garbage);
    assert_eq!(create(&server, "garbage").await.code, 500);
    server.host.break_below("/hooks/strict", Fault::Hang);
    register(&server, "validatingwebhookconfigurations", "strict", |hook| {
        hook["failurePolicy"] = json!("Ignore");
        hook["timeoutSeconds"] = json!(1);
    });
    create_until(&server, "indifference", 201).await;
    server.stop().await;
}

#[tokio::test]
async fn ad3_selectors_conditions_and_dry_runs_decide_who_is_called() {
    let server = Aggregated::start().await;
    server.host.answer_webhook("/hooks/some", |_| json!({"allowed": false}));
    register(&server, "validatingwebhookconfigurations", "some", |hook| {
        hook["objectSelector"] = json!({"matchLabels": {"watched": "yes"}});
        hook["matchConditions"] = json!([{"name": "not-jane", "expression": "request.userInfo.username != 'jane'"}]);
        hook["sideEffects"] = json!("Some");
    });
    let send = async |user: &str, name: String, labels: Value, query: &str| {
        let mut object = rebalancer(&name);
        object["metadata"]["labels"] = labels;
        let headers = [("X-Remote-User", user), MASTER[1], MASTER[2]];
        server.proxy().send(Method::POST, &format!("{REBALANCERS}{query}"), &headers, object.to_string()).await
    };
    let watched = || json!({"watched": "yes"});
    let mut number = 0;
    let refused = wait_for("the webhook", async || {
        number += 1;
        Some(send("admin", format!("x{number}"), watched(), "").await).filter(|it| it.code == 400)
    });
    let refused = refused.await.json();
    assert_eq!(refused["message"], "admission webhook \"some.example.com\" denied the request without explanation");
    assert_eq!(refused["reason"], Value::Null);
    assert_eq!(send("admin", "unlabelled".to_owned(), json!({}), "").await.code, 201);
    assert_eq!(send("jane", "by-jane".to_owned(), watched(), "").await.code, 201);
    let dry = send("admin", "dry".to_owned(), watched(), "?dryRun=All").await;
    assert_eq!(dry.code, 400);
    assert!(dry.text().contains("does not support dry run"), "{}", dry.text());
    server.stop().await;
}

/// NG5: a label of a namespace requires a second person, without the flag.
#[tokio::test]
async fn ng5_a_label_of_a_namespace_asks_for_four_eyes() {
    let server = Aggregated::start().await;
    let labels = json!({"ballast.dev/require-approval": "true"});
    server.host.put("/api/v1/namespaces/pay", json!({"metadata": {"name": "pay", "labels": labels}}));
    server.host.put("/api/v1/namespaces/web", json!({"metadata": {"name": "web"}}));
    let create = async |namespace: &str, name: &str, approval: &str| {
        let body = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "Rebalance", "metadata": {"name": name},
            "spec": {"select": [{}], "approval": approval}});
        let path = format!("/apis/ballast.dev/v1alpha1/namespaces/{namespace}/rebalances");
        server.proxy().send(Method::POST, &path, &MASTER, body.to_string()).await
    };
    let mut number = 0;
    wait_for("the label", async || {
        number += 1;
        let reply = create("pay", &format!("probe-{number}"), "NotRequired").await;
        (reply.code == 422 && reply.text().contains("a label of the namespace")).then_some(())
    })
    .await;
    assert_eq!(create("web", "free", "NotRequired").await.code, 201);
    assert_eq!(create("pay", "asked", "Required").await.code, 201);
    let path = "/apis/ballast.dev/v1alpha1/namespaces/pay/rebalances/asked";
    let patch = [MASTER[0], MASTER[1], ("Content-Type", "application/merge-patch+json")];
    let own = server.proxy().send(Method::PATCH, path, &patch, r#"{"spec": {"approved": true}}"#.to_owned()).await;
    assert_eq!(own.code, 422, "{}", own.text());
    assert!(own.text().contains("another user than the one who created it"), "{}", own.text());
    let jane = [("X-Remote-User", "jane"), MASTER[1], patch[2]];
    let other = server.proxy().send(Method::PATCH, path, &jane, r#"{"spec": {"approved": true}}"#.to_owned()).await;
    assert_eq!(other.code, 200, "{}", other.text());
}

/// As in kube-apiserver: labels that the watch has not delivered are looked up, and a write is
/// rejected if they are unknown.
#[tokio::test]
async fn ad2_a_namespace_that_is_not_known_lets_nothing_through() {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let host = Host::start().await;
    // The watch delivers nothing.
    host.break_at(NAMESPACES, Fault::Code(503));
    let labels = json!({"env": "prod", "ballast.dev/require-approval": "true"});
    host.put("/api/v1/namespaces/pay", json!({"metadata": {"name": "pay", "labels": labels}}));
    host.put("/api/v1/namespaces/web", json!({"metadata": {"name": "web"}}));
    // The check of namespaces at a creation would look them up first.
    let server = Aggregated::on(host, |args, _| args.host.namespace_lifecycle = false).await;
    server.host.answer_webhook("/hooks/guard", |_| json!({"allowed": false}));
    let rule = |group: &str, plural: &str| json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": ["*"]});
    let selector = json!({"matchLabels": {"env": "prod"}});
    for (name, policy) in [("guard", "Fail"), ("lenient", "Ignore")] {
        register(&server, "validatingwebhookconfigurations", name, |hook| {
            hook["rules"] = json!([rule("policy.karmada.io", "propagationpolicies")]);
            hook["namespaceSelector"] = selector.clone();
            hook["failurePolicy"] = policy.into();
            if name == "lenient" {
                hook["clientConfig"]["url"] = "http://127.0.0.1:1/".into();
            }
        });
    }
    let constraints =
        json!({"namespaceSelector": selector, "resourceRules": [rule("work.karmada.io", "resourcebindings")]});
    let object = |spec: Value| json!({"metadata": {"name": "denies", "uid": "u"}, "spec": spec});
    let bound = object(json!({"policyName": "denies", "validationActions": ["Deny"]}));
    server.host.put(&format!("{CONFIGURATIONS}/validatingadmissionpolicybindings/denies"), bound);
    let policy = object(json!({"matchConstraints": constraints, "validations": [{"expression": "false"}]}));
    server.host.put(&format!("{CONFIGURATIONS}/validatingadmissionpolicies/denies"), policy);

    let send = async |group: &str, plural: &str, kind: &str, namespace: &str, spec: Value| {
        let body = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "one"}, "spec": spec});
        let path = format!("/apis/{group}/namespaces/{namespace}/{plural}?dryRun=All");
        server.proxy().send(Method::POST, &path, &MASTER, body.to_string()).await
    };
    let by_webhook = async |namespace: &str| {
        let spec = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}], "placement": {}});
        send("policy.karmada.io/v1alpha1", "propagationpolicies", "PropagationPolicy", namespace, spec).await
    };
    let by_policy = async |namespace: &str| {
        let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "w"});
        let spec = json!({"replicas": 1, "resource": workload});
        send("work.karmada.io/v1alpha2", "resourcebindings", "ResourceBinding", namespace, spec).await
    };
    let by_label = async |namespace: &str| {
        send("ballast.dev/v1alpha1", "rebalances", "Rebalance", namespace, json!({"select": [{}]})).await
    };
    wait_for("the webhook", async || (by_webhook("pay").await.code == 400).then_some(())).await;
    wait_for("the policy", async || (by_policy("pay").await.code == 422).then_some(())).await;
    assert_eq!(by_label("pay").await.code, 422);
    for reply in [by_webhook("web").await, by_policy("web").await, by_label("web").await] {
        assert_eq!(reply.code, 201, "{}", reply.text());
    }
    // As in kube-apiserver, a namespace that is missing is an error of a selector. It has no label
    // that requires an approval.
    for (reply, code) in
        [(by_webhook("none").await, 404), (by_policy("none").await, 422), (by_label("none").await, 201)]
    {
        assert_eq!(reply.code, code, "{}", reply.text());
    }
    for fault in [Fault::Code(503), Fault::Code(403), Fault::Garbage] {
        server.host.break_below(NAMESPACES, fault);
        // The failure policy of a webhook is about its call, and not about the namespace.
        let replies = [(by_webhook("pay").await, 500), (by_policy("web").await, 422), (by_label("web").await, 500)];
        for (reply, code) in replies {
            assert_eq!(reply.code, code, "{fault:?}: {}", reply.text());
            assert!(reply.text().contains("could not be looked up"), "{}", reply.text());
        }
    }
    server.stop().await;
}
