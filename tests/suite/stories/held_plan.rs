//! A rebalance runs the reviewed plan, and its status matches its progress (SG1, SG2, SG3,
//! SG9-SG12).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::cluster;
use super::safe::{fled, move_of, phase, rebalance, report, summary};
use super::safe_reviews::{post, reviewed};
use super::world::{MOVES, World, condition};

/// Returns the status of a dry run of a ClusterRebalance of all workloads.
async fn dry_run(world: &World, spec: Value) -> Value {
    post(world, rebalance("dry", spec), true).await.0.unwrap()["status"].clone()
}

#[tokio::test]
async fn sg1_a_review_a_dry_run_and_a_rebalance_that_ask_the_same_name_the_same_plan() {
    let (mut world, _) = fled(3).await;
    let review = reviewed(&world, json!({"select": [{}]})).await;
    let hash = review["planHash"].as_str().expect("a review names its plan");
    assert!(hash.ends_with("-3-6"), "three moves with two replicas each: {hash}");
    let short = reviewed(&world, json!({"select": [{}], "limit": 1})).await;
    assert_eq!(short["planHash"], hash, "how many moves are listed is no part of it");
    assert_eq!(dry_run(&world, json!({})).await["planHash"], hash);
    assert_eq!(dry_run(&world, json!({"rollout": {"order": "Name"}})).await["planHash"], hash);
    let two = reviewed(&world, json!({"select": [{"name": "web-0"}, {"name": "web-1"}]})).await;
    assert_ne!(two["planHash"], hash);
    assert_eq!(reviewed(&world, json!({"select": [{}], "mode": "AsIs"})).await.get("planHash"), None);
    let home = world.given(rebalance("home", json!({"expectPlan": hash}))).await;
    world.settle().await;
    assert_eq!((phase(&world, &home), summary(&world, &home)), ("Completed".to_owned(), "settled 3".to_owned()));
    assert_eq!(world.get(&home).unwrap()["status"]["planHash"], hash);
}

#[tokio::test]
async fn sg2_a_rebalance_whose_plan_has_changed_moves_nothing_and_counts_the_differences() {
    let (mut world, keys) = fled(2).await;
    let hash = reviewed(&world, json!({"select": [{}]})).await["planHash"].clone();
    world.edit(&keys[1], |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.settle().await;
    let status = dry_run(&world, json!({"expectPlan": hash})).await;
    assert_eq!(status["phase"], "Aborted", "a dry run says it before");
    let before: Vec<String> = keys.iter().map(|key| world.placed(key)).collect();
    let home = world.given(rebalance("home", json!({"expectPlan": hash}))).await;
    world.settle().await;
    let object = world.get(&home).unwrap();
    assert_eq!(phase(&world, &home), "Aborted");
    let planned = condition(&object, "Planned").unwrap();
    assert_eq!(planned["reason"], "PlanChanged");
    let told = planned["message"].as_str().unwrap();
    assert!(told.contains("expected 2 moves (4 replicas); today's plan has 1 move (2 replicas)"), "{told}");
    assert_ne!(object["status"]["planHash"], hash, "the plan of today is named");
    assert_eq!(world.client().view().list(MOVES, None).count(), 0);
    assert_eq!(keys.iter().map(|key| world.placed(key)).collect::<Vec<_>>(), before);
    // An approval has no effect: the plan is computed once, at creation.
    assert!(object["status"]["finishTime"].is_string());
}

#[tokio::test]
async fn sg1_an_undo_has_a_plan_that_can_be_expected() {
    let (mut world, keys) = fled(2).await;
    world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    let hash = dry_run(&world, json!({"undo": {"name": "home"}})).await["planHash"].clone();
    assert!(hash.as_str().unwrap().ends_with("-2-4"), "{hash}");
    let back = world.given(rebalance("back", json!({"undo": {"name": "home"}, "expectPlan": hash}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &back), "Completed");
    assert_eq!(world.placed(&keys[0]), "member2:4");
}

#[tokio::test]
async fn sg9_a_rebalance_is_paused_as_soon_as_that_is_seen_and_what_moves_is_counted_down() {
    let (mut world, keys) = fled(3).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let home = world.given(rebalance("home", json!({"rollout": {"maxConcurrent": 2, "order": "Name"}}))).await;
    world.settle().await;
    world.edit(&home, |object| object["spec"]["paused"] = true.into()).await;
    world.settle().await;
    assert_eq!((phase(&world, &home), summary(&world, &home)), ("Paused".to_owned(), "pending 1, moving 2".to_owned()));
    for (index, counts) in [(0, "pending 1, moving 1, settled 1"), (1, "pending 1, settled 2")] {
        report(&world, &keys[index], &[("member1", 2), ("member2", 2)]).await;
        world.settle().await;
        assert_eq!((phase(&world, &home), summary(&world, &home)), ("Paused".to_owned(), counts.to_owned()));
    }
    world.edit(&home, |object| object["spec"]["paused"] = false.into()).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 1, settled 2");
}

/// Returns the ready replicas on member1 that the Move of `web-0` reports, and the number of its
/// versions.
async fn told(world: &World) -> (Value, usize) {
    let moved = move_of(world, "home", 0);
    let now = moved["status"]["now"].as_array().unwrap().clone();
    let on = now.iter().find(|it| it["name"] == "member1").expect("it is a target").clone();
    let key = Key::namespaced(MOVES, "default", "home.web-0-deployment");
    (on.get("ready").cloned().unwrap_or_default(), world.history(&key).await.len())
}

#[tokio::test]
async fn sg10_a_move_says_how_many_replicas_are_ready_while_it_moves() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    world.clock.advance_seconds(5);
    report(&world, &keys[0], &[("member1", 0), ("member2", 2)]).await;
    world.settle().await;
    let (ready, writes) = told(&world).await;
    assert_eq!(ready, json!(0));
    // The status is written at most once per second.
    world.clock.advance_ms(300);
    report(&world, &keys[0], &[("member1", 1), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(told(&world).await, (json!(0), writes));
    world.clock.advance_ms(699);
    world.settle().await;
    assert_eq!(told(&world).await, (json!(0), writes));
    world.clock.advance_ms(1);
    world.settle().await;
    assert_eq!(told(&world).await, (json!(1), writes + 1));
    // Known numbers are not written again.
    world.clock.advance_seconds(5);
    report(&world, &keys[0], &[("member1", 1), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(told(&world).await, (json!(1), writes + 1));
}

#[tokio::test]
async fn sg11_the_pause_between_waves_is_never_shorter_than_asked() {
    let (mut world, keys) = fled(2).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let rollout = json!({"maxConcurrent": 1, "intervalSeconds": 10, "order": "Name"});
    let home = world.given(rebalance("home", json!({"rollout": rollout}))).await;
    world.settle().await;
    // The first move ends at the end of a second.
    world.clock.advance_ms(900);
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, settled 1");
    world.clock.advance_ms(9_999);
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, settled 1");
    // After a crash only the second is known, so the worker waits until it has passed.
    world.crash().await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, settled 1");
    world.clock.advance_ms(100);
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 1, settled 1");
}

#[tokio::test]
async fn sg12_a_namespaced_object_may_name_its_own_namespace() {
    let (mut world, keys) = fled(1).await;
    world.given(cluster("member3")).await;
    let spec = json!({"select": [{"namespace": "default", "kind": "Deployment"}]});
    let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "LocalPlacementReview",
        "metadata": {"namespace": "default"}, "spec": spec});
    let status = post(&world, review, false).await.0.unwrap()["status"].clone();
    assert_eq!(status["summary"]["selected"], 1);
    let own = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "Rebalance",
        "metadata": {"name": "own", "namespace": "default"}, "spec": spec});
    let own = world.given(own).await;
    world.settle().await;
    assert_eq!(summary(&world, &own), "settled 1");
    assert_ne!(world.placed(&keys[0]), "member2:4");
}
