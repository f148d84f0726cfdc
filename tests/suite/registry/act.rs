//! Kinds that act when an object is created, and store nothing (R18-R21, C1, VB24).

use ballast::k8s::{DeleteOptions, GetOptions};
use ballast::registry::Locator;
use serde_json::json;

use super::world::*;

#[tokio::test]
async fn r18_and_r20_a_task_acts_each_time_and_is_never_stored() {
    let world = World::new().await;
    for _ in 0..2 {
        let echoed = world.create(task("again")).await;
        assert_eq!(echoed["metadata"], json!({"name": "again"}), "no uid, version or time (RV20)");
        assert_eq!(echoed["spec"], json!({"targetRefPolicy": [{}]}));
    }
    assert_eq!(*world.acts.lock().unwrap(), [("again".to_owned(), false), ("again".to_owned(), false)]);
    assert_eq!(world.revision().0, 0);
}

#[tokio::test]
async fn c1_looking_for_a_task_finds_nothing() {
    let world = World::new().await;
    world.create(task("a")).await;
    let target = world.at(&task("a"));
    let status = world.registry.get(&target, &GetOptions::default()).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (404, "NotFound"));
}

#[tokio::test]
async fn r21_a_task_has_no_other_verb() {
    let world = World::new().await;
    let target = world.at(&task("a"));
    let all = world.all(TASKS);
    let refusals = [
        world.list(&all, "").await.unwrap_err(),
        world.registry.watch(&all, &list_options("watch=1")).await.err().unwrap(),
        world.try_update(task("a")).await.unwrap_err(),
        world.merge(&task("a"), json!({})).await.unwrap_err(),
        world.registry.delete(world.caller(), &target, &DeleteOptions::default()).await.unwrap_err(),
        world.delete_all(&all, "", &DeleteOptions::default()).await.unwrap_err(),
    ];
    for status in refusals {
        assert_eq!((status.code, &*status.reason), (405, "MethodNotAllowed"));
        assert_eq!(status.message, "the server does not allow this method on the requested resource");
    }
}

#[tokio::test]
async fn vb24_a_task_needs_no_name_and_is_admitted_like_any_object() {
    let world = World::new().await;
    world.create(with(task("a"), json!({"metadata": null}))).await;
    let status = world.create_with(with(task("a"), json!({"spec": {"x": 1}})), &strict()).await.unwrap_err();
    assert_eq!(status.code, 400);
    world.create_with(task("rehearsal"), &dry()).await.unwrap();
    assert_eq!(*world.acts.lock().unwrap(), [(String::new(), false), ("rehearsal".to_owned(), true)]);
}

#[tokio::test]
async fn what_the_action_answers_is_the_answer() {
    let world = World::new().await;
    assert_eq!(world.try_create(task("broken")).await.unwrap_err().code, 500);
    assert_eq!(world.try_create(task("wordy")).await.unwrap().warnings, ["it goes on"]);
}

#[tokio::test]
async fn r8_a_cluster_scoped_kind_has_no_namespaces() {
    let world = World::new().await;
    let target = Locator { namespace: Some("shop".to_owned()), ..world.all(TASKS) };
    let body = ballast::k8s::Body::of(task("a"));
    let created = world.registry.create(world.caller(), &target, body, &Default::default()).await;
    assert_eq!(created.unwrap_err().code, 404);
}
