//! Failover from clusters that fail or are deleted (R43, R109, R124): how evictions begin and end,
//! and how fast clusters are emptied.

use ballast::controllers::{EvictionRate, FailoverOptions, Finalizer, TaintEviction, Unready};
use ballast::k8s::Key;
use serde_json::{Value, json};

use super::events::events_about;
use super::fleet::{
    binding, by_room, cluster, cluster_binding, deployment, nginx, no_execute, primary_and_backup, rebalancer,
    small_cluster,
};
use super::world::{CLUSTER, World, without_a_rate};

pub(super) fn member1() -> Key {
    Key::cluster(CLUSTER, "member1")
}

/// Places nginx on member1 and member2, with these tolerations.
async fn tolerant(tolerations: Value) -> (World, Key) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let mut placement = by_room();
    placement["clusterTolerations"] = tolerations;
    let key = world.given(binding("nginx", 4, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    (world, key)
}

#[tokio::test]
async fn an_untolerated_no_execute_taint_moves_the_replicas_elsewhere() {
    let (mut world, key) = nginx().await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
}

#[tokio::test]
async fn a_no_schedule_taint_moves_nothing() {
    let (mut world, key) = nginx().await;
    let taint = json!([{"key": "down", "effect": "NoSchedule"}]);
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = taint.clone()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn a_taint_is_dated_when_it_is_first_seen() {
    let (mut world, _) = nginx().await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    let taint = world.get(&member1()).unwrap()["spec"]["taints"][0].clone();
    assert_eq!(taint["timeAdded"], world.now().to_string());
}

#[tokio::test]
async fn toleration_seconds_put_the_move_off_also_over_a_restart() {
    let (mut world, key) =
        tolerant(json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}])).await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    world.pass_seconds(20).await;
    world.crash().await;
    world.pass_seconds(9).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    world.pass_seconds(1).await;
    assert_eq!(world.placed(&key), "member2:4");
}

#[tokio::test]
async fn a_taint_that_goes_in_time_moves_nothing() {
    let (mut world, key) =
        tolerant(json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}])).await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.pass_seconds(20).await;
    world.edit(&member1(), |cluster| drop(cluster["spec"].as_object_mut().unwrap().remove("taints"))).await;
    world.pass_seconds(60).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn a_toleration_without_seconds_stays_for_ever() {
    let (mut world, key) = tolerant(json!([{"operator": "Exists"}])).await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.pass_seconds(600).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn a_deleted_cluster_is_left_by_its_bindings_and_then_goes() {
    let (mut world, key) = nginx().await;
    assert_eq!(world.get(&member1()).unwrap()["metadata"]["finalizers"], json!(["karmada.io/cluster-controller"]));
    world.delete(&member1()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
    assert_eq!(tasks(&world, &key), [Value::Null; 0], "nobody purges a workload from a cluster that is gone");
    assert_eq!(world.get(&member1()), None);
}

#[tokio::test]
async fn a_deleted_cluster_is_left_even_where_there_is_no_other() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.settle().await;
    world.delete(&member1()).await;
    world.settle().await;
    assert_eq!((world.placed(&key).as_str(), world.get(&member1())), ("", None));
}

/// Returns a binding restored from a backup: placed, with the placement it was scheduled by.
fn restored(name: &str, clusters: Value) -> Value {
    let mut restored = binding(name, 4, by_room());
    restored["metadata"]["annotations"] = json!({"policy.karmada.io/applied-placement": by_room().to_string()});
    restored["spec"]["clusters"] = clusters;
    restored
}

#[tokio::test]
async fn bindings_that_are_restored_before_their_clusters_stay_as_they_are() {
    let mut world = World::new().await;
    let key =
        world.given(restored("nginx", json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 3}]))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "m1:1 m2:3", "no cluster is known");
    world.given(cluster("m1")).await;
    world.settle().await;
    // Regression: any new generation of the binding lost the unknown clusters.
    world.edit(&key, |binding| binding["spec"]["propagateDeps"] = json!(true)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "m1:1 m2:3", "one cluster is known");
    world.crash().await;
    world.settle().await;
    world.given(cluster("m2")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "m1:1 m2:3");
}

#[tokio::test]
async fn a_deleted_cluster_waits_for_bindings_that_are_suspended_or_another_scheduler_s() {
    let (mut world, key) = nginx().await;
    let held = json!([{"name": "member1", "replicas": 4}]);
    let mut foreign = restored("foreign", held.clone());
    foreign["spec"]["schedulerName"] = json!("other");
    let mut suspended = restored("suspended", held);
    suspended["spec"]["suspension"] = json!({"scheduling": true});
    let (foreign, suspended) = (world.given(foreign).await, world.given(suspended).await);
    world.settle().await;
    world.delete(&member1()).await;
    world.settle().await;
    let placed = |world: &World| [&key, &foreign, &suspended].map(|key| world.placed(key));
    assert_eq!(placed(&world), ["member2:4", "member1:4", "member1:4"]);
    world.crash().await;
    world.pass_seconds(2).await;
    assert!(world.get(&member1()).unwrap()["metadata"]["deletionTimestamp"].is_string());
    let told = events_about(&world, "Cluster");
    assert!(told.iter().any(|told| told.contains("WaitingForBindings member1")), "{told:?}");
    world.edit(&suspended, |binding| drop(binding["spec"].as_object_mut().unwrap().remove("suspension"))).await;
    world.settle().await;
    assert_eq!(placed(&world), ["member2:4", "member1:4", "member2:4"], "it is owned again");
    world.edit(&foreign, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    assert_eq!(world.get(&member1()), None);
}

#[tokio::test]
async fn where_another_controller_keeps_the_finalizer_ours_does_not() {
    let failover = FailoverOptions { finalizer: Finalizer::Foreign, ..without_a_rate() };
    let mut world = World::with_failover(failover).await;
    let mut kept = cluster("member1");
    kept["metadata"]["finalizers"] = json!(["karmada.io/cluster-controller"]);
    world.given(kept).await;
    let other = world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    assert_eq!(world.get(&other).unwrap()["metadata"].get("finalizers"), None);
    world.delete(&member1()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4", "the other controller waits for this");
    assert!(world.get(&member1()).is_some());
}

#[tokio::test]
async fn a_cluster_deleted_while_nobody_looked_is_left_after_a_restart() {
    let (mut world, key) = nginx().await;
    world.delete(&member1()).await;
    world.crash().await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
}

#[tokio::test]
async fn with_nowhere_to_go_the_binding_waits_and_takes_the_first_cluster_that_comes() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.settle().await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "");
    world.given(cluster("member2")).await;
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "member2:2");
}

#[tokio::test]
async fn thousands_of_bindings_leave_a_failed_cluster() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 6_000)).await;
    world.given(small_cluster("member2", 6_000)).await;
    let bindings = (0..3_000).map(|number| binding(&format!("web-{number}"), 2, by_room())).collect();
    let keys = world.given_all(bindings).await;
    world.settle().await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    assert!(keys.iter().all(|key| world.placed(key) == "member2:2"));
}

/// The bindings on a failed cluster are found by an index. The index must include bindings that
/// have just arrived, returned or been recreated, and exclude those that have left.
#[tokio::test]
async fn a_failed_cluster_is_left_by_those_that_are_on_it_now() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let only = |cluster: &str| {
        let mut placement = by_room();
        placement["clusterAffinity"] = json!({"clusterNames": [cluster]});
        placement
    };
    let mut keys = Vec::new();
    for (name, at) in [("gone", "member1"), ("come", "member2"), ("back", "member1"), ("anew", "member1")] {
        keys.push(world.given(binding(name, 2, only(at))).await);
    }
    world.settle().await;
    let [gone, come, back, anew] = &keys[..] else { unreachable!("four were made") };
    for (key, way) in [(gone, &["member2"][..]), (come, &["member1"]), (back, &["member2", "member1"])] {
        for at in way {
            world.edit(key, |binding| binding["spec"]["placement"] = only(at)).await;
            world.settle().await;
        }
    }
    world.delete(anew).await;
    world.settle().await;
    world.given(binding("anew", 2, only("member1"))).await;
    world.settle().await;
    let on_it = [gone, come, back, anew].map(|key| world.placed(key));
    assert_eq!(on_it, ["member2:2", "member1:2", "member1:2", "member1:2"]);
    for is_restarted in [false, true] {
        taint(&mut world, &member1()).await;
        let on_it = [gone, come, back, anew].map(|key| world.placed(key));
        assert_eq!(on_it, ["member2:2", "", "", ""], "restarted: {is_restarted}");
        assert_eq!(tasks(&world, gone), Vec::<Value>::new());
        untaint(&mut world, &member1()).await;
        world.pass_seconds(30).await;
        let back_again = [come, back, anew].map(|key| world.placed(key));
        assert_eq!(back_again, ["member1:2", "member1:2", "member1:2"]);
        world.crash().await;
        world.settle().await;
    }
}

/// Reports the health of the workload on each cluster.
pub(super) async fn report(world: &mut World, key: &Key, health: &[(&str, &str)]) {
    let items: Vec<Value> =
        health.iter().map(|(cluster, health)| json!({"clusterName": cluster, "health": health})).collect();
    world.edit(key, |binding| binding["status"]["aggregatedStatus"] = json!(items)).await;
    world.settle().await;
}

pub(super) async fn set_ready(world: &mut World, cluster: &Key, status: &str) {
    let now = world.now().to_string();
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Said", "message": "", "lastTransitionTime": now,
    });
    world.edit(cluster, |cluster| cluster["status"]["conditions"] = json!([condition])).await;
    world.settle().await;
}

pub(super) async fn taint(world: &mut World, cluster: &Key) {
    world.edit(cluster, |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
}

pub(super) async fn untaint(world: &mut World, cluster: &Key) {
    world.edit(cluster, |cluster| drop(cluster["spec"].as_object_mut().unwrap().remove("taints"))).await;
    world.settle().await;
}

pub(super) fn tasks(world: &World, key: &Key) -> Vec<Value> {
    world.get(key).unwrap()["spec"]["gracefulEvictionTasks"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn r43_a_cluster_that_is_not_ready_is_tainted_and_after_its_tolerations_left() {
    let (mut world, key) = tolerant(json!([
        {"key": "cluster.karmada.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]))
    .await;
    set_ready(&mut world, &member1(), "True").await;
    assert_eq!(world.get(&member1()).unwrap()["spec"].get("taints"), None);
    set_ready(&mut world, &member1(), "False").await;
    let taints = |world: &World| world.get(&member1()).unwrap()["spec"]["taints"].clone();
    assert_eq!(taints(&world), json!([{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}]));
    world.pass_seconds(299).await;
    assert_eq!(taints(&world).as_array().unwrap().len(), 1, "it may come back within five minutes");
    world.crash().await;
    world.pass_seconds(1).await;
    assert_eq!(taints(&world)[1]["effect"], "NoExecute");
    world.pass_seconds(59).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    world.pass_seconds(1).await;
    assert_eq!(world.placed(&key), "member2:4");
    world.pass_seconds(1).await;
    assert!(events_about(&world, "Cluster").iter().any(|told| told.contains("Warning TaintClusterSucceed member1")));
    set_ready(&mut world, &member1(), "True").await;
    assert_eq!(taints(&world), Value::Null);
    world.pass_seconds(30).await;
    assert_eq!(world.placed(&key), "member2:4", "nothing moves by itself");
}

#[tokio::test]
async fn an_unreachable_cluster_has_a_taint_of_its_own() {
    let (mut world, _) = nginx().await;
    set_ready(&mut world, &member1(), "Unknown").await;
    let taints = world.get(&member1()).unwrap()["spec"]["taints"].clone();
    assert_eq!(taints, json!([{"key": "cluster.karmada.io/unreachable", "effect": "NoSchedule"}]));
}

#[tokio::test]
async fn an_eviction_is_a_task_that_says_what_leaves_and_why() {
    let (mut world, key) = nginx().await;
    let now = world.now().to_string();
    taint(&mut world, &member1()).await;
    assert_eq!(world.placed(&key), "member2:4");
    assert_eq!(
        tasks(&world, &key),
        [json!({
            "fromCluster": "member1", "replicas": 2, "purgeMode": "Gracefully", "reason": "TaintUntolerated",
            "producer": "TaintManager", "creationTimestamp": now,
        })]
    );
}

#[tokio::test]
async fn a_binding_s_own_purge_mode_and_preserved_state_go_into_its_task() {
    let (mut world, key) = nginx().await;
    world
        .edit(&key, |binding| {
            binding["spec"]["failover"] = json!({"cluster": {
                "purgeMode": "Directly",
                "statePreservation": {"rules": [{"aliasLabelName": "app/updated", "jsonPath": "{.updatedReplicas}"}]},
            }});
            binding["status"]["aggregatedStatus"] =
                json!([{"clusterName": "member1", "status": {"updatedReplicas": 2}}]);
        })
        .await;
    world.settle().await;
    taint(&mut world, &member1()).await;
    let task = &tasks(&world, &key)[0];
    assert_eq!(task["purgeMode"], "Directly");
    assert_eq!(task["preservedLabelState"], json!({"app/updated": "2"}));
    assert_eq!(task["clustersBeforeFailover"], json!(["member1", "member2"]), "where the state need not go");
}

#[tokio::test]
async fn a_task_ends_when_the_replacement_is_healthy() {
    let (mut world, key) = nginx().await;
    taint(&mut world, &member1()).await;
    world.pass_seconds(30).await;
    report(&mut world, &key, &[("member1", "Unhealthy"), ("member2", "Unknown")]).await;
    world.pass_seconds(1).await;
    assert_eq!(tasks(&world, &key).len(), 1);
    report(&mut world, &key, &[("member2", "Healthy")]).await;
    world.pass_seconds(2).await;
    assert_eq!(tasks(&world, &key), [Value::Null; 0]);
    assert_eq!(world.placed(&key), "member2:4");
    let told = "Normal EvictWorkloadFromClusterSucceed nginx x1: Evict from cluster member1 succeed.";
    assert!(events_about(&world, "Deployment").contains(&told.to_owned()));
}

#[tokio::test]
async fn a_task_ends_with_its_grace_period_also_over_a_restart() {
    let (mut world, key) = nginx().await;
    taint(&mut world, &member1()).await;
    world.pass_seconds(300).await;
    world.crash().await;
    world.pass_seconds(299).await;
    assert_eq!(tasks(&world, &key).len(), 1);
    world.pass_seconds(1).await;
    assert_eq!(tasks(&world, &key), [Value::Null; 0]);
    let observed = world.get(&key).unwrap();
    assert_eq!(observed["status"]["schedulerObservedGeneration"], observed["metadata"]["generation"]);
}

#[tokio::test]
async fn a_task_whose_deletion_is_suppressed_waits_for_a_person() {
    let (mut world, key) = nginx().await;
    let task = json!({
        "fromCluster": "member3", "reason": "Maintenance", "producer": "operator", "suppressDeletion": true,
    });
    world.edit(&key, |binding| binding["spec"]["gracefulEvictionTasks"] = json!([task])).await;
    world.given(cluster("member3")).await;
    world.clock.advance_seconds(4_000);
    world.settle().await;
    world.pass_seconds(5).await;
    assert!(tasks(&world, &key)[0]["creationTimestamp"].is_string(), "dated when it was first seen");
    world.edit(&key, |binding| binding["spec"]["gracefulEvictionTasks"][0]["suppressDeletion"] = json!(false)).await;
    world.settle().await;
    assert_eq!(tasks(&world, &key), [Value::Null; 0]);
}

#[tokio::test]
async fn a_task_is_cancelled_when_its_cluster_recovers_before_the_replicas_found_a_place() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.settle().await;
    taint(&mut world, &member1()).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("", 1));
    world.pass_seconds(20).await;
    untaint(&mut world, &member1()).await;
    world.pass_seconds(2).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:2", 0));
}

#[tokio::test]
async fn r44_a_trigger_brings_the_replicas_back_even_while_their_eviction_goes_on_and_cancels_it() {
    let (mut world, key) = nginx().await;
    taint(&mut world, &member1()).await;
    untaint(&mut world, &member1()).await;
    world.pass_seconds(10).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member2:4", 1), "nothing moves by itself");
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:2 member2:2", 0));
}

#[tokio::test]
async fn what_is_copied_to_every_cluster_stays_where_its_cluster_recovers_in_time() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(cluster_binding("demo-role", json!({}))).await;
    world.settle().await;
    taint(&mut world, &member1()).await;
    assert_eq!(world.placed(&key), "member2");
    untaint(&mut world, &member1()).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1 member2", 0));
}

#[tokio::test]
async fn evictions_by_taint_can_be_switched_off() {
    let mut world = World::with_failover(FailoverOptions {
        unready: Unready::Ignored,
        taints: TaintEviction::Off,
        ..without_a_rate()
    })
    .await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    taint(&mut world, &member1()).await;
    set_ready(&mut world, &member1(), "False").await;
    world.pass_seconds(400).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    assert_eq!(world.get(&member1()).unwrap()["spec"]["taints"].as_array().unwrap().len(), 1);
    world.delete(&member1()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4", "a cluster that is gone is left all the same");
}

fn two_a_second() -> FailoverOptions {
    let TaintEviction::By { purge_mode, rate } = without_a_rate().taints else { unreachable!() };
    let rate = EvictionRate { per_second: 2.0, ..rate };
    FailoverOptions { taints: TaintEviction::By { purge_mode, rate }, ..without_a_rate() }
}

/// Creates twenty bindings, each on both of two clusters, with that eviction rate.
async fn twenty_bindings() -> (World, Vec<Key>) {
    let mut world = World::with_failover(two_a_second()).await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let bindings = (0..20).map(|number| binding(&format!("web-{number}"), 2, by_room())).collect();
    let keys = world.given_all(bindings).await;
    world.settle().await;
    (world, keys)
}

#[tokio::test]
async fn evictions_take_turns() {
    let (mut world, keys) = twenty_bindings().await;
    let fled = |world: &World| keys.iter().filter(|key| world.placed(key) == "member2:2").count();
    assert_eq!(fled(&world), 0);
    taint(&mut world, &member1()).await;
    assert_eq!(fled(&world), 1);
    world.pass_seconds(4).await;
    assert!((8..=10).contains(&fled(&world)), "{} after four seconds", fled(&world));
    world.crash().await;
    world.pass_seconds(8).await;
    assert_eq!(fled(&world), 20);
}

#[tokio::test]
async fn ng2_a_limit_that_is_written_while_evictions_wait_sets_their_rate_from_then_on() {
    let (mut world, keys) = twenty_bindings().await;
    let fled = |world: &World| keys.iter().filter(|key| world.placed(key) == "member2:2").count();
    let limit = |rate: &str| {
        json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "EvictionLimit", "metadata": {"name": "fleet"},
            "spec": {"bindingsPerSecond": rate}})
    };
    let key = world.given(limit("0")).await;
    taint(&mut world, &member1()).await;
    world.pass_seconds(30).await;
    assert_eq!(fled(&world), 0, "held");
    world.edit(&key, |limit| limit["spec"]["bindingsPerSecond"] = json!("5")).await;
    world.pass_seconds(2).await;
    assert!((8..=16).contains(&fled(&world)), "{} after two seconds", fled(&world));
    world.delete(&key).await;
    let before = fled(&world);
    world.pass_seconds(1).await;
    assert!((1..=3).contains(&(fled(&world) - before)), "the flags hold again: {} more", fled(&world) - before);
}

#[tokio::test]
async fn evictions_keep_their_turns_when_the_taints_change_again() {
    let (mut world, keys) = twenty_bindings().await;
    let fled = |world: &World| keys.iter().filter(|key| world.placed(key) == "member2:2").count();
    taint(&mut world, &member1()).await;
    let closed = json!([no_execute("down"), {"key": "maintenance", "effect": "NoSchedule"}]);
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = closed.clone()).await;
    world.settle().await;
    assert_eq!(fled(&world), 1, "as before");
    for key in &keys {
        world.edit(key, |binding| binding["spec"]["propagateDeps"] = json!(true)).await;
    }
    world.settle().await;
    assert_eq!(fled(&world), 1, "nor does an edit give a turn");
    world.pass_seconds(4).await;
    assert!((8..=10).contains(&fled(&world)), "{} after four seconds", fled(&world));
}

#[tokio::test]
async fn a_small_fleet_that_is_mostly_not_ready_is_not_emptied() {
    let (mut world, key) = nginx().await;
    for name in ["member1", "member2"] {
        set_ready(&mut world, &Key::cluster(CLUSTER, name), "Unknown").await;
    }
    world.pass_seconds(400).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2", "the fault is more likely here than there");
    set_ready(&mut world, &Key::cluster(CLUSTER, "member2"), "True").await;
    world.pass_seconds(15).await;
    assert_eq!(world.placed(&key), "member2:4");
}

#[tokio::test]
async fn r43_an_application_that_fails_leaves_after_its_toleration_and_returns_by_a_trigger() {
    let (mut world, key) = nginx().await;
    let application = json!({
        "decisionConditions": {"tolerationSeconds": 120}, "purgeMode": "Gracefully", "gracePeriodSeconds": 60,
    });
    world.edit(&key, |binding| binding["spec"]["failover"] = json!({"application": application})).await;
    world.settle().await;
    report(&mut world, &key, &[("member1", "Unhealthy"), ("member2", "Healthy")]).await;
    world.pass_seconds(119).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    report(&mut world, &key, &[("member1", "Unknown"), ("member2", "Healthy")]).await;
    report(&mut world, &key, &[("member1", "Unhealthy"), ("member2", "Healthy")]).await;
    report(&mut world, &key, &[("member1", "Unhealthy"), ("member2", "Unknown")]).await;
    world.pass_seconds(1).await;
    assert_eq!(world.placed(&key), "member2:4");
    let task = tasks(&world, &key)[0].clone();
    assert_eq!((&task["reason"], &task["gracePeriodSeconds"]), (&json!("ApplicationFailure"), &json!(60)));
    assert_eq!(task["producer"], "resource-binding-application-failover-controller");
    world.pass_seconds(61).await;
    assert_eq!(tasks(&world, &key), [Value::Null; 0]);
    assert_eq!(world.placed(&key), "member2:4", "nothing moves by itself");
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn an_application_that_recovers_in_time_stays_and_one_that_is_never_purged_waits_for_a_person() {
    let (mut world, key) = nginx().await;
    let application = json!({"decisionConditions": {"tolerationSeconds": 10}, "purgeMode": "Never"});
    world.edit(&key, |binding| binding["spec"]["failover"] = json!({"application": application})).await;
    world.settle().await;
    report(&mut world, &key, &[("member1", "Unhealthy")]).await;
    world.pass_seconds(9).await;
    report(&mut world, &key, &[("member1", "Healthy")]).await;
    world.pass_seconds(1).await;
    report(&mut world, &key, &[("member1", "Unhealthy")]).await;
    world.pass_seconds(9).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    world.pass_seconds(1).await;
    assert_eq!(world.placed(&key), "member2:4");
    world.clock.advance_seconds(9_000);
    world.settle().await;
    assert_eq!(tasks(&world, &key)[0]["suppressDeletion"], true);
}

#[tokio::test]
async fn r111_replicas_flee_within_their_group_first_and_to_the_next_one_after_that() {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(cluster(name)).await;
    }
    let mut groups = primary_and_backup();
    groups["clusterAffinities"][0]["clusterNames"] = json!(["member1", "member3"]);
    let key = world.given(binding("nginx", 4, groups)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member3:2");
    let observed = |world: &World| world.get(&key).unwrap()["status"]["schedulerObservingAffinityName"].clone();
    taint(&mut world, &member1()).await;
    assert_eq!((world.placed(&key).as_str(), observed(&world)), ("member3:4", json!("primary")));
    taint(&mut world, &Key::cluster(CLUSTER, "member3")).await;
    assert_eq!((world.placed(&key).as_str(), observed(&world)), ("member2:4", json!("backup")));
    untaint(&mut world, &member1()).await;
    untaint(&mut world, &Key::cluster(CLUSTER, "member3")).await;
    world.pass_seconds(30).await;
    assert_eq!((world.placed(&key).as_str(), observed(&world)), ("member2:4", json!("backup")));
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    world.settle().await;
    assert_eq!((world.placed(&key).as_str(), observed(&world)), ("member1:2 member3:2", json!("primary")));
}
