//! Responses about policies as in the source of kube-apiserver 1.36.2 (AD27): the request that
//! expressions see, the permitted changes of a mutation, and the metrics and events of failures.

use http::Method;
use serde_json::{Value, json};

use super::admission::{CONFIGURATIONS, MASTER, REBALANCERS, create, rebalancer};
use super::policies::{put, send, until, validating};
use crate::support::aggregated::Aggregated;
use crate::support::raw::Reply;
use crate::support::wait_for;

const JSON: &str = "application/json";

/// Mutations with JSON patches.
fn patches(expressions: &[&str]) -> Value {
    let patch = |text: &&str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": text}});
    json!({"reinvocationPolicy": "Never", "mutations": expressions.iter().map(patch).collect::<Vec<_>>()})
}

fn remove(server: &Aggregated, kind: &str, name: &str) {
    for part in ["ies", "ybindings"] {
        server.host.remove(&format!("{CONFIGURATIONS}/{kind}admissionpolic{part}/{name}"));
    }
}

/// Creates a policy that includes the options of the request in its denial.
async fn shown_options(server: &Aggregated, method: Method, path: &str, media: &str, body: impl ToString) -> String {
    let reply = send(server, method, path, media, body).await;
    assert_eq!(reply.code, 422, "{}", reply.text());
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    message.split_once("denied request: ").expect("a denial").1.to_owned()
}

#[tokio::test]
async fn ad27_request_options_are_those_that_the_client_gave() {
    let server = Aggregated::start().await;
    assert_eq!(create(&server, "one").await.code, 201);
    let shown =
        json!({"validations": [{"expression": "false", "messageExpression": "'%s'.format([request.options])"}]});
    validating(&server, "options", shown, json!({}));
    until(&server, "the policy", 422).await;
    let one = format!("{REBALANCERS}/one");
    let merge = "application/merge-patch+json";
    let v1 = "\"apiVersion\":\"meta.k8s.io/v1\"";
    let stored = send(&server, Method::GET, &one, JSON, "").await.text().to_owned();
    let delete = json!({"gracePeriodSeconds": 0, "orphanDependents": true, "dryRun": ["All"]}).to_string();
    for (method, path, media, body, options) in [
        (
            Method::POST,
            REBALANCERS.to_owned(),
            JSON,
            rebalancer("x").to_string(),
            format!("{{{v1}, \"kind\":\"CreateOptions\"}}"),
        ),
        (
            Method::POST,
            format!("{REBALANCERS}?fieldManager=me&fieldValidation=Strict&dryRun=All"),
            JSON,
            rebalancer("x").to_string(),
            format!(
                "{{{v1}, \"dryRun\":[\"All\"], \"fieldManager\":\"me\", \"fieldValidation\":\"Strict\", \
                 \"kind\":\"CreateOptions\"}}"
            ),
        ),
        (Method::PUT, one.clone(), JSON, stored, format!("{{{v1}, \"kind\":\"UpdateOptions\"}}")),
        (
            Method::PATCH,
            format!("{one}?fieldManager=me"),
            merge,
            json!({"metadata": {"labels": {"a": "b"}}}).to_string(),
            format!("{{{v1}, \"fieldManager\":\"me\", \"kind\":\"UpdateOptions\"}}"),
        ),
        (Method::DELETE, one.clone(), JSON, String::new(), format!("{{{v1}, \"kind\":\"DeleteOptions\"}}")),
        (
            Method::DELETE,
            one.clone(),
            JSON,
            delete,
            format!(
                "{{{v1}, \"dryRun\":[\"All\"], \"gracePeriodSeconds\":0, \"kind\":\"DeleteOptions\", \
                 \"orphanDependents\":true}}"
            ),
        ),
    ] {
        let what = format!("{method} {path}");
        assert_eq!(shown_options(&server, method, &path, media, body).await, options, "{what}");
    }
    server.stop().await;
}

#[tokio::test]
async fn ad27_the_delete_of_a_collection_names_no_object() {
    let server = Aggregated::start().await;
    assert_eq!(create(&server, "one").await.code, 201);
    let spec = json!({"matchConditions": [{"name": "d", "expression": "request.operation == 'DELETE'"}],
        "validations": [{"expression": "has(request.name)", "message": "nameless"},
            {"expression": "oldObject.metadata.name != 'one'", "message": "named"}]});
    validating(&server, "deletes", spec, json!({}));
    let refused = wait_for("the policy", async || {
        let reply = send(&server, Method::DELETE, &format!("{REBALANCERS}?dryRun=All"), JSON, "").await;
        (reply.code == 422).then(|| reply.json())
    });
    let why = "ValidatingAdmissionPolicy 'deletes' with binding 'deletes' denied request: nameless";
    let refused = refused.await;
    let message = format!("workloadrebalancers.apps.karmada.io \"Unknown\" is forbidden: {why}");
    assert_eq!(refused["message"], message);
    assert_eq!((&refused["reason"], &refused["details"]["name"]), (&json!("Invalid"), &json!("Unknown")));
    let single = send(&server, Method::DELETE, &format!("{REBALANCERS}/one"), JSON, "").await.json();
    assert!(single["message"].as_str().unwrap().ends_with("denied request: named"), "{single}");
    assert_eq!(single["details"]["name"], "one");
    // Rules that name objects do not match a collection.
    remove(&server, "validating", "deletes");
    let named = json!({"matchConstraints": {"resourceRules": [{"apiGroups": ["apps.karmada.io"], "apiVersions": ["*"],
        "operations": ["DELETE"], "resources": ["workloadrebalancers"], "resourceNames": ["one"]}]},
        "validations": [{"expression": "false", "message": "by name"}]});
    validating(&server, "by-name", named, json!({}));
    wait_for("the policy by name", async || {
        let reply = send(&server, Method::DELETE, &format!("{REBALANCERS}/one?dryRun=All"), JSON, "").await;
        reply.text().contains("by name").then_some(())
    })
    .await;
    let reply = send(&server, Method::DELETE, REBALANCERS, JSON, "").await;
    assert_eq!(reply.code, 200, "{}", reply.text());
    server.stop().await;
}

/// Returns the result of a create in a dry run, after a policy with these patches is active.
async fn patched(server: &Aggregated, name: &str, expressions: &[&str], object: Value) -> Reply {
    let mut all = vec!["[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'by': request.operation}}]"];
    all.extend(expressions);
    put(server, "Mutating", name, patches(&all), json!({}));
    let path = format!("{REBALANCERS}?dryRun=All");
    let reply = wait_for("the mutation", async || {
        let reply = send(server, Method::POST, &path, JSON, object.clone()).await;
        (reply.code != 201 || reply.text().contains("\"by\":\"CREATE\"")).then_some(reply)
    });
    let reply = reply.await;
    remove(server, "mutating", name);
    wait_for("the end of the mutation", async || {
        let reply = send(server, Method::POST, &path, JSON, object.clone()).await;
        (reply.code == 201 && !reply.text().contains("\"by\":\"CREATE\"")).then_some(())
    })
    .await;
    reply
}

#[tokio::test]
async fn ad27_a_mutation_may_change_what_upstream_lets_it_change() {
    let server = Aggregated::start().await;
    let workload = |text: &str| format!("[JSONPatch{{op: 'replace', path: '/spec/workloads', value: {text}}}]");
    let replace = |path: &str, value: &str| format!("[JSONPatch{{op: 'replace', path: '{path}', value: {value}}}]");
    let add = |path: &str, value: &str| format!("[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]");
    let made = patched(&server, "rename", &[&replace("/metadata/name", "'other'")], rebalancer("tried")).await;
    assert_eq!((made.code.as_u16(), &made.json()["metadata"]["name"]), (201, &json!("other")), "{}", made.text());
    let made = patched(&server, "uid", &[&add("/metadata/uid", "'mine'")], rebalancer("tried")).await;
    assert_eq!(made.code, 201, "{}", made.text());
    assert_ne!(made.json()["metadata"]["uid"], "mine");
    let made = patched(&server, "bare", &["[JSONPatch{op: 'remove', path: '/metadata'}]"], rebalancer("tried")).await;
    assert_eq!(made.code, 422, "{}", made.text());
    assert!(made.text().contains("name or generateName is required"), "{}", made.text());
    // JSON has one type of number.
    let made = patched(&server, "whole", &[&add("/spec/ttlSecondsAfterFinished", "60.0")], rebalancer("tried")).await;
    assert_eq!((made.code.as_u16(), made.json()["spec"]["ttlSecondsAfterFinished"].as_i64()), (201, Some(60)));
    // The schema rejects a value of another type, whatever its source.
    for (name, patch, code, why) in [
        ("text", add("/spec/ttlSecondsAfterFinished", "'soon'"), 422, "spec.ttlSecondsAfterFinished: Invalid value: "),
        ("list", workload("'none'"), 422, "spec.workloads: Invalid value: "),
        ("spec", replace("/spec", "[1]"), 422, "spec: Invalid value: "),
        ("kind", replace("/kind", "'Other'"), 422, "kind: Invalid value: \\\"Other\\\": must be WorkloadRebalancer"),
        (
            "labels",
            add("/metadata/labels", "'x'"),
            500,
            "cannot unmarshal string into Go struct field ObjectMeta.labels",
        ),
        ("metadata", replace("/metadata", "'x'"), 500, "cannot unmarshal string into Go value of type v1.ObjectMeta"),
    ] {
        let refused = patched(&server, name, &[&patch], rebalancer("tried")).await;
        assert_eq!(refused.code.as_u16(), code, "{name}: {}", refused.text());
        assert!(refused.text().contains(why), "{name}: {}", refused.text());
    }
    // The same applies to an apply configuration.
    let apply = json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{ttlSecondsAfterFinished: 'soon'}}"}}]});
    put(&server, "Mutating", "typed", apply, json!({}));
    let path = format!("{REBALANCERS}?dryRun=All");
    let refused = wait_for("the refusal", async || {
        let reply = send(&server, Method::POST, &path, JSON, rebalancer("tried")).await;
        (reply.code != 201).then_some(reply)
    });
    let refused = refused.await;
    assert_eq!(refused.code, 422, "D141: {}", refused.text());
    assert!(
        refused.text().contains("spec.ttlSecondsAfterFinished in body must be of type integer"),
        "{}",
        refused.text()
    );
    server.stop().await;
}

#[tokio::test]
async fn ad27_the_members_that_never_change_are_kept_from_mutations_of_an_update() {
    let server = Aggregated::start().await;
    assert_eq!(create(&server, "one").await.code, 201);
    let spec = patches(&["[JSONPatch{op: 'replace', path: '/metadata/name', value: 'other'}]"]);
    put(
        &server,
        "Mutating",
        "rename",
        spec,
        json!({"matchResources": {"resourceRules": [{"apiGroups": ["*"],
        "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["workloadrebalancers"]}]}}),
    );
    let refused = wait_for("the refusal", async || {
        let body = json!({"metadata": {"labels": {"a": "b"}}});
        let path = format!("{REBALANCERS}/one?dryRun=All");
        let reply = send(&server, Method::PATCH, &path, "application/merge-patch+json", body).await;
        (reply.code != 200).then(|| (reply.code.as_u16(), reply.text().to_owned()))
    });
    let (code, text) = refused.await;
    assert!(code == 422 && text.contains("metadata.name: Invalid value: \\\"other\\\": field is immutable"), "{text}");
    server.stop().await;
}

/// Every mutation runs and is counted, and each error is a cause. A failing match condition is not
/// counted.
#[tokio::test]
async fn ad27_failures_are_counted_with_the_labels_of_upstream_and_told_by_an_event() {
    let server = Aggregated::start().await;
    let bad = "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': object.spec.nothing}}]";
    put(&server, "Mutating", "bad", patches(&[bad, "[]", bad]), json!({}));
    let refused = until(&server, "the refusal", 403).await.json();
    assert_eq!(refused["details"]["causes"].as_array().map(Vec::len), Some(2), "{refused}");
    let metrics = async || send(&server, Method::GET, "/metrics", "text/plain", "").await.text().to_owned();
    let text = metrics().await;
    for kind in ["invalid_error", "no_error"] {
        let labels = format!("{{error_type=\"{kind}\",policy=\"bad\",policy_binding=\"bad\"}}");
        assert!(
            text.contains(&format!("apiserver_mutating_admission_policy_check_total{labels}")),
            "{labels} in {text}"
        );
    }
    remove(&server, "mutating", "bad");
    let mut unmatched = patches(&["[]"]);
    unmatched["matchConditions"] = json!([{"name": "bad", "expression": "object.spec.nothing == 1"}]);
    put(&server, "Mutating", "unmatched", unmatched, json!({}));
    let refused = wait_for("the failed condition", async || {
        let reply = until(&server, "a refusal", 403).await.json();
        reply["message"].as_str().unwrap().contains("'unmatched'").then_some(reply)
    });
    assert_eq!(refused.await["reason"], "Invalid");
    assert!(!metrics().await.contains("policy=\"unmatched\""));
    remove(&server, "mutating", "unmatched");
    // An error that the failure policy ignores leaves a trace on the policy.
    let ignored = json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.spec.nothing == 1"}]});
    validating(&server, "ignored", ignored, json!({}));
    for (name, kind, does) in [
        ("bad", "MutatingAdmissionPolicy", "refused"),
        ("unmatched", "MutatingAdmissionPolicy", "refused"),
        ("ignored", "ValidatingAdmissionPolicy", "not held back"),
    ] {
        let told = wait_for("the event", async || {
            let path = format!("{REBALANCERS}?dryRun=All");
            server.proxy().send(Method::POST, &path, &MASTER, rebalancer("tried").to_string()).await;
            let events = server.host.objects_below("/api/v1/namespaces/default/events");
            events.into_iter().find(|it| it["reason"] == "PolicyFailed" && it["involvedObject"]["name"] == name)
        });
        let told = told.await;
        let message = told["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("A write was {does} because the policy with binding '{name}'")), "{told}");
        assert!(message.ends_with("resulted in error: no such key: nothing"), "{told}");
        let about = &told["involvedObject"];
        assert_eq!((&about["kind"], &about["uid"]), (&json!(kind), &json!(format!("uid-of-{name}"))));
    }
    assert!(metrics().await.contains(
        "apiserver_validating_admission_policy_check_total{enforcement_action=\"allow\",error_type=\"invalid_error\",\
         policy=\"ignored\",policy_binding=\"ignored\"}"
    ));
    server.stop().await;
}

#[tokio::test]
async fn ad27_a_mutation_sees_the_defaults_of_the_object() {
    let server = Aggregated::start().await;
    let rules = json!([{"apiGroups": ["ballast.dev"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["clusterrebalances"]}]);
    let seen = "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': '%s'.format([object.spec])}}]";
    let mut spec = patches(&[seen]);
    spec["matchConstraints"] = json!({"resourceRules": rules});
    put(&server, "Mutating", "defaults", spec, json!({}));
    let object = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "r"},
        "spec": {"select": [{"namespace": "shop"}], "mode": "Fresh"}});
    let seen = wait_for("the mutation", async || {
        let path = "/apis/ballast.dev/v1alpha1/clusterrebalances?dryRun=All";
        let reply = send(&server, Method::POST, path, JSON, object.clone()).await;
        assert_eq!(reply.code, 201, "{}", reply.text());
        reply.json()["metadata"]["annotations"]["seen"].as_str().map(str::to_owned)
    });
    let seen = seen.await;
    for default in ["\"approval\":\"NotRequired\"", "\"paused\":false"] {
        assert!(seen.contains(default), "{default} in {seen}");
    }
    server.stop().await;
}
