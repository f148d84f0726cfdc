//! Returns to the former placement: with spread constraints, and after failures in any order (RM36,
//! RM37).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, nginx, no_execute, small_cluster};
use super::safe::{outcome, rebalance, report, summary};
use super::safe_reviews::{post, reviewed};
use super::world::{CLUSTER, World};

/// The clusters of two regions.
pub(super) const REGIONS: [(&str, &str); 4] =
    [("member1", "north"), ("member2", "north"), ("member3", "south"), ("member4", "south")];

fn in_region(mut cluster: Value, region: &str) -> Value {
    cluster["spec"]["region"] = region.into();
    cluster
}

/// Creates four clusters, two in each region.
pub(super) async fn two_regions() -> World {
    let world = World::new().await;
    for (name, region) in REGIONS {
        world.given(in_region(cluster(name), region)).await;
    }
    world
}

pub(super) fn divided(more: Value) -> Value {
    let mut placement = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }});
    placement.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    placement
}

pub(super) fn spread(field: &str, min: i64, max: i64) -> Value {
    json!({"spreadByField": field, "minGroups": min, "maxGroups": max})
}

async fn taint(world: &World, name: &str, taints: Value) {
    world.edit(&Key::cluster(CLUSTER, name), |cluster| cluster["spec"]["taints"] = taints.clone()).await;
}

pub(super) async fn lose(world: &mut World, name: &str) {
    taint(world, name, json!([no_execute("down")])).await;
    world.settle().await;
}

pub(super) async fn recover(world: &mut World, name: &str) {
    taint(world, name, json!([])).await;
    world.settle().await;
}

/// Advances the clock past all grace periods of evictions.
pub(super) async fn evictions_end(world: &mut World) {
    world.pass_seconds(700).await;
    world.settle().await;
}

async fn pods(world: &World, name: &str, pods: i64) {
    let change = |cluster: &mut Value| {
        cluster["status"]["resourceSummary"]["allocatable"]["pods"] = pods.to_string().into();
    };
    world.edit(&Key::cluster(CLUSTER, name), change).await;
}

async fn as_before(world: &mut World, name: &str) -> String {
    let key = world.given(rebalance(name, json!({"select": [{"displaced": true}], "mode": "AsBefore"}))).await;
    world.settle().await;
    summary(world, &key)
}

pub(super) fn home_of(world: &World, key: &Key) -> Option<String> {
    let text = world.get(key).unwrap()["metadata"]["annotations"]["ballast.dev/home"].as_str()?.to_owned();
    let home: Value = serde_json::from_str(&text).unwrap();
    Some(super::world::placed(&json!({"spec": {"clusters": home["targets"]}})))
}

#[tokio::test]
async fn workloads_with_spread_constraints_return_to_where_they_were() {
    let mut world = two_regions().await;
    let all = [
        divided(json!({"spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 4)]})),
        divided(json!({"spreadConstraints": [spread("cluster", 2, 0)]})),
        divided(json!({"spreadConstraints": [spread("cluster", 3, 3)]})),
        json!({"spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 2)]}),
        json!({"spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 2)], "replicaScheduling":
            {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}),
    ];
    let mut keys = Vec::new();
    for (index, placement) in all.into_iter().enumerate() {
        keys.push(world.given(binding(&format!("web-{index}"), 8, placement)).await);
        world.settle().await;
    }
    let placed = |world: &World| keys.iter().map(|key| world.placed(key)).collect::<Vec<String>>();
    let before = placed(&world);
    let then = world.client().view().revision.to_string();
    for (name, _) in REGIONS {
        lose(&mut world, name).await;
        evictions_end(&mut world).await;
        recover(&mut world, name).await;
        let away = placed(&world).iter().zip(&before).filter(|(now, before)| now != before).count();
        assert!(away > 0, "{name} was lost, and nothing fled");
        assert_eq!(as_before(&mut world, &format!("after-{name}")).await, format!("settled {away}"));
        assert_eq!(placed(&world), before, "after {name} was lost");
    }
    // Returning to a revision of the log works as well.
    lose(&mut world, "member1").await;
    evictions_end(&mut world).await;
    recover(&mut world, "member1").await;
    let spec = json!({"select": [{"displaced": true}], "mode": "AsBefore", "before": {"revision": then}});
    world.given(rebalance("then", spec)).await;
    world.settle().await;
    assert_eq!(placed(&world), before);
}

#[tokio::test]
async fn a_partial_return_goes_as_far_as_the_rules_allow() {
    let mut world = World::new().await;
    for (name, region) in REGIONS {
        world.given(in_region(small_cluster(name, 8), region)).await;
    }
    let placement = divided(json!({"spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 4)]}));
    let key = world.given(binding("web-0", 8, placement)).await;
    world.settle().await;
    let all = "member1:2 member2:2 member3:2 member4:2";
    assert_eq!(world.placed(&key), all);
    lose(&mut world, "member1").await;
    lose(&mut world, "member3").await;
    evictions_end(&mut world).await;
    assert_eq!(world.placed(&key), "member2:4 member4:4");
    pods(&world, "member1", 1).await;
    recover(&mut world, "member1").await;
    assert_eq!(as_before(&mut world, "one").await, "failed 1");
    assert_eq!(outcome(&world, "one", 0), "Failed NoRoom", "member1 is full");
    assert_eq!(world.placed(&key), "member1:1 member2:4 member4:3");
    recover(&mut world, "member3").await;
    assert_eq!(as_before(&mut world, "other").await, "failed 1");
    assert_eq!(world.placed(&key), "member1:1 member2:3 member3:2 member4:2");
    pods(&world, "member1", 8).await;
    assert_eq!(as_before(&mut world, "rest").await, "settled 1");
    assert_eq!((world.placed(&key).as_str(), home_of(&world, &key)), (all, None));
}

#[tokio::test]
async fn a_return_that_one_part_would_spoil_names_the_true_reason() {
    let mut world = two_regions().await;
    // At most two clusters: replicas on a third one violate the constraint.
    let placement = divided(json!({"spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 2)]}));
    let key = world.given(binding("web-0", 8, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:4 member3:4");
    lose(&mut world, "member1").await;
    evictions_end(&mut world).await;
    assert_eq!(world.placed(&key), "member2:2 member3:6");
    pods(&world, "member1", 1).await;
    pods(&world, "member3", 6).await;
    recover(&mut world, "member1").await;
    let review = reviewed(&world, json!({"select": [{"displaced": true}], "mode": "AsBefore"})).await;
    assert_eq!(review["unplaceable"][0]["reason"], "NoRoom", "{review}");
    let message = review["unplaceable"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("4 replicas would arrive at member1, which has room for 1"), "{message}");
    // With all other replicas on one further cluster, the constraint is met.
    pods(&world, "member1", 2).await;
    assert_eq!(as_before(&mut world, "part").await, "failed 1");
    assert_eq!(world.placed(&key), "member1:2 member3:6");
    pods(&world, "member1", 8).await;
    assert_eq!(as_before(&mut world, "rest").await, "settled 1");
    assert_eq!(world.placed(&key), "member1:4 member3:4");
}

#[tokio::test]
async fn an_old_eviction_is_no_part_of_a_new_former_placement() {
    let mut world = two_regions().await;
    let names = json!({"clusterAffinity": {"clusterNames": ["member1", "member2", "member3"]}});
    let key = world.given(binding("web-0", 6, divided(names))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2 member3:2");
    // No agent reports, so the evictions remain until their grace period ends.
    lose(&mut world, "member1").await;
    world.clock.advance_seconds(1);
    let now = world.now().to_string();
    world.edit(&key, |binding| binding["spec"]["rescheduleTriggeredAt"] = now.clone().into()).await;
    world.settle().await;
    assert_eq!((world.placed(&key).as_str(), home_of(&world, &key)), ("member2:3 member3:3", None));
    let tasks = world.get(&key).unwrap()["spec"]["gracefulEvictionTasks"].clone();
    assert_eq!(tasks[0]["fromCluster"], "member1", "the first eviction has not ended");
    world.edit(&key, |binding| binding["spec"]["replicas"] = 8.into()).await;
    world.settle().await;
    lose(&mut world, "member2").await;
    assert_eq!(home_of(&world, &key).as_deref(), Some("member2:4 member3:4"));
    recover(&mut world, "member1").await;
    recover(&mut world, "member2").await;
    as_before(&mut world, "back").await;
    assert_eq!(world.placed(&key), "member2:4 member3:4");
}

#[tokio::test]
async fn a_loss_in_mid_move_returns_to_where_the_move_goes() {
    let (mut world, key) = nginx().await;
    world.given(cluster("member3")).await;
    report(&world, &key, &[("member1", 2), ("member2", 2)]).await;
    let rollout = json!({"strategy": "SurgeFirst", "settle": {"when": "Healthy", "timeoutSeconds": 600}});
    world.given(rebalance("anew", json!({"mode": "Fresh", "rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2 member3:1", "the new replica is not ready yet");
    lose(&mut world, "member3").await;
    let home = home_of(&world, &key).unwrap();
    let sum: i64 = home.split(' ').map(|it| it.split_once(':').unwrap().1.parse::<i64>().unwrap()).sum();
    assert_eq!(sum, 4, "it is a placement of all replicas: {home}");
    assert!(home.contains("member3:1"), "{home}");
    recover(&mut world, "member3").await;
    evictions_end(&mut world).await;
    as_before(&mut world, "back").await;
    assert_eq!((world.placed(&key), home_of(&world, &key)), (home, None));
}

#[tokio::test]
async fn an_undo_brings_back_the_former_placement_of_then() {
    let mut world = two_regions().await;
    let key = world.given(binding("web-0", 4, by_room())).await;
    world.settle().await;
    let begin = world.placed(&key);
    let drain = json!({"drain": {"clusters": ["member1"]}, "rollout": {"strategy": "Direct"}});
    let mut drain = rebalance("afternoon", drain);
    drain["spec"].as_object_mut().unwrap().remove("select");
    post(&world, drain, false).await.0.unwrap();
    world.settle().await;
    let drained = world.placed(&key);
    assert!(!drained.contains("member1"), "{drained}");
    lose(&mut world, "member2").await;
    assert_eq!(home_of(&world, &key), Some(drained));
    // Both recover, and the user undoes the drain.
    recover(&mut world, "member1").await;
    recover(&mut world, "member2").await;
    post(&world, rebalance("undo", json!({"undo": {"name": "afternoon"}})), false).await.0.unwrap();
    world.settle().await;
    assert_eq!((world.placed(&key), home_of(&world, &key)), (begin, None));
}

#[tokio::test]
async fn a_workload_scaled_to_zero_returns_when_it_has_replicas() {
    let (mut world, key) = nginx().await;
    lose(&mut world, "member1").await;
    evictions_end(&mut world).await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = 0.into()).await;
    world.settle().await;
    recover(&mut world, "member1").await;
    let review = reviewed(&world, json!({"select": [{"displaced": true}], "mode": "AsBefore"})).await;
    assert_eq!(review["summary"]["selected"], 0, "{review}");
    world.edit(&key, |binding| binding["spec"]["replicas"] = 8.into()).await;
    world.settle().await;
    as_before(&mut world, "back").await;
    assert_eq!((world.placed(&key).as_str(), home_of(&world, &key)), ("member1:4 member2:4", None));
}
