//! Selectors that can match nothing, and negative numbers, are rejected at their field, for every
//! kind and every verb (T1).

use http::Method;
use serde_json::{Value, json};

use crate::support::objects::{BINDINGS, binding, with};
use crate::support::raw::{Connection, Reply};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
const POLICY: &str = "/apis/policy.karmada.io/v1alpha1";

/// A kind with a selector in one of its fields.
struct Place {
    collection: String,
    object: fn(Value) -> Value,
    /// Returns the path of the argument.
    path: &'static str,
}

fn object(kind: &str, spec: Value) -> Value {
    let group = if kind.ends_with("Binding") { "work.karmada.io/v1alpha2" } else { "policy.karmada.io/v1alpha1" };
    json!({"apiVersion": group, "kind": kind, "metadata": {"name": "p"}, "spec": spec})
}

fn policy(kind: &str, placement: Value) -> Value {
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    object(kind, json!({"resourceSelectors": [selector], "placement": placement}))
}

fn divided(preference: &str, more: Value) -> Value {
    let strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    json!({"replicaScheduling": with(strategy, more)})
}

fn group(affinity: Value) -> Value {
    with(json!({"affinityName": "a"}), affinity)
}

/// Every field with a selection of clusters.
fn selections() -> Vec<Place> {
    let place = |collection: &str, object: fn(Value) -> Value, path| Place {
        collection: format!("{POLICY}/{collection}"),
        object,
        path,
    };
    let own = "namespaces/shop/propagationpolicies";
    vec![
        place(own, |it| policy("PropagationPolicy", json!({"clusterAffinity": it})), "spec.placement.clusterAffinity"),
        place(
            "clusterpropagationpolicies",
            |it| policy("ClusterPropagationPolicy", json!({"clusterAffinities": [group(it)]})),
            "spec.placement.clusterAffinities[0]",
        ),
        place(
            own,
            |it| {
                let overflow = with(json!({"affinityName": "b"}), it);
                let term = json!({"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": [overflow]});
                policy(
                    "PropagationPolicy",
                    with(divided("Aggregated", json!({})), json!({"clusterAffinities": [term]})),
                )
            },
            "spec.placement.clusterAffinities[0].overflowAffinities[0]",
        ),
        place(
            own,
            |it| {
                let list = json!({"weightPreference": {"staticWeightList": [{"targetCluster": it, "weight": 1}]}});
                policy("PropagationPolicy", divided("Weighted", list))
            },
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster",
        ),
        place(
            own,
            |it| {
                let list = json!({"specifyPreference": {"staticSpecifyList": [{"targetCluster": it, "replicas": 1}]}});
                policy("PropagationPolicy", divided("Specified", list))
            },
            "spec.placement.replicaScheduling.specifyPreference.staticSpecifyList[0].targetCluster",
        ),
        place(
            "namespaces/shop/overridepolicies",
            |it| object("OverridePolicy", json!({"targetCluster": it, "overriders": {}})),
            "spec.targetCluster",
        ),
        place(
            "clusteroverridepolicies",
            |it| object("ClusterOverridePolicy", json!({"overrideRules": [{"targetCluster": it, "overriders": {}}]})),
            "spec.overrideRules[0].targetCluster",
        ),
        place(
            "clustertaintpolicies",
            |it| {
                object(
                    "ClusterTaintPolicy",
                    json!({"targetClusters": it, "taints": [{"key": "a", "effect": "NoSchedule"}]}),
                )
            },
            "spec.targetClusters",
        ),
        Place {
            collection: BINDINGS.to_owned(),
            object: |it| with(binding("p"), json!({"spec": {"placement": {"clusterAffinity": it}}})),
            path: "spec.placement.clusterAffinity",
        },
        Place {
            collection: "/apis/work.karmada.io/v1alpha2/clusterresourcebindings".to_owned(),
            object: |it| {
                let resource = json!({"apiVersion": "v1", "kind": "Namespace", "name": "a"});
                object(
                    "ClusterResourceBinding",
                    json!({"resource": resource, "placement": {"clusterAffinities": [group(it)]}}),
                )
            },
            path: "spec.placement.clusterAffinities[0]",
        },
    ]
}

/// Selections that can match nothing, with the field that is wrong.
fn unmatchable() -> Vec<(Value, &'static str)> {
    let expression = |key: &str, operator: &str, values: &[&str]| json!({"labelSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
    let field = |key: &str, operator: &str, values: &[&str]| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
    vec![
        (expression("t", "Is", &["v"]), ".labelSelector.matchExpressions[0].operator"),
        (expression("t", "In", &[]), ".labelSelector.matchExpressions[0].values"),
        (expression("t", "Exists", &["v"]), ".labelSelector.matchExpressions[0].values"),
        (expression("-t", "Exists", &[]), ".labelSelector.matchExpressions[0].key"),
        (expression("t", "In", &["a!"]), ".labelSelector.matchExpressions[0].values[0]"),
        (json!({"labelSelector": {"matchLabels": {"a b": "c"}}}), ".labelSelector.matchLabels"),
        (field("planet", "In", &["earth"]), ".fieldSelector.matchExpressions[0].key"),
        (field("region", "Exists", &[]), ".fieldSelector.matchExpressions[0].operator"),
        (field("region", "In", &[]), ".fieldSelector.matchExpressions[0].values"),
    ]
}

fn fields(reply: &Reply) -> Vec<String> {
    let causes = reply.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default().to_owned()).collect()
}

fn judge(faults: &mut Vec<String>, how: &str, object: &Value, reply: &Reply, field: &str) {
    if reply.code != 422 || fields(reply) != [field] {
        faults.push(format!("{how} {object}\nexpected {field}\nanswer {}\n", reply.text()));
    }
}

async fn send(connection: &Connection, method: Method, path: &str, kind: (&str, &str), object: &Value) -> Reply {
    connection.send(method, path, &[kind], object.to_string()).await
}

#[tokio::test]
async fn t1_a_selection_of_clusters_that_can_match_nothing_is_refused_at_its_field() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let mut faults = Vec::new();
    for Place { collection, object, path } in selections() {
        let good = object(json!({"clusterNames": ["m1"], "labelSelector": {"matchLabels": {"a": "b"}}}));
        let created = send(&connection, Method::POST, &collection, JSON, &good).await;
        assert_eq!(created.code, 201, "{good}\n{}", created.text());
        let stored = created.json();
        let (one, apply) = (format!("{collection}/p"), format!("{collection}/p?fieldManager=t&force=true"));
        for (selection, wrong) in unmatchable() {
            let (bad, field) = (object(selection), format!("{path}{wrong}"));
            let new = format!("{collection}?dryRun=All");
            let mut put = stored.clone();
            put["spec"] = bad["spec"].clone();
            let mut renamed = bad.clone();
            renamed["metadata"]["name"] = json!("q");
            judge(&mut faults, "POST", &bad, &send(&connection, Method::POST, &new, JSON, &renamed).await, &field);
            judge(&mut faults, "PUT", &bad, &send(&connection, Method::PUT, &one, JSON, &put).await, &field);
            let patch = json!({"spec": bad["spec"]});
            let patched = send(&connection, Method::PATCH, &one, MERGE, &patch).await;
            // A merge keeps the labels and the names that are there.
            if patched.code != 422 || !fields(&patched).contains(&field) {
                faults.push(format!("PATCH {patch}\n{}", patched.text()));
            }
            judge(&mut faults, "apply", &bad, &send(&connection, Method::PATCH, &apply, APPLY, &bad).await, &field);
        }
        assert_eq!(connection.send(Method::GET, &one, &[], "").await.json(), stored, "nothing has changed it");
        assert_eq!(connection.send(Method::DELETE, &one, &[], "").await.code, 200);
    }
    assert!(faults.is_empty(), "{}\n{}", faults.len(), faults.join("\n"));
    server.stop().await;
}

#[tokio::test]
async fn t1_labels_of_objects_that_can_match_nothing_are_refused_at_their_field() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let mut faults = Vec::new();
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                          "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b!"]}]}});
    let field = "labelSelector.matchExpressions[0].values[0]";
    for (kind, plural) in [
        ("PropagationPolicy", "namespaces/shop/propagationpolicies"),
        ("ClusterPropagationPolicy", "clusterpropagationpolicies"),
        ("OverridePolicy", "namespaces/shop/overridepolicies"),
        ("ClusterOverridePolicy", "clusteroverridepolicies"),
    ] {
        let bad = object(kind, json!({"resourceSelectors": [selector], "overrideRules": []}));
        let path = format!("{POLICY}/{plural}?fieldValidation=Ignore");
        let wrong = format!("spec.resourceSelectors[0].{field}");
        judge(&mut faults, "POST", &bad, &send(&connection, Method::POST, &path, JSON, &bad).await, &wrong);
    }
    let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask", "metadata": {"name": "t"},
                      "spec": {"targetRefResource": [selector]}});
    let reply = send(&connection, Method::POST, crate::support::objects::TASKS, JSON, &task).await;
    judge(&mut faults, "POST", &task, &reply, &format!("spec.targetRefResource[0].{field}"));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    server.stop().await;
}

#[tokio::test]
async fn t1_replicas_and_requests_below_zero_are_refused_at_their_field() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let mut faults = Vec::new();
    let part = |replicas: i64, cpu: &str| json!({"components": [{"name": "a", "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}}]});
    let on = |operator: &str| {
        json!({"replicaRequirements": {"nodeClaim": {"hardNodeAffinity": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "a", "operator": operator, "values": []}]}]}}}})
    };
    let claim = "spec.replicaRequirements.nodeClaim.hardNodeAffinity.nodeSelectorTerms[0].matchExpressions[0]";
    for (spec, field) in [
        (json!({"replicas": -1}), "spec.replicas".to_owned()),
        (
            json!({"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "-1"}}}),
            "spec.replicaRequirements.resourceRequest[cpu]".to_owned(),
        ),
        (part(-2, "1"), "spec.components[0].replicas".to_owned()),
        (part(1, "-500m"), "spec.components[0].replicaRequirements.resourceRequest[cpu]".to_owned()),
        (json!({"clusters": [{"name": "m1", "replicas": -3}]}), "spec.clusters[0].replicas".to_owned()),
        (on("Is"), format!("{claim}.operator")),
        (on("In"), format!("{claim}.values")),
        (
            json!({"replicaRequirements": {"nodeClaim": {"nodeSelector": {"a b": "c"}}}}),
            "spec.replicaRequirements.nodeClaim.nodeSelector".to_owned(),
        ),
        (
            json!({"placement": {"spreadConstraints": [{"spreadByLabel": "-x", "minGroups": 1}]}}),
            "spec.placement.spreadConstraints[0].spreadByLabel".to_owned(),
        ),
    ] {
        let bad = with(binding("web"), json!({"spec": spec}));
        judge(&mut faults, "POST", &bad, &send(&connection, Method::POST, BINDINGS, JSON, &bad).await, &field);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    server.stop().await;
}

#[tokio::test]
async fn t1_a_binding_that_a_policy_manages_carries_what_the_policy_says() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let bad = json!({"labelSelector": {"matchExpressions": [{"key": "t", "operator": "Is"}]}});
    let managed = with(
        binding("web"),
        json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "5b1b4b2e"}},
               "spec": {"placement": {"clusterAffinity": bad}}}),
    );
    assert_eq!(send(&connection, Method::POST, BINDINGS, JSON, &managed).await.code, 201);
    // Without a policy it remains writable, too: the fault is an old one.
    let one = format!("{BINDINGS}/web");
    let freed = json!({"metadata": {"labels": null}, "spec": {"replicas": 3}});
    let reply = send(&connection, Method::PATCH, &one, MERGE, &freed).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
    let worse = json!({"spec": {"replicas": -3}});
    let reply = send(&connection, Method::PATCH, &one, MERGE, &worse).await;
    assert_eq!((reply.code.as_u16(), fields(&reply)), (422, vec!["spec.replicas".to_owned()]), "{}", reply.text());
    server.stop().await;
}

/// Such a decision about the placement would block the scheduler in all namespaces.
#[tokio::test]
async fn a_placement_that_costs_too_much_is_refused_at_its_list() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let terms = |count: usize| -> Vec<Value> {
        (0..count).map(|number| json!({"affinityName": format!("a{number}"), "clusterNames": ["m1"]})).collect()
    };
    let names = |count: usize| -> Vec<String> { (0..count).map(|number| format!("m{number}")).collect() };
    let placements = [
        (json!({"clusterAffinities": terms(100)}), None),
        (json!({"clusterAffinities": terms(101)}), Some("spec.placement.clusterAffinities")),
        (json!({"clusterAffinity": {"clusterNames": names(19_999)}}), None),
        (json!({"clusterAffinity": {"clusterNames": names(20_000)}}), Some("spec.placement")),
    ];
    for (placement, refused_at) in placements {
        let of_policy = policy("PropagationPolicy", placement.clone());
        let of_binding = with(binding("web"), json!({"spec": {"placement": placement}}));
        let policies = format!("{POLICY}/namespaces/shop/propagationpolicies");
        for (collection, object) in [(policies.as_str(), of_policy), (BINDINGS, of_binding)] {
            let path = format!("{collection}?dryRun=All");
            let reply = connection.send(Method::POST, &path, &[JSON], object.to_string()).await;
            let field = reply.json()["details"]["causes"][0]["field"].as_str().map(str::to_owned);
            assert_eq!(reply.code, if refused_at.is_some() { 422 } else { 201 }, "{}", reply.text());
            assert_eq!(field.as_deref(), refused_at);
        }
    }
    server.stop().await;
}
