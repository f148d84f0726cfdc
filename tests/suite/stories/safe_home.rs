//! Undo within bounds, and Steady rebalances that move only what must leave (RM30-RM33).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, cluster, no_execute, small_cluster};
use super::safe::{fled, move_of, outcome, rebalance, report, summary};
use super::safe_reviews::{post, reviewed};
use super::world::{CLUSTER, World};

fn undo_of(name: &str, fields: Value) -> Value {
    let mut undo = rebalance("back", json!({"undo": {"name": name}}));
    undo["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    undo
}

#[tokio::test]
async fn rm30_an_undo_goes_as_carefully_as_what_it_undoes_unless_it_says_otherwise() {
    let (mut world, keys) = fled(3).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let rollout = json!({"strategy": "SurgeFirst", "maxConcurrent": 1, "minAvailable": "75%", "order": "Name",
        "settle": {"when": "Healthy", "timeoutSeconds": 60}});
    let careful = json!({"rollout": rollout, "limits": {"maxMovedReplicas": "75%"}});
    post(&world, rebalance("home", careful), false).await.0.unwrap();
    for _ in 0..20 {
        world.settle().await;
        for key in &keys {
            report(&world, key, &ready(&world, key)).await;
        }
    }
    assert!(keys.iter().all(|key| world.placed(key) == "member1:2 member2:2"));

    // The plan of a dry run includes the bounds.
    let planned = post(&world, undo_of("home", json!({})), true).await.0.unwrap();
    assert_eq!(planned["spec"]["rollout"]["strategy"], "SurgeFirst");
    assert_eq!(planned["status"]["summary"]["toMove"], 3);
    let own = json!({"rollout": {"maxConcurrent": 2}, "limits": {"maxMovedReplicas": 1}});
    let planned = post(&world, undo_of("home", own), true).await.0.unwrap();
    assert_eq!(planned["spec"]["rollout"]["strategy"], "Direct");
    assert_eq!(planned["status"]["summary"]["replicasToMove"], 3, "its own limits hold");

    let back = post(&world, undo_of("home", json!({})), false).await.0.unwrap();
    for field in ["maxConcurrent", "minAvailable", "maxSurge", "order", "settle"] {
        assert!(!back["spec"]["rollout"][field].is_null(), "{field}: {back}");
    }
    assert_eq!(back["spec"]["limits"], json!({"maxMovedReplicas": "75%"}));
    // One at a time, and never below the floor.
    let back = Key::cluster(super::world::CREB, "back");
    for _ in 0..20 {
        world.settle().await;
        let moving = world.get(&back).unwrap()["status"]["summary"]["moving"].as_i64().unwrap();
        assert!(moving <= 1, "{moving} at once");
        for key in &keys {
            let ready: i64 = ready(&world, key).iter().map(|(_, ready)| *ready).sum();
            assert!(ready >= 3, "{ready} of 4 are ready");
            report(&world, key, &self::ready(&world, key)).await;
        }
    }
    assert_eq!(summary(&world, &back), "settled 3");
    assert!(keys.iter().all(|key| world.placed(key) == "member2:4"));
}

/// Returns the assigned replicas, to be reported as ready.
fn ready<'k>(world: &World, key: &'k Key) -> Vec<(&'k str, i64)> {
    let targets = world.get(key).unwrap()["spec"]["clusters"].as_array().unwrap().clone();
    let names = ["member1", "member2", "member3"];
    let find = |name: &str| targets.iter().find(|it| it["name"] == name).and_then(|it| it["replicas"].as_i64());
    names.into_iter().filter_map(|name| Some((name, find(name)?))).collect()
}

/// Sets the pods of the cluster, in total and in use.
async fn fill(world: &World, name: &str, pods: i64, used: i64) {
    let change = |cluster: &mut Value| {
        cluster["status"]["resourceSummary"]["allocatable"]["pods"] = pods.to_string().into();
        cluster["status"]["resourceSummary"]["allocated"]["pods"] = used.to_string().into();
    };
    world.edit(&Key::cluster(CLUSTER, name), change).await;
}

async fn taint(world: &World, name: &str, taints: Value) {
    world.edit(&Key::cluster(CLUSTER, name), |cluster| cluster["spec"]["taints"] = taints.clone()).await;
}

#[tokio::test]
async fn rm31_replicas_that_stay_until_others_are_ready_give_their_room_to_nobody() {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(cluster(name)).await;
    }
    let only = |name: &str| {
        let mut placement = aggregated();
        placement["clusterAffinity"] = json!({"clusterNames": [name]});
        placement
    };
    let web = world.given(binding("web-0", 4, only("member1"))).await;
    let db = world.given(binding("web-1", 4, only("member3"))).await;
    world.settle().await;
    // Both may move now: the first leaves the cluster that the second moves to.
    for (key, to) in [(&web, "member2"), (&db, "member1")] {
        let placement = only(to);
        world
            .edit(key, |binding| {
                binding["spec"]["suspension"] = json!({"scheduling": true});
                binding["spec"]["placement"] = placement.clone();
                let applied = "policy.karmada.io/applied-placement";
                binding["metadata"]["annotations"][applied] = placement.to_string().into();
            })
            .await;
        world.edit(key, |binding| drop(binding["spec"].as_object_mut().unwrap().remove("suspension"))).await;
        report(&world, key, &ready(&world, key)).await;
    }
    fill(&world, "member1", 4, 4).await;
    let home = world.given(rebalance("home", json!({"rollout": {"strategy": "SurgeFirst", "order": "Name"}}))).await;
    world.settle().await;
    assert_eq!(world.placed(&web), "member1:4 member2:4", "the old replicas stay until the new ones are ready");
    assert_eq!(world.placed(&db), "member3:4", "so there is no room for others: {}", summary(&world, &home));
    report(&world, &web, &[("member1", 4), ("member2", 4)]).await;
    world.settle().await;
    assert_eq!(world.placed(&web), "member2:4");
    report(&world, &web, &[("member2", 4)]).await;
    // The cluster reports a moment later that they have ended.
    assert_eq!(world.placed(&db), "member3:4");
    fill(&world, "member1", 4, 0).await;
    world.pass_seconds(11).await;
    report(&world, &db, &[("member3", 4), ("member1", 4)]).await;
    world.settle().await;
    assert_eq!(world.placed(&db), "member1:4");
}

#[tokio::test]
async fn rm32_no_plan_overfills_a_cluster_whatever_the_division() {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(cluster(name)).await;
    }
    let weighted = json!({"clusterAffinity": {"clusterNames": ["member2", "member3"]}, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {
            "staticWeightList": [{"targetCluster": {"clusterNames": ["member2"]}, "weight": 1},
                                 {"targetCluster": {"clusterNames": ["member3"]}, "weight": 1}]}}});
    let closed = json!([{"key": "x", "effect": "NoSchedule"}]);
    taint(&world, "member1", closed.clone()).await;
    taint(&world, "member3", closed).await;
    let mut two = aggregated();
    two["clusterAffinity"] = json!({"clusterNames": ["member1", "member2"]});
    let web = world.given(binding("web-0", 2, weighted)).await;
    let db = world.given(binding("web-1", 1, two)).await;
    world.settle().await;
    assert_eq!((world.placed(&web), world.placed(&db)), ("member2:2".to_owned(), "member2:1".to_owned()));
    fill(&world, "member2", 3, 3).await;
    taint(&world, "member1", json!([])).await;
    taint(&world, "member3", json!([])).await;
    world.given(rebalance("home", json!({"rollout": {"order": "Name"}}))).await;
    world.settle().await;
    assert_eq!((world.placed(&web), world.placed(&db)), ("member2:1 member3:1".to_owned(), "member1:1".to_owned()));
    // The agents report one replica of web, and two foreign pods.
    fill(&world, "member1", 1_000, 1).await;
    fill(&world, "member2", 3, 3).await;
    fill(&world, "member3", 1_000, 1).await;
    world.given(rebalance("back", json!({"undo": {"name": "home"}}))).await;
    world.settle().await;
    assert_eq!(outcome(&world, "back", 0), "Failed NoRoom");
    assert_eq!(outcome(&world, "back", 1), "Failed NoRoom");
    let why = "1 replica would arrive at member2, which has room for 0";
    assert_eq!(move_of(&world, "back", 0)["status"]["message"], why);
    assert_eq!((world.placed(&web), world.placed(&db)), ("member2:1 member3:1".to_owned(), "member1:1".to_owned()));
    // A plan that decides again also respects this.
    let fresh = rebalance("fresh", json!({"select": [{"name": "web-0"}], "mode": "Fresh"}));
    fill(&world, "member3", 3, 3).await;
    world.edit(&web, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 2}])).await;
    world.given(fresh).await;
    world.settle().await;
    assert_eq!(outcome(&world, "fresh", 0), "Failed NoRoom");
}

#[tokio::test]
async fn rm33_a_steady_rebalance_moves_what_has_to_leave_and_nothing_else() {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(small_cluster(name, 40)).await;
    }
    let mut keys = Vec::new();
    for index in 0..3 {
        keys.push(world.given(binding(&format!("web-{index}"), 6, super::fleet::by_room())).await);
    }
    world.settle().await;
    world.edit(&keys[2], |binding| binding["spec"]["clusters"] = json!([{"name": "member1", "replicas": 6}])).await;
    world.settle().await;
    let before: Vec<String> = keys.iter().map(|key| world.placed(key)).collect();
    assert_eq!(before, ["member1:2 member2:2 member3:2", "member1:2 member2:2 member3:2", "member1:6"]);
    taint(&world, "member3", json!([{"key": "maintenance", "effect": "NoSchedule"}])).await;
    world.settle().await;

    // A review with the cluster supposed absent shows the same as the rebalance does.
    let select = json!([{"placedOn": ["member3"]}]);
    let lost =
        json!({"select": select, "mode": "Steady", "suppose": {"clusters": [{"name": "member3", "absent": true}]}});
    let lost = reviewed(&world, lost).await;
    let steady = reviewed(&world, json!({"select": select, "mode": "Steady"})).await;
    assert_eq!(lost["moves"], steady["moves"]);
    assert_eq!((&steady["summary"]["toMove"], &steady["summary"]["replicasToMove"]), (&json!(2), &json!(4)));
    let others = reviewed(&world, json!({"select": [{}], "mode": "Steady"})).await;
    assert_eq!(others["summary"]["toMove"], 0, "a closed cluster that nobody names is left alone");
    let drain = world.given(rebalance("drain", json!({"select": select, "mode": "Steady"}))).await;
    world.settle().await;
    assert_eq!(summary(&world, &drain), "settled 2");
    for key in &keys[..2] {
        assert_eq!(world.placed(key), "member1:3 member2:3");
    }
    assert_eq!(world.placed(&keys[2]), "member1:6", "it did not have to leave");
}

#[tokio::test]
async fn rm33_what_a_dead_cluster_runs_leaves_it_without_waiting_for_its_eviction() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let web = world.given(binding("web-0", 4, super::fleet::by_room())).await;
    world.settle().await;
    taint(&world, "member1", json!([no_execute("down")])).await;
    let review = reviewed(&world, json!({"select": [{}], "mode": "Steady"})).await;
    assert_eq!(review["moves"][0]["to"], json!([{"name": "member2", "replicas": 4}]), "{review}");
    let tolerated = json!([{"key": "down", "operator": "Exists"}]);
    world.edit(&web, |binding| binding["spec"]["placement"]["clusterTolerations"] = tolerated.clone()).await;
    let review = reviewed(&world, json!({"select": [{}], "mode": "Steady"})).await;
    assert_eq!(review["summary"]["toMove"], 0, "who tolerates it stays");
}
