//! Clusters that fail or go: their bindings leave, and find another place (R43, R109, R124).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, nginx, no_execute};
use super::world::{CLUSTER, World};

fn member1() -> Key {
    Key::cluster(CLUSTER, "member1")
}

/// nginx on member1 and member2, with these tolerations.
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
async fn a_deleted_cluster_is_left_by_its_bindings() {
    let (mut world, key) = nginx().await;
    world.delete(&member1()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
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
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let bindings = (0..3_000).map(|number| binding(&format!("web-{number}"), 2, by_room())).collect();
    let keys = world.given_all(bindings).await;
    world.settle().await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
    assert!(keys.iter().all(|key| world.placed(key) == "member2:2"));
}
