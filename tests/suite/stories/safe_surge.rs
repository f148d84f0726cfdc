//! SurgeFirst: new replicas are ready before old ones go (BD5).

use ballast::k8s::Key;
use serde_json::json;

use super::safe::{fled, mark, move_of, outcome, phase, rebalance, report, summary};
use super::safe_reviews::reviewed;
use super::world::World;

async fn surging(rollout: serde_json::Value) -> (World, Vec<Key>, Key) {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let mut all = json!({"strategy": "SurgeFirst", "settle": {"timeoutSeconds": 60}});
    all.as_object_mut().unwrap().extend(rollout.as_object().unwrap().clone());
    let home = world.given(rebalance("home", json!({"rollout": all}))).await;
    world.settle().await;
    (world, keys, home)
}

#[tokio::test]
async fn s4_5_new_replicas_are_ready_before_old_ones_go() {
    let (mut world, keys, home) = surging(json!({})).await;
    let key = &keys[0];
    assert_eq!(world.placed(key), "member1:2 member2:4");
    assert_eq!(summary(&world, &home), "moving 1");
    // The scheduler leaves it unchanged, although there are more than four.
    world.pass_seconds(5).await;
    assert_eq!(world.placed(key), "member1:2 member2:4");
    report(&world, key, &[("member1", 1), ("member2", 4)]).await;
    world.settle().await;
    assert_eq!(world.placed(key), "member1:2 member2:3");
    report(&world, key, &[("member1", 2), ("member2", 3)]).await;
    world.settle().await;
    assert_eq!(world.placed(key), "member1:2 member2:2");
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(outcome(&world, "home", 0), "Settled -");
    assert_eq!(mark(&world, key), None);
    assert_eq!(move_of(&world, "home", 0)["spec"]["from"], json!([{"name": "member2", "replicas": 4}]));
    let clusters = world.get(&home).unwrap()["status"]["clusters"].clone();
    assert_eq!(clusters[0]["now"], 2);
    assert_eq!(clusters[1]["now"], 2);
}

#[tokio::test]
async fn other_plans_leave_a_workload_to_the_run_that_moves_it() {
    let (mut world, keys, home) = surging(json!({})).await;
    let key = &keys[0];
    let told = reviewed(&world, json!({"select": [{}], "explain": "Losers"})).await;
    let counts = |told: &serde_json::Value, field: &str| told["summary"][field].as_i64().unwrap_or_default();
    assert_eq!([counts(&told, "selected"), counts(&told, "toMove"), counts(&told, "unchanged")], [1, 0, 1], "{told}");
    let stays = &told["moves"][0];
    let why = "clusterrebalance home is moving it";
    assert_eq!((&stays["reason"], &stays["message"]), (&json!("MovingAlready"), &json!(why)), "{told}");
    assert_eq!(told["reasons"][0]["reason"], "MovingAlready");
    assert_eq!(told["clusters"][1], json!({"name": "member2", "before": 4, "planned": 4, "now": 4}));
    let stands = reviewed(&world, json!({"select": [{}], "mode": "AsIs"})).await;
    assert_eq!(stands["moves"][0]["message"], why);
    // A rebalance that runs the plan of this review leaves it unchanged, too.
    let more = world.given(rebalance("more", json!({"expectPlan": told["planHash"]}))).await;
    world.settle().await;
    assert_eq!((phase(&world, &more), phase(&world, &home)), ("Completed".to_owned(), "Running".to_owned()));
    assert_eq!(summary(&world, &more), "unchanged 1");
    assert_eq!(world.placed(key), "member1:2 member2:4");
}

#[tokio::test]
async fn s4_5_a_restart_in_the_middle_goes_on_from_there() {
    let (mut world, keys, home) = surging(json!({})).await;
    world.crash().await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:4");
    report(&world, &keys[0], &[("member1", 2), ("member2", 4)]).await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:2");
    assert_eq!(phase(&world, &home), "Completed");
}

#[tokio::test]
async fn s4_5_with_a_surge_of_one_it_goes_one_by_one_and_the_floor_holds() {
    let (mut world, keys, home) = surging(json!({"maxSurge": 1, "minAvailable": "100%"})).await;
    let key = &keys[0];
    let mut seen = vec![world.placed(key)];
    for _ in 0..8 {
        let clusters = world.get(key).unwrap()["spec"]["clusters"].clone();
        let targets: Vec<(String, i64)> = clusters
            .as_array()
            .unwrap()
            .iter()
            .map(|target| (target["name"].as_str().unwrap().to_owned(), target["replicas"].as_i64().unwrap()))
            .collect();
        let ready: Vec<(&str, i64)> = targets.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        report(&world, key, &ready).await;
        world.settle().await;
        if seen.last() != Some(&world.placed(key)) {
            seen.push(world.placed(key));
        }
    }
    assert_eq!(
        seen,
        ["member1:1 member2:4", "member1:2 member2:3", "member1:2 member2:2"],
        "each ready one lets one go, and makes room for the next"
    );
    assert_eq!(phase(&world, &home), "Completed");
}

#[tokio::test]
async fn s4_5_replicas_that_never_become_ready_are_taken_back_and_no_ready_one_goes() {
    let (mut world, keys, home) = surging(json!({})).await;
    report(&world, &keys[0], &[("member1", 1), ("member2", 4)]).await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:3");
    world.clock.advance_seconds(61);
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Failed SettleTimeout");
    assert_eq!(world.placed(&keys[0]), "member1:1 member2:3");
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(mark(&world, &keys[0]), None);
}
