//! Placements above a FederatedResourceQuota are rejected, reported on the binding, and made once
//! the quota has capacity; this holds for the scheduler, rebalances and users (QU1-QU6).

use std::collections::BTreeMap;

use ballast::engine::karmada::Profile;
use ballast::k8s::{Key, Quantity, Revision};
use ballast::store::Operation;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, deployment, quota, rebalancer};
use super::safe::{fled, mark, move_of, outcome, phase, rebalance, report, summary};
use super::safe_reviews::reviewed;
use super::world::{QUOTAS, RB, World, condition};

async fn fleet() -> World {
    let world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    world
}

fn used(world: &World, quota: &Key) -> Value {
    world.get(quota).unwrap()["status"]["overallUsed"]["cpu"].clone()
}

/// Returns reason and message of the condition Scheduled.
fn told(world: &World, binding: &Key) -> (String, String) {
    let binding = world.get(binding).unwrap();
    let condition = condition(&binding, "Scheduled").expect("it was decided").clone();
    let text = |name: &str| condition[name].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn refusal(sum: &str, limit: &str) -> (String, String) {
    let message =
        format!("FederatedResourceQuota(default/q) exceeded for resource cpu: requested sum {sum}, limit {limit}.");
    ("QuotaExceeded".to_owned(), message)
}

#[tokio::test]
async fn qu4_the_scheduler_does_not_place_above_a_quota_and_says_why() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "200m")).await;
    let large = world.given(binding("large", 8, by_room())).await;
    let small = world.given(binding("small", 2, by_room())).await;
    world.settle().await;
    assert_eq!((world.placed(&large), told(&world, &large)), (String::new(), refusal("800m", "200m")));
    assert_eq!((world.placed(&small), used(&world, &quota)), ("member1:1 member2:1".into(), json!("200m")));
    let rest = world.revision(&large);
    world.pass_seconds(30).await;
    assert_eq!(world.revision(&large), rest, "it waits, and is not tried in vain");
}

#[tokio::test]
async fn qu4_a_refused_binding_is_placed_when_the_quota_is_raised() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "200m")).await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    assert_eq!(told(&world, &web), refusal("400m", "200m"));
    world.edit(&quota, |quota| quota["spec"]["overall"]["cpu"] = json!("400m")).await;
    world.pass_seconds(2).await;
    assert_eq!((world.placed(&web), used(&world, &quota)), ("member1:2 member2:2".into(), json!("400m")));
    assert_eq!(told(&world, &web).0, "Success");
}

#[tokio::test]
async fn qu4_a_refused_binding_is_placed_when_another_shrinks_or_goes() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "600m")).await;
    let first = world.given(binding("first", 6, by_room())).await;
    world.settle().await;
    let second = world.given(binding("second", 2, by_room())).await;
    let third = world.given(binding("third", 4, by_room())).await;
    world.settle().await;
    assert_eq!((told(&world, &second).0, told(&world, &third).0), ("QuotaExceeded".into(), "QuotaExceeded".into()));
    world.edit(&first, |binding| binding["spec"]["replicas"] = json!(4)).await;
    world.pass_seconds(2).await;
    assert_eq!((world.placed(&second).as_str(), world.placed(&third).as_str()), ("member1:1 member2:1", ""));
    assert_eq!(used(&world, &quota), json!("600m"));
    world.delete(&first).await;
    assert_eq!(used(&world, &quota), json!("200m"), "what is gone is given back at once");
    world.pass_seconds(12).await;
    assert_eq!((world.placed(&third).as_str(), used(&world, &quota)), ("member1:2 member2:2", json!("600m")));
}

#[tokio::test]
async fn qu4_a_binding_that_grows_above_a_quota_keeps_what_it_has() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "400m")).await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    world.edit(&web, |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.settle().await;
    assert_eq!((world.placed(&web), told(&world, &web)), ("member1:2 member2:2".into(), refusal("600m", "400m")));
    world.edit(&web, |binding| binding["spec"]["replicas"] = json!(3)).await;
    world.settle().await;
    assert_eq!((told(&world, &web).0.as_str(), used(&world, &quota)), ("Success", json!("300m")));
}

#[tokio::test]
async fn qu4_a_trigger_waits_for_room_and_is_answered_then() {
    let mut world = fleet().await;
    world.given(quota("q", "400m")).await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    world.clock.advance_seconds(60);
    world.edit(&web, |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.given(rebalancer("demo", vec![deployment("web")])).await;
    world.settle().await;
    assert_eq!(told(&world, &web).0, "QuotaExceeded");
    let before = world.get(&web).unwrap();
    assert!(before["spec"]["rescheduleTriggeredAt"].as_str() > before["status"]["lastScheduledTime"].as_str());
    world.delete(&Key::namespaced(QUOTAS, "default", "q")).await;
    world.pass_seconds(2).await;
    let after = world.get(&web).unwrap();
    assert_eq!(world.placed(&web), "member1:3 member2:3");
    assert!(after["spec"]["rescheduleTriggeredAt"].as_str() <= after["status"]["lastScheduledTime"].as_str());
}

#[tokio::test]
async fn qu2_many_bindings_of_one_batch_do_not_overshoot_and_cost_one_write_of_the_quota() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "5")).await;
    let start = world.revision(&quota);
    let keys = world.given_all((0..60).map(|index| binding(&format!("w{index}"), 1, by_room())).collect()).await;
    world.settle().await;
    let placed = keys.iter().filter(|key| !world.placed(key).is_empty()).count();
    assert_eq!((placed, used(&world, &quota)), (50, json!("5")));
    let writes = world.written_since(start).await.into_iter().filter(|change| change.key == quota).count();
    assert_eq!(writes, 1, "with the batch, in its transaction");
}

/// Each state of the quota is the sum over the bindings at its revision.
#[tokio::test]
async fn qu5_at_every_revision_the_use_is_that_of_the_bindings() {
    let mut world = fleet().await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    let quota = world.given(quota("q", "900m")).await;
    assert_eq!(
        world.get(&quota).unwrap()["status"],
        json!({"overall": {"cpu": "900m"}, "overallUsed": {"cpu": "400m"}})
    );
    let other = world.given(binding("other", 5, by_room())).await;
    world.settle().await;
    world.edit(&web, |binding| binding["spec"]["replicas"] = json!(2)).await;
    world.settle().await;
    world.edit(&quota, |quota| quota["spec"]["overall"]["cpu"] = json!("1")).await;
    world.delete(&other).await;
    let mut amounts = BTreeMap::new();
    let mut checked = 0;
    for change in world.written_since(Revision::ZERO).await {
        let object: Value = serde_json::from_slice(&change.object).unwrap();
        let is_gone = change.operation == Operation::Delete;
        if change.key.resource == RB {
            let clusters = object["spec"]["clusters"].as_array().cloned().unwrap_or_default();
            let replicas: i64 = clusters.iter().map(|target| target["replicas"].as_i64().unwrap()).sum();
            amounts.insert(change.key.clone(), if is_gone { 0 } else { replicas * 100 });
        } else if let Some(told) = object["status"]["overallUsed"]["cpu"].as_str() {
            let told: Quantity = told.parse().unwrap();
            assert_eq!(told.millis(), amounts.values().sum::<i64>(), "at revision {}", change.revision);
            checked += 1;
        }
    }
    assert!(checked > 4 && used(&world, &quota) == json!("200m"), "{checked}");
}

#[tokio::test]
async fn qu5_a_quota_that_was_not_watched_is_counted_at_the_start() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "900m")).await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    world.damage(&quota, |quota| quota["status"]["overallUsed"]["cpu"] = json!("7")).await;
    world.settle().await;
    assert_eq!((used(&world, &quota), world.placed(&web).as_str()), (json!("400m"), "member1:2 member2:2"));
}

#[tokio::test]
async fn qu6_in_the_profile_karmada_quotas_are_kept_and_do_not_hold() {
    let mut world = World::with(Profile::karmada()).await;
    world.given(cluster("member1")).await;
    let quota = world.given(quota("q", "100m")).await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    assert_eq!((world.placed(&web).as_str(), world.get(&quota).unwrap().get("status")), ("member1:4", None));
}

/// Creates one binding with all four replicas on member2, and a quota for four.
async fn full(rollout: Value) -> (World, Key, Key, Key) {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let quota = world.given(quota("q", "400m")).await;
    let mut all = json!({"strategy": "SurgeFirst", "settle": {"timeoutSeconds": 600}});
    all.as_object_mut().unwrap().extend(rollout.as_object().unwrap().clone());
    let home = world.given(rebalance("home", json!({"rollout": all}))).await;
    world.settle().await;
    world.pass_seconds(5).await;
    (world, keys[0].clone(), quota, home)
}

#[tokio::test]
async fn qu3_a_surge_that_a_quota_leaves_no_room_for_says_so_and_moves_nothing() {
    let (world, web, quota, home) = full(json!({})).await;
    assert_eq!((world.placed(&web).as_str(), used(&world, &quota)), ("member2:4", json!("400m")));
    assert_eq!(outcome(&world, "home", 0), "Unchanged NoRoom");
    let message = move_of(&world, "home", 0)["status"]["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("; FederatedResourceQuota default/q leaves room for 0 more"), "{message}");
    assert_eq!((phase(&world, &home).as_str(), mark(&world, &web)), ("Completed", None));
}

#[tokio::test]
async fn qu3_within_the_floor_old_replicas_go_as_new_ones_come_and_the_quota_holds_at_every_revision() {
    let (mut world, web, quota, home) = full(json!({"minAvailable": "75%"})).await;
    assert_eq!(world.placed(&web), "member1:1 member2:3");
    report(&world, &web, &[("member1", 1), ("member2", 3)]).await;
    world.settle().await;
    assert_eq!(world.placed(&web), "member1:2 member2:2");
    report(&world, &web, &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!((phase(&world, &home).as_str(), outcome(&world, "home", 0).as_str()), ("Completed", "Settled -"));
    for state in world.history(&quota).await.into_iter().filter(|state| !state["status"].is_null()) {
        assert_eq!(state["status"]["overallUsed"]["cpu"], "400m", "{state}");
    }
}

#[tokio::test]
async fn qu3_a_surge_goes_as_far_as_the_quota_allows_and_on_when_it_is_raised() {
    let (mut world, keys) = fled(2).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let quota = world.given(quota("q", "900m")).await;
    let rollout = json!({"strategy": "SurgeFirst", "minAvailable": "100%", "settle": {"timeoutSeconds": 600}});
    let home = world.given(rebalance("home", json!({"rollout": rollout}))).await;
    world.settle().await;
    // One takes the remainder in the same step in which the other finds none.
    assert_eq!(
        (world.placed(&keys[0]).as_str(), world.placed(&keys[1]).as_str()),
        ("member1:1 member2:4", "member2:4")
    );
    assert_eq!((used(&world, &quota), outcome(&world, "home", 1)), (json!("900m"), "Unchanged NoRoom".to_owned()));
    world.edit(&quota, |quota| quota["spec"]["overall"]["cpu"] = json!("1")).await;
    report(&world, &keys[0], &[("member1", 1), ("member2", 4)]).await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:3");
    report(&world, &keys[0], &[("member1", 2), ("member2", 3)]).await;
    world.settle().await;
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!((phase(&world, &home).as_str(), outcome(&world, "home", 0).as_str()), ("Completed", "Settled -"));
}

#[tokio::test]
async fn s4_1_a_plan_knows_the_quotas_and_a_review_says_what_would_help() {
    let mut world = fleet().await;
    let quota = world.given(quota("q", "600m")).await;
    let names = ["a", "b", "c"];
    let mut keys = Vec::new();
    for name in names {
        keys.push(world.given(binding(name, 2, by_room())).await);
    }
    world.settle().await;
    // All three are scaled up before the quota is checked.
    world.edit(&quota, |quota| quota["spec"]["overall"]["cpu"] = json!("800m")).await;
    for key in &keys {
        world.edit(key, |binding| binding["spec"]["replicas"] = json!(4)).await;
    }
    let status = reviewed(&world, json!({"select": [{}]})).await;
    assert_eq!((&status["summary"]["toMove"], &status["summary"]["failed"]), (&json!(1), &json!(2)), "{status}");
    let refused = &status["unplaceable"][0];
    assert_eq!((&refused["workload"]["name"], &refused["reason"]), (&json!("b"), &json!("NoRoom")));
    assert_eq!(
        refused["message"],
        "moves planned before it use what is left: FederatedResourceQuota(default/q) exceeded for resource cpu: \
         requested sum 1, limit 800m.; FederatedResourceQuota default/q with cpu 1 would do"
    );
    // The same rebalance has the same result and does not query the quota again.
    world.given(rebalance("home", json!({}))).await;
    while world.turn_of("rebalance").await {}
    assert_eq!(used(&world, &quota), json!("800m"));
    let placed: Vec<String> = keys.iter().map(|key| world.placed(key)).collect();
    assert_eq!(placed, ["member1:2 member2:2", "member1:1 member2:1", "member1:1 member2:1"]);
}

#[tokio::test]
async fn qu3_what_a_quota_loses_meanwhile_is_planned_anew_and_no_other_move_fails() {
    let (mut world, keys) = fled(2).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let quota = world.given(quota("q", "1")).await;
    let spec = json!({"rollout": {"strategy": "SurgeFirst", "minAvailable": "75%"}, "approval": "Required"});
    let home = world.given(rebalance("home", spec)).await;
    world.settle().await;
    world.edit(&home, |object| object["spec"]["approved"] = true.into()).await;
    let other = world.given(cluster("member9")).await;
    // The quota shrinks at the moment at which the surge is written.
    world.race(&quota, |quota| quota["spec"]["overall"]["cpu"] = json!("800m"), &other, "rebalance").await;
    world.settle().await;
    for key in &keys {
        assert_eq!(world.placed(key), "member1:1 member2:3");
    }
    assert_eq!((used(&world, &quota), summary(&world, &home).as_str()), (json!("800m"), "moving 2"));
}
