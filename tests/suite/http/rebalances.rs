//! The kinds of `ballast.dev` for clients: verbs, rejections with field paths, rights to approve,
//! columns and `kubectl explain`.

use ballast::api::ballast::v1alpha1::{
    APPROVED_BY, BindingRef, CHANGED_BY, CREATED_BY, Move, MovePhase, MoveSpec, MoveStatus,
};
use ballast::api::ballast::v1alpha1::{Share, WorkloadRef, move_name};
use ballast::auth::Policy;
use ballast::k8s::{GroupResource, User};
use ballast::node::config::ApprovedKind;
use ballast::registry::{Atomicity, Change};
use http::Method;
use serde_json::{Map, Value, json};

use super::kubectl::Kubectl;
use crate::support::raw::{Connection, Raw, Reply};
use crate::support::server::{Options, TestServer};

const GROUP: &str = "/apis/ballast.dev/v1alpha1";
const OF_CLUSTER: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const OF_SHOP: &str = "/apis/ballast.dev/v1alpha1/namespaces/shop/rebalances";
const SCHEDULES: &str = "/apis/ballast.dev/v1alpha1/rebalanceschedules";
const MOVES: &str = "/apis/ballast.dev/v1alpha1/namespaces/shop/moves";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

fn rebalance(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": {"name": "r"}, "spec": spec})
}

async fn post(client: &Raw, path: &str, object: &Value) -> Reply {
    client.send(Method::POST, path, &[], object.to_string()).await
}

fn warnings(reply: &Reply) -> String {
    let texts = reply.headers.get_all("warning").iter().map(|text| text.to_str().unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

/// Writes a Move as the executor does.
fn a_move() -> Map<String, Value> {
    let share = |name: &str, replicas| Share { name: name.to_owned(), replicas };
    let one = Move {
        spec: MoveSpec {
            rebalance: "r".to_owned(),
            binding: BindingRef {
                kind: "ResourceBinding".to_owned(),
                namespace: Some("shop".to_owned()),
                name: "web-deployment".to_owned(),
                uid: "u-1".to_owned(),
            },
            workload: WorkloadRef {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: Some("shop".to_owned()),
                name: "web".to_owned(),
            },
            from: vec![share("member2", 4)],
            to: vec![share("member1", 2), share("member2", 2)],
            replicas: 2,
        },
        status: MoveStatus { phase: Some(MovePhase::Moving), ..MoveStatus::default() },
        ..Move::default()
    };
    let Ok(Value::Object(mut object)) = serde_json::to_value(one) else { panic!("a move is an object") };
    let name = move_name("r", "web-deployment");
    object.insert("metadata".to_owned(), json!({"name": name, "namespace": "shop"}));
    object
}

async fn write_a_move(server: &TestServer) {
    let client = server.registry.client(User::component("rebalance"));
    let change = (GroupResource::new("moves.ballast.dev"), Change::Create(a_move()));
    let outcome = client.batch(vec![change], Atomicity::All).await.unwrap().remove(0);
    outcome.unwrap();
}

#[tokio::test]
async fn moves_are_written_by_workers_alone() {
    let server = TestServer::start().await;
    let admin: Connection = server.admin().connect().await;
    let send = async |method: Method, path: &str, body: &str| admin.send(method, path, &[], body.to_owned()).await;
    write_a_move(&server).await;
    let name = format!("{MOVES}/r.web-deployment");
    assert_eq!(send(Method::GET, &name, "").await.json()["spec"]["replicas"], 2);
    let object = Value::Object(a_move()).to_string();
    let merge = admin.send(Method::PATCH, &name, &[MERGE], "{}").await;
    let apply = [("content-type", "application/apply-patch+yaml")];
    let apply = admin.send(Method::PATCH, &format!("{name}?fieldManager=me"), &apply, object.clone()).await;
    for refused in [
        send(Method::POST, MOVES, &object).await,
        send(Method::PUT, &name, &object).await,
        send(Method::DELETE, &name, "").await,
        merge,
        apply,
    ] {
        assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (405, &json!("MethodNotAllowed")));
        assert!(refused.text().contains("is not supported on resources of kind \\\"moves.ballast.dev\\\""));
    }
    let listed = send(Method::GET, GROUP, "").await.json();
    let resources = listed["resources"].as_array().unwrap();
    let verbs = |name: &str| &resources.iter().find(|resource| resource["name"] == name).unwrap()["verbs"];
    for name in ["moves", "clustermoves"] {
        assert_eq!(*verbs(name), json!(["deletecollection", "get", "list", "watch"]));
    }
    for name in ["placementreviews", "localplacementreviews"] {
        assert_eq!(*verbs(name), json!(["create"]));
    }
    assert_eq!(send(Method::DELETE, MOVES, "").await.code, 200);
    assert_eq!(send(Method::GET, MOVES, "").await.json()["items"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn bad_rebalances_are_refused_by_the_fields_that_are_bad() {
    let server = TestServer::start().await;
    let admin = server.admin();
    for (spec, field) in [
        (json!({}), "spec.select"),
        (json!({"select": []}), "spec.select"),
        (json!({"select": [{"placedOn": ["m"], "notPlacedOn": ["m"]}]}), "spec.select[0].notPlacedOn[0]"),
        (json!({"select": [{}], "exclude": [{}]}), "spec.exclude[0]"),
        (json!({"select": [{}], "undo": {"name": "x"}}), "spec.undo"),
        (json!({"undo": {"name": "r"}}), "spec.undo.name"),
        (json!({"select": [{}], "limits": {"maxMovedReplicas": "-5%"}}), "spec.limits.maxMovedReplicas"),
        (json!({"select": [{}], "limits": {"maxMovedReplicas": "1000000%"}}), "spec.limits.maxMovedReplicas"),
        (json!({"select": [{}], "limits": {"maxMovedReplicas": -5}}), "spec.limits.maxMovedReplicas"),
        (json!({"select": [{}], "rollout": {"maxConcurrent": 0}}), "spec.rollout.maxConcurrent"),
        (json!({"select": [{}], "mode": "Wild"}), "spec.mode"),
    ] {
        let refused = post(&admin, OF_CLUSTER, &rebalance("ClusterRebalance", spec.clone())).await;
        assert_eq!(refused.code, 422, "{spec}: {}", refused.text());
        assert_eq!(refused.json()["details"]["causes"][0]["field"], field, "{}", refused.text());
    }
    let elsewhere = rebalance("Rebalance", json!({"select": [{"namespace": "bank"}]}));
    let refused = post(&admin, OF_SHOP, &elsewhere).await;
    assert_eq!(refused.json()["details"]["causes"][0]["field"], "spec.select[0].namespace", "{}", refused.text());
    server.stop().await;
}

/// ops may write and not approve; chief may also approve one by its name.
async fn with_policy() -> TestServer {
    let policy = "rules:\n\
        - {users: [ops, chief], verbs: [create, update, patch, get], apiGroups: [ballast.dev], resources: ['*']}\n\
        - {users: [chief], verbs: [approve], apiGroups: [ballast.dev], resources: [clusterrebalances], resourceNames: [r]}\n\
        - {users: [chief], verbs: [approve], apiGroups: [ballast.dev], resources: [rebalances], namespaces: [shop]}\n\
        - {users: [head], verbs: ['*'], apiGroups: [ballast.dev], resources: ['*']}\n";
    let policy = Some(Policy::parse(policy).unwrap());
    TestServer::with(Options { policy, ..Options::default() }).await
}

#[tokio::test]
async fn bd8_who_may_not_approve_neither_creates_nor_changes_an_approved_rebalance() {
    let server = with_policy().await;
    let client = |name: &str| server.client(name, &[], |_| {});
    let (ops, chief) = (client("ops"), client("chief"));
    let waiting = json!({"select": [{}], "approval": "Required"});
    let mut approved = waiting.clone();
    approved["approved"] = json!(true);
    let refused = post(&ops, OF_CLUSTER, &rebalance("ClusterRebalance", approved.clone())).await;
    assert_eq!(refused.code, 403, "{}", refused.text());
    assert_eq!(
        refused.json()["message"],
        "clusterrebalances.ballast.dev \"r\" is forbidden: User \"ops\" cannot approve resource \
         \"clusterrebalances\" in API group \"ballast.dev\" at the cluster scope: who sets spec.approved to true \
         needs the verb approve"
    );
    assert_eq!(post(&ops, OF_CLUSTER, &rebalance("ClusterRebalance", waiting)).await.code, 201);
    let approve = async |client: &Raw| {
        let patch = json!({"spec": {"approved": true}}).to_string();
        client.send(Method::PATCH, &format!("{OF_CLUSTER}/r"), &[MERGE], patch).await
    };
    assert_eq!(approve(&ops).await.code, 403);
    let done = approve(&chief).await;
    assert_eq!(done.code, 200, "{}", done.text());
    assert_eq!(done.json()["metadata"]["annotations"][APPROVED_BY], "chief");
    // A writer may continue to write, and cannot approve for another user.
    let pause = json!({"spec": {"paused": true}, "metadata": {"annotations": {APPROVED_BY: "ops"}}}).to_string();
    let paused = ops.send(Method::PATCH, &format!("{OF_CLUSTER}/r"), &[MERGE], pause).await;
    assert_eq!(paused.code, 200, "{}", paused.text());
    assert_eq!(paused.json()["metadata"]["annotations"][APPROVED_BY], "chief");
    let back = ops.send(Method::PATCH, &format!("{OF_CLUSTER}/r"), &[MERGE], r#"{"spec":{"approved":false}}"#).await;
    assert_eq!(back.json()["details"]["causes"][0]["field"], "spec.approved", "{}", back.text());
    // A permission for the kind of one namespace.
    assert_eq!(post(&ops, OF_SHOP, &rebalance("Rebalance", approved.clone())).await.code, 403);
    assert_eq!(post(&chief, OF_SHOP, &rebalance("Rebalance", approved.clone())).await.code, 201);
    let bank = OF_SHOP.replace("shop", "bank");
    assert_eq!(post(&chief, &bank, &rebalance("Rebalance", approved)).await.code, 403);
    server.stop().await;
}

/// Returns the rules of the ClusterRole of mere approvers, such a user, and a user with the verb
/// `approve` alone.
fn of_approvers() -> Policy {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let roles = std::fs::read_to_string(root.join("deploy/manifests/rbac.yaml")).unwrap();
    let roles: Vec<Value> = serde_saphyr::from_multiple(&roles).unwrap();
    let role = roles.into_iter().find(|role| role["metadata"]["name"] == "ballast:approve").unwrap();
    let mut rules = role["rules"].as_array().unwrap().clone();
    rules.iter_mut().for_each(|rule| rule["users"] = json!(["approver"]));
    let of = |user: &str, verbs: Value| json!({"users": [user], "verbs": verbs, "apiGroups": ["ballast.dev"], "resources": ["clusterrebalances"]});
    rules.push(of("alone", json!(["get", "approve"])));
    rules.push(of("ops", json!(["get", "create", "update", "patch"])));
    Policy::parse(&json!({"rules": rules}).to_string()).unwrap()
}

#[tokio::test]
async fn bd8_who_is_to_approve_alone_does_so_and_changes_nothing_of_the_plan() {
    let server = TestServer::with(Options { policy: Some(of_approvers()), ..Options::default() }).await;
    let client = |name: &str| server.client(name, &[], |_| {});
    let (ops, approver, alone) = (client("ops"), client("approver"), client("alone"));
    let path = format!("{OF_CLUSTER}/r");
    let waiting = rebalance("ClusterRebalance", json!({"select": [{}], "approval": "Required"}));
    assert_eq!(post(&ops, OF_CLUSTER, &waiting).await.code, 201);
    let patch = async |client: &Raw, path: &str, spec: Value| {
        client.send(Method::PATCH, path, &[MERGE], json!({"spec": spec}).to_string()).await
    };
    // The verb of the write is required, too, as in kube-apiserver.
    let refused = patch(&alone, &path, json!({"approved": true})).await;
    assert_eq!(refused.code, 403);
    assert!(refused.text().contains("cannot patch resource"), "{}", refused.text());
    assert_eq!(alone.get(&path).await.code, 200);
    // Users with the right to write but not to approve are rejected in each case.
    let mut approved = ops.get(&path).await.json();
    approved["spec"]["approved"] = true.into();
    let apply = [("content-type", "application/apply-patch+yaml")];
    let json_patch = [("content-type", "application/json-patch+json")];
    let change = json!([{"op": "add", "path": "/spec/approved", "value": true}]).to_string();
    let mut applied = waiting.clone();
    applied["spec"]["approved"] = true.into();
    for reply in [
        ops.send(Method::PUT, &path, &[], approved.to_string()).await,
        ops.send(Method::PATCH, &path, &json_patch, change).await,
        ops.send(Method::PATCH, &format!("{path}?fieldManager=ops&force=true"), &apply, applied.to_string()).await,
    ] {
        assert_eq!(reply.code, 403, "{}", reply.text());
        assert!(reply.text().contains("cannot approve resource"), "{}", reply.text());
    }
    // No part of the plan, not even together with the approval.
    for (field, value) in [
        ("select", json!([{"name": "other"}])),
        ("mode", json!("Steady")),
        ("limits", json!({"maxMovedReplicas": 1})),
        ("rollout", json!({"maxConcurrent": 100})),
        ("approval", json!("NotRequired")),
    ] {
        let refused = patch(&approver, &path, json!({field: value, "approved": true})).await;
        assert_eq!(refused.code, 422, "{}", refused.text());
        assert_eq!(refused.json()["details"]["causes"][0]["field"], format!("spec.{field}"));
    }
    let other = waiting.to_string().replace("\"r\"", "\"other\"");
    for (method, path, body) in [
        (Method::POST, OF_CLUSTER.to_owned(), other.clone()),
        (Method::PUT, path.clone(), approved.to_string()),
        (Method::DELETE, path.clone(), String::new()),
        (Method::DELETE, MOVES.to_owned(), String::new()),
        (Method::POST, SCHEDULES.to_owned(), other.clone()),
    ] {
        assert_eq!(approver.send(method.clone(), &path, &[], body).await.code, 403, "{method} {path}");
    }
    let status = json!({"status": {"phase": "Completed"}}).to_string();
    assert_eq!(approver.send(Method::PATCH, &format!("{path}/status"), &[MERGE], status).await.code, 403);
    // An apply that would create is a create.
    let created = format!("{OF_CLUSTER}/other?fieldManager=approver");
    assert_eq!(approver.send(Method::PATCH, &created, &apply, other).await.code, 403);
    assert_eq!(ops.get(&path).await.json()["spec"]["approved"], false);
    let done = patch(&approver, &path, json!({"approved": true})).await;
    assert_eq!(done.code, 200, "{}", done.text());
    assert_eq!(done.json()["metadata"]["annotations"][APPROVED_BY], "approver");
    server.stop().await;
}

#[tokio::test]
async fn bd8_a_schedule_approves_only_by_who_may_approve_all() {
    let server = with_policy().await;
    let client = |name: &str| server.client(name, &[], |_| {});
    let schedule = |approved: bool| {
        let template = json!({"spec": {"select": [{"name": "a"}], "approval": "Required", "approved": approved}});
        rebalance("RebalanceSchedule", json!({"schedule": "0 3 * * 6", "template": template}))
    };
    for name in ["ops", "chief"] {
        let refused = post(&client(name), SCHEDULES, &schedule(true)).await;
        assert_eq!(refused.code, 403, "{}", refused.text());
        assert!(refused.text().contains("cannot approve resource \\\"clusterrebalances\\\""), "{}", refused.text());
    }
    assert_eq!(post(&client("head"), SCHEDULES, &schedule(true)).await.code, 201);
    let patch = async |spec: Value| {
        let body = json!({"spec": spec}).to_string();
        client("ops").send(Method::PATCH, &format!("{SCHEDULES}/r"), &[MERGE], body).await
    };
    let suspended = patch(json!({"suspend": true})).await.json();
    assert_eq!(suspended["spec"]["template"]["spec"]["approved"], true);
    // The approval is of the template as it was.
    let changed = patch(json!({"template": {"spec": {"select": [{"name": "b"}]}}})).await;
    assert!(warnings(&changed).contains("the change takes the approval away"), "{}", changed.text());
    let changed = changed.json();
    assert_eq!(changed["spec"]["template"]["spec"]["approved"], false);
    assert_eq!(changed["metadata"]["annotations"], json!({CREATED_BY: "head", CHANGED_BY: r#"["ops"]"#}));
    assert_eq!(patch(json!({"template": {"spec": {"approved": true}}})).await.code, 403);
    server.stop().await;
}

/// Tries each way in which a client may write an approved object. Afterwards it is not approved, or
/// the write is rejected; and no writer can approve it.
#[tokio::test]
async fn one_user_alone_passes_no_approval() {
    let may = |users: Value, verbs: Value, resources: Value| json!({"users": users, "verbs": verbs, "apiGroups": ["*"], "resources": resources});
    let policy = json!({"rules": [
        may(json!(["alice", "bob", "carol"]), json!(["*"]), json!(["rebalanceschedules", "rebalanceschedules/status", "clusterrebalances", "clusterrebalances/status"])),
        may(json!(["carol"]), json!(["impersonate"]), json!(["users"])),
    ]});
    let policy = Some(Policy::parse(&policy.to_string()).unwrap());
    let require_approval = vec![ApprovedKind::ClusterRebalances];
    let server = TestServer::with(Options { policy, require_approval, ..Options::default() }).await;
    let client = |name: &str| server.client(name, &[], |_| {});
    let (alice, bob, carol) = (client("alice"), client("bob"), client("carol"));
    let path = format!("{SCHEDULES}/r");
    let schedule = |select: Value, approved: bool| {
        let template = json!({"spec": {"select": select, "approval": "Required", "approved": approved}});
        rebalance("RebalanceSchedule", json!({"schedule": "0 3 * * 6", "template": template}))
    };
    let forged = json!({APPROVED_BY: "bob", CREATED_BY: "otto", CHANGED_BY: "[]"});
    let merge = async |client: &Raw, spec: Value| {
        let body = json!({"metadata": {"annotations": forged}, "spec": spec}).to_string();
        client.send(Method::PATCH, &path, &[MERGE], body).await
    };
    let approve = async |client: &Raw| merge(client, json!({"template": {"spec": {"approved": true}}})).await;
    let state = async || {
        let object = alice.get(&path).await.json();
        let text = |name: &str| object["metadata"]["annotations"][name].as_str().unwrap_or("-").to_owned();
        (object["spec"]["template"]["spec"]["approved"] == true, text(APPROVED_BY), text(CREATED_BY), text(CHANGED_BY))
    };
    let waits = |by: &str| (false, "-".to_owned(), "alice".to_owned(), format!("[{by:?}]"));
    let w1 = json!([{"name": "w1"}]);
    assert_eq!(post(&alice, SCHEDULES, &schedule(w1.clone(), true)).await.code, 422, "created as approved");
    assert_eq!(post(&alice, SCHEDULES, &schedule(w1.clone(), false)).await.code, 201);
    assert_eq!(approve(&alice).await.code, 422, "its creator");
    let apply = [("content-type", "application/apply-patch+yaml")];
    let json_patch = [("content-type", "application/json-patch+json")];
    let changed = |names: &str| schedule(json!([{"name": names}]), true);
    for way in 0..6 {
        let approved = approve(&bob).await;
        assert_eq!(approved.code, 200, "{way}: {}", approved.text());
        assert_eq!((state().await.0, &*state().await.1), (true, "bob"), "{way}");
        let other = format!("way-{way}");
        let reply = match way {
            0 => merge(&alice, json!({"template": {"spec": {"select": [{"name": other}]}}})).await,
            1 => merge(&alice, json!({"schedule": "* * * * *", "template": {"spec": {"approved": true}}})).await,
            2 => {
                let mut object = alice.get(&path).await.json();
                object["spec"]["template"]["spec"]["select"] = json!([{"name": other}]);
                object["metadata"]["annotations"] = forged.clone();
                alice.send(Method::PUT, &path, &[], object.to_string()).await
            }
            3 => {
                let change = json!([{"op": "add", "path": "/spec/template/metadata", "value": {"labels": {"a": "b"}}}]);
                alice.send(Method::PATCH, &path, &json_patch, change.to_string()).await
            }
            4 => {
                let applied = format!("{path}?fieldManager=another&force=true");
                alice.send(Method::PATCH, &applied, &apply, changed(&other).to_string()).await
            }
            // The effective user counts.
            _ => {
                let change = json!({"spec": {"concurrencyPolicy": "Forbid"}}).to_string();
                carol.send(Method::PATCH, &path, &[MERGE, ("impersonate-user", "alice")], change).await
            }
        };
        assert_eq!(reply.code, 200, "{way}: {}", reply.text());
        assert_eq!(state().await, waits("alice"), "{way}");
        assert_eq!(approve(&alice).await.code, 422, "{way}: who changed it");
        let as_alice = json!({"spec": {"template": {"spec": {"approved": true}}}}).to_string();
        let refused = carol.send(Method::PATCH, &path, &[MERGE, ("impersonate-user", "alice")], as_alice).await;
        assert_eq!(refused.code, 422, "{way}: {}", refused.text());
    }
    // Neither a status nor its subresource carries an approval.
    let status = json!({"metadata": {"annotations": forged}, "spec": changed("x")["spec"],
        "status": {"active": ["x"]}});
    let written = alice.send(Method::PATCH, &format!("{path}/status"), &[MERGE], status.to_string()).await;
    assert_eq!((written.code.as_u16(), state().await), (200, waits("alice")), "{}", written.text());
    // A second writer does not exempt the first one, and two approvals are then not enough.
    assert_eq!(merge(&bob, json!({"timeZone": "Europe/Berlin"})).await.code, 200);
    assert_eq!([approve(&alice).await.code, approve(&bob).await.code], [422, 422]);
    assert_eq!(approve(&carol).await.code, 200);
    // A recreated object is approved again, and a dry run records nothing.
    assert_eq!(alice.send(Method::DELETE, &path, &[], "").await.code, 200);
    let dry = format!("{SCHEDULES}?dryRun=All");
    assert_eq!(post(&alice, &dry, &schedule(w1.clone(), true)).await.code, 422);
    let mut again = schedule(w1, false);
    again["metadata"]["annotations"] = json!({APPROVED_BY: "carol", CREATED_BY: "carol"});
    again["spec"]["template"]["metadata"] = json!({"annotations": {CREATED_BY: "carol"}});
    let again = post(&alice, SCHEDULES, &again).await;
    let warned = warnings(&again);
    for path in
        ["metadata.annotations[ballast.dev/created-by]", "spec.template.metadata.annotations[ballast.dev/created-by]"]
    {
        assert!(warned.contains(&format!("{path} is set by the server alone")), "{warned}");
    }
    assert_eq!(state().await, (false, "-".to_owned(), "alice".to_owned(), "-".to_owned()));
    assert_eq!(approve(&alice).await.code, 422);
    server.stop().await;
}

fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn kubectl_explains_and_shows_the_kinds() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let listed = kubectl.run(&["api-resources", "--categories=ballast", "--no-headers"]).await;
    let named: Vec<Vec<&str>> = listed.lines().map(columns).collect();
    let names: Vec<&str> = named.iter().map(|row| row[0]).collect();
    let expected = ["clustermoves", "clusterrebalances", "evictionlimits", "moves", "rebalances", "rebalanceschedules"];
    assert_eq!(names, expected, "{listed}");
    for (row, short) in [(1, "creb"), (4, "reb"), (5, "rebs")] {
        assert_eq!(named[row][1], short);
    }
    let settle = kubectl.run(&["explain", "creb.spec.rollout.settle"]).await;
    assert!(settle.contains("timeoutSeconds\t<integer>") && settle.contains("Healthy"), "{settle}");
    for kind in ["placementreviews", "localplacementreviews", "fleetreviews", "evictionlimits", "rebs", "clustermoves"]
    {
        let all = kubectl.run(&["explain", kind, "--recursive"]).await;
        assert!(all.contains("spec\t<"), "{all}");
    }
    let file = kubectl.file("r.yaml", &rebalance("Rebalance", json!({"select": [{"all": true}]})));
    kubectl.run(&["-n", "shop", "create", "-f", &file]).await;
    let table = kubectl.run(&["-n", "shop", "get", "reb"]).await;
    let heads = ["NAME", "PHASE", "SELECTED", "TO-MOVE", "SETTLED", "FAILED", "REPLICAS-MOVED", "AGE"];
    assert_eq!(columns(table.lines().next().unwrap()), heads, "{table}");
    write_a_move(&server).await;
    let table = kubectl.run(&["-n", "shop", "get", "moves"]).await;
    let lines: Vec<Vec<&str>> = table.lines().map(columns).collect();
    assert_eq!(lines[0], ["NAME", "WORKLOAD", "FROM", "TO", "REPLICAS", "PHASE", "REASON", "AGE"], "{table}");
    let shown = ["r.web-deployment", "deployment/web", "member2:4", "member1:2,member2:2", "2", "Moving"];
    assert_eq!(lines[1][..6], shown, "{table}");
    server.stop().await;
}
