//! A rebalance and its undo: only one of them is active at a time.

use ballast::k8s::{Key, Revision};
use serde_json::{Value, json};

use super::safe::{fled, phase, rebalance, report, summary};
use super::safe_judge::Judge;
use super::safe_reviews::post;
use super::world::{CREB, World, condition};

fn creb(name: &str) -> Key {
    Key::cluster(CREB, name)
}

/// Creates four workloads that move one by one from member2, a minute apart. The first move has
/// begun.
async fn midway() -> (World, Vec<Key>) {
    let (mut world, keys) = fled(4).await;
    let rollout = json!({"maxConcurrent": 1, "intervalSeconds": 60, "order": "Name"});
    world.given(rebalance("run", json!({"rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &creb("run")), "pending 3, settled 1");
    (world, keys)
}

fn are_back(world: &World, keys: &[Key]) -> bool {
    keys.iter().all(|key| world.placed(key) == "member2:4")
}

async fn judge(world: &World) {
    let mut judge = Judge::default();
    for row in world.written_since(Revision::ZERO).await {
        judge.row(&row).unwrap();
    }
}

#[tokio::test]
async fn an_undo_ends_the_rebalance_that_is_in_progress_first() {
    // A crash after each number of turns simulates a change of the leader.
    for turns in 0..10 {
        let (mut world, keys) = midway().await;
        world.given(rebalance("back", json!({"undo": {"name": "run"}}))).await;
        for _ in 0..turns {
            world.turn_of("rebalance").await;
        }
        world.crash().await;
        world.settle().await;
        world.pass_seconds(300).await;
        assert_eq!(
            (phase(&world, &creb("run")), summary(&world, &creb("run"))),
            ("Aborted".into(), "settled 1, unchanged 3".into())
        );
        assert_eq!(
            (phase(&world, &creb("back")), summary(&world, &creb("back"))),
            ("Completed".into(), "settled 1".into())
        );
        assert!(are_back(&world, &keys), "{turns}");
        judge(&world).await;
    }
}

#[tokio::test]
async fn an_undo_waits_for_moves_under_way() {
    let (mut world, keys) = fled(2).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let rollout = json!({"maxConcurrent": 1, "order": "Name", "settle": {"timeoutSeconds": 60}});
    world.given(rebalance("run", json!({"rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &creb("run")), "pending 1, moving 1");
    let (_, warnings) = post(&world, rebalance("back", json!({"undo": {"name": "run"}})), false).await;
    assert!(warnings.iter().any(|line| line.contains("run is Running, and ends first")), "{warnings:?}");
    world.settle().await;
    assert_eq!((phase(&world, &creb("run")), phase(&world, &creb("back"))), ("Running".into(), "Planning".into()));
    let object = world.get(&creb("back")).unwrap();
    assert_eq!(condition(&object, "Planned").unwrap()["reason"], "Waiting");
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!((phase(&world, &creb("run")), summary(&world, &creb("back"))), ("Aborted".into(), "moving 1".into()));
    report(&world, &keys[0], &[("member1", 0), ("member2", 4)]).await;
    world.settle().await;
    assert!(are_back(&world, &keys) && phase(&world, &creb("back")) == "Completed");
    let undone = world.get(&creb("run")).unwrap();
    assert_eq!(condition(&undone, "Undone").unwrap()["status"], "True");
    judge(&world).await;
}

#[tokio::test]
async fn an_undo_of_what_waits_is_an_abort() {
    for (field, value) in [("approval", json!("Required")), ("paused", json!(true))] {
        let (mut world, keys) = fled(2).await;
        let mut spec = json!({});
        spec[field] = value;
        world.given(rebalance("run", spec)).await;
        world.settle().await;
        world.given(rebalance("back", json!({"undo": {"name": "run"}}))).await;
        world.settle().await;
        assert_eq!((phase(&world, &creb("run")), phase(&world, &creb("back"))), ("Aborted".into(), "Completed".into()));
        assert!(are_back(&world, &keys));
        let object = world.get(&creb("back")).unwrap();
        assert_eq!(condition(&object, "Completed").unwrap()["message"], "nothing was moved that could go back");
    }
}

#[tokio::test]
async fn two_undos_of_one_rebalance_follow_each_other() {
    let (mut world, keys) = midway().await;
    world.given(rebalance("back", json!({"undo": {"name": "run"}, "approval": "Required"}))).await;
    world.given(rebalance("back-too", json!({"undo": {"name": "run"}}))).await;
    world.settle().await;
    assert_eq!((phase(&world, &creb("back")), phase(&world, &creb("back-too"))), ("Planned".into(), "Planning".into()));
    world.edit(&creb("back"), |object| object["spec"]["approved"] = true.into()).await;
    world.settle().await;
    assert_eq!(
        (phase(&world, &creb("back")), phase(&world, &creb("back-too"))),
        ("Completed".into(), "Completed".into())
    );
    assert_eq!(summary(&world, &creb("back-too")), "unchanged 1");
    assert!(are_back(&world, &keys));
    judge(&world).await;
}

#[tokio::test]
async fn an_undo_of_an_undo_ends_it_first() {
    let (mut world, keys) = fled(3).await;
    world.given(rebalance("run", json!({}))).await;
    world.settle().await;
    let moved: Vec<String> = keys.iter().map(|key| world.placed(key)).collect();
    let rollout = json!({"maxConcurrent": 1, "intervalSeconds": 60, "order": "Name"});
    world.given(rebalance("back", json!({"undo": {"name": "run"}, "rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &creb("back")), "pending 2, settled 1");
    world.given(rebalance("forth", json!({"undo": {"name": "back"}}))).await;
    world.pass_seconds(300).await;
    assert_eq!((phase(&world, &creb("back")), phase(&world, &creb("forth"))), ("Aborted".into(), "Completed".into()));
    assert_eq!(keys.iter().map(|key| world.placed(key)).collect::<Vec<_>>(), moved);
    judge(&world).await;
}

#[tokio::test]
async fn undos_of_each_other_both_end() {
    let (mut world, _) = fled(1).await;
    world.given(rebalance("one", json!({"undo": {"name": "other"}, "paused": true}))).await;
    world.given(rebalance("other", json!({"undo": {"name": "one"}}))).await;
    world.pass_seconds(60).await;
    for name in ["one", "other"] {
        assert!(["Aborted", "Completed"].contains(&&*phase(&world, &creb(name))), "{:?}", world.get(&creb(name)));
    }
}

#[tokio::test]
async fn an_undo_names_the_workload_that_cannot_return() {
    let (mut world, keys) = fled(2).await;
    world.given(rebalance("run", json!({}))).await;
    world.settle().await;
    world.edit(&keys[0], |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.edit(&keys[1], |binding| binding["spec"]["replicas"] = 12.into()).await;
    world.settle().await;
    let planned = post(&world, rebalance("back", json!({"undo": {"name": "run"}})), true).await.0.unwrap();
    let reasons = planned["status"]["reasons"].as_array().unwrap().clone();
    let named = |reason: &str| -> Value {
        reasons.iter().find(|it| it["reason"] == reason).map(|it| it["workload"]["name"].clone()).unwrap_or_default()
    };
    assert_eq!((named("SchedulingSuspended"), named("ReplicasChanged")), (json!("web-0"), json!("web-1")));
    let told = condition(&planned, "Completed").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(told.contains("1 cannot return yet") && !told.contains("nowhere"), "{told}");
}
