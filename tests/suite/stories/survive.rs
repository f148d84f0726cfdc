//! Replicas stranded by the failure of a domain (SG21, SG22): the result equals a review that
//! supposes the failure.

use std::collections::{BTreeMap, BTreeSet};

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, small_cluster};
use super::safe_reviews::{post, reviewed};
use super::world::{CLUSTER, World};
use crate::support::objects::with;

/// A deterministic sequence of random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Creates six nearly full clusters in three regions, and workloads of several divisions.
async fn fleet(seed: u64) -> (World, Vec<Key>) {
    let mut world = World::new().await;
    let mut chance = Chance(seed);
    for index in 0..6 {
        let mut cluster = small_cluster(&format!("m{index}"), 20 + chance.below(20) as u32);
        cluster["spec"]["region"] = json!(format!("r{}", index % 3));
        world.given(cluster).await;
    }
    let aggregated =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let bound = json!({"clusterAffinity": {"clusterNames": ["m0", "m1"]}, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let copies = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}, "spreadConstraints": [
        {"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]});
    let mut keys = Vec::new();
    for index in 0..18 {
        let placement =
            [by_room(), aggregated.clone(), bound.clone(), copies.clone()][chance.below(4) as usize].clone();
        let replicas = 1 + chance.below(9) as i32;
        keys.push(world.given(binding(&format!("app-{index:02}"), replicas, placement)).await);
    }
    world.settle().await;
    (world, keys)
}

/// Returns the workloads that a Steady review with these clusters absent cannot place, each with
/// the replicas on them.
async fn refused(world: &World, keys: &[Key], gone: &BTreeSet<String>) -> BTreeMap<String, Vec<(String, i64)>> {
    let absent: Vec<Value> = gone.iter().map(|name| json!({"name": name, "absent": true})).collect();
    let suppose = if absent.is_empty() { json!(null) } else { json!({"clusters": absent}) };
    let status = reviewed(world, json!({"select": [{}], "mode": "Steady", "suppose": suppose})).await;
    let entry = |entry: &Value| {
        let name = entry["binding"]["name"].as_str().unwrap();
        let key = keys.iter().find(|key| *key.name == *name).unwrap();
        let targets = world.get(key).unwrap()["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let on =
            targets.iter().map(|it| (it["name"].as_str().unwrap().to_owned(), it["replicas"].as_i64().unwrap_or(0)));
        (format!("default/{}", entry["workload"]["name"].as_str().unwrap()), on.collect())
    };
    status["unplaceable"].as_array().into_iter().flatten().map(entry).collect()
}

/// Reports the cluster as not Ready. No worker has acted on it yet.
async fn lose(world: &World, name: &str) {
    let condition = json!([{"type": "Ready", "status": "False", "reason": "r", "message": "m",
        "lastTransitionTime": world.now()}]);
    world.edit(&Key::cluster(CLUSTER, name), |cluster| cluster["status"]["conditions"] = condition.clone()).await;
}

/// Returns the replicas and workloads that fit nowhere after the failure of the domain, minus those
/// of the present failures, from two reviews.
async fn by_reviews(
    world: &World,
    keys: &[Key],
    lost: &BTreeSet<String>,
    domain: &BTreeSet<String>,
) -> (i64, BTreeSet<String>) {
    let gone: BTreeSet<String> = lost.union(domain).cloned().collect();
    let (before, after) = (refused(world, keys, lost).await, refused(world, keys, &gone).await);
    let (mut replicas, mut names) = (0, BTreeSet::new());
    for (name, targets) in after {
        let counted = if before.contains_key(&name) { domain } else { &gone };
        let on: Vec<i64> = targets.iter().filter(|it| counted.contains(&it.0)).map(|it| it.1).collect();
        if !on.is_empty() {
            replicas += on.iter().sum::<i64>();
            names.insert(name);
        }
    }
    (replicas, names)
}

#[tokio::test]
async fn survive_is_the_difference_of_two_steady_reviews() {
    let mut stranded = [0, 0];
    for seed in 0..6 {
        let (world, keys) = fleet(seed).await;
        let lost = if seed % 2 == 0 { BTreeSet::new() } else { BTreeSet::from([format!("m{}", seed % 6)]) };
        for name in &lost {
            lose(&world, name).await;
        }
        let before = world.client().view().revision;
        for by in ["Cluster", "Region"] {
            let mut domains: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for index in (0..6).filter(|index| !lost.contains(&format!("m{index}"))) {
                let name = if by == "Cluster" { format!("m{index}") } else { format!("r{}", index % 3) };
                domains.entry(name).or_default().insert(format!("m{index}"));
            }
            let status = reviewed(&world, json!({"select": [{}], "survive": {"by": by}})).await;
            let answers = status["survival"].as_array().unwrap();
            assert_eq!(answers.len(), domains.len(), "{by}");
            let counts: Vec<i64> = answers.iter().map(|it| it["strandedReplicas"].as_i64().unwrap()).collect();
            assert!(counts.is_sorted_by(|one, other| one >= other), "the worst first: {counts:?}");
            for answer in answers {
                let name = answer["name"].as_str().unwrap();
                let (replicas, names) = by_reviews(&world, &keys, &lost, &domains[name]).await;
                assert_eq!(answer["strandedReplicas"], replicas, "seed {seed}, {by} {name}");
                assert_eq!(answer["strandedWorkloads"], names.len(), "seed {seed}, {by} {name}");
                let first = answer["first"].as_array().cloned().unwrap_or_default();
                assert_eq!(first.len(), names.len().min(10));
                assert!(first.iter().all(|it| names.contains(it.as_str().unwrap())), "{first:?}");
                stranded[usize::from(!lost.is_empty())] += replicas;
            }
            let shares: f64 = answers.iter().map(|it| it["share"]["pods"].as_f64().unwrap()).sum();
            assert!((shares - 1.0).abs() < 0.01, "{shares}");
        }
        assert_eq!(world.written_since(before).await, [], "a review writes no row");
    }
    assert!(stranded.iter().all(|replicas| *replicas > 0), "the fleets are full enough: {stranded:?}");
}

#[tokio::test]
async fn a_further_loss_adds_to_the_present_ones_in_every_answer() {
    let mut world = World::new().await;
    for (name, room) in [("a", 10), ("b", 10), ("c", 20)] {
        world.given(small_cluster(name, room)).await;
    }
    let mut keys = Vec::new();
    let on = |names: Value| {
        let groups = json!([{"affinityName": "first", "clusterNames": names},
            {"affinityName": "any", "clusterNames": ["a", "b", "c"]}]);
        with(by_room(), json!({"clusterAffinity": null, "clusterAffinities": groups}))
    };
    for (name, first) in [("w1a", "a"), ("w2a", "a"), ("w1b", "b"), ("w2b", "b")] {
        keys.push(world.given(binding(name, 4, on(json!([first])))).await);
    }
    let mut full = by_room();
    full["clusterAffinity"] = json!({"clusterNames": ["c"]});
    keys.push(world.given(binding("full", 12, full)).await);
    world.settle().await;
    let survive = async |world: &World| -> BTreeMap<String, i64> {
        let status = reviewed(world, json!({"select": [{}], "survive": {}})).await;
        let answer = |it: &Value| (it["name"].as_str().unwrap().to_owned(), it["strandedReplicas"].as_i64().unwrap());
        status["survival"].as_array().unwrap().iter().map(answer).collect()
    };
    assert_eq!(survive(&world).await["b"], 0, "c has 8 free");
    lose(&world, "a").await;
    let answers = survive(&world).await;
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["b", "c"], "a cannot be lost again");
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let (replicas, _) = by_reviews(&world, &keys, &named(&["a"]), &named(&["b"])).await;
    assert_eq!((answers["b"], replicas > 0), (replicas, true));
    // A what-if supposes only the further failure, in addition to the present ones.
    assert_eq!(refused(&world, &keys, &named(&["b"])).await, refused(&world, &keys, &named(&["a", "b"])).await);
    assert_ne!(refused(&world, &keys, &named(&[])).await, refused(&world, &keys, &named(&["b"])).await);
}

#[tokio::test]
async fn sg21_questions_that_make_no_sense_are_refused_at_their_fields() {
    let (world, _) = fleet(0).await;
    let refused = async |kind: &str, spec: Value| {
        let metadata = if kind == "PlacementReview" { json!({}) } else { json!({"namespace": "default"}) };
        let object = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
        let status = post(&world, object, false).await.0.unwrap_err();
        assert_eq!(status.code, 422, "{status}");
        status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
    };
    let ask = |more: Value| {
        let mut spec = json!({"select": [{}], "survive": {}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let review = "PlacementReview";
    assert_eq!(refused(review, ask(json!({"survive": {"by": "Zone"}}))).await, ["spec.survive.by"], "no zone is known");
    assert_eq!(refused(review, ask(json!({"survive": {"by": "Rack"}}))).await, ["spec.survive.by"]);
    assert_eq!(refused(review, ask(json!({"mode": "AsBefore"}))).await, ["spec.mode"]);
    assert_eq!(refused(review, ask(json!({"limits": {"maxMovedReplicas": 1}}))).await, ["spec.limits"]);
    assert_eq!(refused(review, ask(json!({"explain": "Full"}))).await, ["spec.explain"]);
}

/// The maximum number of reads of the metric.
const TRIES_MAX: usize = 100;

#[tokio::test]
async fn sg22_a_metric_tells_what_the_worst_loss_would_strand() {
    let (mut world, _) = fleet(3).await;
    let status = reviewed(&world, json!({"select": [{}], "survive": {"by": "Region"}})).await;
    let worst = status["survival"][0]["strandedReplicas"].as_i64().unwrap();
    // All tests share the metrics of the process. A world without regions may remove the series.
    for _ in 0..TRIES_MAX {
        world.clock.advance_seconds(600);
        world.settle().await;
        let text = ballast::metrics::text();
        if text.lines().any(|line| line.starts_with("ballast_survival_stranded_replicas{by=\"region\"}")) {
            return;
        }
    }
    panic!("{worst}: {}", ballast::metrics::text());
}

#[tokio::test]
async fn any_number_of_clusters_can_be_supposed_to_be_lost() {
    let mut world = World::new().await;
    for index in 0..400 {
        world.given(small_cluster(&format!("m{index}"), 20)).await;
    }
    let mut on = by_room();
    on["clusterAffinity"] = json!({"clusterNames": ["m0", "m399"]});
    for index in 0..18 {
        world.given(binding(&format!("app-{index}"), 2, on.clone())).await;
    }
    world.settle().await;
    let absent: Vec<Value> = (0..390).map(|index| json!({"name": format!("m{index}"), "absent": true})).collect();
    let lost = json!({"select": [{}], "mode": "Steady", "explain": "Full", "suppose": {"clusters": absent}});
    let status = reviewed(&world, lost).await;
    // m399 has capacity for 20, and each workload has one of its two replicas there.
    let count = |field: &str| status["summary"][field].as_i64().unwrap();
    assert_eq!((count("selected"), count("toMove") + count("failed")), (18, 18), "{}", status["summary"]);
    let new: Vec<Value> = (0..400).map(|index| json!({"name": format!("n{index}"), "like": "m0"})).collect();
    let many = json!({"select": [{}], "explain": "Full", "suppose": {"clusters": new}});
    let kind = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "metadata": {}, "spec": many});
    let refused = post(&world, kind, false).await.0.unwrap_err();
    assert!(refused.message.contains("new clusters can be supposed"), "{}", refused.message);
}

#[tokio::test]
async fn a_local_review_counts_the_stranded_workloads_of_its_namespace() {
    let mut world = World::new().await;
    for name in ["m1", "m2"] {
        world.given(small_cluster(name, 10)).await;
    }
    let mut keys = Vec::new();
    for (namespace, replicas, only) in [("default", 4, "m1"), ("pay", 8, "m2")] {
        let bound = json!({"clusterAffinity": {"clusterNames": [only]}, "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
        let mut app = binding("app", replicas, bound);
        app["metadata"]["namespace"] = json!(namespace);
        app["spec"]["resource"]["namespace"] = json!(namespace);
        keys.push(world.given(app).await);
    }
    world.settle().await;
    let placed: Vec<String> = keys.iter().map(|key| world.placed(key)).collect();
    assert_eq!(placed, ["m1:4", "m2:8"]);
    let survival = async |namespace: Option<&str>| {
        let (kind, metadata) = match namespace {
            None => ("PlacementReview", json!({})),
            Some(namespace) => ("LocalPlacementReview", json!({"namespace": namespace})),
        };
        let spec = json!({"select": [{}], "survive": {}});
        let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
        let status = post(&world, review, false).await.0.unwrap()["status"].clone();
        let mut worst = BTreeMap::new();
        for it in status["survival"].as_array().unwrap() {
            let names: Vec<&str> = it["first"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let stranded = it["strandedReplicas"].as_i64().unwrap_or_default();
            worst.insert(it["name"].as_str().unwrap().to_owned(), (stranded, names.join(",")));
        }
        worst
    };
    let (all, own, pay) = (survival(None).await, survival(Some("default")).await, survival(Some("pay")).await);
    assert_eq!((all["m1"].0, all["m2"].0), (4, 8), "{all:?}");
    for (name, (stranded, _)) in &all {
        let sum = own[name].0 + pay[name].0;
        assert_eq!(sum, *stranded, "{name}: {own:?} {pay:?}");
    }
    assert!(own.values().all(|(_, first)| !first.contains("pay/")), "{own:?}");
    assert!(survival(Some("empty")).await.values().all(|(stranded, _)| *stranded == 0));
}
