//! Patch: permitted changes, retries, and rejections.

use std::sync::Arc;

use ballast::k8s::Patch;
use ballast::registry::Locator;
use serde_json::json;

use super::world::*;

#[tokio::test]
async fn pa3_a_patched_object_is_admitted_like_an_updated_one() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let written = world.merge(&stored, json!({"spec": {"ttlSecondsAfterFinished": 9, "x": 1}})).await.unwrap();
    assert_eq!(written.warnings, ["unknown field \"spec.x\""]);
    let object = value(&written.object);
    assert_eq!((&object["metadata"]["generation"], &object["spec"]["ttlSecondsAfterFinished"]), (&json!(2), &json!(9)));
    let status = world.merge(&stored, json!({"spec": {"workloads": "many"}})).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(
        status.details.unwrap().causes[0].message,
        "Invalid value: \"string\": spec.workloads in body must be of type array: \"string\"",
        "PA7"
    );
}

#[tokio::test]
async fn pa4_patches_of_different_fields_all_get_through() {
    let world = Arc::new(World::new().await);
    let stored = tree(world.create(rebalancer("a")).await);
    let patches = (0..50).map(|i| {
        let (world, stored) = (world.clone(), stored.clone());
        tokio::spawn(async move { world.merge(&stored, json!({"metadata": {"labels": {format!("l{i}"): "x"}}})).await })
    });
    for patch in patches.collect::<Vec<_>>() {
        patch.await.unwrap().unwrap();
    }
    assert_eq!(world.get(&stored).await["metadata"]["labels"].as_object().unwrap().len(), 50);
}

#[tokio::test]
async fn pa4_a_patch_that_names_a_version_is_held_to_it() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let status = world.merge(&stored, json!({"metadata": {"resourceVersion": "7"}})).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    let fits = json!({"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}});
    world.merge(&stored, fits).await.unwrap();
}

#[tokio::test]
async fn pa7_strict_shows_the_whole_patched_object() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let patch = Patch::merge(br#"{"spec":{"zz":1}}"#).unwrap();
    let status = world.patch_at(&world.at(&stored), patch, &strict()).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{}", status.message);
    assert!(status.message.ends_with("strict decoding error: unknown field \"spec.zz\""), "{}", status.message);
}

#[tokio::test]
async fn pa8_null_clears_finalizers() {
    let world = World::new().await;
    let stored = tree(world.create(with(rebalancer("a"), json!({"metadata": {"finalizers": ["a/b"]}}))).await);
    let written = world.merge(&stored, json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert!(value(&written.object)["metadata"].get("finalizers").is_none());
}

#[tokio::test]
async fn pa9_identity_cannot_be_patched() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let status = world.merge(&stored, json!({"metadata": {"name": "q"}})).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (400, "the name of the object (q) does not match the name on the URL (a)")
    );
    let status = world.merge(&stored, json!({"metadata": {"uid": "q"}})).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.ends_with("metadata.uid: Invalid value: \"q\": field is immutable"));
}

#[tokio::test]
async fn pa10_a_patch_of_the_status_touches_nothing_else() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let target = Locator { status: true, ..world.at(&stored) };
    let text =
        br#"{"metadata":{"labels":{"a":"b"}},"spec":{"ttlSecondsAfterFinished":1},"status":{"observedGeneration":1}}"#;
    let written = world.patch_at(&target, Patch::merge(text).unwrap(), &Default::default()).await.unwrap();
    let object = value(&written.object);
    assert_eq!(object["status"]["observedGeneration"], 1);
    assert!(object["metadata"].get("labels").is_none() && object["spec"].get("ttlSecondsAfterFinished").is_none());
}

#[tokio::test]
async fn pa11_a_patch_that_changes_nothing_writes_nothing() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let written = world.merge(&stored, json!({"metadata": {"labels": null}, "spec": {}})).await.unwrap();
    assert_eq!(tree(value(&written.object)), stored);
    assert_eq!(world.revision().0, 1);
}

#[tokio::test]
async fn pa1_json_patches_work_on_the_whole_object() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let text = br#"[{"op":"test","path":"/metadata/name","value":"a"},{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":7}]"#;
    let patch = Patch::json(text).unwrap();
    let written = world.patch_at(&world.at(&stored), patch, &Default::default()).await.unwrap();
    assert_eq!(value(&written.object)["spec"]["ttlSecondsAfterFinished"], 7);
    let patch = Patch::json(br#"[{"op":"test","path":"/metadata/name","value":"b"}]"#).unwrap();
    let status = world.patch_at(&world.at(&stored), patch, &Default::default()).await.unwrap_err();
    assert_eq!(status.code, 422, "PA5");
}

#[tokio::test]
async fn vb4_what_is_not_there_cannot_be_patched() {
    let world = World::new().await;
    assert_eq!(world.merge(&rebalancer("a"), json!({})).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn fv6_keys_that_a_merge_patch_has_twice_are_warned_of() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let patch = Patch::merge(br#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#).unwrap();
    let written = world.patch_at(&world.at(&stored), patch, &Default::default()).await.unwrap();
    assert_eq!(written.warnings, ["duplicate field \"metadata.labels.a\""]);
}
