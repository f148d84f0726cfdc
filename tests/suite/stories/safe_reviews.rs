//! Reviews and dry runs return the outcome in advance, and write nothing (BD1, BD9).

use ballast::k8s::{Body, Key, Revision, Status, User, WriteOptions};
use ballast::registry::{Caller, Locator, Warnings};
use serde_json::{Value, json};

use super::fleet::{
    aggregated, binding, by_room, cluster, deployment, nginx, nginx_on_member2, rebalancer, small_cluster,
};
use super::world::{CLUSTER, World};
use crate::support::objects::with;

/// POSTs an object as a client does. Returns the response and the warnings of validators.
pub async fn post(world: &World, object: Value, dry_run: bool) -> (Result<Value, Status>, Vec<String>) {
    let (told, warnings) = sent(world, object, dry_run).await;
    (told.map(|(object, _)| object), warnings)
}

/// Like `post`, with the warnings of the kind itself in the response.
async fn sent(world: &World, object: Value, dry_run: bool) -> (Result<(Value, Vec<String>), Status>, Vec<String>) {
    let registry = world.registry();
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let rows = registry.kinds().rows();
    let row = rows.iter().find(|row| row.kind == kind && *row.api_version() == *version).expect(kind).clone();
    let namespace = row.is_namespaced().then(|| object["metadata"]["namespace"].as_str().unwrap().to_owned());
    let target = Locator { row, namespace, name: None, status: false };
    let Value::Object(tree) = object else { panic!("an object") };
    let (user, warnings) = (User::component("operator"), Warnings::default());
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    let caller = Caller { user: &user, warnings: &warnings };
    let written = registry.create(caller, &target, Body::of(tree), &options).await;
    let told = written.map(|written| {
        let object = serde_json::from_slice(&written.object.text.whole()).unwrap();
        (object, written.warnings)
    });
    (told, warnings.texts())
}

fn of_kind(kind: &str, metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

async fn asked(world: &World, spec: Value) -> Result<Value, Status> {
    post(world, of_kind("PlacementReview", json!({}), spec), false).await.0
}

/// Returns the status of a review.
pub async fn reviewed(world: &World, spec: Value) -> Value {
    asked(world, spec).await.unwrap()["status"].clone()
}

/// Returns the fields and messages of the causes of a 422.
async fn refused(world: &World, spec: Value) -> Vec<(String, String)> {
    let status = asked(world, spec).await.unwrap_err();
    assert_eq!(status.code, 422, "{status}");
    status.details.unwrap().causes.into_iter().map(|cause| (cause.field, cause.message)).collect()
}

fn told(shares: &Value) -> String {
    let share = |share: &Value| format!("{}:{}", share["name"].as_str().unwrap(), share["replicas"]);
    shares.as_array().unwrap().iter().map(share).collect::<Vec<_>>().join(" ")
}

/// Creates nginx with all four replicas on member2; member1 and member3 are free.
async fn moved() -> (World, Key) {
    let (mut world, key) = nginx_on_member2().await;
    world.given(cluster("member3")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
    (world, key)
}

/// Creates three bindings of ten replicas that were placed when only member1 existed. member2 and
/// member3 joined later, with capacity for fifteen each.
async fn crowded() -> (World, Vec<Key>) {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 30)).await;
    let mut keys = Vec::new();
    for name in ["api", "db", "web"] {
        keys.push(world.given(binding(name, 10, by_room())).await);
    }
    world.settle().await;
    world.given(small_cluster("member2", 15)).await;
    world.given(small_cluster("member3", 15)).await;
    world.settle().await;
    for key in &keys {
        assert_eq!(world.placed(key), "member1:10", "nothing moves by itself");
    }
    (world, keys)
}

#[tokio::test]
async fn s4_1_what_a_review_shows_fits_as_a_whole_and_nothing_is_written() {
    let (world, _keys) = crowded().await;
    let before = world.client().view().revision;
    // With member1 supposed absent, thirty replicas must move, and there is capacity for thirty.
    let suppose = json!({"clusters": [{"name": "member1", "absent": true}]});
    let status = reviewed(&world, json!({"select": [{}], "suppose": suppose})).await;
    let summary = &status["summary"];
    assert_eq!((&summary["selected"], &summary["toMove"], &summary["failed"]), (&json!(3), &json!(3), &json!(0)));
    let clusters: Vec<String> = status["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| format!("{} {} {}", count["name"].as_str().unwrap(), count["before"], count["planned"]))
        .collect();
    assert_eq!(clusters, ["member1 30 0", "member2 0 15", "member3 0 15"]);
    assert_eq!(status["revision"], before.to_string());
    // With a smaller member3, one of them does not fit, and the review names a remedy.
    let suppose = json!({"clusters": [
        {"name": "member1", "absent": true}, {"name": "member3", "allocatable": {"pods": "10"}},
    ]});
    let status = reviewed(&world, json!({"select": [{}], "suppose": suppose})).await;
    assert_eq!((&status["summary"]["toMove"], &status["summary"]["failed"]), (&json!(2), &json!(1)));
    let refused = &status["unplaceable"][0];
    assert_eq!(refused["reason"], "NoRoom", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("5 more pods on member"), "{refused}");
    assert_eq!(world.written_since(before).await, [], "a review writes no row");
    assert_eq!(world.client().view().revision, before);
}

#[tokio::test]
async fn s4_9_a_dry_run_of_a_rebalance_answers_with_its_plan_and_stores_nothing() {
    let (world, keys) = crowded().await;
    let before = world.client().view().revision;
    let spec = json!({"select": [{"kind": "Deployment"}], "exclude": [{"name": "db"}]});
    let everywhere = of_kind("ClusterRebalance", json!({"name": "after-outage"}), spec.clone());
    let here = of_kind("Rebalance", json!({"name": "after-outage", "namespace": "default"}), spec.clone());
    let elsewhere = of_kind("Rebalance", json!({"name": "after-outage", "namespace": "shop"}), spec);
    for (rebalance, selected, phase) in [(everywhere, 2, "Planned"), (here, 2, "Planned"), (elsewhere, 0, "Completed")]
    {
        let (answer, warnings) = post(&world, rebalance, true).await;
        let status = answer.unwrap()["status"].clone();
        assert_eq!((&status["phase"], &status["plannedRevision"]), (&json!(phase), &json!(before.to_string())));
        let summary = &status["summary"];
        assert_eq!((&summary["selected"], &summary["pending"]), (&json!(selected), &json!(selected)), "{status}");
        let is_elsewhere = selected == 0;
        let expected = is_elsewhere.then_some("metadata.namespace: no binding is in namespace \"shop\"");
        assert_eq!(warnings, Vec::from_iter(expected));
    }
    let undo = of_kind("ClusterRebalance", json!({"name": "undo"}), json!({"undo": {"name": "missing"}}));
    let status = post(&world, undo, true).await.0.unwrap()["status"].clone();
    let planned = &status["conditions"][0];
    assert_eq!((&status["phase"], &planned["status"]), (&json!("Aborted"), &json!("False")));
    assert_eq!(planned["reason"], "NotFound", "{planned}");
    assert_eq!(world.written_since(before).await, []);
    assert_eq!(world.placed(&keys[0]), "member1:10");
}

#[tokio::test]
async fn a_schedule_whose_on_was_read_as_true_is_understood() {
    let (world, _) = crowded().await;
    let template = json!({"spec": {"select": [{"displaced": true}]}});
    let on = json!({"clusterRecovered": {"stableForSeconds": 60}});
    let spec = json!({"true": on, "template": template});
    let (made, warnings) = post(&world, of_kind("RebalanceSchedule", json!({"name": "back"}), spec), false).await;
    let spec = made.unwrap()["spec"].clone();
    assert_eq!(spec["on"]["clusterRecovered"]["stableForSeconds"], 60);
    assert_eq!((spec.get("true"), warnings), (None, Vec::<String>::new()));
}

#[tokio::test]
async fn s4_9_dry_runs_of_triggers_warn_of_what_would_move() {
    let (world, _key) = moved().await;
    let before = world.client().view().revision;
    let (answer, warnings) = post(&world, rebalancer("demo", vec![deployment("nginx")]), true).await;
    assert_eq!(answer.unwrap()["metadata"]["name"], "demo");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let (subject, rest) = warnings[0].split_once(": ").unwrap();
    assert_eq!(subject, "Deployment default/nginx");
    assert!(rest.contains(" replicas would move, member2:4 -> member1:"), "{rest}");
    let task = |spec: Value| json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask", "metadata": {"name": "t"}, "spec": spec});
    let all = task(json!({"targetRefPolicy": [{}]}));
    assert_eq!(post(&world, all, true).await.1, warnings, "both triggers say the same");
    assert_eq!(world.written_since(before).await, []);
}

#[tokio::test]
async fn s4_9_at_most_ten_moves_are_told_one_by_one() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let names: Vec<String> = (0..13).map(|number| format!("w{number:02}")).collect();
    for name in &names {
        world.given(binding(name, 4, by_room())).await;
    }
    world.settle().await;
    world.given(cluster("member2")).await;
    world.settle().await;
    let workloads = names.iter().map(|name| deployment(name)).collect();
    let (_, warnings) = post(&world, rebalancer("demo", workloads), true).await;
    assert_eq!(warnings.len(), 11);
    assert_eq!(warnings[0], "Deployment default/w00: 2 replicas would move, member1:4 -> member1:2,member2:2");
    assert_eq!(warnings[10], "and 3 more");
}

#[tokio::test]
async fn entries_that_match_no_binding_are_warned_of_with_the_nearest_name() {
    let (world, _key) = moved().await;
    let (created, warnings) =
        post(&world, rebalancer("demo", vec![deployment("ngnix"), deployment("nginx")]), false).await;
    created.unwrap();
    let expected = "spec.workloads[0]: no binding of Deployment default/ngnix; the nearest known name is \"nginx\"";
    assert_eq!(warnings, [expected]);
    let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginxx"});
    let task = json!({
        "apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask", "metadata": {"name": "t"},
        "spec": {"targetRefResource": [resource], "targetRefPolicy": [{"namespace": "default", "name": "nginx"}]},
    });
    let expected =
        "spec.targetRefResource[0]: no binding of Deployment default/nginxx; the nearest known name is \"nginx\"";
    assert_eq!(post(&world, task, false).await.1, [expected]);
    // A workload of another group has no binding, and a placement needs none.
    let version = "placement.kubernetes-fleet.io/v1beta1";
    let spec = json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]});
    let kind = "ClusterResourcePlacement";
    world.given(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "shop"}, "spec": spec})).await;
    let placement = |name: &str| json!({"apiVersion": version, "kind": kind, "name": name});
    let mut other = deployment("nginx");
    other["apiVersion"] = "apps.example.com/v1".into();
    let workloads = vec![placement("shop"), placement("shpo"), other];
    let expected = [
        "spec.workloads[1]: no binding of ClusterResourcePlacement shpo; the nearest known name is \"shop\"",
        "spec.workloads[2]: no binding of Deployment default/nginx of apps.example.com/v1; the binding of that name \
         is for Deployment nginx of apps/v1",
    ];
    assert_eq!(post(&world, rebalancer("next", workloads), false).await.1, expected);
}

#[tokio::test]
async fn a_supposed_loss_sends_nothing_to_a_closed_cluster() {
    let (mut world, _) = nginx().await;
    let member3 = json!({"spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]}});
    world.given(with(cluster("member3"), member3)).await;
    world
        .edit(&Key::cluster(CLUSTER, "member1"), |cluster| {
            cluster["spec"]["taints"] = json!([{"key": "maintenance", "effect": "NoSchedule"}]);
        })
        .await;
    world.settle().await;
    let suppose = json!({"clusters": [{"name": "member2", "absent": true}]});
    let review = |suppose: &Value| json!({"select": [{"name": "nginx"}], "mode": "Steady", "suppose": suppose});
    let status = reviewed(&world, review(&suppose)).await;
    assert!(status["moves"].as_array().is_none_or(Vec::is_empty), "{status}");
    let message = status["unplaceable"][0]["message"].as_str().unwrap();
    assert!(message.contains("no more replicas go to member1 (had untolerated taint"), "{message}");
    let open = with(
        suppose,
        json!({"clusters": [
            {"name": "member2", "absent": true}, {"name": "member3", "taints": []},
        ]}),
    );
    let status = reviewed(&world, review(&open)).await;
    assert_eq!(told(&status["moves"][0]["to"]), "member1:2 member3:2");
}

#[tokio::test]
async fn what_is_supposed_counts_for_the_answer_alone() {
    let (world, key) = moved().await;
    let to = async |suppose: Value| {
        let status = reviewed(&world, json!({"select": [{"name": "nginx"}], "suppose": suppose})).await;
        told(&status["moves"][0]["to"])
    };
    let taint = json!([{"key": "down", "effect": "NoExecute"}]);
    let only_member3 = json!({"clusters": [{"name": "member1", "absent": true}, {"name": "member2", "taints": taint}]});
    assert_eq!(to(only_member3).await, "member3:4");
    let sized = json!({"workloads": [{"kind": "Deployment", "namespace": "default", "name": "nginx", "replicas": 9}]});
    assert_eq!(to(sized.clone()).await, "member1:3 member2:3 member3:3");
    // Without a selection, the supposed workloads are selected.
    let status = reviewed(&world, json!({"suppose": sized})).await;
    assert_eq!(told(&status["moves"][0]["to"]), "member1:3 member2:3 member3:3");
    // A new cluster is only chosen by a placement that selects it.
    let everywhere = world.given(binding("open", 8, aggregated())).await;
    let new = json!([{"name": "member4", "like": "member1", "labels": {"new": "yes"}}]);
    let gone: Vec<Value> = ["member1", "member2", "member3"].map(|name| json!({"name": name, "absent": true})).into();
    let clusters: Vec<Value> = new.as_array().unwrap().iter().cloned().chain(gone).collect();
    let status = reviewed(&world, json!({"select": [{"name": "open"}], "suppose": {"clusters": clusters}})).await;
    assert_eq!(told(&status["moves"][0]["to"]), "member4:8", "{status}");
    assert_eq!((world.placed(&key), world.placed(&everywhere)), ("member2:4".to_owned(), String::new()));
}

#[tokio::test]
async fn unknown_names_are_refused_with_the_field_and_the_nearest_name() {
    let (world, _key) = moved().await;
    let nearest = |name: &str| format!("the nearest known name is {name:?}");
    for (spec, field, name) in [
        (
            json!({"select": [{}], "suppose": {"clusters": [{"name": "membr1", "absent": true}]}}),
            "spec.suppose.clusters[0].name",
            "member1",
        ),
        (
            json!({"select": [{}], "suppose": {"clusters": [{"name": "new", "like": "member22"}]}}),
            "spec.suppose.clusters[0].like",
            "member2",
        ),
        (
            json!({"suppose": {"workloads": [{"kind": "Deployment", "namespace": "default", "name": "ngin", "replicas": 1}]}}),
            "spec.suppose.workloads[0].name",
            "nginx",
        ),
        (json!({"select": [{"placedOn": ["member1", "memmber3"]}]}), "spec.select[0].placedOn[1]", "member3"),
    ] {
        let causes = refused(&world, spec).await;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert_eq!(causes[0].0, field);
        assert!(causes[0].1.contains(&nearest(name)), "{causes:?}");
    }
}

#[tokio::test]
async fn what_would_help_was_tried() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        let mut tainted = cluster(name);
        tainted["spec"]["taints"] = json!([{"key": "down", "effect": "NoSchedule"}]);
        world.given(tainted).await;
    }
    let mut full = cluster("member3");
    full["status"]["resourceSummary"]["allocated"] = json!({"cpu": "1000"});
    world.given(full).await;
    world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    let status = reviewed(&world, json!({"select": [{}]})).await;
    let message = status["unplaceable"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("member1 would fit without taint down:NoSchedule"), "{message}");
    let tainted: Vec<Value> = ["member1", "member2"].map(|name| json!({"name": name, "absent": true})).into();
    let status = reviewed(&world, json!({"select": [{}], "suppose": {"clusters": tainted}})).await;
    let message = status["unplaceable"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("; 0.4 more cpu on member3 would do"), "{message}");
}

#[tokio::test]
async fn a_review_explains_who_lost_and_what_is() {
    let (world, _key) = moved().await;
    let only_nginx = json!([{"name": "nginx"}]);
    let taints = json!([{"key": "down", "effect": "NoSchedule"}]);
    let suppose = json!({"clusters": [{"name": "member3", "taints": taints}]});
    let spec = json!({"select": only_nginx, "suppose": suppose, "explain": "Losers"});
    let losers = reviewed(&world, spec).await["moves"][0]["trace"]["losers"].clone();
    assert_eq!(losers, json!([{"cluster": "member3", "reason": "cluster(s) had untolerated taint {down:NoSchedule}"}]));
    let full = reviewed(&world, json!({"select": only_nginx, "explain": "Full"})).await;
    let clusters = full["moves"][0]["trace"]["attempts"][0]["clusters"].as_array().unwrap().clone();
    assert_eq!(clusters.len(), 3);
    assert!(clusters[0]["filters"].is_array() && clusters[0]["free"].is_i64(), "{}", clusters[0]);
    let is = reviewed(&world, json!({"select": only_nginx, "mode": "AsIs", "explain": "Losers"})).await;
    let entry = &is["moves"][0];
    assert_eq!((told(&entry["from"]), told(&entry["to"])), ("member2:4".to_owned(), "member2:4".to_owned()));
    assert!(entry["message"].as_str().unwrap().starts_with("drifted: a Fresh decision would"), "{entry}");
    assert_eq!((&is["summary"]["unchanged"], &is["summary"]["toMove"]), (&json!(1), &json!(0)));
    // The limits keep it in place, and a review with `explain` reports why.
    let spec = json!({"select": only_nginx, "limits": {"minMovedReplicas": 4}, "explain": "Losers"});
    let stays = reviewed(&world, spec).await;
    assert_eq!(stays["moves"][0]["reason"], "NotWorthwhile", "{stays}");
}

/// Each workload has a trace line per cluster, which together exceed the bound.
#[tokio::test]
async fn li10_traces_take_16_mib_of_an_answer_and_what_is_beyond_is_counted() {
    const BOUND: usize = 16 << 20;
    const WORKLOADS: usize = 200;
    let world = World::new().await;
    world.given_all((0..450).map(|number| cluster(&format!("member-{number:040}"))).collect()).await;
    let web = |number| binding(&format!("web-{number}"), 4, by_room());
    world.given_all((0..WORKLOADS).map(web).collect()).await;
    let spec = |explain: &str| json!({"select": [{}], "mode": "AsIs", "explain": explain, "limit": 10_000});
    let status = reviewed(&world, spec("Full")).await;
    let moves = status["moves"].as_array().unwrap();
    let sizes: Vec<usize> = moves.iter().map(|entry| entry["trace"].to_string().len()).collect();
    let (bytes, last) = (sizes.iter().sum::<usize>(), sizes.last().unwrap());
    assert!(bytes >= BOUND && bytes - last < BOUND, "{bytes} bytes in {} traces", sizes.len());
    assert!(moves.len() < WORKLOADS);
    assert_eq!(status["remaining"], WORKLOADS - moves.len());
    assert_eq!(status["summary"]["selected"], WORKLOADS);
    let short = reviewed(&world, spec("None")).await;
    assert_eq!((short["moves"].as_array().unwrap().len(), &short["remaining"]), (WORKLOADS, &json!(0)));
}

#[tokio::test]
async fn no_more_is_listed_than_asked_for_and_all_is_counted() {
    let (world, _keys) = crowded().await;
    let status = reviewed(&world, json!({"select": [{}], "limit": 2})).await;
    assert_eq!((status["moves"].as_array().unwrap().len(), &status["remaining"]), (2, &json!(1)));
    let status = reviewed(&world, json!({"select": [{}], "limit": 0})).await;
    assert_eq!(
        (status["moves"].as_array(), &status["remaining"], &status["summary"]["toMove"]),
        (None, &json!(3), &json!(3))
    );
    let local = of_kind("LocalPlacementReview", json!({"namespace": "shop"}), json!({"select": [{}]}));
    let other = post(&world, local, false).await.0.unwrap();
    assert_eq!(other["status"]["summary"]["selected"], 0, "of its own namespace only");
}

#[tokio::test]
async fn the_past_is_asked_by_revision_and_time_and_what_is_forgotten_is_410() {
    let (mut world, key) = moved().await;
    let (then, at) = (world.client().view().revision, world.now());
    world.clock.advance_seconds(10);
    world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member3", "replicas": 4}])).await;
    let from = async |world: &World, as_of: Value| {
        let status = reviewed(world, json!({"select": [{"name": "nginx"}], "mode": "AsIs", "asOf": as_of})).await;
        (told(&status["moves"][0]["from"]), status["revision"].as_str().unwrap().parse::<i64>().unwrap())
    };
    let was = ("member2:4".to_owned(), then.0);
    assert_eq!(from(&world, json!({"revision": then.to_string()})).await, was);
    assert_eq!(from(&world, json!({"time": at.to_string()})).await, was);
    let now = from(&world, json!({"time": world.now().to_string()})).await;
    assert_eq!(now.0, "member3:4");
    let causes = refused(&world, json!({"select": [{}], "asOf": {"revision": "999999"}})).await;
    assert!(causes[0].1.contains("the newest revision is"), "{causes:?}");
    let newest = world.client().view().revision;
    world.compact().await;
    world.crash().await;
    let expired = asked(&world, json!({"select": [{}], "asOf": {"revision": then.to_string()}})).await.unwrap_err();
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
    assert!(expired.message.contains(&format!("the oldest that can be asked about is {newest}")), "{expired}");
    assert!(newest > Revision::ZERO);
    let expired = asked(&world, json!({"select": [{}], "asOf": {"time": at.to_string()}})).await.unwrap_err();
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
    assert!(expired.message.starts_with(&format!("the state at {at} is not remembered any more")), "{expired}");
}

/// Returns the warnings that a client receives for a created object.
pub async fn warned(world: &World, object: Value) -> Vec<String> {
    let (created, warnings) = sent(world, object, false).await;
    created.unwrap().1.into_iter().chain(warnings).collect()
}
