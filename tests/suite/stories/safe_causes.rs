//! Every change of placement records its reason, and its requester receives the result (BD11).

use ballast::k8s::Key;
use serde_json::json;

use super::events::events_about;
use super::fleet::{binding, by_room, cluster, deployment, nginx, nginx_on_member2, no_execute, rebalancer};
use super::world::{CLUSTER, World};

/// Returns the messages of the events with this reason about objects of this kind.
fn told(world: &World, kind: &str, reason: &str) -> Vec<String> {
    let marked = format!(" {reason} ");
    let of_reason = events_about(world, kind).into_iter().filter(|event| event.contains(&marked));
    of_reason.filter_map(|event| Some(event.split_once(": ")?.1.to_owned())).collect()
}

#[tokio::test]
async fn s4_11_a_rebalancer_says_what_it_asked_for_and_what_came_of_it() {
    let (mut world, _) = nginx_on_member2().await;
    world.given(rebalancer("demo", vec![deployment("nginx"), deployment("nobody")])).await;
    world.pass_seconds(2).await;
    assert_eq!(
        told(&world, "WorkloadRebalancer", "RescheduleAsked"),
        ["Asked for fresh placements of 1. 1 without a binding: default/nobody."]
    );
    assert_eq!(
        told(&world, "WorkloadRebalancer", "RescheduleAnswered"),
        ["1 answered: 1 moved with 2 replicas (default/nginx-deployment), 0 stayed, 0 fit nowhere."]
    );
    let moves = told(&world, "ResourceBinding", "ReplicasMoved");
    let expected = "2 replicas moved: member1 0 to 2, member2 4 to 2, because of WorkloadRebalancer demo.";
    assert!(moves.iter().any(|it| it == expected), "{moves:#?}");
}

#[tokio::test]
async fn s4_11_a_task_says_how_many_it_marked_and_its_bindings_say_that_it_was_the_task() {
    let (mut world, _) = nginx_on_member2().await;
    world.task(json!({"targetRefResource": [{"apiVersion": "apps/v1", "kind": "Deployment"}]})).await.unwrap();
    world.pass_seconds(2).await;
    assert_eq!(told(&world, "RescheduleTask", "RescheduleAsked"), ["Asked for fresh placements of 1."]);
    assert_eq!(
        told(&world, "RescheduleTask", "RescheduleAnswered"),
        ["1 answered: 1 moved with 2 replicas (default/nginx-deployment), 0 stayed, 0 fit nowhere."]
    );
    let moves = told(&world, "ResourceBinding", "ReplicasMoved");
    assert!(moves.iter().any(|it| it.ends_with("because of RescheduleTask demo-task.")), "{moves:#?}");
}

#[tokio::test]
async fn s4_11_every_move_of_replicas_has_its_cause() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.pass_seconds(2).await;
    assert_eq!(told(&world, "ResourceBinding", "ReplicasMoved"), [""; 0], "a first placement moves nothing");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(3)).await;
    world.pass_seconds(2).await;
    let scaled = "1 replica added: member1 2 to 3, because 3 replicas are wanted, not 2.";
    assert_eq!(told(&world, "ResourceBinding", "ReplicasMoved"), [scaled]);
    world.given(cluster("member2")).await;
    let timestamp = world.now().plus_seconds(5).to_string();
    world.edit(&key, |binding| binding["spec"]["rescheduleTriggeredAt"] = json!(timestamp)).await;
    world.pass_seconds(2).await;
    let moves = told(&world, "ResourceBinding", "ReplicasMoved");
    let by_client = format!("because of the trigger of {timestamp}.");
    assert!(moves.iter().any(|it| it.ends_with(&by_client)), "{moves:#?}");
}

#[tokio::test]
async fn s4_11_an_eviction_names_the_cluster_that_was_left() {
    let (mut world, _) = nginx().await;
    let member1 = Key::cluster(CLUSTER, "member1");
    world.edit(&member1, |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.pass_seconds(2).await;
    let evicted =
        "2 replicas added: member2 2 to 4, because it was evicted from member1 (2 replicas, TaintUntolerated).";
    assert_eq!(told(&world, "ResourceBinding", "ReplicasMoved"), [evicted]);
}

#[tokio::test]
async fn s4_11_another_placement_names_its_policy() {
    let (mut world, key) = nginx().await;
    let only = json!({"clusterNames": ["member1"]});
    world.edit(&key, |binding| binding["spec"]["placement"]["clusterAffinity"] = only.clone()).await;
    world.pass_seconds(2).await;
    let moved = "2 replicas moved: member1 2 to 4, member2 2 to 0, \
                 because its placement changed (PropagationPolicy default/nginx).";
    assert_eq!(told(&world, "ResourceBinding", "ReplicasMoved"), [moved]);
}

/// Runs the marking worker until the binding is marked, and kills the server before its pass.
async fn killed_when_marked(world: &mut World, key: &Key) {
    while world.get(key).unwrap()["spec"]["rescheduleTriggeredAt"].is_null() {
        assert!(world.turn_of("rebalancer").await, "it has the stamps to write");
    }
    world.crash().await;
    world.pass_seconds(2).await;
}

#[tokio::test]
async fn s4_11_after_a_restart_it_is_still_known_who_asked_and_what_came_of_it() {
    let (mut world, key) = nginx_on_member2().await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    killed_when_marked(&mut world, &key).await;
    let moves = told(&world, "ResourceBinding", "ReplicasMoved");
    let expected = "2 replicas moved: member1 0 to 2, member2 4 to 2, because of WorkloadRebalancer demo.";
    assert!(moves.iter().any(|it| it == expected), "{moves:#?}");
    assert_eq!(
        told(&world, "WorkloadRebalancer", "RescheduleAnswered"),
        ["1 answered since a restart: 1 moved with 2 replicas (default/nginx-deployment), 0 stayed, 0 fit nowhere."]
    );
    let annotations = world.get(&key).unwrap()["metadata"]["annotations"].clone();
    assert_eq!((&annotations["ballast.dev/owed"], &annotations["ballast.dev/asked-by"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn s4_11_after_a_restart_a_task_is_still_known_by_its_name() {
    let (mut world, _) = nginx_on_member2().await;
    world.task(json!({"targetRefResource": [{"apiVersion": "apps/v1", "kind": "Deployment"}]})).await.unwrap();
    world.crash().await;
    world.pass_seconds(2).await;
    let moves = told(&world, "ResourceBinding", "ReplicasMoved");
    assert!(moves.iter().any(|it| it.ends_with("because of RescheduleTask demo-task.")), "{moves:#?}");
}

#[tokio::test]
async fn s4_11_what_fits_nowhere_is_a_warning_with_its_name() {
    let mut world = World::new().await;
    world.given(binding("nginx", 2, by_room())).await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.pass_seconds(2).await;
    let warnings: Vec<String> = events_about(&world, "WorkloadRebalancer");
    let expected = "Warning RescheduleAnswered demo x1: 1 answered: 0 moved with 0 replicas, 0 stayed, \
                    1 fit nowhere (default/nginx-deployment).";
    assert!(warnings.iter().any(|it| it == expected), "{warnings:#?}");
}

#[tokio::test]
async fn s4_11_a_dry_run_of_a_task_asks_for_nothing_and_says_nothing() {
    let (mut world, key) = nginx_on_member2().await;
    let before = world.get(&key).unwrap();
    let all = json!({"targetRefResource": [{"apiVersion": "apps/v1", "kind": "Deployment"}]});
    world.task_with(all, true).await.unwrap();
    world.pass_seconds(2).await;
    assert_eq!(events_about(&world, "RescheduleTask"), [""; 0]);
    assert_eq!(world.get(&key).unwrap(), before);
}
