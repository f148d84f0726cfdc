//! Objects that stories begin with.

use ballast::k8s::Key;
use serde_json::json;

use super::world::World;
pub use crate::support::fleet::*;

/// Creates member1, member2, and the Deployment nginx with two of its four replicas on each.
pub async fn nginx() -> (World, Key) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    (world, key)
}

/// Like `nginx`, with all replicas on member2 for a while.
pub async fn nginx_on_member2() -> (World, Key) {
    let (mut world, key) = nginx().await;
    world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    world.clock.advance_seconds(300);
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4", "nothing moves by itself");
    (world, key)
}
