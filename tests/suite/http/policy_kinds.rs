//! The other kinds of `policy.karmada.io`: override policies, taint policies and quotas. Each rule
//! of upstream's webhooks has a row with the field and the message of the response (QU7-QU9).

use http::Method;
use serde_json::{Value, json};

use crate::support::raw::Connection;
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const APIS: &str = "/apis/policy.karmada.io/v1alpha1";
const OWN: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/overridepolicies";
const WIDE: &str = "/apis/policy.karmada.io/v1alpha1/clusteroverridepolicies";
const TAINTS: &str = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies";
const QUOTAS: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/federatedresourcequotas";

fn object(path: &str, name: &str, spec: &Value) -> Value {
    let kind = match path {
        OWN => "OverridePolicy",
        WIDE => "ClusterOverridePolicy",
        TAINTS => "ClusterTaintPolicy",
        _ => "FederatedResourceQuota",
    };
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Asserts that each spec is rejected for its one field, with this message.
async fn refused(path: &str, rows: &[(Value, &str, &str)]) {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let mut faults = Vec::new();
    for (spec, field, sentence) in rows {
        let body = object(path, "p", spec).to_string();
        let reply = connection.send(Method::POST, path, &[JSON], body).await;
        let answer = reply.json();
        let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
        let told: Vec<_> = causes.iter().map(|cause| (&cause["field"], cause["message"].as_str().unwrap())).collect();
        let is_told = matches!(told.as_slice(), [(named, message)] if *named == field && message.ends_with(sentence));
        if reply.code != 422 || !is_told {
            faults.push(format!("{spec}\nexpected {field}: {sentence}\nanswer {answer:#}\n"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    server.stop().await;
}

fn rule(overriders: Value) -> Value {
    json!({"overrideRules": [{"overriders": overriders}]})
}

#[tokio::test]
async fn qu8_what_breaks_a_rule_of_override_policies_is_refused_for_its_field() {
    let target = json!({"clusterNames": ["m1"]});
    let expression =
        |key: &str| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]}});
    let image = |path: &str| {
        json!({"imageOverrider": [
            {"component": "Tag", "operator": "replace", "value": "v2", "predicate": {"path": path}}]})
    };
    let field = |field_path: &str, json: Value, yaml: Value| {
        let patch = |sub_path: &Value| json!({"subPath": sub_path, "operator": "add", "value": 1});
        let list = |paths: &Value| Value::from(paths.as_array().unwrap().iter().map(patch).collect::<Vec<_>>());
        json!({"fieldOverrider": [{"fieldPath": field_path, "json": list(&json), "yaml": list(&yaml)}]})
    };
    let pointer = "JSON pointer must be empty or start with a \"/\"";
    let one = "exactly one of json and yaml must be set";
    let rows = [
        (
            json!({"overrideRules": [{"overriders": {}}], "targetCluster": target}),
            "spec.targetCluster",
            "overrideRules and targetCluster can't co-exist",
        ),
        (
            json!({"overrideRules": [{"overriders": {}}], "overriders": image("/spec/x")}),
            "spec.overriders",
            "overrideRules and overriders can't co-exist",
        ),
        (
            json!({"overrideRules": [{"targetCluster": expression("planet"), "overriders": {}}]}),
            "spec.overrideRules[0].targetCluster.fieldSelector.matchExpressions[0].key",
            "must be provider, region, or zone",
        ),
        (
            json!({"targetCluster": expression("planet")}),
            "spec.targetCluster.fieldSelector.matchExpressions[0].key",
            "must be provider, region, or zone",
        ),
        (rule(image("spec/x")), "spec.overrideRules[0].overriders.imageOverrider[0].predicate.path", pointer),
        (
            rule(image("/spec/~x")),
            "spec.overrideRules[0].overriders.imageOverrider[0].predicate.path",
            "\"~\" is written \"~0\" and \"/\" is written \"~1\"",
        ),
        (rule(field("/data/a", json!([]), json!([]))), "spec.overrideRules[0].overriders.fieldOverrider[0]", one),
        (
            rule(field("/data/a", json!(["/b"]), json!(["/c"]))),
            "spec.overrideRules[0].overriders.fieldOverrider[0]",
            one,
        ),
        (
            rule(field("data", json!(["/b"]), json!([]))),
            "spec.overrideRules[0].overriders.fieldOverrider[0].fieldPath",
            pointer,
        ),
        (
            json!({"overriders": field("/data/a", json!(["/b", "c"]), json!([]))}),
            "spec.overriders.fieldOverrider[0].json[1].subPath",
            pointer,
        ),
        (
            json!({"overriders": field("/data/a", json!([]), json!(["c"]))}),
            "spec.overriders.fieldOverrider[0].yaml[0].subPath",
            pointer,
        ),
        (
            rule(json!({"plaintext": [{"path": "/x", "operator": "move"}]})),
            "spec.overrideRules[0].overriders.plaintext[0].operator",
            "supported values: \"add\", \"remove\", \"replace\"",
        ),
        (json!({"overrideRules": [{}]}), "spec.overrideRules[0].overriders", "Required value"),
        (json!({"resourceSelectors": [{"kind": "Secret"}]}), "spec.resourceSelectors[0].apiVersion", "Required value"),
    ];
    refused(OWN, &rows).await;
    refused(WIDE, &rows).await;
    let selector = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "other"});
    let detail = "namespace of resource selector must be the same as the namespace of the policy";
    refused(OWN, &[(json!({"resourceSelectors": [selector]}), "spec.resourceSelectors[0].namespace", detail)]).await;
}

#[tokio::test]
async fn qu7_what_breaks_a_rule_of_quotas_is_refused_for_its_field() {
    let assigned = |overall: Value, hard: Value, cluster: &str| json!({"overall": overall, "staticAssignments": [{"clusterName": cluster, "hard": hard}]});
    let long = "c".repeat(49);
    refused(
        QUOTAS,
        &[
            (json!({}), "spec.overall", "Required value"),
            (
                assigned(json!({"cpu": "1"}), json!({"cpu": "1500m"}), "m1"),
                "spec.overall[cpu]",
                "overall is less than assignments",
            ),
            (
                assigned(json!({"cpu": "1"}), json!({"memory": "1Gi"}), "m1"),
                "spec.staticAssignments[0].hard[memory]",
                "assignment resourceName is not exist in overall",
            ),
            (
                assigned(json!({"cpu": "1"}), json!({"cpu": "1"}), &long),
                "spec.staticAssignments[0].clusterName",
                "must be no more than 48 characters",
            ),
            (
                assigned(json!({"cpu": "1"}), json!({"cpu": "-1"}), "m1"),
                "spec.staticAssignments[0].hard[cpu]",
                "must be greater than or equal to 0",
            ),
            (json!({"overall": {"pods": "1500m"}}), "spec.overall[pods]", "must be an integer"),
            (json!({"overall": {"nvidia.com/gpu": "500m"}}), "spec.overall[nvidia.com/gpu]", "must be an integer"),
            (json!({"overall": {"storage": "1Gi"}}), "spec.overall[storage]", "must be a standard resource for quota"),
            (json!({"overall": {"cpu": "many"}}), "spec.overall.cpu", ""),
        ],
    )
    .await;
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let name = "q".repeat(64);
    let body = object(QUOTAS, &name, &json!({"overall": {"cpu": "1"}})).to_string();
    let reply = connection.send(Method::POST, QUOTAS, &[JSON], body).await;
    assert_eq!(reply.code, 422, "{}", reply.text());
    assert!(reply.text().contains("metadata.name"), "{}", reply.text());
    assert!(reply.text().contains("must be no more than 63 characters"), "{}", reply.text());
    server.stop().await;
}

#[tokio::test]
async fn qu9_what_breaks_a_rule_of_taint_policies_is_refused_for_its_field() {
    let taint = |effect: &str| json!({"key": "down", "effect": effect});
    let no_execute = "The server allows it with --allow-no-execute-taint-policy";
    let rows = [
        (json!({"taints": []}), "spec.taints", "should have at least 1 items"),
        (
            json!({"taints": [taint("NoSchedule"), {"key": "down", "effect": "NoSchedule", "value": "x"}]}),
            "spec.taints[1]",
            "Duplicate value: \"taint(down:NoSchedule) already exist\"",
        ),
        (json!({"taints": [taint("NoSchedule"), taint("NoExecute")]}), "spec.taints[1].effect", no_execute),
        (
            json!({"taints": [taint("NoSchedule")], "addOnConditions": [{"operator": "In", "statusValues": ["True"]}]}),
            "spec.addOnConditions[0].conditionType",
            "Required value",
        ),
    ];
    refused(TAINTS, &rows).await;
}

async fn created(connection: &Connection, path: &str, body: &Value) -> Value {
    let reply = connection.send(Method::POST, path, &[JSON], body.to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn qu8_what_upstream_accepts_is_kept_as_it_was_sent() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let free = json!({"deep": [1, null, {"x": "y"}]});
    let spec = json!({
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "namespace": "shop"}],
        "overrideRules": [{
            "targetCluster": {"clusterNames": ["m1"], "fieldSelector": {"matchExpressions": [
                {"key": "region", "operator": "In", "values": ["north"]}]}},
            "overriders": {
                "plaintext": [{"path": "/data/a", "operator": "replace", "value": free}],
                "commandOverrider": [{"containerName": "web", "operator": "add", "value": ["--x"]}],
                "labelsOverrider": [{"operator": "remove", "value": {"a": ""}}],
                "fieldOverrider": [{"fieldPath": "/data/b", "yaml": [{"subPath": "/c~1d", "operator": "remove"}]}],
            },
        }],
    });
    for path in [OWN, WIDE] {
        let strict = format!("{path}?fieldValidation=Strict");
        let body = object(path, "p", &spec);
        assert_eq!(created(&connection, &strict, &body).await["spec"], spec);
    }
    // A selector without a namespace means the policy's own.
    let bare = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}], "overriders": {}});
    let filled = created(&connection, OWN, &object(OWN, "bare", &bare)).await;
    assert_eq!(filled["spec"]["resourceSelectors"][0]["namespace"], "shop");
    let taints = json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "PreferNoSchedule"}],
        "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}]});
    assert_eq!(created(&connection, TAINTS, &object(TAINTS, "p", &taints)).await["spec"], taints);
    server.stop().await;
}

#[tokio::test]
async fn qu7_a_quota_is_shown_with_what_is_used_and_has_a_status_of_its_own() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let spec = json!({"overall": {"cpu": "2", "memory": "1Gi"}});
    created(&connection, QUOTAS, &object(QUOTAS, "q", &spec)).await;
    let path = format!("{QUOTAS}/q");
    let quota = connection.send(Method::GET, &path, &[], "").await.json();
    assert_eq!(quota["status"]["overall"], spec["overall"]);
    assert_eq!(quota["status"]["overallUsed"], Value::Null);
    let report = json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "used": {"cpu": "1"}}],
        "overallUsed": {"cpu": "17"}}});
    let patch = ("content-type", "application/merge-patch+json");
    let patched = connection.send(Method::PATCH, &format!("{path}/status"), &[patch], report.to_string()).await;
    assert_eq!(patched.code, 200, "{}", patched.text());
    let quota = connection.send(Method::GET, &path, &[], "").await.json();
    assert_eq!(quota["status"]["aggregatedStatus"], report["status"]["aggregatedStatus"]);
    assert_eq!(quota["status"]["overallUsed"], Value::Null, "what is used is counted here");
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let shown = connection.send(Method::GET, QUOTAS, &[table], "").await.json();
    let names: Vec<&str> =
        shown["columnDefinitions"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["Name", "OVERALL", "OVERALL_USED"]);
    assert_eq!(shown["rows"][0]["cells"][1], r#"{"cpu":"2","memory":"1Gi"}"#);
    let group = connection.send(Method::GET, APIS, &[], "").await.json();
    let find = |name: &str| {
        let resources = group["resources"].as_array().unwrap();
        resources.iter().find(|resource| resource["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(
        (find("overridepolicies")["shortNames"][0].as_str(), find("clusteroverridepolicies")["shortNames"][0].as_str()),
        (Some("op"), Some("cop"))
    );
    assert_eq!(find("federatedresourcequotas/status")["kind"], "FederatedResourceQuota");
    assert!(find("clustertaintpolicies").get("shortNames").is_none());
    server.stop().await;
}
