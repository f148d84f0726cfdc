//! Edge cases of moves: ownership, replicas in flight, and timeouts (BD2, BD4-BD7).

use ballast::k8s::{GroupResource, Key};
use ballast::registry::{Atomicity, Change};
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, by_room, cluster};
use super::safe::{fled, mark, move_of, outcome, phase, rebalance, report, summary};
use super::world::World;

const FLEET_BINDINGS: GroupResource = GroupResource::new("clusterresourcebindings.placement.kubernetes-fleet.io");

/// Creates `count` workloads, all of which report from member2.
async fn reporting(count: usize) -> (World, Vec<Key>) {
    let (world, keys) = fled(count).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    (world, keys)
}

#[tokio::test]
async fn s4_6_a_binding_that_was_made_anew_is_not_the_one_that_moved() {
    let (mut world, keys) = reporting(2).await;
    world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    report(&world, &keys[1], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!((outcome(&world, "home", 0), outcome(&world, "home", 1)), ("Moving -".into(), "Settled -".into()));
    // The recreation is not observed in between.
    for (index, key) in keys.iter().enumerate() {
        world.delete(key).await;
        world.given(binding(&format!("web-{index}"), 4, by_room())).await;
    }
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Superseded BindingGone");
    let before = world.placed(&keys[1]);
    let back = world.given(rebalance("back", json!({"undo": {"name": "home"}}))).await;
    world.settle().await;
    assert_eq!(world.get(&back).unwrap()["status"]["summary"]["selected"], 2, "who is gone is counted, too");
    for index in [0, 1] {
        assert_eq!(outcome(&world, "back", index), "Failed BindingGone");
    }
    assert_eq!(world.placed(&keys[1]), before);
}

#[tokio::test]
async fn replicas_that_are_ready_are_no_longer_on_their_way() {
    let (mut world, keys) = reporting(2).await;
    let bounded = json!({"rollout": {"maxMovingReplicas": 3, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, moving 1", "two and two are more than three");
    report(&world, &keys[0], &[("member1", 1), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 2", "one and two are not");
}

#[tokio::test]
async fn s4_5_each_step_of_a_surge_has_its_time() {
    let (mut world, keys) = reporting(1).await;
    let surging = json!({"strategy": "SurgeFirst", "settle": {"timeoutSeconds": 60}});
    let home = world.given(rebalance("home", json!({"rollout": surging}))).await;
    world.settle().await;
    for (ready, then) in [(1, "member1:2 member2:3"), (2, "member1:2 member2:2")] {
        world.clock.advance_seconds(50);
        report(&world, &keys[0], &[("member1", ready), ("member2", 5 - ready)]).await;
        world.settle().await;
        assert_eq!(world.placed(&keys[0]), then);
        // The first step's timeout expires during the second step, without effect.
        world.clock.advance_seconds(20);
        world.settle().await;
        assert_ne!(outcome(&world, "home", 0), "Failed SettleTimeout");
    }
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Settled -");
    assert_eq!(phase(&world, &home), "Completed");
}

/// Without reports, only the rebalance knows that the capacity is used.
#[tokio::test]
async fn s4_1_what_nobody_reports_takes_its_room_from_the_next_wave() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let apart = |index: usize| {
        let mut binding = binding(&format!("web-{index}"), 1, aggregated());
        binding["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member1"]});
        binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 1}]);
        binding
    };
    world.stored((0..2).map(apart)).await;
    let room = async |world: &mut World, pods: &str| {
        let member1 = Key::cluster(super::world::CLUSTER, "member1");
        let summary = |object: &mut Value| object["status"]["resourceSummary"]["allocatable"]["pods"] = pods.into();
        world.edit(&member1, summary).await;
    };
    room(&mut world, "2").await;
    let bounded = json!({"rollout": {"maxConcurrent": 1, "intervalSeconds": 30, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    while world.turn_of("rebalance").await {}
    assert_eq!(summary(&world, &home), "pending 1, settled 1", "there was room for both");
    room(&mut world, "1").await;
    world.clock.advance_seconds(31);
    while world.turn_of("rebalance").await {}
    assert_eq!(outcome(&world, "home", 1), "Failed NoRoom");
    assert_eq!(summary(&world, &home), "settled 1, failed 1");
}

#[tokio::test]
async fn s4_2_the_replicas_to_move_are_those_that_the_moves_say_also_where_they_come_out_otherwise() {
    let (mut world, keys) = reporting(2).await;
    let bounded = json!({"rollout": {"maxConcurrent": 1, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    let counted = |world: &World| world.get(&home).unwrap()["status"]["summary"]["replicasToMove"].clone();
    assert_eq!(counted(&world), 4);
    world
        .edit(&keys[1], |binding| {
            binding["spec"]["replicas"] = 8.into();
            binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 8}]);
        })
        .await;
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(outcome(&world, "home", 1), "Moving -");
    let moved = |index: usize| move_of(&world, "home", index)["spec"]["replicas"].as_i64().unwrap();
    assert_eq!((moved(0), moved(1)), (2, 4));
    assert_eq!(counted(&world), 6);
}

#[tokio::test]
async fn s4_6_a_mark_that_a_finished_rebalance_left_holds_up_nobody() {
    let (mut world, keys) = fled(1).await;
    let first = world.given(rebalance("first", json!({}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &first), "Completed");
    let left = json!({"by": "clusterrebalances/first", "move": "first.web-0-deployment", "replicas": 4,
                      "at": [["member1", 2], ["member2", 2]]});
    world.edit(&keys[0], |it| it["metadata"]["annotations"]["ballast.dev/move"] = left.to_string().into()).await;
    world.given(cluster("member3")).await;
    let second = world.given(rebalance("second", json!({}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &second), "settled 1");
    assert_eq!(mark(&world, &keys[0]), None);
}

#[tokio::test]
async fn a_clock_that_is_set_back_lengthens_no_pause_between_waves() {
    let (mut world, _) = fled(2).await;
    let bounded = json!({"rollout": {"maxConcurrent": 1, "intervalSeconds": 30, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, settled 1");
    world.clock.advance_seconds(-100_000);
    // An unrelated edit triggers the worker.
    world.edit(&home, |object| object["metadata"]["labels"] = json!({"seen": "yes"})).await;
    world.settle().await;
    world.pass_seconds(31).await;
    assert_eq!(summary(&world, &home), "settled 2");
}

/// Returns the workloads of a rebalance in the order in which their moves begin.
async fn order_of(order: &str, change: impl Fn(usize, &mut Value)) -> Vec<usize> {
    let (mut world, keys) = reporting(3).await;
    for (index, key) in keys.iter().enumerate() {
        world.edit(key, |binding| change(index, binding)).await;
    }
    world.settle().await;
    let spec = json!({"approval": "Required", "rollout": {"maxConcurrent": 1, "order": order}});
    let home = world.given(rebalance("home", spec)).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 3");
    world.edit(&home, |object| object["spec"]["approved"] = true.into()).await;
    let mut begun = Vec::new();
    for _ in &keys {
        world.settle().await;
        let moving = (0..keys.len()).find(|index| outcome(&world, "home", *index) == "Moving -").expect("one moves");
        begun.push(moving);
        let to = move_of(&world, "home", moving)["spec"]["to"].clone();
        let shares = to.as_array().unwrap().iter();
        let ready: Vec<(&str, i64)> =
            shares.map(|share| (share["name"].as_str().unwrap(), share["replicas"].as_i64().unwrap())).collect();
        report(&world, &keys[moving], &ready).await;
    }
    world.settle().await;
    assert_eq!(summary(&world, &home), "settled 3");
    begun
}

#[tokio::test]
async fn moves_begin_in_the_order_that_is_asked_for() {
    let priorities = [1, 3, 2];
    let important = |index: usize, binding: &mut Value| {
        binding["spec"]["schedulePriority"] = json!({"priority": priorities[index]});
    };
    assert_eq!(order_of("Priority", important).await, [1, 2, 0]);
    assert_eq!(order_of("Name", important).await, [0, 1, 2]);
    let sizes = [6, 4, 5];
    let large = |index: usize, binding: &mut Value| {
        binding["spec"]["replicas"] = sizes[index].into();
        binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": sizes[index]}]);
    };
    assert_eq!(order_of("FewestReplicas", large).await, [1, 2, 0]);
}

#[tokio::test]
async fn a_fleet_binding_without_the_label_of_its_placement_is_not_taken_for_a_rebalance() {
    let mut world = World::new().await;
    let stray = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceBinding",
        "metadata": {"name": "stray"},
        "spec": {"state": "Scheduled", "targetCluster": "a", "resourceSnapshotName": "", "schedulingPolicySnapshotName": "",
                 "clusterDecision": {"clusterName": "a", "selected": true, "reason": "by hand"}},
    });
    let Value::Object(stray) = stray else { unreachable!() };
    let create = (FLEET_BINDINGS, Change::Create(stray));
    let created = world.client().batch(vec![create], Atomicity::All).await.unwrap().remove(0).unwrap();
    world.settle().await;
    assert_eq!(world.get(&created.key).unwrap()["status"]["phase"], Value::Null);
}
