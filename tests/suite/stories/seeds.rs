//! The user stories of the seeds, by name.

use ballast::k8s::Key;
use serde_json::json;

use super::fleet::{
    aggregated, binding, by_room, cluster, deployment, no_execute, primary_and_backup, rebalancer, small_cluster,
};
use super::world::{CLUSTER, World};

fn key_of(cluster: &str) -> Key {
    Key::cluster(CLUSTER, cluster)
}

async fn fail(world: &mut World, cluster: &str) {
    world.edit(&key_of(cluster), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.settle().await;
}

async fn recover(world: &mut World, cluster: &str) {
    world.edit(&key_of(cluster), |cluster| drop(cluster["spec"].as_object_mut().unwrap().remove("taints"))).await;
    world.pass_seconds(30).await;
}

async fn rebalance_nginx(world: &mut World) {
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
}

#[tokio::test]
async fn r43_r44_r50_seed_001_story_1_the_replicas_return_when_the_failed_cluster_has_recovered() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    fail(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:4");
    recover(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:4", "nothing moves by itself");
    rebalance_nginx(&mut world).await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn r43_r45_seed_001_story_2_a_shrunk_application_spreads_again_when_there_is_room() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 0)).await;
    world.given(small_cluster("member2", 20)).await;
    let key = world.given(binding("nginx", 6, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:6");
    let more = json!("20");
    world
        .edit(&key_of("member1"), |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = more.clone())
        .await;
    world.pass_seconds(30).await;
    assert_eq!(world.placed(&key), "member2:6");
    rebalance_nginx(&mut world).await;
    let now = world.placed(&key);
    assert!(now.contains("member1:") && now.contains("member2:"), "{now}");
}

#[tokio::test]
async fn r43_r46_seed_001_story_3_an_aggregated_application_gathers_where_all_of_it_fits() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 3)).await;
    world.given(small_cluster("member2", 2)).await;
    let key = world.given(binding("nginx", 5, aggregated())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:3 member2:2");
    // Capacity for two more: its own three count as available, though no cluster reports them.
    let more = json!("5");
    world
        .edit(&key_of("member1"), |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = more.clone())
        .await;
    world.pass_seconds(30).await;
    assert_eq!(world.placed(&key), "member1:3 member2:2");
    rebalance_nginx(&mut world).await;
    assert_eq!(world.placed(&key), "member1:5");
}

#[tokio::test]
async fn r47_seed_001_story_4_the_application_returns_from_the_backup_to_the_primary() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 3, primary_and_backup())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:3");
    fail(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:3");
    recover(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:3");
    rebalance_nginx(&mut world).await;
    assert_eq!(world.placed(&key), "member1:3");
    assert_eq!(world.get(&key).unwrap()["status"]["schedulerObservingAffinityName"], "primary");
}

#[tokio::test]
async fn r2_r3_r5_seed_000_a_task_brings_the_replicas_back_from_the_backup_cluster() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 3, primary_and_backup())).await;
    world.settle().await;
    fail(&mut world, "member1").await;
    recover(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:3");
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:3");
}

#[tokio::test]
async fn r110_r111_seed_002_the_next_group_is_tried_when_a_group_has_no_cluster_left() {
    let mut world = World::new().await;
    let groups = json!({
        "clusterAffinities": [
            {"affinityName": "dc-shanghai", "clusterNames": ["unavailable"]},
            {"affinityName": "dc-beijing", "clusterNames": ["member1"]},
            {"affinityName": "dc-hongkong", "clusterNames": ["member2"]},
        ],
    });
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 2, groups)).await;
    world.settle().await;
    let observing = |world: &World| world.get(&key).unwrap()["status"]["schedulerObservingAffinityName"].clone();
    assert_eq!((world.placed(&key).as_str(), observing(&world)), ("member1:2", json!("dc-beijing")));
    fail(&mut world, "member1").await;
    assert_eq!((world.placed(&key).as_str(), observing(&world)), ("member2:2", json!("dc-hongkong")));
}
