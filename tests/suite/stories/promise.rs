//! Every accepted trigger is followed by at least one Fresh pass that starts after its acceptance,
//! and no trigger is served twice.
//!
//! This holds for several triggers and passes within one second, a clock that steps back, and a
//! crash between any two steps.

use ballast::k8s::{Key, Time};
use serde_json::{Value, json};

use super::fleet::{binding, by_room, deployment, nginx_on_member2, rebalancer};
use super::world::{World, placed};

fn time(value: &Value) -> Option<Time> {
    value.as_str().map(|text| text.parse().unwrap())
}

/// Returns the trigger of the pending pass.
fn pending_pass(binding: &Value) -> &Value {
    &binding["metadata"]["annotations"]["ballast.dev/owed"]
}

/// Returns whether a Fresh pass is pending.
fn is_pending(binding: &Value) -> bool {
    let triggered = time(&binding["spec"]["rescheduleTriggeredAt"]);
    let is_later = triggered > time(&binding["status"]["lastScheduledTime"]);
    binding["spec"]["forceRescheduling"] == true || !pending_pass(binding).is_null() || is_later
}

/// Counts over all states of the binding how often it was triggered, and how often a trigger was
/// served.
async fn triggered_and_served(world: &World, key: &Key) -> (usize, usize) {
    let history = world.history(key).await;
    let (mut triggered, mut served) = (0, 0);
    for pair in history.windows(2) {
        let [before, after] = pair else { unreachable!() };
        let timestamp = |binding: &Value| time(&binding["spec"]["rescheduleTriggeredAt"]);
        assert!(timestamp(after) >= timestamp(before), "a stamp never goes back");
        let by_client = pending_pass(after) == pending_pass(before) && timestamp(after) != timestamp(before);
        let accepted = !pending_pass(after).is_null() && pending_pass(after) != pending_pass(before);
        triggered += usize::from(by_client || accepted);
        served += usize::from(is_pending(before) && !is_pending(after));
        assert!(
            time(&after["status"]["lastScheduledTime"]) >= time(&before["status"]["lastScheduledTime"]),
            "the last scheduled time never goes back"
        );
    }
    (triggered, served)
}

#[tokio::test]
async fn triggers_and_passes_within_one_second_are_all_served() {
    let (mut world, key) = nginx_on_member2().await;
    for round in 0..5 {
        world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
        world.settle().await;
        match round % 2 {
            0 => world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap(),
            _ => drop(world.given(rebalancer(&format!("demo-{round}"), vec![deployment("nginx")])).await),
        }
        world.settle().await;
        assert_eq!(world.placed(&key), "member1:2 member2:2", "round {round}");
    }
    assert_eq!(triggered_and_served(&world, &key).await, (5, 5));
}

/// `kubectl replace` with a manifest without a trigger, before the pass.
#[tokio::test]
async fn a_trigger_that_is_owed_a_pass_stays_whoever_replaces_the_binding() {
    let (mut world, key) = nginx_on_member2().await;
    let timestamp = |world: &World| world.get(&key).unwrap()["spec"].get("rescheduleTriggeredAt").cloned();
    let without = |binding: &mut Value| {
        let spec = binding["spec"].as_object_mut().unwrap();
        spec.remove("rescheduleTriggeredAt");
        spec.remove("forceRescheduling");
    };
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    let accepted = timestamp(&world);
    assert!(accepted.is_some());
    world.edit(&key, without).await;
    assert_eq!(timestamp(&world), accepted);
    world.edit(&key, |binding| binding["spec"]["rescheduleTriggeredAt"] = json!("2001-01-01T00:00:00Z")).await;
    assert_eq!(timestamp(&world), accepted);
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    // Once served, the field can be removed like any other.
    world.edit(&key, without).await;
    assert_eq!(timestamp(&world), None);
}

#[tokio::test]
async fn a_trigger_that_comes_while_a_pass_runs_gets_a_pass_of_its_own() {
    let (mut world, key) = nginx_on_member2().await;
    let other = world.given(binding("other", 1, by_room())).await;
    world.settle().await;
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    let first = time(&world.get(&key).unwrap()["spec"]["rescheduleTriggeredAt"]).unwrap();
    let second = json!(first.plus_seconds(1).to_string());
    world.race(&key, |binding| binding["spec"]["rescheduleTriggeredAt"] = second.clone(), &other, "scheduler").await;
    let raced = world.get(&key).unwrap();
    assert_eq!(raced["spec"]["rescheduleTriggeredAt"], second);
    assert!(is_pending(&raced), "the pass that began before the second trigger has not served it");
    world.settle().await;
    let served = world.get(&key).unwrap();
    assert!(!is_pending(&served));
    assert_eq!(placed(&served), "member1:2 member2:2");
    assert_eq!(triggered_and_served(&world, &key).await, (2, 1), "one pass serves both");
}

#[tokio::test]
async fn a_clock_that_steps_back_neither_loses_nor_repeats_a_trigger() {
    let (mut world, key) = nginx_on_member2().await;
    for step in [-3600, 10, -1, 0, 7200, -7200] {
        world.clock.advance_seconds(step);
        world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
        world.settle().await;
        world.given(rebalancer(&format!("demo{step}"), vec![deployment("nginx")])).await;
        world.settle().await;
        assert_eq!(world.placed(&key), "member1:2 member2:2", "step {step}");
    }
    assert_eq!(triggered_and_served(&world, &key).await, (6, 6));
    let revision = world.revision(&key);
    world.pass_seconds(20).await;
    assert_eq!(world.revision(&key), revision);
}

#[tokio::test]
async fn a_crash_between_any_two_steps_loses_nothing_and_repeats_nothing() {
    for steps in 0..12 {
        for (name, by_task) in [("task", true), ("rebalancer", false)] {
            let (mut world, key) = nginx_on_member2().await;
            if by_task {
                world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
            } else {
                world.given(rebalancer("demo", vec![deployment("nginx")])).await;
            }
            for _ in 0..steps {
                world.turn().await;
            }
            world.crash().await;
            world.settle().await;
            assert_eq!(world.placed(&key), "member1:2 member2:2", "{name}, crash after {steps} turns");
            assert_eq!(triggered_and_served(&world, &key).await, (1, 1), "{name}, crash after {steps} turns");
        }
    }
}

#[tokio::test]
async fn a_store_that_fails_from_any_commit_on_then_a_crash_loses_nothing_and_repeats_nothing() {
    for commits in 0..6 {
        let (mut world, key) = nginx_on_member2().await;
        let workloads = vec![deployment("nginx"), deployment("missing")];
        let demo = world.given(rebalancer("demo", workloads)).await;
        world.fail_after(commits);
        world.pass_seconds(3).await;
        world.crash().await;
        world.settle().await;
        assert_eq!(triggered_and_served(&world, &key).await, (1, 1), "after {commits} commits");
        assert_eq!(world.placed(&key), "member1:2 member2:2");
        assert_eq!(world.get(&demo).unwrap()["status"]["observedGeneration"], 1);
    }
}

#[tokio::test]
async fn a_failed_pass_keeps_the_trigger_over_a_crash() {
    let (mut world, key) = nginx_on_member2().await;
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    world.fail_after(0);
    world.pass_seconds(3).await;
    assert!(is_pending(&world.get(&key).unwrap()));
    world.crash().await;
    world.settle().await;
    assert_eq!(placed(&world.get(&key).unwrap()), "member1:2 member2:2");
    assert_eq!(triggered_and_served(&world, &key).await, (1, 1));
}
