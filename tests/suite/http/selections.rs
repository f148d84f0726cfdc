//! Selections as clients write them: a misspelt field never selects more, whatever the verb and the
//! field validation, and an entry that selects everything states so.

use ballast::auth::Policy;
use http::Method;
use serde_json::{Value, json};

use crate::support::raw::{Connection, Reply};
use crate::support::server::{Options, TestServer};

const GROUP: &str = "/apis/ballast.dev/v1alpha1";
const CLUSTER_REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

fn object(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": {"name": "r"}, "spec": spec})
}

async fn send(admin: &Connection, method: Method, path: &str, body: &Value) -> Reply {
    let headers = match method {
        Method::PATCH if path.contains("fieldManager") => &[APPLY][..],
        Method::PATCH => &[MERGE][..],
        _ => &[],
    };
    admin.send(method, path, headers, body.to_string()).await
}

#[track_caller]
fn is_refused(reply: &Reply, field: &str, nearest: &str) {
    let answer = reply.json();
    assert_eq!((reply.code.as_u16(), &answer["reason"]), (422, &json!("Invalid")), "{answer}");
    let cause = &answer["details"]["causes"][0];
    assert_eq!(cause["field"], field, "{answer}");
    let message = format!("Forbidden: unknown field; the nearest known field is {nearest:?}");
    assert_eq!(cause["message"], message, "{answer}");
}

#[tokio::test]
async fn a_misspelt_field_is_refused_by_every_verb() {
    let server = TestServer::start().await;
    let admin: Connection = server.admin().connect().await;
    let misspelt = json!({"select": [{"displacd": true}], "approval": "Required"});
    let (field, nearest) = ("spec.select[0].displacd", "displaced");
    let created = object("ClusterRebalance", misspelt.clone());
    for query in ["", "?fieldValidation=Ignore", "?fieldValidation=Warn", "?fieldValidation=Strict", "?dryRun=All"] {
        let reply = send(&admin, Method::POST, &format!("{CLUSTER_REBALANCES}{query}"), &created).await;
        is_refused(&reply, field, nearest);
    }
    let local = object("LocalPlacementReview", misspelt.clone());
    let local = send(&admin, Method::POST, &format!("{GROUP}/namespaces/shop/localplacementreviews"), &local).await;
    assert_eq!(local.code.as_u16(), 422);
    let review = object("PlacementReview", json!({"select": [{"displacd": true}]}));
    let review = send(&admin, Method::POST, &format!("{GROUP}/placementreviews"), &review).await;
    is_refused(&review, field, nearest);
    let named = format!("{CLUSTER_REBALANCES}/r");
    let applied = send(&admin, Method::PATCH, &format!("{named}?fieldManager=me"), &created).await;
    is_refused(&applied, field, nearest);
    assert_eq!(send(&admin, Method::GET, &named, &json!(null)).await.code.as_u16(), 404, "nothing was created");

    let right = object("ClusterRebalance", json!({"select": [{"displaced": true}], "approval": "Required"}));
    let stored = send(&admin, Method::POST, CLUSTER_REBALANCES, &right).await;
    assert_eq!(stored.code.as_u16(), 201);
    let mut replaced = stored.json();
    replaced["spec"]["limts"] = json!({"maxMovedReplicas": 1});
    let reply = send(&admin, Method::PUT, &format!("{named}?fieldValidation=Ignore"), &replaced).await;
    is_refused(&reply, "spec.limts", "limits");
    let patch = json!({"spec": {"pausd": true}});
    is_refused(&send(&admin, Method::PATCH, &named, &patch).await, "spec.pausd", "paused");
    let patch = json!({"spec": {"paused": true}});
    assert_eq!(send(&admin, Method::PATCH, &named, &patch).await.code.as_u16(), 200);

    let template = json!({"schedule": "0 3 * * *", "template": {"spec": {"select": [{}]}}});
    let schedules = format!("{GROUP}/rebalanceschedules");
    let schedule = send(&admin, Method::POST, &schedules, &object("RebalanceSchedule", template)).await;
    assert_eq!(schedule.code.as_u16(), 201);
    let patch = json!({"spec": {"template": {"spec": {"rollout": {"stratgy": "SurgeFirst"}}}}});
    let reply = send(&admin, Method::PATCH, &format!("{schedules}/r"), &patch).await;
    is_refused(&reply, "spec.template.spec.rollout.stratgy", "strategy");
    server.stop().await;
}

#[tokio::test]
async fn an_empty_entry_is_stored_as_one_that_selects_all() {
    let server = TestServer::start().await;
    let admin: Connection = server.admin().connect().await;
    let spec = json!({"select": [{}], "approval": "Required"});
    let created = object("ClusterRebalance", spec);
    let reply = send(&admin, Method::POST, &format!("{CLUSTER_REBALANCES}?fieldValidation=Strict"), &created).await;
    assert_eq!((reply.code.as_u16(), &reply.json()["spec"]["select"]), (201, &json!([{"all": true}])));
    let warning = reply.header("warning").unwrap_or_default();
    assert!(
        warning.contains("spec.select[0]: an empty entry selects everything in scope; write all: true"),
        "{warning}"
    );
    // The author of an existing manifest with the empty entry can still apply it.
    let named = format!("{CLUSTER_REBALANCES}/r");
    let applied = send(&admin, Method::PATCH, &format!("{named}?fieldManager=me&force=true"), &created).await;
    assert_eq!((applied.code.as_u16(), &applied.json()["spec"]["select"]), (200, &json!([{"all": true}])));
    assert!(applied.header("warning").unwrap_or_default().contains("all: true"));
    let paused = send(&admin, Method::PATCH, &named, &json!({"spec": {"paused": true}})).await;
    assert_eq!((paused.code.as_u16(), paused.header("warning")), (200, None));

    let select = |entry: Value| object("ClusterRebalance", json!({"select": [entry]}));
    for entry in [json!({"labelSelector": {}}), json!({"kind": ""}), json!({"displaced": null})] {
        let reply =
            send(&admin, Method::POST, &format!("{CLUSTER_REBALANCES}?dryRun=All"), &select(entry.clone())).await;
        let cause = reply.json()["details"]["causes"][0].take();
        assert_eq!((reply.code.as_u16(), &cause["field"]), (422, &json!("spec.select[0]")), "{entry}");
        assert!(cause["message"].as_str().unwrap().contains("all: true"), "{cause}");
    }
    let both = select(json!({"all": true, "kind": "Deployment"}));
    let reply = send(&admin, Method::POST, CLUSTER_REBALANCES, &both).await;
    assert_eq!(
        (reply.code.as_u16(), &reply.json()["details"]["causes"][0]["field"]),
        (422, &json!("spec.select[0].all"))
    );
    server.stop().await;
}

#[tokio::test]
async fn unknown_names_of_a_selection_are_warned_about() {
    let server = TestServer::start().await;
    let admin: Connection = server.admin().connect().await;
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    let binding = crate::support::objects::binding("web");
    assert_eq!(send(&admin, Method::POST, bindings, &binding).await.code.as_u16(), 201);
    let policy = json!({"kind": "PropagationPolicy", "namespace": "shop", "name": "nosuch"});
    for (spec, warning) in [
        (
            json!({"select": [{"kind": "Deploymnt"}]}),
            r#"spec.select[0].kind: no binding is of kind \"Deploymnt\"; the nearest known name is \"Deployment\""#,
        ),
        (
            json!({"select": [{"namespace": "shp"}]}),
            r#"spec.select[0].namespace: no binding is in namespace \"shp\"; the nearest known name is \"shop\""#,
        ),
        (
            json!({"select": [{"kind": "Deployment", "namespace": "shop", "name": "wbe"}]}),
            r#"spec.select[0].name: no binding in namespace \"shop\" is of a Deployment \"wbe\"; the nearest known name is \"web\""#,
        ),
        (
            json!({"select": [{"policyRef": policy}]}),
            r#"spec.select[0].policyRef.name: there is no PropagationPolicy \"shop/nosuch\""#,
        ),
        (json!({"undo": {"name": "nosuch"}}), r#"spec.undo.name: no rebalance is named \"nosuch\""#),
    ] {
        let rebalance = object("ClusterRebalance", spec.clone());
        let reply = send(&admin, Method::POST, &format!("{CLUSTER_REBALANCES}?dryRun=All"), &rebalance).await;
        let told = reply.header("warning").unwrap_or_default();
        assert!(reply.code.as_u16() == 201 && told.contains(warning), "{spec}: {told}");
        let template = json!({"schedule": "0 3 * * *", "template": {"spec": spec}});
        let schedule = object("RebalanceSchedule", template);
        let reply = send(&admin, Method::POST, &format!("{GROUP}/rebalanceschedules?dryRun=All"), &schedule).await;
        let told = reply.header("warning").unwrap_or_default();
        let of_template = warning.replacen("spec.", "spec.template.spec.", 1);
        assert!(reply.code.as_u16() == 201 && told.contains(&of_template), "{spec}: {told}");
    }
    let review = object("PlacementReview", json!({"select": [{"kind": "Deploymnt"}]}));
    let reply = send(&admin, Method::POST, &format!("{GROUP}/placementreviews"), &review).await;
    let told = "spec.select[0].kind: no binding is of kind \"Deploymnt\"; the nearest known name is \"Deployment\"";
    assert_eq!(reply.json()["status"]["unknownNames"], json!([told]));
    let known = object("PlacementReview", json!({"select": [{"kind": "Deployment", "displaced": true}]}));
    let reply = send(&admin, Method::POST, &format!("{GROUP}/placementreviews"), &known).await;
    assert_eq!((reply.header("warning"), &reply.json()["status"]["unknownNames"]), (None, &json!(null)));
    server.stop().await;
}

/// A near miss must not reveal names that its author may not list.
#[tokio::test]
async fn ng4_hints_name_only_what_the_user_may_list() {
    let policy = "
rules:
- {users: [bob], verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: [shop]}
- {users: [ops], verbs: [create], apiGroups: ['*'], resources: ['*']}
- {users: [reader], verbs: [create, list], apiGroups: ['*'], resources: ['*']}
";
    let server = TestServer::with(Options { policy: Some(Policy::parse(policy).unwrap()), ..Options::default() }).await;
    let admin = server.admin().connect().await;
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    let policies = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies";
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "secret-c2"}, "spec": {"syncMode": "Pull", "region": "secret-r2"}});
    let web = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "secret-p2"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}}});
    for (path, body) in [
        ("/apis/cluster.karmada.io/v1alpha1/clusters", cluster),
        (bindings, crate::support::objects::binding("secret-w2")),
        (policies, web.clone()),
        (
            CLUSTER_REBALANCES,
            json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
            "metadata": {"name": "secret-x2"}, "spec": {"select": [{}], "approval": "Required"}}),
        ),
    ] {
        let made = send(&admin, Method::POST, path, &body).await;
        assert_eq!(made.code.as_u16(), 201, "{}", made.text());
    }
    let placed = |names: Value| {
        let region = json!({"matchExpressions": [{"key": "region", "operator": "In", "values": ["secret-r"]}]});
        let mut policy = web.clone();
        policy["metadata"]["name"] = "other".into();
        policy["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": names, "fieldSelector": region}});
        policy
    };
    let rebalance = |spec: Value| object("ClusterRebalance", spec);
    let reference = json!({"kind": "PropagationPolicy", "namespace": "shop", "name": "secret-p"});
    let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "x"},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "secret-w"}]}});
    let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask", "metadata": {"name": "x"},
        "spec": {"targetRefPolicy": [{"namespace": "shop", "name": "secret-p"}]}});
    let rebalancers = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
    for (path, body, found) in [
        (policies, placed(json!(["secret-c"])), "secret-r2"),
        (policies, placed(json!(["secret-c"])), "secret-c2"),
        (CLUSTER_REBALANCES, rebalance(json!({"select": [{"placedOn": ["secret-c"]}]})), "secret-c2"),
        (CLUSTER_REBALANCES, rebalance(json!({"select": [{"namespace": "shp"}]})), "\\\"shop"),
        (CLUSTER_REBALANCES, rebalance(json!({"select": [{"name": "secret-w"}]})), "secret-w2"),
        (CLUSTER_REBALANCES, rebalance(json!({"select": [{"policyRef": reference}]})), "secret-p2"),
        (CLUSTER_REBALANCES, rebalance(json!({"undo": {"name": "secret-x"}})), "secret-x2"),
        (CLUSTER_REBALANCES, rebalance(json!({"drain": {"clusters": ["secret-d2"]}})), "secret-c2"),
        (rebalancers, rebalancer, "secret-w2"),
        ("/apis/task.karmada.io/v1alpha1/rescheduletasks", task, "secret-p2"),
    ] {
        for (user, is_named) in [("reader", true), ("ops", false), ("bob", false)] {
            if user == "bob" && path != policies {
                continue;
            }
            let client = server.client(user, &[], |_| {}).connect().await;
            let reply = send(&client, Method::POST, &format!("{path}?dryRun=All"), &body).await;
            let warnings: Vec<&str> =
                reply.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap()).collect();
            assert!(!warnings.is_empty() || reply.code.as_u16() == 422, "{user} {path} {body}: {}", reply.text());
            let told = format!("{} {}", warnings.join("\n"), reply.json()["message"]);
            assert_eq!(told.contains(found), is_named, "{user}: {told}");
        }
    }
    server.stop().await;
}
