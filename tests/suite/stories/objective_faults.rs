//! Objectives with missing data or without possible moves, and fleets that change meanwhile (PL1 to
//! PL7).

use ballast::k8s::{Key, Status};
use ballast::rebalance::record::CLUSTERS;
use serde_json::{Value, json};

use super::events::events_about;
use super::fleet::{binding, by_room, cluster, no_execute, small_cluster};
use super::objectives::{grown, spread};
use super::safe::{phase, rebalance, summary};
use super::safe_reviews::{post, reviewed};
use super::world::{CREB, World, condition};

const GOALS: [&str; 4] = ["Balance", "Pack", "Cost", "Survive"];

fn objective(goal: &str) -> Value {
    json!({"objective": {"goal": goal, "worth": 0}})
}

fn review(spec: Value) -> Value {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "metadata": {}, "spec": spec})
}

/// Returns the field of a 422.
fn field(refused: Status) -> String {
    assert_eq!(refused.code, 422, "{refused}");
    refused.details.unwrap().causes[0].field.clone()
}

/// Expects no move for any goal, and a reason in the status of the rebalance.
async fn expect_nothing_to_gain(world: &mut World, what: &str) {
    for goal in GOALS {
        let name = format!("{what}-{}", goal.to_lowercase());
        let key = world.given(rebalance(&name, objective(goal))).await;
        world.settle().await;
        let done = world.get(&key).unwrap();
        assert_eq!(phase(world, &key), "Completed", "{name}: {done}");
        let reason = condition(&done, "Completed").unwrap()["reason"].clone();
        // Workloads that fit nowhere are reported with that reason.
        let reasons = ["NothingToGain", "NothingSelected", "NothingToMove"];
        assert!(reasons.iter().any(|known| reason == *known), "{name}: {reason}");
        let told = &done["status"]["objective"];
        assert_eq!(told["moved"], 0, "{name}: {told}");
        let figures = ["before", "after", "bound"].map(|name| told[name].as_f64().expect("a number"));
        assert_eq!((figures[0], figures[2] <= figures[1]), (figures[1], true), "{name}: {told}");
    }
}

#[tokio::test]
async fn pl1_without_clusters_with_one_without_room_or_where_none_may_move_nothing_is_gained() {
    let mut world = World::new().await;
    expect_nothing_to_gain(&mut world, "empty").await;
    world.given(binding("waits", 4, by_room())).await;
    world.settle().await;
    expect_nothing_to_gain(&mut world, "no-cluster").await;

    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    expect_nothing_to_gain(&mut world, "one").await;

    let mut world = World::new().await;
    world.given(small_cluster("member1", 4)).await;
    world.given(small_cluster("member2", 4)).await;
    for index in 0..2 {
        world.given(binding(&format!("web-{index}"), 4, by_room())).await;
    }
    world.settle().await;
    expect_nothing_to_gain(&mut world, "full").await;

    // Fixed placements: weights, numbers and duplicates.
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(cluster(name)).await;
    }
    let weight = json!([{"targetCluster": {"clusterNames": ["member1"]}, "weight": 3},
                        {"targetCluster": {"clusterNames": ["member2"]}, "weight": 1}]);
    let weighted = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": weight}}});
    let copies = json!({"clusterAffinity": {"clusterNames": ["member1"]},
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    let numbers = json!([{"targetCluster": {"clusterNames": ["member1"]}, "replicas": 4}]);
    let specified = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Specified", "specifyPreference": {"staticSpecifyList": numbers}}});
    let mut keys = Vec::new();
    for (name, placement) in [("weighted", weighted), ("copies", copies), ("specified", specified)] {
        keys.push(world.given(binding(name, 4, placement)).await);
    }
    world.settle().await;
    let before: Vec<String> = keys.iter().map(|key| world.placed(key)).collect();
    assert!(before.iter().all(|placed| !placed.is_empty()), "{before:?}");
    expect_nothing_to_gain(&mut world, "kept").await;
    assert_eq!(keys.iter().map(|key| world.placed(key)).collect::<Vec<_>>(), before);
}

#[tokio::test]
async fn pl2_the_budget_is_a_share_of_what_cannot_move_too() {
    let (mut world, _) = grown().await;
    // 36 movable replicas and 64 fixed ones: a tenth of all is a quarter of the movable ones.
    let copies = json!({"clusterAffinity": {"clusterNames": ["member3"]},
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    let mut fixed = binding("fixed", 64, copies);
    fixed["spec"].as_object_mut().unwrap().remove("replicaRequirements");
    world.given(fixed).await;
    world.settle().await;
    let balanced = json!({"goal": "Balance", "resource": "cpu", "maxMovedReplicas": "10%", "worth": 0});
    let status = reviewed(&world, json!({"select": [{}], "objective": balanced})).await;
    let moved = status["objective"]["moved"].as_i64().unwrap();
    assert!((4..=10).contains(&moved), "{status}");
    let nothing = json!({"goal": "Pack", "maxMovedReplicas": "0%", "worth": 0});
    let status = reviewed(&world, json!({"select": [{}], "objective": nothing})).await;
    assert_eq!(status["summary"]["toMove"], 0, "{status}");
}

#[tokio::test]
async fn pl3_for_each_goal_what_is_asked_again_finds_nothing_to_do_and_the_schedule_says_so() {
    for goal in GOALS {
        let (mut world, _) = grown().await;
        for (name, price) in [("member1", "4"), ("member2", "2"), ("member3", "1")] {
            let key = Key::cluster(CLUSTERS, name);
            let change =
                |cluster: &mut Value| cluster["metadata"]["annotations"]["ballast.dev/price-cpu"] = price.into();
            world.edit(&key, change).await;
        }
        let spec = json!({"schedule": "*/5 * * * *", "template": {"spec": {"select": [{}],
            "objective": {"goal": goal, "worth": 0.5}}}});
        let schedule = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "RebalanceSchedule",
            "metadata": {"name": "shape"}, "spec": spec});
        let schedule = world.given(schedule).await;
        for _ in 0..3 {
            world.settle().await;
            world.clock.advance_seconds(300);
        }
        world.settle().await;
        let mut runs: Vec<Value> =
            world.client().view().list(CREB, None).filter_map(|object| world.get(&object.key)).collect();
        runs.sort_by_key(|run| run["metadata"]["name"].to_string());
        assert_eq!(runs.len(), 3, "{goal}");
        let moved: Vec<i64> = runs.iter().map(|run| run["status"]["objective"]["moved"].as_i64().unwrap()).collect();
        assert_eq!((moved[0] > 0, &moved[1..]), (goal != "Survive", &[0, 0][..]), "{goal}");
        let ready = condition(&world.get(&schedule).unwrap(), "Ready").unwrap().clone();
        assert_eq!(ready["message"], "the last one had nothing to gain", "{goal}");
        let told = events_about(&world, "RebalanceSchedule");
        assert!(told.iter().any(|line| line.contains("there was nothing to gain")), "{goal}: {told:#?}");
    }
}

#[tokio::test]
async fn pl4_prices_that_are_missing_negative_or_enormous_are_none_and_every_review_tells_the_cost() {
    let (world, keys) = grown().await;
    let price = async |name: &str, price: Value| {
        let change = |cluster: &mut Value| match price.as_str() {
            Some(text) => cluster["metadata"]["annotations"]["ballast.dev/price-cpu"] = text.into(),
            None => {
                drop(cluster["metadata"]["annotations"].as_object_mut().map(|it| it.remove("ballast.dev/price-cpu")))
            }
        };
        world.edit(&Key::cluster(CLUSTERS, name), change).await;
    };
    let on_member1 = spread(&world, &keys)[0].1;
    price("member3", json!("1")).await;
    for odd in [json!(null), json!("-1"), json!("1e300"), json!("NaN"), json!("inf"), json!("much"), json!("")] {
        price("member1", odd.clone()).await;
        price("member2", json!("2")).await;
        let spec = json!({"select": [{}], "objective": {"goal": "Cost", "worth": 0}});
        let status = reviewed(&world, spec).await;
        assert_eq!(status["cost"]["unpricedClusters"], 1, "{odd}: {status}");
        let of_member1 = status["clusters"].as_array().unwrap().iter().find(|it| it["name"] == "member1").unwrap();
        assert_eq!(of_member1["planned"], on_member1, "{odd}: what has no price is left alone");
        assert_eq!(status["objective"]["after"], status["cost"]["afterPerHour"], "{odd}");
    }
    // The highest valid price, and no price.
    price("member1", json!("1e9")).await;
    let spec = json!({"select": [{}], "objective": {"goal": "Cost", "worth": 0}});
    let status = reviewed(&world, spec.clone()).await;
    assert!(status["cost"]["differencePerHour"].as_f64().unwrap() < -1e8, "{status}");
    for mode in ["Fresh", "Steady", "AsBefore", "AsIs"] {
        let status = reviewed(&world, json!({"select": [{}], "mode": mode})).await;
        assert_eq!(status["cost"]["unpricedClusters"], 0, "{mode}: {status}");
    }
    let status = reviewed(&world, json!({"select": [{}], "survive": {}})).await;
    assert!(status["cost"]["beforePerHour"].as_f64().unwrap() > 1e8, "{status}");
    let dry = post(&world, rebalance("dry", json!({})), true).await.0.unwrap();
    assert_eq!(dry["status"]["cost"]["unpricedClusters"], 0);
    for name in ["member1", "member2", "member3"] {
        price(name, json!(null)).await;
    }
    let status = reviewed(&world, spec).await;
    assert_eq!((&status["objective"]["moved"], status.get("cost")), (&json!(0), None), "{status}");
}

#[tokio::test]
async fn pl7_a_goal_about_what_no_cluster_has_is_no_goal_that_is_met() {
    let (mut world, _) = grown().await;
    for (odd, at) in [
        (json!({"goal": "Survive", "by": "Zone"}), "spec.objective.by"),
        (json!({"goal": "Balance", "resource": "nvidia.com/gpu"}), "spec.objective.resource"),
        (json!({"goal": "Pack", "resource": "nvidia.com/gpu"}), "spec.objective.resource"),
    ] {
        let refused = post(&world, review(json!({"select": [{}], "objective": odd})), false).await.0;
        assert_eq!(field(refused.unwrap_err()), at);
        let name = format!("odd-{}", at.len() + odd.to_string().len());
        let key = world.given(rebalance(&name, json!({"objective": odd}))).await;
        world.settle().await;
        let done = world.get(&key).unwrap();
        assert_eq!(phase(&world, &key), "Aborted", "{odd}: {done}");
        let planned = condition(&done, "Planned").unwrap();
        assert_eq!(planned["reason"], "UnknownObjective", "{planned:?}");
        assert!(planned["message"].as_str().unwrap().starts_with("no cluster "), "{planned:?}");
    }
    let change = |cluster: &mut Value| cluster["spec"]["zones"] = json!(["a"]);
    world.edit(&Key::cluster(CLUSTERS, "member1"), change).await;
    reviewed(&world, json!({"select": [{}], "objective": {"goal": "Survive", "by": "Zone"}})).await;
    let steady = json!({"drain": {"clusters": ["member1"]}, "mode": "Steady", "objective": {"goal": "Pack"}});
    let steady = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
        "metadata": {"name": "steady"}, "spec": steady});
    assert_eq!(field(post(&world, steady, true).await.0.unwrap_err()), "spec.objective");
    let both = json!({"select": [{}], "survive": {}, "objective": {"goal": "Balance"}});
    assert_eq!(field(post(&world, review(both), false).await.0.unwrap_err()), "spec.objective");
}

#[tokio::test]
async fn pl1_a_fleet_that_changes_after_the_plan_keeps_its_rules_and_is_planned_for_again() {
    let (mut world, keys) = grown().await;
    let held = json!({"objective": {"goal": "Balance", "resource": "cpu", "worth": 0}, "approval": "Required"});
    let key = world.given(rebalance("even", held)).await;
    world.settle().await;
    assert_eq!(summary(&world, &key), "pending 3, unchanged 6");
    // The target of all moves is closed, and one workload has changed.
    let change = |cluster: &mut Value| cluster["spec"]["taints"] = json!([no_execute("down")]);
    world.edit(&Key::cluster(CLUSTERS, "member3"), change).await;
    world.edit(&keys[0], |binding| binding["spec"]["replicas"] = 6.into()).await;
    world.settle().await;
    world.edit(&key, |object| object["spec"]["approved"] = true.into()).await;
    world.settle().await;
    world.pass_seconds(600).await;
    let done = world.get(&key).unwrap();
    assert!(done["status"]["finishTime"].is_string(), "{done}");
    let on: Vec<String> = spread(&world, &keys).into_iter().map(|(name, _)| name).collect();
    assert_eq!(on, ["member1", "member2"], "nothing goes to a cluster that is closed");
    assert_eq!(spread(&world, &keys).iter().map(|(_, count)| count).sum::<i64>(), 38);
    // It reopens, and the next plan moves the rest.
    let open = |cluster: &mut Value| cluster["spec"]["taints"] = json!([]);
    world.edit(&Key::cluster(CLUSTERS, "member3"), open).await;
    world.settle().await;
    let again = world.given(rebalance("again", objective("Balance"))).await;
    world.settle().await;
    let told = world.get(&again).unwrap()["status"]["objective"].clone();
    assert!(told["moved"].as_i64().unwrap() > 0, "{told}");
    assert!(told["after"].as_f64() < told["before"].as_f64(), "{told}");
}

#[tokio::test]
async fn pl1_a_fleet_that_changes_while_it_is_planned_is_planned_for_as_it_is() {
    let (mut world, keys) = grown().await;
    let key = world.given(rebalance("even", objective("Balance"))).await;
    let other = world.given(cluster("member9")).await;
    let grow = |binding: &mut Value| binding["spec"]["replicas"] = 6.into();
    world.race(&keys[1], grow, &other, "rebalance").await;
    world.settle().await;
    let done = world.get(&key).unwrap();
    assert_eq!(phase(&world, &key), "Completed", "{done}");
    let counts: Vec<i64> = keys
        .iter()
        .map(|key| {
            let targets = world.get(key).unwrap()["spec"]["clusters"].as_array().unwrap().clone();
            targets.iter().map(|target| target["replicas"].as_i64().unwrap()).sum()
        })
        .collect();
    assert_eq!(counts, [4, 6, 4, 4, 4, 4, 4, 4, 4]);
}
