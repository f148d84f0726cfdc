//! Scheduling decisions that were wrong in a running server, each with its right result, through
//! the API of a whole server (S1 to S6).

use ballast::engine::karmada::Profile;
use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, cluster, no_execute, small_cluster};
use super::safe::{phase, rebalance, report};
use super::world::{CLUSTER, World, condition};

/// Creates clusters with a region and a capacity in pods.
async fn world_of(clusters: &[(&str, &str, u32)]) -> World {
    with_profile(Profile::ours(), clusters).await
}

async fn with_profile(profile: Profile, clusters: &[(&str, &str, u32)]) -> World {
    let mut world = World::with(profile).await;
    for (name, region, pods) in clusters {
        let mut cluster = small_cluster(name, *pods);
        if !region.is_empty() {
            cluster["spec"]["region"] = json!(region);
        }
        world.given(cluster).await;
    }
    world.settle().await;
    world
}

fn divided(preference: &str, more: Value) -> Value {
    let mut strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    if preference == "Weighted" {
        strategy["weightPreference"] = json!({"dynamicWeight": "AvailableReplicas"});
    }
    let mut placement = json!({"replicaScheduling": strategy});
    placement.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    placement
}

fn spread(constraints: &[(&str, i64, i64)]) -> Value {
    let one = |(by, min, max): &(&str, i64, i64)| json!({"spreadByField": by, "minGroups": min, "maxGroups": max});
    json!({"spreadConstraints": constraints.iter().map(one).collect::<Vec<_>>()})
}

fn named(name: &str) -> Key {
    Key::cluster(CLUSTER, name)
}

/// Reports a free capacity of `pods` pods as the agent of a cluster.
async fn has_room(world: &World, name: &str, pods: u32) {
    let pods = pods.to_string();
    world.edit(&named(name), |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = json!(pods)).await;
}

async fn scale(world: &World, key: &Key, replicas: i64) {
    world.edit(key, |binding| binding["spec"]["replicas"] = json!(replicas)).await;
}

/// Returns status, reason and message of the condition Scheduled.
fn scheduled(world: &World, key: &Key) -> [String; 3] {
    let binding = world.get(key).unwrap();
    let told = condition(&binding, "Scheduled").expect("it was decided").clone();
    ["status", "reason", "message"].map(|field| told[field].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn s4_aggregated_replicas_are_in_as_many_regions_as_are_wanted() {
    let mut world = world_of(&[("east", "RE", 20), ("west", "RW", 20)]).await;
    let placement = divided("Aggregated", spread(&[("region", 2, 2), ("cluster", 2, 2)]));
    let key = world.given(binding("aggr", 4, placement)).await;
    world.settle().await;
    let placed = world.placed(&key);
    assert!(placed.contains("east") && placed.contains("west"), "{placed}");
}

#[tokio::test]
async fn s4_the_replicas_of_a_lost_region_go_to_another_region() {
    let clusters = [("a", "R1", 20), ("b", "R1", 20), ("c", "R2", 20), ("d", "R3", 6)];
    let mut world = world_of(&clusters).await;
    let placement = divided("Weighted", spread(&[("region", 2, 2), ("cluster", 2, 3)]));
    let key = world.given(binding("hi", 8, placement)).await;
    world.settle().await;
    let before = world.placed(&key);
    assert!(before.contains("c:") && !before.contains("d:"), "{before}");
    world.edit(&named("c"), |cluster| cluster["spec"]["taints"] = json!([no_execute("lost")])).await;
    world.settle().await;
    let after = world.placed(&key);
    assert!(after.contains("d:") && !after.contains("c:"), "{after}");
}

#[tokio::test]
async fn s4_no_plan_takes_the_second_region_away() {
    let mut world = world_of(&[("east", "RE", 20), ("west", "RW", 20)]).await;
    let placement = divided("Weighted", spread(&[("region", 2, 2), ("cluster", 2, 2)]));
    let key = world.given(binding("web", 4, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "east:2 west:2");
    // Other workloads fill west.
    has_room(&world, "west", 0).await;
    world.settle().await;
    world.given(rebalance("home", json!({"select": [{"displaced": true}], "mode": "Fresh"}))).await;
    world.settle().await;
    let placed = world.placed(&key);
    assert!(placed.contains("east:") && placed.contains("west:"), "{placed}");
}

#[tokio::test]
async fn s6_a_workload_in_its_backup_group_finds_back_when_that_is_lost_or_full() {
    let mut world = world_of(&[("c0", "", 10), ("c1", "", 10)]).await;
    let groups = json!({"clusterAffinities": [
        {"affinityName": "primary", "clusterNames": ["c0"]}, {"affinityName": "backup", "clusterNames": ["c1"]}]});
    let key = world.given(binding("web", 2, divided("Weighted", groups))).await;
    world.settle().await;
    let lose = json!([no_execute("lost")]);
    world.edit(&named("c0"), |cluster| cluster["spec"]["taints"] = lose.clone()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c1:2");
    world.edit(&named("c0"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.settle().await;
    // The eviction ends.
    world.pass_seconds(700).await;
    assert_eq!(world.placed(&key), "c1:2", "nothing moves because a cluster is back");
    has_room(&world, "c0", 100).await;
    scale(&world, &key, 20).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c0:20", "the group in use is too small");
    world.edit(&named("c0"), |cluster| cluster["spec"]["taints"] = lose.clone()).await;
    scale(&world, &key, 2).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c1:2");
    world.edit(&named("c0"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.edit(&named("c1"), |cluster| cluster["spec"]["taints"] = lose.clone()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c0:2", "the group in use is lost");
}

#[tokio::test]
async fn s5_as_many_regions_are_used_as_room_asks_for() {
    let mut world = world_of(&[("r1a", "R1", 10), ("r2a", "R2", 10), ("r3a", "R3", 25)]).await;
    let placement = divided("Weighted", spread(&[("region", 1, 3), ("cluster", 1, 3)]));
    let key = world.given(binding("by-region", 30, placement)).await;
    world.settle().await;
    assert_eq!(scheduled(&world, &key)[0], "True", "{}", world.placed(&key));
}

#[tokio::test]
async fn s5_a_scale_up_gives_up_a_full_cluster_with_and_without_a_region() {
    for constraints in [spread(&[("region", 1, 1), ("cluster", 2, 2)]), spread(&[("cluster", 2, 2)])] {
        let mut world = world_of(&[("a", "R1", 10), ("b", "R1", 10), ("c", "R1", 0)]).await;
        let key = world.given(binding("web", 20, divided("Weighted", constraints))).await;
        world.settle().await;
        assert_eq!(world.placed(&key), "a:10 b:10");
        for (name, pods) in [("a", 0), ("b", 0), ("c", 60)] {
            has_room(&world, name, pods).await;
        }
        scale(&world, &key, 40).await;
        world.settle().await;
        let placed = world.placed(&key);
        assert!(placed.ends_with(":10 c:30"), "{placed}");
    }
}

#[tokio::test]
async fn s5_a_zone_constraint_beside_a_region_constraint_is_kept_or_refused() {
    let mut world = World::new().await;
    for (name, region, zone) in [("a1", "R1", "z1"), ("a2", "R1", "z1"), ("b1", "R2", "z2"), ("b2", "R2", "z3")] {
        let mut cluster = cluster(name);
        (cluster["spec"]["region"], cluster["spec"]["zones"]) = (json!(region), json!([zone]));
        world.given(cluster).await;
    }
    let zones = |count| divided("Weighted", spread(&[("region", 1, 1), ("zone", count, count), ("cluster", 1, 9)]));
    let two = world.given(binding("two-zones", 4, zones(2))).await;
    let nine = world.given(binding("nine-zones", 4, zones(9))).await;
    world.settle().await;
    assert_eq!((world.placed(&two), world.placed(&nine)), ("b1:2 b2:2".to_owned(), String::new()));
    let [status, _, message] = scheduled(&world, &nine);
    assert!(status == "False" && message.contains("zone (at least 9, at most 9)"), "{message}");
}

#[tokio::test]
async fn s3_a_lack_of_room_under_a_spread_constraint_is_unschedulable() {
    let mut world = world_of(&[("a", "R1", 3), ("b", "R2", 3)]).await;
    let key = world.given(binding("web", 5, divided("Weighted", spread(&[("cluster", 1, 1)])))).await;
    world.settle().await;
    let [status, reason, message] = scheduled(&world, &key);
    assert_eq!((&*status, &*reason), ("False", "Unschedulable"), "{message}");
}

/// Returns the binding of a Flink job with one manager and `workers` workers of one CPU each.
fn flink(name: &str, workers: i64, placement: Value) -> Value {
    let mut flink = binding(name, 0, placement);
    let spec = flink["spec"].as_object_mut().unwrap();
    spec.remove("replicas");
    spec.remove("replicaRequirements");
    spec["resource"]["apiVersion"] = json!("flink.example/v1");
    spec["resource"]["kind"] = json!("Flink");
    spec.insert("components".to_owned(), components(workers));
    flink
}

fn components(workers: i64) -> Value {
    let part = |name: &str, replicas: i64| json!({"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}});
    json!([part("jobmanager", 1), part("taskmanager", workers)])
}

fn flink_cluster(name: &str, cpu: &str) -> Value {
    let mut cluster = cluster(name);
    let served = json!({"groupVersion": "flink.example/v1", "resources": [{"kind": "Flink", "name": "flinks"}]});
    cluster["status"]["apiEnablements"].as_array_mut().unwrap().push(served);
    cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = json!(cpu);
    cluster
}

#[tokio::test]
async fn s3_components_go_and_grow_where_they_fit() {
    let mut world = World::new().await;
    world.given(flink_cluster("big", "8")).await;
    let one = spread(&[("cluster", 1, 1)]);
    let plain = world.given(flink("plain", 20, one.clone())).await;
    let grow = world.given(flink("grow", 3, divided("Aggregated", one))).await;
    world.settle().await;
    assert_eq!(scheduled(&world, &plain)[..2], ["False", "Unschedulable"], "a set for one cluster is no copy");
    assert_eq!(world.placed(&grow).split(':').next(), Some("big"));
    world.given(flink_cluster("huge", "500")).await;
    world.edit(&grow, |binding| binding["spec"]["components"] = components(30)).await;
    world.settle().await;
    for key in [&plain, &grow] {
        assert_eq!(world.placed(key).split(':').next(), Some("huge"), "{:?}", scheduled(&world, key));
    }
}

#[tokio::test]
async fn d66_odd_replicas_of_many_workloads_reach_every_equal_cluster() {
    let names = ["c0", "c1", "c2", "c3", "c4"];
    let mut world = world_of(&names.map(|name| (name, "", 1000))).await;
    let weights: Vec<Value> =
        names.iter().map(|name| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1})).collect();
    let strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                          "weightPreference": {"staticWeightList": weights}});
    let mut workloads = Vec::new();
    for number in 0..100 {
        let mut one = binding(&format!("w{number}"), 1, json!({"replicaScheduling": strategy}));
        one["spec"]["resource"]["uid"] = json!(format!("9d1f{number}-5be2"));
        workloads.push(one);
    }
    let keys = world.given_all(workloads).await;
    world.settle().await;
    for name in names {
        let there = keys.iter().filter(|key| world.placed(key) == format!("{name}:1")).count();
        assert!((8..=35).contains(&there), "{name} has {there}");
    }
}

/// Creates two workloads of one replica, with and without requests.
async fn with_and_without_requests(world: &mut World) -> [Key; 2] {
    let with = binding("with", 1, divided("Aggregated", json!({})));
    let mut without = binding("without", 1, divided("Aggregated", json!({})));
    without["spec"].as_object_mut().unwrap().remove("replicaRequirements");
    let keys = [world.given(with).await, world.given(without).await];
    world.settle().await;
    keys
}

/// Returns the names of the target clusters of a binding.
fn clusters_of(world: &World, key: &Key) -> Vec<String> {
    let binding = world.get(key).unwrap();
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    clusters.iter().map(|target| target["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn d64_scaled_to_zero_a_workload_stays_where_it_is_with_and_without_requests() {
    let mut world = world_of(&["a", "b", "c", "d", "e"].map(|name| (name, "", 100))).await;
    let keys = with_and_without_requests(&mut world).await;
    let before = keys.each_ref().map(|key| clusters_of(&world, key));
    for key in &keys {
        scale(&world, key, 0).await;
    }
    world.settle().await;
    world.given(cluster("f")).await;
    world.settle().await;
    for (key, before) in keys.iter().zip(&before) {
        assert_eq!((clusters_of(&world, key), before.len()), (before.clone(), 1));
    }
}

#[tokio::test]
async fn d64_empty_workloads_go_to_all_selected_clusters_where_the_flag_says_so() {
    let profile = Profile { empty_workloads: true, ..Profile::ours() };
    let mut world = with_profile(profile, &["a", "b", "c"].map(|name| (name, "", 100))).await;
    let keys = with_and_without_requests(&mut world).await;
    for key in &keys {
        scale(&world, key, 0).await;
    }
    world.settle().await;
    for key in &keys {
        assert_eq!(clusters_of(&world, key), ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn d65_a_scale_up_moves_nothing_that_runs_home_from_overflow() {
    let mut world = world_of(&[("idc", "", 3), ("cloud1", "", 100)]).await;
    let tiers = json!({"clusterAffinities": [{"affinityName": "idc", "clusterNames": ["idc"],
        "overflowAffinities": [{"affinityName": "cloud", "clusterNames": ["cloud1"]}]}]});
    let key = world.given(binding("web", 9, divided("Aggregated", tiers))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "cloud1:6 idc:3");
    has_room(&world, "idc", 7).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "cloud1:6 idc:3");
    scale(&world, &key, 10).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "cloud1:6 idc:4");
}

/// Creates web on b with eight replicas, and a ClusterRebalance that surges to a and b.
async fn surging() -> (World, Key, Key) {
    let mut world = World::new().await;
    for name in ["a", "b"] {
        let mut cluster = cluster(name);
        cluster["metadata"]["labels"] = json!({"use": "yes"});
        world.given(cluster).await;
    }
    let taint = json!([{"key": "x", "effect": "NoSchedule"}]);
    world.edit(&named("a"), |cluster| cluster["spec"]["taints"] = taint.clone()).await;
    let selected = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"use": "yes"}}}});
    let key = world.given(binding("web", 8, divided("Weighted", selected))).await;
    world.settle().await;
    report(&world, &key, &[("b", 8)]).await;
    world.edit(&named("a"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.settle().await;
    let rollout = json!({"strategy": "SurgeFirst", "settle": {"when": "Healthy", "timeoutSeconds": 60}});
    let home = world.given(rebalance("home", json!({"mode": "Fresh", "rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "a:4 b:8");
    (world, key, home)
}

#[tokio::test]
async fn bd6_a_move_is_superseded_when_its_target_leaves_the_selection_and_its_surge_goes() {
    let (mut world, key, home) = surging().await;
    world.edit(&named("a"), |cluster| cluster["metadata"]["labels"] = json!({})).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "b:8", "the surge is taken back");
    let moved = world.client().view().list(super::world::MOVES, None).next().map(|object| object.key.clone());
    let moved = world.get(&moved.expect("there is one Move")).unwrap();
    let status = &moved["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Superseded"), &json!("ClusterLost")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert_eq!(message, "the placement does not select cluster a any more");
    assert_eq!(phase(&world, &home), "Completed");
}

#[tokio::test]
async fn bd6_a_move_goes_on_when_another_label_changes() {
    let (mut world, key, _) = surging().await;
    world.edit(&named("a"), |cluster| cluster["metadata"]["labels"]["other"] = json!("x")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "a:4 b:8");
    world.crash().await;
    // Changes while no server runs are found by the next one, which checks each move.
    world.edit(&named("a"), |cluster| cluster["metadata"]["labels"] = json!({"use": "no"})).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "b:8");
}

/// Creates nginx on member1 and member2, with suspended scheduling.
async fn suspended() -> (World, Key) {
    let mut world = world_of(&[("member1", "", 100), ("member2", "", 100)]).await;
    let key = world.given(binding("nginx", 4, divided("Weighted", json!({})))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    world.edit(&key, |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.settle().await;
    (world, key)
}

#[tokio::test]
async fn d87_no_eviction_takes_what_a_suspended_binding_cannot_replace() {
    let (mut world, key) = suspended().await;
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    let binding = world.get(&key).unwrap();
    let told = condition(&binding, "EvictionSuspended").expect("it says that it waits");
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("SchedulingSuspended")));
    assert!(told["message"].as_str().unwrap().starts_with("the eviction from member1 waits"), "{told:?}");
    world.crash().await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2", "also after a restart");
    // With the taint, the condition disappears.
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.settle().await;
    assert!(condition(&world.get(&key).unwrap(), "EvictionSuspended").is_none());
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    world.edit(&key, |binding| drop(binding["spec"].as_object_mut().unwrap().remove("suspension"))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4", "the eviction goes on when scheduling does");
    assert!(condition(&world.get(&key).unwrap(), "EvictionSuspended").is_none());
}

#[tokio::test]
async fn d87_a_suspended_binding_stays_on_a_deleted_cluster_and_its_eviction_waits_beyond_its_time() {
    let (mut world, key) = suspended().await;
    world.delete(&named("member1")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    assert!(condition(&world.get(&key).unwrap(), "EvictionSuspended").is_some());
    // An eviction that has already begun.
    let mut world = world_of(&[("member1", "", 100), ("member2", "", 2)]).await;
    let key = world.given(binding("nginx", 4, divided("Weighted", json!({})))).await;
    world.settle().await;
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    has_room(&world, "member2", 0).await;
    world.settle().await;
    world.edit(&key, |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.settle().await;
    world.clock.advance_seconds(10_000);
    world.settle().await;
    let tasks = world.get(&key).unwrap()["spec"]["gracefulEvictionTasks"].clone();
    assert_eq!(tasks[0]["fromCluster"], "member1", "it waits: {tasks}");
}
