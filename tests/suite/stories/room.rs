//! Room is given away once, also where decisions overlap and writes conflict, and the sentence that
//! tells it names whom the reader may know.

use serde_json::json;

use super::fleet::{aggregated, binding, small_cluster};
use super::world::{World, condition};
use crate::support::objects::with;

#[tokio::test]
async fn rm5_a_write_that_conflicts_gives_its_room_back_and_takes_it_again() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 4)).await;
    world.settle().await;
    let first = world.given(binding("first", 3, aggregated())).await;
    let other = world.given(binding("other", 1, json!({"clusterAffinity": {"clusterNames": ["none"]}}))).await;
    // The scheduler decides the binding before the edit, and writes it after.
    world.race(&first, |binding| binding["metadata"]["labels"]["edited"] = "yes".into(), &other, "scheduler").await;
    world.settle().await;
    assert_eq!(world.placed(&first), "member1:3");
    let second = world.given(binding("second", 2, aggregated())).await;
    world.settle().await;
    assert_eq!(world.placed(&second), "", "one place is left");
    let third = world.given(binding("third", 1, aggregated())).await;
    world.settle().await;
    assert_eq!(world.placed(&third), "member1:1");

    // Room that a binding leaves goes to the one that waits, after a crash as well.
    world.crash().await;
    world.delete(&first).await;
    world.settle().await;
    assert_eq!(world.placed(&second), "member1:2");
}

#[tokio::test]
async fn rm6_a_condition_names_workloads_of_its_own_namespace_and_counts_the_others() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 10)).await;
    let elsewhere = json!({"metadata": {"namespace": "shop"}, "spec": {"resource": {"namespace": "shop"}}});
    world.given(binding("web", 4, aggregated())).await;
    world.given(with(binding("secret", 3, aggregated()), elsewhere)).await;
    world.settle().await;
    let late = world.given(binding("late", 5, aggregated())).await;
    world.settle().await;
    let late = world.get(&late).unwrap();
    let told = condition(&late, "Scheduled").unwrap()["message"].as_str().unwrap().to_owned();
    let sentence =
        "cluster member1: 10 free, 7 promised to others (default/web-deployment 4, other namespaces 3), 3 left";
    assert!(told.contains(sentence) && !told.contains("secret"), "{told}");
}
