//! Rebalances: planned as a whole, bounded while they run, and observed until the replicas are
//! ready (BD1-BD4, BD6-BD8, BD11, BD12).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, deployment, rebalancer, small_cluster};
use super::world::{MOVES, World, condition};

/// Returns a ClusterRebalance of all workloads.
pub fn rebalance(name: &str, spec: Value) -> Value {
    let mut all = json!({"select": [{}]});
    let fields = spec.as_object().expect("an object").clone();
    if fields.contains_key("undo") {
        all = json!({});
    }
    all.as_object_mut().unwrap().extend(fields);
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": name}, "spec": all})
}

/// Creates a world with `count` Deployments of four replicas, all of them on member2.
pub async fn fled(count: usize) -> (World, Vec<Key>) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let keys = flee(&mut world, count).await;
    (world, keys)
}

/// Creates `count` Deployments of four replicas that all fail over to member2.
pub async fn flee(world: &mut World, count: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    for index in 0..count {
        keys.push(world.given(binding(&format!("web-{index}"), 4, by_room())).await);
    }
    world.settle().await;
    for key in &keys {
        world.edit(key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    }
    world.settle().await;
    world.clock.advance_seconds(300);
    world.settle().await;
    keys
}

/// Reports the ready replicas of the workload on each cluster, as the agents do.
pub async fn report(world: &World, key: &Key, ready: &[(&str, i64)]) {
    let items: Vec<Value> = ready
        .iter()
        .map(|(cluster, ready)| {
            json!({
                "clusterName": cluster, "applied": true, "health": "Healthy",
                "status": {"replicas": ready, "readyReplicas": ready},
            })
        })
        .collect();
    world.edit(key, |binding| binding["status"]["aggregatedStatus"] = items.clone().into()).await;
}

pub fn phase(world: &World, key: &Key) -> String {
    world.get(key).unwrap()["status"]["phase"].as_str().unwrap_or("-").to_owned()
}

/// Returns the non-zero counts of moves in the summary: `settled 3, failed 1`.
pub fn summary(world: &World, key: &Key) -> String {
    let summary = &world.get(key).unwrap()["status"]["summary"];
    let names = ["pending", "moving", "settled", "unchanged", "failed", "superseded"];
    let counts = names.into_iter().filter_map(|name| match summary[name].as_i64() {
        Some(0) | None => None,
        Some(count) => Some(format!("{name} {count}")),
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns the Move of `web-INDEX`.
pub fn move_of(world: &World, rebalance: &str, index: usize) -> Value {
    let key = Key::namespaced(MOVES, "default", format!("{rebalance}.web-{index}-deployment"));
    world.get(&key).unwrap_or_else(|| panic!("{key} is not there"))
}

/// Returns phase and reason of the Move: `Failed SettleTimeout`.
pub fn outcome(world: &World, rebalance: &str, index: usize) -> String {
    let status = &move_of(world, rebalance, index)["status"];
    let text = |name: &str| status[name].as_str().unwrap_or("-").to_owned();
    format!("{} {}", text("phase"), text("reason"))
}

pub fn mark(world: &World, key: &Key) -> Option<Value> {
    world.get(key).unwrap()["metadata"]["annotations"].get("ballast.dev/move").cloned()
}

/// Checks that the summary of an idle rebalance equals the counts of its Moves.
fn check_summary(world: &World, name: &str, key: &Key) {
    let view = world.client().view();
    let moves = view.list(MOVES, None).filter(|object| object.key.name.starts_with(&format!("{name}.")));
    let phases: Vec<String> =
        moves.map(|object| world.get(&object.key).unwrap()["status"]["phase"].as_str().unwrap().to_owned()).collect();
    let summary = world.get(key).unwrap()["status"]["summary"].clone();
    for (field, phase) in [
        ("pending", "Pending"),
        ("moving", "Moving"),
        ("settled", "Settled"),
        ("failed", "Failed"),
        ("superseded", "Superseded"),
    ] {
        let count = phases.iter().filter(|known| **known == *phase).count();
        assert_eq!(summary[field], count, "{field} of {summary} where the Moves are {phases:?}");
    }
}

#[tokio::test]
async fn s4_1_what_moves_fits_as_a_whole_although_each_alone_would_go_to_the_same_cluster() {
    let mut world = World::new().await;
    for (name, pods) in [("member1", 9), ("member2", 1_000), ("member3", 9)] {
        world.given(small_cluster(name, pods)).await;
    }
    let away = json!({"clusterAffinity": {"clusterNames": ["member1", "member3"]}, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let on_member2 = json!({"clusterAffinity": {"clusterNames": ["member2"]}, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let mut keys = Vec::new();
    for index in 0..5 {
        keys.push(world.given(binding(&format!("web-{index}"), 4, on_member2.clone())).await);
    }
    world.settle().await;
    // The workloads may now use member1 and member3; a Steady pass leaves them in place.
    for key in &keys {
        world
            .edit(key, |binding| {
                binding["spec"]["placement"] = away.clone();
                binding["metadata"]["annotations"]["policy.karmada.io/applied-placement"] = away.to_string().into();
            })
            .await;
    }
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    let mut there = [0, 0];
    for key in &keys {
        for target in world.get(key).unwrap()["spec"]["clusters"].as_array().unwrap() {
            let replicas = target["replicas"].as_i64().unwrap();
            match target["name"].as_str().unwrap() {
                "member1" => there[0] += replicas,
                "member3" => there[1] += replicas,
                _ => {}
            }
        }
    }
    assert!(there.iter().all(|replicas| *replicas <= 9), "{there:?}");
    assert_eq!(there.iter().sum::<i64>(), 16, "four of five fit");
    assert_eq!(summary(&world, &home), "settled 4, failed 1");
    assert_eq!(outcome(&world, "home", 4), "Failed NoRoom");
    check_summary(&world, "home", &home);
}

#[tokio::test]
async fn an_unbounded_rebalance_brings_all_home_at_once_and_counts_what_came_of_it() {
    let (mut world, keys) = fled(3).await;
    let before = world.client().view().revision;
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    for key in &keys {
        assert_eq!(world.placed(key), "member1:2 member2:2");
        assert_eq!(mark(&world, key), None);
    }
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(summary(&world, &home), "settled 3");
    let status = &world.get(&home).unwrap()["status"];
    assert_eq!(status["summary"]["replicasToMove"], 6);
    assert_eq!(status["summary"]["replicasMoved"], 6);
    assert_eq!(
        status["clusters"],
        json!([
            {"name": "member1", "before": 0, "planned": 6, "now": 6},
            {"name": "member2", "before": 12, "planned": 6, "now": 6},
        ])
    );
    let one = move_of(&world, "home", 0);
    assert_eq!(one["spec"]["from"], json!([{"name": "member2", "replicas": 4}]));
    assert_eq!(one["status"]["observed"], false, "nobody reports anything");
    // Two versions of a Move: planned, settled.
    let key = Key::namespaced(MOVES, "default", "home.web-0-deployment");
    assert_eq!(world.history(&key).await.len(), 2);
    // The scheduler has nothing to do for them.
    let written = world.written_since(before).await;
    assert_eq!(written.iter().filter(|change| change.key == keys[0]).count(), 1);
    check_summary(&world, "home", &home);
}

#[tokio::test]
async fn s4_2_a_move_is_decided_again_when_its_turn_comes() {
    let (mut world, keys) = fled(3).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let bounded = json!({"rollout": {"maxConcurrent": 1, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 2, moving 1");
    // Meanwhile member1 accepts no more replicas, and member3 has joined.
    let member1 = Key::cluster(super::world::CLUSTER, "member1");
    let taint = json!([{"key": "full", "effect": "NoSchedule"}]);
    world.edit(&member1, |cluster| cluster["spec"]["taints"] = taint.clone()).await;
    world.given(cluster("member3")).await;
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Settled -");
    assert_eq!(world.placed(&keys[1]), "member2:2 member3:2");
    assert_eq!(move_of(&world, "home", 1)["spec"]["to"][1]["name"], "member3", "the Move says where it goes now");
    world
        .edit(&keys[2], |binding| binding["spec"]["placement"]["clusterAffinity"]["clusterNames"] = json!(["member2"]))
        .await;
    world.settle().await;
    report(&world, &keys[1], &[("member3", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(outcome(&world, "home", 2), "Unchanged -", "nothing is left to move");
    assert_eq!(phase(&world, &home), "Completed");
    check_summary(&world, "home", &home);
}

#[tokio::test]
async fn s4_3_killed_at_any_commit_it_goes_on_where_it_was() {
    let bounded = json!({"rollout": {"maxConcurrent": 1, "order": "Name", "settle": {"when": "Scheduled"}}});
    let mut killed = 0;
    for commits in 0.. {
        let (mut world, keys) = fled(3).await;
        let home = world.given(rebalance("home", bounded.clone())).await;
        world.fail_after(commits);
        world.settle().await;
        let is_over = phase(&world, &home) == "Completed";
        world.crash().await;
        world.settle().await;
        assert_eq!(phase(&world, &home), "Completed");
        assert_eq!(summary(&world, &home), "settled 3");
        assert_eq!(world.get(&home).unwrap()["status"]["summary"]["replicasMoved"], 6);
        check_summary(&world, "home", &home);
        for key in &keys {
            assert_eq!(world.placed(key), "member1:2 member2:2");
            let targets: Vec<Value> =
                world.history(key).await.into_iter().map(|state| state["spec"]["clusters"].clone()).collect();
            let changes = targets.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(changes, 3, "placed, fled, and moved once: {targets:?}");
        }
        if is_over {
            break;
        }
        killed += 1;
    }
    assert!(killed >= 4, "{killed} commits were the last");
}

#[tokio::test]
async fn s4_4_settled_is_seen_as_deep_as_asked_and_over_the_timeout_nothing_is_torn_down() {
    let (mut world, keys) = fled(2).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    report(&world, &keys[1], &[("member2", 4)]).await;
    let bounded = json!({"rollout": {"settle": {"timeoutSeconds": 60}}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 2");
    assert!(mark(&world, &keys[0]).is_some());
    report(&world, &keys[0], &[("member1", 1), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 2", "one of two is not enough");
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Settled -");
    assert_eq!(move_of(&world, "home", 0)["status"]["observed"], true);
    assert_eq!(mark(&world, &keys[0]), None);
    world.clock.advance_seconds(61);
    world.settle().await;
    assert_eq!(outcome(&world, "home", 1), "Failed SettleTimeout");
    assert_eq!(world.placed(&keys[1]), "member1:2 member2:2", "nothing is torn down");
    assert_eq!(mark(&world, &keys[1]), None);
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(condition(&world.get(&home).unwrap(), "Completed").unwrap()["reason"], "SomeFailed");
    check_summary(&world, "home", &home);
}

#[tokio::test]
async fn s4_6_others_come_first() {
    let (mut world, keys) = fled(4).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "moving 4");
    world.given(rebalancer("trigger", vec![deployment("web-0")])).await;
    world.edit(&keys[1], |binding| binding["spec"]["replicas"] = 6.into()).await;
    world.delete(&keys[2]).await;
    let only2 = json!(["member2"]);
    world
        .edit(&keys[3], |binding| binding["spec"]["placement"]["clusterAffinity"]["clusterNames"] = only2.clone())
        .await;
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Superseded TriggeredMeanwhile");
    assert_eq!(outcome(&world, "home", 1), "Superseded ReplicasChanged");
    assert_eq!(outcome(&world, "home", 2), "Superseded BindingGone");
    assert_eq!(outcome(&world, "home", 3), "Superseded TriggeredMeanwhile");
    assert_eq!(world.placed(&keys[1]).split([':', ' ']).filter_map(|part| part.parse::<i64>().ok()).sum::<i64>(), 6);
    assert_eq!(world.placed(&keys[3]), "member2:4");
    for key in [&keys[0], &keys[1], &keys[3]] {
        assert_eq!(mark(&world, key), None);
    }
    assert_eq!(phase(&world, &home), "Completed");
    check_summary(&world, "home", &home);
}

#[tokio::test]
async fn s4_6_an_eviction_ends_the_move() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    let member1 = Key::cluster(super::world::CLUSTER, "member1");
    let taint = json!([super::fleet::no_execute("lost")]);
    world.edit(&member1, |cluster| cluster["spec"]["taints"] = taint.clone()).await;
    world.settle().await;
    assert_eq!(outcome(&world, "home", 0), "Superseded ClusterLost");
    assert_eq!(world.placed(&keys[0]), "member2:4");
    assert_eq!(mark(&world, &keys[0]), None);
    assert_eq!(summary(&world, &home), "superseded 1");
}

#[tokio::test]
async fn s4_6_a_second_rebalance_waits_for_the_binding() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let first = world.given(rebalance("first", json!({}))).await;
    world.settle().await;
    world.given(cluster("member3")).await;
    let second = world.given(rebalance("second", json!({}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &first), "moving 1");
    assert_eq!(summary(&world, &second), "pending 1");
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(phase(&world, &first), "Completed");
    assert_eq!(summary(&world, &second), "moving 1");
}

#[tokio::test]
async fn s4_7_pause_and_abort_let_what_has_begun_settle_and_undo_goes_back() {
    let (mut world, keys) = fled(4).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let bounded = json!({"rollout": {"maxConcurrent": 1, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    world.edit(&home, |object| object["spec"]["paused"] = true.into()).await;
    report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Paused");
    assert_eq!(summary(&world, &home), "pending 3, settled 1");
    world.edit(&home, |object| object["spec"]["paused"] = false.into()).await;
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 2, moving 1, settled 1");
    world.edit(&home, |object| object["spec"]["abort"] = true.into()).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Running", "what has begun settles");
    report(&world, &keys[1], &[("member1", 2), ("member2", 2)]).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Aborted");
    assert_eq!(summary(&world, &home), "settled 2, unchanged 2");
    assert_eq!(outcome(&world, "home", 3), "Unchanged Aborted");
    let back = world
        .given(rebalance("back", json!({"undo": {"name": "home"}, "rollout": {"settle": {"when": "Scheduled"}}})))
        .await;
    world.settle().await;
    assert_eq!(phase(&world, &back), "Completed");
    assert_eq!(summary(&world, &back), "settled 2");
    for key in &keys {
        assert_eq!(world.placed(key), "member2:4");
    }
    check_summary(&world, "home", &home);
    check_summary(&world, "back", &back);
}

#[tokio::test]
async fn a_mark_goes_with_its_rebalance_although_the_binding_changes_at_that_moment() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    assert!(mark(&world, &keys[0]).is_some());
    world.delete(&home).await;
    let member1 = Key::cluster(super::world::CLUSTER, "member1");
    let touch = |binding: &mut Value| binding["metadata"]["annotations"]["touched"] = "yes".into();
    world.race(&keys[0], touch, &member1, "rebalance").await;
    world.pass_seconds(20).await;
    assert_eq!(mark(&world, &keys[0]), None, "the scheduler would leave it alone for ever");
}

#[tokio::test]
async fn what_a_rebalance_leaves_is_gone_before_the_next_of_its_name_plans() {
    let (mut world, keys) = fled(1).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let home = world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    world.delete(&home).await;
    world.given(rebalance("home", json!({"select": [{"placedOn": ["member3"]}]}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(world.client().view().list(MOVES, None).count(), 0, "it has selected nothing");
    assert_eq!(mark(&world, &keys[0]), None);
}

#[tokio::test]
async fn s4_7_who_cannot_go_back_says_why() {
    let (mut world, keys) = fled(3).await;
    world.given(rebalance("home", json!({"rollout": {"order": "Name"}}))).await;
    world.settle().await;
    world.delete(&keys[0]).await;
    world.edit(&keys[1], |binding| binding["spec"]["replicas"] = 6.into()).await;
    world.settle().await;
    let back = world.given(rebalance("back", json!({"undo": {"name": "home"}}))).await;
    world.settle().await;
    assert_eq!(outcome(&world, "back", 0), "Failed BindingGone");
    assert_eq!(outcome(&world, "back", 1), "Failed ReplicasChanged");
    assert_eq!(outcome(&world, "back", 2), "Settled -");
    assert_eq!(world.placed(&keys[2]), "member2:4");
    let nothing = world.given(rebalance("nothing", json!({"undo": {"name": "missing"}}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &nothing), "Aborted");
    assert_eq!(condition(&world.get(&nothing).unwrap(), "Planned").unwrap()["reason"], "NotFound");
    check_summary(&world, "back", &back);
}

#[tokio::test]
async fn too_many_failures_abort_what_has_not_begun() {
    let (mut world, keys) = fled(3).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let bounded = json!({"rollout": {
        "maxConcurrent": 1, "settle": {"timeoutSeconds": 10}, "abortOn": {"failed": 1}}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    world.clock.advance_seconds(11);
    world.settle().await;
    assert_eq!(phase(&world, &home), "Aborted");
    assert_eq!(summary(&world, &home), "unchanged 2, failed 1");
}

#[tokio::test]
async fn s4_8_a_plan_that_needs_approval_is_stored_and_waits_for_it() {
    let (mut world, keys) = fled(2).await;
    let home = world.given(rebalance("home", json!({"approval": "Required"}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Planned");
    assert_eq!(summary(&world, &home), "pending 2");
    assert_eq!(condition(&world.get(&home).unwrap(), "Approved").unwrap()["status"], "False");
    assert_eq!(move_of(&world, "home", 1)["spec"]["replicas"], 2);
    world.pass_seconds(5).await;
    assert_eq!(world.placed(&keys[0]), "member2:4");
    world.edit(&home, |object| object["spec"]["approved"] = true.into()).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(condition(&world.get(&home).unwrap(), "Approved").unwrap()["status"], "True");
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:2");
}

#[tokio::test]
async fn bounds_of_replicas_and_clusters_hold_at_every_revision() {
    let (mut world, keys) = fled(6).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let begun = world.client().view().revision;
    let bounded = json!({"rollout": {"maxMovingReplicas": 5, "maxIncomingPerCluster": 4}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    for _ in 0..6 {
        assert_eq!(summary(&world, &home).contains("moving"), phase(&world, &home) == "Running");
        for key in &keys {
            if mark(&world, key).is_some() {
                report(&world, key, &[("member1", 2), ("member2", 2)]).await;
                break;
            }
        }
        world.settle().await;
    }
    assert_eq!(phase(&world, &home), "Completed");
    let moving = |state: &Value| state["status"]["summary"]["moving"].as_i64().unwrap_or(0);
    let most = world.history(&home).await.iter().map(moving).max().unwrap();
    assert_eq!(most, 2, "two moves of two replicas each");
    assert!(world.client().view().revision > begun);
}

#[tokio::test]
async fn a_move_larger_than_a_bound_goes_in_steps() {
    for bound in ["maxIncomingPerCluster", "maxMovingReplicas"] {
        let (mut world, keys) = fled(1).await;
        report(&world, &keys[0], &[("member2", 4)]).await;
        let home = rebalance("home", json!({"rollout": {"strategy": "SurgeFirst", bound: 1}}));
        let home = world.given(home).await;
        world.settle().await;
        assert_eq!(world.placed(&keys[0]), "member1:1 member2:4", "{bound}");
        for (reported, next) in [
            (vec![("member2", 4)], "member1:1 member2:4"),
            (vec![("member1", 1), ("member2", 4)], "member1:2 member2:3"),
            (vec![("member1", 1), ("member2", 3)], "member1:2 member2:3"),
            (vec![("member1", 2), ("member2", 3)], "member1:2 member2:2"),
        ] {
            world.crash().await;
            world.settle().await;
            report(&world, &keys[0], &reported).await;
            world.settle().await;
            assert_eq!(world.placed(&keys[0]), next, "{bound}: {reported:?}");
        }
        report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
        world.settle().await;
        assert_eq!(phase(&world, &home), "Completed");
        for state in world.history(&keys[0]).await {
            let on = |items: &Value, name: &str, at: &str| {
                let found = items.as_array().into_iter().flatten().find(|item| item[name] == "member1");
                found.and_then(|item| item.pointer(at)?.as_i64()).unwrap_or_default()
            };
            let assigned = on(&state["spec"]["clusters"], "name", "/replicas");
            let ready = on(&state["status"]["aggregatedStatus"], "clusterName", "/status/readyReplicas");
            let is_moving = state["metadata"]["annotations"]["ballast.dev/move"].is_string();
            assert!(!is_moving || assigned - ready <= 1, "{bound}: {state}");
        }
    }
}

#[tokio::test]
async fn a_move_that_is_not_split_names_the_bound() {
    for (strategy, reports) in [("Direct", true), ("SurgeFirst", false)] {
        let (mut world, keys) = fled(1).await;
        if reports {
            report(&world, &keys[0], &[("member2", 4)]).await;
        }
        let bounded = json!({"rollout": {"strategy": strategy, "maxIncomingPerCluster": 1}});
        world.given(rebalance("home", bounded)).await;
        world.settle().await;
        assert_eq!(world.placed(&keys[0]), "member1:2 member2:2", "{strategy}");
        let moves: Vec<Key> = world.client().view().list(MOVES, None).map(|object| object.key.clone()).collect();
        let told = world.get(&moves[0]).unwrap()["status"]["message"].clone();
        let told = told.as_str().unwrap_or_default();
        assert!(told.starts_with("larger than maxIncomingPerCluster, 1: 2 replicas go to member1 at once"), "{told}");
        world.crash().await;
        world.settle().await;
        report(&world, &keys[0], &[("member1", 2), ("member2", 2)]).await;
        world.settle().await;
        let done = world.get(&moves[0]).unwrap();
        assert_eq!((&done["status"]["phase"], &done["status"]["message"]), (&json!("Settled"), &json!(told)));
    }
}

#[tokio::test]
async fn a_pause_lies_between_two_waves() {
    let (mut world, keys) = fled(4).await;
    let bounded = json!({"rollout": {"maxConcurrent": 2, "intervalSeconds": 30, "order": "Name"}});
    let home = world.given(rebalance("home", bounded)).await;
    world.settle().await;
    // Without reports, the first two settle at once.
    assert_eq!(summary(&world, &home), "pending 2, settled 2");
    world.pass_seconds(29).await;
    assert_eq!(summary(&world, &home), "pending 2, settled 2");
    world.pass_seconds(1).await;
    assert_eq!(summary(&world, &home), "settled 4");
    assert_eq!(world.placed(&keys[3]), "member1:2 member2:2");
}

#[tokio::test]
async fn moves_go_with_their_rebalance_and_with_its_time_to_live() {
    let (mut world, keys) = fled(3).await;
    report(&world, &keys[0], &[("member2", 4)]).await;
    let count = |world: &World| world.client().view().count(MOVES, None);
    let home = world.given(rebalance("home", json!({"ttlSecondsAfterFinished": 60}))).await;
    world.settle().await;
    assert_eq!((count(&world), summary(&world, &home)), (3, "moving 1, settled 2".to_owned()));
    world.delete(&home).await;
    world.settle().await;
    assert_eq!(count(&world), 0);
    assert_eq!(mark(&world, &keys[0]), None, "nobody moves it any more");
    let again = world.given(rebalance("again", json!({"ttlSecondsAfterFinished": 60}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &again), "Completed");
    world.clock.advance_seconds(61);
    world.settle().await;
    assert!(world.get(&again).is_none());
    assert_eq!(count(&world), 0);
}

#[tokio::test]
async fn nothing_to_select_or_to_move_is_said_so() {
    let (mut world, _) = fled(1).await;
    let nothing = world.given(rebalance("nothing", json!({"select": [{"name": "missing"}]}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &nothing), "Completed");
    assert_eq!(condition(&world.get(&nothing).unwrap(), "Completed").unwrap()["reason"], "NothingSelected");
    world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    let again = world.given(rebalance("again", json!({}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &again), "unchanged 1");
    assert_eq!(condition(&world.get(&again).unwrap(), "Completed").unwrap()["reason"], "NothingToMove");
}

#[tokio::test]
async fn s4_11_events_tell_each_phase_and_each_move_with_its_cause() {
    let (mut world, _) = fled(1).await;
    world.given(rebalance("home", json!({}))).await;
    world.settle().await;
    world.pass_seconds(2).await;
    let events = ballast::k8s::GroupResource::new("events");
    let view = world.client().view();
    let told: Vec<String> = view
        .list(events, None)
        .map(|object| world.get(&object.key).unwrap())
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text(&event["involvedObject"]["kind"]), text(&event["reason"]), text(&event["message"]))
        })
        .collect();
    let moved = "Rebalanced 2 replicas move, member2:4 -> member1:2,member2:2, because of ClusterRebalance home";
    for expected in [
        "ClusterRebalance Planned 1 workload selected: 1 to move with 2 replicas, 0 to stay, 0 failed",
        "ClusterRebalance Completed 1 of 1 move settled with 2 replicas, 0 failed, 0 superseded, 0 workloads unchanged",
        &format!("ResourceBinding {moved}"),
        &format!("Deployment {moved}"),
    ] {
        assert!(told.iter().any(|known| known == expected), "{expected:?} is not in {told:#?}");
    }
}
