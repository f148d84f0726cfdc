//! Faults around a rebalance: deleted Moves, rejected writes, clocks that are set back, and
//! rebalances deleted while they run (BD2-BD8).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::safe::{fled, mark, move_of, outcome, phase, rebalance, report, summary};
use super::world::{MOVES, World, condition};

/// Returns the events about objects of a kind: `Approved approved by jane`.
pub fn told(world: &World, kind: &str) -> Vec<String> {
    let events = ballast::k8s::GroupResource::new("events");
    let view = world.client().view();
    let events = view.list(events, None).map(|object| world.get(&object.key).unwrap());
    let of_kind = events.filter(|event| event["involvedObject"]["kind"] == kind);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_kind.map(|event| format!("{} {}", text(&event["reason"]), text(&event["message"]))).collect()
}

async fn delete_moves(world: &World) {
    let keys: Vec<Key> = world.client().view().list(MOVES, None).map(|object| object.key.clone()).collect();
    for key in keys {
        world.delete(&key).await;
    }
}

/// Creates one move in progress with two surplus replicas, and two pending moves.
async fn surging() -> (World, Vec<Key>, Key) {
    let (mut world, keys) = fled(3).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let rollout = json!({"strategy": "SurgeFirst", "maxConcurrent": 1, "order": "Name"});
    let home = world.given(rebalance("home", json!({"rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 2, moving 1");
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:4");
    (world, keys, home)
}

#[tokio::test]
async fn s4_3_moves_that_somebody_deletes_are_counted_and_their_bindings_let_go() {
    for restarts in [false, true] {
        let (mut world, keys, home) = surging().await;
        delete_moves(&world).await;
        if restarts {
            world.crash().await;
        }
        world.settle().await;
        assert_eq!(phase(&world, &home), "Completed");
        assert_eq!(summary(&world, &home), "unchanged 2, superseded 1");
        assert_eq!(condition(&world.get(&home).unwrap(), "Completed").unwrap()["reason"], "SomeNotMoved");
        assert_eq!(mark(&world, &keys[0]), None);
        assert_eq!(replicas(&world, &keys[0]), 4, "the scheduler takes the surplus back");
        assert_eq!(world.placed(&keys[1]), "member2:4");
        world.pass_seconds(2).await;
        let expected = "MovesDeleted Moves were deleted: 2 that never begin, and 1 that were under way";
        let told = told(&world, "ClusterRebalance");
        assert!(told.iter().any(|told| told == expected), "{told:#?}");
    }
}

fn replicas(world: &World, key: &Key) -> i64 {
    let binding = world.get(key).unwrap();
    binding["spec"]["clusters"].as_array().unwrap().iter().map(|target| target["replicas"].as_i64().unwrap()).sum()
}

#[tokio::test]
async fn s4_5_a_surge_whose_rebalance_is_deleted_is_taken_back_and_no_ready_replica_goes() {
    let (mut world, keys, home) = surging().await;
    world.delete(&home).await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member2:4", "the new ones were not ready");
    assert_eq!(mark(&world, &keys[0]), None);
    assert_eq!(world.client().view().count(MOVES, None), 0);
    // Once the new replicas are ready, an ordinary pass removes the surplus.
    let (mut world, keys, home) = surging().await;
    world.turn_of("rebalance").await;
    report(&world, &keys[0], &[("member1", 2), ("member2", 4)]).await;
    world.delete(&home).await;
    world.settle().await;
    assert_eq!(replicas(&world, &keys[0]), 4);
    assert_eq!(mark(&world, &keys[0]), None);
}

#[tokio::test]
async fn a_binding_that_cannot_be_written_fails_and_the_others_move() {
    let (mut world, keys) = fled(3).await;
    report(&world, &keys[1], &[("member2", 4)]).await;
    world.settle().await;
    // A state that only an older version, with other rules, could have stored.
    world
        .damage(&keys[1], |binding| {
            let odd = json!({"type": "Odd", "status": "Maybe", "reason": "Odd", "message": "",
                             "lastTransitionTime": "2024-04-17T15:00:00Z"});
            binding["status"]["conditions"].as_array_mut().unwrap().push(odd);
        })
        .await;
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(summary(&world, &home), "settled 2, failed 1");
    assert_eq!(outcome(&world, "home", 1), "Failed -");
    let message = move_of(&world, "home", 1)["status"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("cannot be written: ") && message.contains("Maybe"), "{message}");
    assert_eq!(world.placed(&keys[2]), "member1:2 member2:2");
}

#[tokio::test]
async fn a_clock_that_is_set_back_puts_off_no_timeout_and_no_time_to_live() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let spec = json!({"rollout": {"settle": {"timeoutSeconds": 60}}, "ttlSecondsAfterFinished": 60});
    let home = world.given(rebalance("home", spec)).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 1");
    world.clock.advance_seconds(-100_000);
    world.settle().await;
    // An unrelated change triggers the worker.
    report(&world, &keys[0], &[("member1", 1), ("member2", 2)]).await;
    world.settle().await;
    world.clock.advance_seconds(61);
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Failed SettleTimeout");
    world.clock.advance_seconds(-100_000);
    world.settle().await;
    for _ in 0..3 {
        world.clock.advance_seconds(60);
        world.settle().await;
    }
    assert!(world.get(&home).is_none(), "its time to live is over");
}

#[tokio::test]
async fn a_rebalance_that_waits_for_a_finalizer_begins_nothing_more_and_ends() {
    let (mut world, keys) = fled(2).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let mut object = rebalance("home", json!({"rollout": {"maxConcurrent": 1, "order": "Name"}}));
    object["metadata"]["finalizers"] = json!(["example.com/audit"]);
    let home = world.given(object).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, moving 1");
    world.delete(&home).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 1, unchanged 1");
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Aborted");
    assert_eq!(summary(&world, &home), "settled 1, unchanged 1");
    assert_eq!(world.placed(&keys[1]), "member2:4");
    world.edit(&home, |object| object["metadata"]["finalizers"] = json!([])).await;
    world.settle().await;
    assert!(world.get(&home).is_none());
    assert_eq!(world.client().view().count(MOVES, None), 0);
}

#[tokio::test]
async fn s4_4_what_is_all_there_and_not_healthy_is_said_so() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let home = world.given(rebalance("home", json!({"rollout": {"settle": {"timeoutSeconds": 60}}}))).await;
    world.settle().await;
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.edit(&keys[0], |binding| binding["status"]["aggregatedStatus"][0]["health"] = "Unhealthy".into()).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 1");
    world.clock.advance_seconds(61);
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Failed Unhealthy");
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:2", "nothing is torn down");
}

#[tokio::test]
async fn s4_8_an_event_says_who_approved() {
    let (mut world, _) = fled(1).await;
    let home = world.given(rebalance("home", json!({"approval": "Required"}))).await;
    world.settle().await;
    world
        .edit(&home, |object| {
            object["spec"]["approved"] = true.into();
            object["metadata"]["annotations"]["ballast.dev/approved-by"] = "jane".into();
        })
        .await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Completed");
    world.pass_seconds(2).await;
    let told = told(&world, "ClusterRebalance");
    assert_eq!(told.iter().filter(|told| *told == "Approved approved by jane").count(), 1, "{told:#?}");
}
