//! Scheduling groups (seed 002): tried in order, one at a time, remembered.

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{
    aggregated, binding, by_room, cluster, cluster_binding, deployment, primary_and_backup, rebalancer, small_cluster,
};
use super::world::{CLUSTER, World, condition};

const OBSERVED: &str = "schedulerObservingAffinityName";

/// Returns a placement with these cluster groups and dynamic weights by free capacity.
fn groups(groups: &[(&str, &[&str])]) -> Value {
    let mut placement = by_room();
    placement.as_object_mut().unwrap().remove("clusterAffinity");
    let terms = groups.iter().map(|(name, clusters)| json!({"affinityName": name, "clusterNames": clusters}));
    placement["clusterAffinities"] = terms.collect();
    placement
}

async fn world(clusters: &[(&str, u32)]) -> World {
    let world = World::new().await;
    for (name, pods) in clusters {
        world.given(small_cluster(name, *pods)).await;
    }
    world
}

fn observed(world: &World, key: &Key) -> Value {
    world.get(key).unwrap()["status"][OBSERVED].clone()
}

/// Taints a cluster so that it accepts no new replicas.
async fn close(world: &World, name: &str) {
    let taint = json!([{"key": "closed", "effect": "NoSchedule"}]);
    world.edit(&Key::cluster(CLUSTER, name), |cluster| cluster["spec"]["taints"] = taint.clone()).await;
}

#[tokio::test]
async fn r100_one_group_succeeds_with_some_of_its_clusters_or_fails() {
    let mut world = world(&[("member1", 10), ("member2", 10)]).await;
    let mut one = aggregated();
    one["clusterAffinity"] = json!({"clusterNames": ["member1", "member2"]});
    let fits = world.given(binding("fits", 4, one.clone())).await;
    let large = world.given(binding("large", 40, one)).await;
    world.settle().await;
    assert_eq!(world.placed(&fits), "member1:4");
    assert_eq!(condition(&world.get(&large).unwrap(), "Scheduled").unwrap()["status"], "False");
}

#[tokio::test]
async fn r101_r103_r108_the_first_group_that_can_take_it_does_and_may_share_clusters_with_one_that_could_not() {
    let mut world = world(&[("private", 4), ("cloud", 100)]).await;
    let placement = groups(&[("own", &["private"]), ("rented", &["private", "cloud"])]);
    let small = world.given(binding("small", 3, placement.clone())).await;
    let large = world.given(binding("large", 52, placement)).await;
    world.settle().await;
    assert_eq!((world.placed(&small), observed(&world, &small)), ("private:3".into(), json!("own")));
    // Capacity for one of the four replicas remains.
    assert_eq!((world.placed(&large), observed(&world, &large)), ("cloud:51 private:1".into(), json!("rented")));
}

#[tokio::test]
async fn r104_where_no_group_can_take_it_nothing_is_chosen_and_nothing_is_observed() {
    let mut world = world(&[("member3", 10)]).await;
    let key = world.given(binding("nginx", 2, groups(&[("a", &["member1"]), ("b", &["member2"])]))).await;
    world.settle().await;
    let failed = world.get(&key).unwrap();
    assert_eq!(condition(&failed, "Scheduled").unwrap()["status"], "False");
    assert_eq!((world.placed(&key), &failed["status"][OBSERVED]), (String::new(), &Value::Null));
}

#[tokio::test]
async fn r106_without_any_affinity_every_cluster_is_a_candidate() {
    let mut world = world(&[("member1", 10), ("member2", 10), ("member3", 10)]).await;
    let key = world.given(binding("nginx", 2, json!({}))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2 member3:2");
}

#[tokio::test]
async fn r109_the_backup_takes_what_comes_while_the_primary_is_closed() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    close(&world, "member1").await;
    let key = world.given(binding("nginx", 2, primary_and_backup())).await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member2:2".into(), json!("backup")));
}

#[tokio::test]
async fn r113_r114_the_observed_generation_lags_until_the_pass_and_the_group_has_its_name_on_the_wire() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, primary_and_backup())).await;
    world.settle().await;
    let settled = world.get(&key).unwrap();
    assert_eq!(settled["status"]["schedulerObservedGeneration"], settled["metadata"]["generation"]);
    assert_eq!(settled["status"]["schedulerObservingAffinityName"], "primary");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(3)).await;
    let edited = world.get(&key).unwrap();
    let number = |value: &Value| value.as_i64().unwrap();
    assert!(number(&edited["status"]["schedulerObservedGeneration"]) < number(&edited["metadata"]["generation"]));
    world.settle().await;
    let settled = world.get(&key).unwrap();
    assert_eq!(settled["status"]["schedulerObservedGeneration"], settled["metadata"]["generation"]);
    // An edit that needs no pass only updates the observed generation.
    world.clock.advance_seconds(60);
    world.edit(&key, |binding| binding["spec"]["preserveResourcesOnDeletion"] = json!(true)).await;
    let edited = world.get(&key).unwrap();
    assert!(number(&edited["status"]["schedulerObservedGeneration"]) < number(&edited["metadata"]["generation"]));
    world.settle().await;
    let noted = world.get(&key).unwrap();
    assert_eq!(noted["status"]["schedulerObservedGeneration"], edited["metadata"]["generation"]);
    assert_eq!(noted["status"]["lastScheduledTime"], settled["status"]["lastScheduledTime"]);
    assert_eq!(noted["spec"]["clusters"], settled["spec"]["clusters"]);
}

/// Places the binding on the backup group; the primary is available again.
async fn on_the_backup() -> (World, Key) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    close(&world, "member1").await;
    let key = world.given(binding("nginx", 2, primary_and_backup())).await;
    world.settle().await;
    world.edit(&Key::cluster(CLUSTER, "member1"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
    (world, key)
}

#[tokio::test]
async fn r116_a_new_pass_goes_on_from_the_observed_group_and_a_trigger_begins_with_the_first() {
    let (mut world, key) = on_the_backup().await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(5)).await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member2:5".into(), json!("backup")));
    world.clock.advance_seconds(60);
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member1:5".into(), json!("primary")));
}

#[tokio::test]
async fn r128_a_restart_goes_on_from_the_stored_group() {
    let (mut world, key) = on_the_backup().await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(5)).await;
    world.crash().await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member2:5".into(), json!("backup")));
}

#[tokio::test]
async fn r119_r124_groups_work_for_what_is_duplicated_and_for_cluster_scoped_resources_too() {
    let mut world = World::new().await;
    world.given(cluster("member2")).await;
    world.given(cluster("member3")).await;
    let mut placement = groups(&[("first", &["member1"]), ("second", &["member2", "member3"])]);
    placement.as_object_mut().unwrap().remove("replicaScheduling");
    let duplicated = world.given(binding("nginx", 3, placement.clone())).await;
    let role = world.given(cluster_binding("role", placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&duplicated), "member2:3 member3:3");
    assert_eq!((world.placed(&role), observed(&world, &role)), ("member2 member3".into(), json!("second")));
}

#[tokio::test]
async fn r120_a_placement_without_groups_observes_none() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member1:2".into(), Value::Null));
}

/// Returns the status of the member clusters as Karmada's agents report it.
fn report(clusters: &[(&str, bool)]) -> Value {
    clusters.iter().map(|(name, applied)| json!({"clusterName": name, "applied": applied})).collect()
}

#[tokio::test]
async fn r33_when_all_works_are_applied_the_binding_says_so_and_stops_saying_so_when_it_moves() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    let applied = |world: &World| {
        let binding = world.get(&key).unwrap();
        condition(&binding, "FullyApplied").map(|condition| (condition["status"].clone(), condition["reason"].clone()))
    };
    assert_eq!(applied(&world), None, "nobody has reported");
    let tell = |reported: Value| move |binding: &mut Value| binding["status"]["aggregatedStatus"] = reported.clone();
    world.edit(&key, tell(report(&[("member1", true)]))).await;
    assert_eq!(applied(&world), Some((json!("False"), json!("FullyAppliedFailed"))));
    world.edit(&key, tell(report(&[("member1", true), ("member2", true)]))).await;
    assert_eq!(applied(&world), Some((json!("True"), json!("FullyAppliedSuccess"))));
    let message = condition(&world.get(&key).unwrap(), "FullyApplied").unwrap()["message"].clone();
    assert_eq!(message, "All works have been successfully applied");
    close(&world, "member2").await;
    world.clock.advance_seconds(60);
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:4");
    assert_eq!(
        applied(&world),
        Some((json!("False"), json!("FullyAppliedFailed"))),
        "member2's report is of another time"
    );
}

/// The gap between the end of the old replicas and the start of the new ones is the responsibility
/// of the members. In every stored state, the binding has all its replicas assigned.
#[tokio::test]
async fn r92_a_move_is_one_write_and_never_leaves_the_workload_nowhere() {
    let (mut world, key) = on_the_backup().await;
    world.clock.advance_seconds(60);
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
    let history = world.history(&key).await;
    let first = history.iter().position(|state| !state["spec"]["clusters"].is_null()).unwrap();
    for state in &history[first..] {
        let clusters = state["spec"]["clusters"].as_array().unwrap().iter();
        assert_eq!(clusters.map(|cluster| cluster["replicas"].as_i64().unwrap()).sum::<i64>(), 2, "{state}");
    }
}

/// In every write of the eviction and the return, each replica is assigned or being evicted.
#[tokio::test]
async fn r92_on_its_way_out_and_home_again_every_replica_is_somewhere_in_every_write() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    let placed = world.history(&key).await.len();
    world
        .edit(&Key::cluster(CLUSTER, "member1"), |cluster| {
            cluster["spec"]["taints"] = json!([{"key": "down", "effect": "NoExecute"}]);
        })
        .await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
    world.edit(&Key::cluster(CLUSTER, "member1"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    let history = world.history(&key).await;
    assert!(history.len() >= placed + 4, "evicted, filled up, triggered, placed");
    let replicas = |list: &Value| -> i64 {
        list.as_array().map_or(0, |list| list.iter().filter_map(|entry| entry["replicas"].as_i64()).sum())
    };
    for state in &history[placed..] {
        let spec = &state["spec"];
        assert!(replicas(&spec["clusters"]) + replicas(&spec["gracefulEvictionTasks"]) >= 4, "{state}");
        assert!(!spec["clusters"].as_array().unwrap().is_empty());
    }
}

/// The sample of the seed observes `ds-hongkong`, and its groups are called `dc-...`.
#[tokio::test]
async fn r115_an_observed_name_that_no_group_has_begins_with_the_first() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let mut nginx = binding("nginx", 2, groups(&[("dc-beijing", &["member1"]), ("dc-hongkong", &["member2"])]));
    nginx["status"] = json!({"schedulerObservingAffinityName": "ds-hongkong"});
    let key = world.given(nginx).await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member1:2".into(), json!("dc-beijing")));
}

/// C4: old conditions contain the reason of the seed. The next pass replaces the reason and keeps
/// the time.
#[tokio::test]
async fn r118_an_old_reason_is_replaced_by_today_s_and_its_time_is_kept() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let mut nginx = binding("nginx", 2, by_room());
    let old = json!({
        "type": "Scheduled", "status": "True", "reason": "BindingScheduled", "message": "Binding has been scheduled",
        "lastTransitionTime": "2022-10-01T00:00:00Z",
    });
    nginx["status"] = json!({"conditions": [old]});
    let key = world.given(nginx).await;
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["reason"], "BindingScheduled");
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
    let mut today = old;
    today["reason"] = json!("Success");
    today["message"] = json!("Binding has been scheduled successfully.");
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled"), today.as_object());
}

/// A group has no priorities within it; use weights.
#[tokio::test]
async fn r123_within_a_group_the_weights_decide_and_the_order_of_names_does_not() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let mut placement = groups(&[("both", &["member2", "member1"])]);
    placement["replicaScheduling"]["weightPreference"] = json!({"staticWeightList": [
        {"targetCluster": {"clusterNames": ["member1"]}, "weight": 3},
        {"targetCluster": {"clusterNames": ["member2"]}, "weight": 1},
    ]});
    let key = world.given(binding("nginx", 4, placement)).await;
    world.settle().await;
    assert_eq!((world.placed(&key), observed(&world, &key)), ("member1:3 member2:1".into(), json!("both")));
}
