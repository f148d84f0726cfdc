//! Delete: at once, with finalizers, with preconditions, and of a collection.

use ballast::k8s::{DeleteOptions, Propagation, Status};
use ballast::registry::Deleted;
use serde_json::{Value, json};

use super::world::*;

fn pending(deleted: Deleted) -> Value {
    let Deleted::Pending(object) = deleted else { panic!("gone at once") };
    value(&object)
}

fn gone(deleted: Deleted) -> Status {
    let Deleted::Gone(status) = deleted else { panic!("not gone") };
    status
}

fn held(name: &str) -> Tree {
    with(rebalancer(name), json!({"metadata": {"finalizers": ["ballast.test/hold"]}}))
}

#[tokio::test]
async fn de1_without_finalizers_it_is_gone_with_a_revision_of_its_own() {
    let world = World::new().await;
    let stored = world.create(rebalancer("a")).await;
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=1").await;
    let status = gone(world.delete(&rebalancer("a")).await);
    assert_eq!(status.status, "Success");
    assert_eq!(status.details.unwrap().uid, stored["metadata"]["uid"]);
    assert_eq!(ready(&mut watch), ["DELETED a 2"]);
    assert_eq!(world.delete_with(&rebalancer("a"), &DeleteOptions::default()).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn de2_and_de3_with_finalizers_it_waits_and_is_marked_once() {
    let world = World::new().await;
    world.create(held("a")).await;
    let marked = pending(world.delete(&held("a")).await);
    let metadata = &marked["metadata"];
    assert_eq!(metadata["deletionTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!((&metadata["deletionGracePeriodSeconds"], &metadata["generation"]), (&json!(0), &json!(2)));
    world.clock.advance_seconds(60);
    assert_eq!(pending(world.delete(&held("a")).await), marked);
    assert_eq!(world.get(&held("a")).await, marked);
}

#[tokio::test]
async fn de4_the_update_that_removes_the_last_finalizer_removes_the_object() {
    let world = World::new().await;
    world.create(held("a")).await;
    let marked = pending(world.delete(&held("a")).await);
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=2").await;
    let answer = world.update(with(tree(marked), json!({"metadata": {"finalizers": null}}))).await;
    assert_eq!(answer["metadata"]["resourceVersion"], "2", "still the version before");
    assert!(answer["metadata"].get("finalizers").is_none());
    assert_eq!(ready(&mut watch), ["DELETED a 3"]);
    assert_eq!(world.try_get(&held("a")).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn de4_a_patch_does_it_too() {
    let world = World::new().await;
    world.create(held("a")).await;
    world.delete(&held("a")).await;
    world.merge(&held("a"), json!({"metadata": {"finalizers": []}})).await.unwrap();
    assert_eq!(world.try_get(&held("a")).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn de5_a_name_that_is_being_deleted_is_still_taken() {
    let world = World::new().await;
    world.create(held("a")).await;
    world.delete(&held("a")).await;
    let status = world.try_create(held("a")).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (409, "object is being deleted: workloadrebalancers.apps.karmada.io \"a\" already exists")
    );
}

#[tokio::test]
async fn de6_the_garbage_collectors_finalizers_follow_the_policy() {
    let world = World::new().await;
    let policies = [(Propagation::Foreground, json!(["foregroundDeletion"])), (Propagation::Orphan, json!(["orphan"]))];
    for (propagation, finalizers) in policies {
        let name = format!("{propagation:?}").to_lowercase();
        let stored = tree(world.create(rebalancer(&name)).await);
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        let marked = pending(world.delete_with(&stored, &options).await.unwrap());
        assert_eq!(marked["metadata"]["finalizers"], finalizers);
        // A later delete may choose another propagation.
        let background = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        gone(world.delete_with(&stored, &background).await.unwrap());
    }
}

#[tokio::test]
async fn de9_and_oc6_preconditions_name_the_kind_when_they_fail() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("g")).await);
    let options = DeleteOptions { uid: Some("A".to_owned()), ..DeleteOptions::default() };
    let status = world.delete_with(&stored, &options).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (
            409,
            "Operation cannot be fulfilled on WorkloadRebalancer.apps.karmada.io \"g\": the UID in the precondition \
             (A) does not match the UID in record (00000000-0000-4000-8000-000000000000). The object might have been \
             deleted and then recreated"
        )
    );
    assert_eq!(status.details.unwrap().kind, "WorkloadRebalancer");
    let options = DeleteOptions { resource_version: Some("9".to_owned()), ..DeleteOptions::default() };
    let status = world.delete_with(&stored, &options).await.unwrap_err();
    assert!(status.message.ends_with(
        "the ResourceVersion in the precondition (9) does not match the ResourceVersion in record (1). The object \
         might have been modified"
    ));
    let options = DeleteOptions { resource_version: Some("1".to_owned()), ..DeleteOptions::default() };
    gone(world.delete_with(&stored, &options).await.unwrap());
}

#[tokio::test]
async fn de10_a_dry_run_deletes_nothing() {
    let world = World::new().await;
    let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    let (free, kept) = (tree(world.create(rebalancer("a")).await), tree(world.create(held("b")).await));
    gone(world.delete_with(&free, &options).await.unwrap());
    assert!(pending(world.delete_with(&kept, &options).await.unwrap())["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(tree(world.get(&free).await), free);
    assert_eq!(tree(world.get(&kept).await), kept);
    assert_eq!(world.revision().0, 2);
}

#[tokio::test]
async fn de11_a_collection_goes_by_selector_and_limit() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create(with(rebalancer(name), json!({"metadata": {"labels": {"app": "x"}}}))).await;
    }
    world.create(rebalancer("d")).await;
    world.create(with(held("e"), json!({"metadata": {"labels": {"app": "x"}}}))).await;
    let all = world.all(REBALANCERS);
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    assert_eq!(names(&world.delete_all(&all, "", &dry).await.unwrap()).len(), 5);
    let first = world.delete_all(&all, "labelSelector=app=x&limit=2", &DeleteOptions::default()).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    let rest = world.delete_all(&all, "labelSelector=app=x", &DeleteOptions::default()).await.unwrap();
    assert_eq!(names(&rest), ["c", "e"]);
    assert_eq!(names(&world.list(&all, "").await.unwrap()), ["d", "e"], "e waits for its finalizer");
    assert!(world.get(&held("e")).await["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn de14_a_deletion_cannot_be_taken_back_and_the_status_can_still_be_written() {
    let world = World::new().await;
    world.create(held("a")).await;
    let marked = tree(pending(world.delete(&held("a")).await));
    let unmarked = with(marked.clone(), json!({"metadata": {"deletionTimestamp": null}}));
    assert_eq!(world.update(unmarked).await["metadata"]["deletionTimestamp"], "2026-01-02T03:04:05Z");
    let written = world.update_status(with(marked, json!({"status": {"observedGeneration": 1}}))).await.unwrap();
    assert_eq!(value(&written.object)["status"]["observedGeneration"], 1);
}

#[tokio::test]
async fn md8_no_finalizers_are_added_to_what_is_being_deleted() {
    let world = World::new().await;
    world.create(held("a")).await;
    let marked = tree(pending(world.delete(&held("a")).await));
    let status = world
        .try_update(with(marked, json!({"metadata": {"finalizers": ["ballast.test/hold", "x.y/z"]}})))
        .await
        .unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.contains("found new finalizers []string{\"x.y/z\"}"), "{}", status.message);
}
