//! Admission policies of the host cluster are evaluated for the kinds served here (AD20-AD27).

use http::Method;
use serde_json::{Value, json};

use super::admission::{CONFIGURATIONS, MASTER, REBALANCERS, create, rebalancer, register};
use crate::support::aggregated::Aggregated;
use crate::support::host::{ACCESS_REVIEWS, Fault};
use crate::support::raw::Reply;
use crate::support::wait_for;

const LIMITS: &str = "/apis/example.com/v1/limits";

/// Creates a policy about rebalancers, with its binding. `spec` contains the rest of the policy.
pub(super) fn put(server: &Aggregated, kind: &str, name: &str, spec: Value, binding: Value) {
    let mut whole = json!({"matchConstraints": {"resourceRules": [{"apiGroups": ["apps.karmada.io"],
        "apiVersions": ["v1alpha1"], "operations": ["*"], "resources": ["workloadrebalancers"]}]}});
    json_patch::merge(&mut whole, &spec);
    let mut bound = json!({"policyName": name});
    if kind == "Validating" {
        bound["validationActions"] = json!(["Deny"]);
    }
    json_patch::merge(&mut bound, &binding);
    let prefix = format!("{CONFIGURATIONS}/{}admissionpolic", kind.to_lowercase());
    let object = |kind: String, spec: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "uid": format!("uid-of-{name}")}, "spec": spec})
    };
    server.host.put(&format!("{prefix}ybindings/{name}"), object(format!("{kind}AdmissionPolicyBinding"), bound));
    server.host.put(&format!("{prefix}ies/{name}"), object(format!("{kind}AdmissionPolicy"), whole));
}

pub(super) fn validating(server: &Aggregated, name: &str, spec: Value, binding: Value) {
    put(server, "Validating", name, spec, binding);
}

pub(super) async fn send(server: &Aggregated, method: Method, path: &str, media: &str, body: impl ToString) -> Reply {
    let headers = [MASTER[0], MASTER[1], ("Content-Type", media)];
    server.proxy().send(method, path, &headers, body.to_string()).await
}

/// Creates objects in dry runs until the response has this code. A policy takes a moment to arrive.
pub(super) async fn until(server: &Aggregated, what: &str, code: u16) -> Reply {
    let path = format!("{REBALANCERS}?dryRun=All");
    wait_for(what, async || {
        let reply = send(server, Method::POST, &path, "application/json", rebalancer("tried")).await;
        (reply.code == code).then_some(reply)
    })
    .await
}

#[tokio::test]
async fn ad22_a_policy_that_denies_is_obeyed_in_kube_apiservers_words() {
    let server = Aggregated::start().await;
    let cases = [
        (
            json!({"expression": "object.metadata.name != 'tried'"}),
            422,
            "Invalid",
            "failed expression: object.metadata.name != 'tried'",
        ),
        (json!({"expression": "false", "message": "not today", "reason": "Forbidden"}), 403, "Forbidden", "not today"),
        (
            json!({"expression": "false", "reason": "RequestEntityTooLarge", "message": "too much"}),
            413,
            "RequestEntityTooLarge",
            "too much",
        ),
        (
            json!({"expression": "false", "messageExpression": "'no ' + request.operation + ' of ' + object.metadata.name"}),
            422,
            "Invalid",
            "no CREATE of tried",
        ),
        (
            json!({"expression": "object.spec.nothing == 1"}),
            422,
            "Invalid",
            "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing",
        ),
    ];
    for (number, (validation, code, reason, why)) in cases.into_iter().enumerate() {
        let name = format!("policy-{number}");
        validating(&server, &name, json!({"validations": [validation]}), json!({}));
        let wanted = format!("ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {why}");
        let refused = wait_for("the denial", async || {
            let reply = until(&server, "a refusal", code).await.json();
            (reply["details"]["causes"][0]["message"] == *wanted).then_some(reply)
        });
        let refused = refused.await;
        assert_eq!(refused["reason"], reason, "{refused}");
        let expected = format!("workloadrebalancers.apps.karmada.io \"tried\" is forbidden: {wanted}");
        assert_eq!(refused["message"], expected);
        assert_eq!(refused["details"]["name"], "tried");
        for part in ["ies", "ybindings"] {
            server.host.remove(&format!("{CONFIGURATIONS}/validatingadmissionpolic{part}/{name}"));
        }
        until(&server, "no policy", 201).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn ad22_warnings_reach_the_client_and_notes_the_audit_log_and_the_metrics_count() {
    let audit = tempfile::tempdir().unwrap();
    let log = audit.path().join("audit.log");
    let at = log.clone();
    let server = Aggregated::with(move |args, _| args.audit.audit_log_path = Some(at)).await;
    let spec = json!({"validations": [{"expression": "size(object.spec.workloads) > 1", "message": "too few"}],
        "auditAnnotations": [{"key": "count", "valueExpression": "string(size(object.spec.workloads))"}]});
    validating(&server, "told", spec, json!({"validationActions": ["Warn", "Audit"]}));
    let warned = wait_for("the warning", async || {
        let reply = until(&server, "a create", 201).await;
        reply.header("warning").map(str::to_owned)
    });
    let expected = "299 - \"Validation failed for ValidatingAdmissionPolicy 'told' with binding 'told': too few\"";
    assert_eq!(warned.await, expected);
    let noted = wait_for("the audit event", async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.map(|event| event["annotations"].clone()).find(|notes| notes["told/count"] == "1")
    });
    let noted = noted.await;
    let failure: Value =
        serde_json::from_str(noted["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap()).unwrap();
    let expected = json!([{"message": "too few", "policy": "told", "binding": "told", "expressionIndex": 0,
        "validationActions": ["Warn", "Audit"]}]);
    assert_eq!(failure, expected);
    let metrics = send(&server, Method::GET, "/metrics", "text/plain", "").await.text().to_owned();
    for action in ["warn", "audit"] {
        let labels = format!(
            "enforcement_action=\"{action}\",error_type=\"invalid_error\",policy=\"told\",policy_binding=\"told\""
        );
        for name in ["check_total", "check_duration_seconds_count"] {
            let wanted = format!("apiserver_validating_admission_policy_{name}{{{labels}}}");
            assert!(metrics.contains(&wanted), "{wanted} in {metrics}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn ad20_a_policy_sees_the_request_the_old_object_and_the_namespace() {
    let server = Aggregated::start().await;
    let expressions = [
        "request.operation == 'UPDATE' && request.userInfo.username == 'admin' && request.name == 'one'",
        "oldObject.metadata.name == object.metadata.name && object.metadata.labels.put == 'yes'",
        "!has(request.subResource) && request.kind.kind == 'WorkloadRebalancer' && !request.dryRun",
        "namespaceObject == null && params == null && request.options.kind == 'UpdateOptions'",
        "object.metadata.uid == oldObject.metadata.uid && has(object.spec.workloads[0].kind)",
    ];
    let validations: Vec<Value> = expressions.iter().map(|text| json!({"expression": text})).collect();
    let spec = json!({"validations": validations, "matchConditions": [
        {"name": "updates", "expression": "request.operation == 'UPDATE'"},
        {"name": "labelled", "expression": "has(object.metadata.labels)"}]});
    validating(&server, "seen", spec, json!({}));
    validating(
        &server,
        "delete",
        json!({"validations": [{"expression": "oldObject.metadata.name != 'one' || object != null",
        "message": "it stays"}], "matchConditions": [{"name": "d", "expression": "request.operation == 'DELETE'"}]}),
        json!({}),
    );
    assert_eq!(create(&server, "one").await.code, 201);
    let one = format!("{REBALANCERS}/one");
    let refused = wait_for("the refusal of a delete", async || {
        let reply = send(&server, Method::DELETE, &format!("{one}?dryRun=All"), "application/json", "").await;
        (reply.code == 422).then(|| reply.json())
    });
    assert!(refused.await["message"].as_str().unwrap().ends_with("denied request: it stays"));
    let labels = |value: &str| json!({"metadata": {"labels": {"put": value}}});
    let merge = "application/merge-patch+json";
    let reply = send(&server, Method::PATCH, &one, merge, labels("yes")).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
    let reply = send(&server, Method::PATCH, &one, merge, labels("no")).await;
    assert!(reply.code == 422 && reply.text().contains("labels.put == 'yes'"), "{}", reply.text());
    // For a collection, no object is named, and the first denial ends it.
    let reply = send(&server, Method::DELETE, REBALANCERS, "application/json", "").await;
    assert!(reply.code == 422 && reply.text().contains("\\\"Unknown\\\" is forbidden"), "{}", reply.text());
    assert_eq!(send(&server, Method::GET, &one, "application/json", "").await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn ad25_params_configure_a_policy_while_a_binding_names_them() {
    let server = Aggregated::start().await;
    server.host.put(
        "/apis/example.com/v1",
        json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": "example.com/v1", "resources": [{"name": "limits", "singularName": "limit", "kind": "Limit",
            "namespaced": false, "verbs": ["get", "list", "watch"]}]}),
    );
    let limit = |most: u32, tier: &str| json!({"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"labels": {"tier": tier}}, "most": most});
    server.host.put(&format!("{LIMITS}/small"), limit(0, "small"));
    let spec = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, "validations": [
        {"expression": "size(object.spec.workloads) <= params.most",
            "messageExpression": "'at most ' + string(params.most) + ' for ' + params.metadata.name"}]});
    let by_name = json!({"paramRef": {"name": "small", "parameterNotFoundAction": "Deny"}});
    validating(&server, "limited", spec.clone(), by_name);
    let refused = until(&server, "the limit", 422).await.text().to_owned();
    assert!(refused.contains("denied request: at most 0 for small"), "{refused}");
    // A change of the parameter takes effect, and a missing parameter is handled as the binding
    // specifies.
    server.host.put(&format!("{LIMITS}/small"), limit(5, "small"));
    until(&server, "the new limit", 201).await;
    server.host.remove(&format!("{LIMITS}/small"));
    let refused = until(&server, "the missing parameter", 422).await.text().to_owned();
    let why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(refused.contains(why), "{refused}");
    // By selector: each parameter is evaluated.
    let selector = json!({"matchLabels": {"tier": "gold"}});
    let by_selector = json!({"paramRef": {"name": null, "selector": selector, "parameterNotFoundAction": "Allow"}});
    validating(&server, "limited", spec, by_selector);
    until(&server, "no parameter", 201).await;
    server.host.put(&format!("{LIMITS}/many"), limit(9, "gold"));
    server.host.put(&format!("{LIMITS}/none"), limit(0, "gold"));
    let refused = until(&server, "the strict one", 422).await.text().to_owned();
    assert!(refused.contains("at most 0 for none"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn ad21_a_policy_that_cannot_be_evaluated_fails_as_it_says_and_is_told() {
    let server = Aggregated::start().await;
    let spec =
        |policy: &str| json!({"failurePolicy": policy, "validations": [{"expression": "image('a').tag() == 'b'"}]});
    validating(&server, "broken", spec("Fail"), json!({}));
    let refused = until(&server, "the failure", 422).await.json();
    let why = "denied request: compilation error: undeclared reference to 'image'";
    assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    let told = wait_for("the event", async || {
        let events = server.host.objects_below("/api/v1/namespaces/default/events");
        events.into_iter().find(|event| event["reason"] == "PolicyNotReadable")
    });
    let told = told.await;
    assert_eq!(told["involvedObject"]["kind"], "ValidatingAdmissionPolicy");
    assert_eq!((&told["involvedObject"]["name"], &told["type"]), (&json!("broken"), &json!("Warning")));
    assert!(told["message"].as_str().unwrap().contains("validations[0].expression: undeclared reference"), "{told}");
    validating(&server, "broken", spec("Ignore"), json!({}));
    until(&server, "the failure that is ignored", 201).await;
    server.stop().await;
}

#[tokio::test]
async fn ad23_the_authorizer_asks_the_host_cluster() {
    let server = Aggregated::start().await;
    server.host.allow(|spec| {
        let resource = &spec["resourceAttributes"];
        resource["verb"] != "approve" || resource["name"] != "tried"
    });
    let check = "authorizer.requestResource.check('approve')";
    validating(
        &server,
        "asked",
        json!({"validations": [{"expression": format!("{check}.allowed() && {check}.allowed()"),
        "message": "ask somebody"}]}),
        json!({}),
    );
    until(&server, "the refusal", 422).await;
    let before = server.host.asked(ACCESS_REVIEWS).len();
    until(&server, "the refusal", 422).await;
    let asked = server.host.asked(ACCESS_REVIEWS);
    let mut approvals = asked[before..].iter().filter(|it| it["spec"]["resourceAttributes"]["verb"] == "approve");
    let spec = &approvals.next().expect("it is asked")["spec"];
    assert_eq!((&spec["user"], &spec["resourceAttributes"]["group"]), (&json!("admin"), &json!("apps.karmada.io")));
    assert!(approvals.next().is_none(), "one question is asked once for each request");
    server.stop().await;
}

#[tokio::test]
async fn ad26_a_refusal_by_a_policy_comes_before_webhooks_and_writes_wait_for_the_policies() {
    let server = Aggregated::start().await;
    server.host.answer_webhook("/hooks/guard", |_| json!({"allowed": true}));
    register(&server, "validatingwebhookconfigurations", "guard", |hook| hook["sideEffects"] = json!("NoneOnDryRun"));
    wait_for("the webhook", async || {
        until(&server, "a create", 201).await;
        (!server.host.asked("/hooks/guard").is_empty()).then_some(())
    })
    .await;
    validating(&server, "never", json!({"validations": [{"expression": "false"}]}), json!({}));
    until(&server, "the refusal", 422).await;
    let before = server.host.asked("/hooks/guard").len();
    until(&server, "the refusal", 422).await;
    assert_eq!(server.host.asked("/hooks/guard").len(), before, "no webhook is called after a refusal");
    // A server that cannot read the policies rejects writes.
    server.host.break_below(&format!("{CONFIGURATIONS}/validatingadmissionpolicies"), Fault::Code(403));
    let second = server.beside(|_, _| {}).await;
    let refused = create(&second, "early").await;
    assert_eq!(refused.code, 403, "{}", refused.text());
    assert!(refused.text().contains("not yet ready to handle request"), "{}", refused.text());
    second.stop().await;
    let third = server.beside(|args, _| args.host.admission_policies = false).await;
    assert_eq!(create(&third, "without-policies").await.code, 201);
    third.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn ad24_mutating_policies_change_what_is_stored_and_run_again_after_webhooks() {
    let server = Aggregated::start().await;
    let apply = |expression: &str, again: &str| {
        json!({"reinvocationPolicy": again, "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
    };
    let labels = "Object{metadata: Object.metadata{labels: Object.metadata.labels{by: 'policy', \
                  seen: string(has(object.metadata.annotations))}}}";
    put(&server, "Mutating", "labels", apply(labels, "IfNeeded"), json!({}));
    let patch = json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: object.metadata.labels.by}]"}}]});
    put(&server, "Mutating", "patches", patch, json!({}));
    let made = wait_for("both policies", async || {
        let made = until(&server, "a create", 201).await.json();
        (made["metadata"]["labels"]["x/y"] == "policy").then_some(made)
    });
    assert_eq!(made.await["metadata"]["labels"], json!({"by": "policy", "seen": "false", "x/y": "policy"}));
    // A webhook changes the object after the policies, so the reinvocable one runs again.
    server.host.answer_webhook("/hooks/annotate", |_| {
        use base64::Engine;
        let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": {"by": "hook"}}]);
        let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
    });
    register(&server, "mutatingwebhookconfigurations", "annotate", |hook| hook["sideEffects"] = json!("None"));
    let made = wait_for("the webhook", async || {
        let made = until(&server, "a create", 201).await.json();
        (made["metadata"]["annotations"]["by"] == "hook").then_some(made)
    });
    assert_eq!(made.await["metadata"]["labels"]["seen"], "true");
    // The stored object contains it, and a status is unchanged.
    assert_eq!(create(&server, "stored").await.code, 201);
    let path = format!("{REBALANCERS}/stored");
    let stored = send(&server, Method::GET, &path, "application/json", "").await.json();
    assert_eq!(stored["metadata"]["labels"]["by"], "policy");
    // An error rejects the write with 403, or keeps the previous result.
    let broken = |policy: &str| {
        json!({"failurePolicy": policy, "reinvocationPolicy": "Never", "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: Object.metadata.labels{first: 'done'}}}"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: Object.metadata.labels{second: object.spec.nothing}}}"}}]})
    };
    put(&server, "Mutating", "broken", broken("Fail"), json!({}));
    let refused = until(&server, "the refusal", 403).await.json();
    assert_eq!(refused["reason"], "Invalid", "{refused}");
    let why = "policy 'broken' with binding 'broken' denied request: expression '";
    assert!(refused["message"].as_str().unwrap().starts_with(why), "{refused}");
    put(&server, "Mutating", "broken", broken("Ignore"), json!({}));
    let made = until(&server, "the error that is ignored", 201).await.json();
    assert_eq!(made["metadata"]["labels"]["first"], "done");
    let atomic = apply("Object{spec: Object.spec{workloads: [Object.spec.workloads{name: 'x'}]}}", "Never");
    put(&server, "Mutating", "atomic", atomic, json!({}));
    let refused = until(&server, "the atomic list", 403).await.text().to_owned();
    assert!(refused.contains("may not mutate atomic arrays, maps or structs: .spec.workloads"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn ad20_a_policy_sees_the_managed_fields_of_a_new_object() {
    let server = Aggregated::start().await;
    let owned = |manager: &str| format!("object.metadata.managedFields.exists(it, it.manager == '{manager}')");
    let expression = format!("!has(object.metadata.managedFields) || {}", owned("good"));
    validating(&server, "owned", json!({"validations": [{"expression": expression}]}), json!({}));
    until(&server, "a refusal", 422).await;
    server.host.answer_webhook("/hooks/sees", |review| {
        let managed = &review["request"]["object"]["metadata"]["managedFields"];
        json!({"allowed": managed[0]["manager"] == "good", "status": {"code": 409}})
    });
    register(&server, "mutatingwebhookconfigurations", "sees", |_| {});
    until(&server, "the webhook", 409).await;
    let path = |manager: &str| format!("{REBALANCERS}?fieldManager={manager}");
    let made = send(&server, Method::POST, &path("good"), "application/json", rebalancer("created")).await;
    assert_eq!(made.code, 201, "{}", made.text());
    assert_eq!(made.json()["metadata"]["managedFields"][0]["manager"], "good");
    for (manager, code) in [("bad", 409), ("good", 201)] {
        let at = format!("{REBALANCERS}/applied?fieldManager={manager}");
        let applied = send(&server, Method::PATCH, &at, "application/apply-patch+yaml", rebalancer("applied")).await;
        assert_eq!(applied.code, code, "{}", applied.text());
    }
    server.stop().await;
}

/// As in kube-apiserver, before anything is read or sent.
#[tokio::test]
async fn cp6_a_policy_refuses_a_connection_before_the_member_is_asked() {
    let server = Aggregated::start().await;
    let rule = json!({"apiGroups": ["cluster.karmada.io"], "apiVersions": ["v1alpha1"], "operations": ["CONNECT"],
        "resources": ["clusters/proxy"]});
    let expressions = [
        "!object.path.startsWith('/secret')",
        "object.kind == 'ClusterProxyOptions' && object.apiVersion == 'cluster.karmada.io/v1alpha1'",
        "request.operation == 'CONNECT' && request.subResource == 'proxy' && oldObject == null",
        "request.options == null && request.kind.kind == 'Cluster' && request.name == 'none'",
    ];
    let validations: Vec<Value> = expressions.iter().map(|expression| json!({"expression": expression})).collect();
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": validations});
    validating(&server, "tunnels", spec, json!({}));
    let through = async |cluster: &str, path: &str| {
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy{path}");
        send(&server, Method::GET, &path, "application/json", "").await
    };
    let refused = wait_for("the policy", async || {
        let reply = through("none", "/secret").await;
        (reply.code == 422).then_some(reply)
    });
    let message = refused.await.json()["message"].take();
    assert!(message.as_str().unwrap().contains("failed expression: !object.path.startsWith"), "{message}");
    let passed = through("none", "/api").await;
    assert_eq!(passed.code, 404, "{}", passed.text());
    // A webhook may deny it, too.
    server.host.answer_webhook("/hooks/tunnel", |review| {
        let request = &review["request"];
        json!({"allowed": request["object"]["path"] == "/ok" && request["options"].is_null()})
    });
    register(&server, "mutatingwebhookconfigurations", "tunnel", |hook| {
        hook["rules"] = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CONNECT"],
            "resources": ["clusters/proxy"]}]);
    });
    wait_for("the webhook", async || (through("none", "/api").await.code == 400).then_some(())).await;
    assert_eq!(through("none", "/ok").await.code, 404);
    server.stop().await;
}
