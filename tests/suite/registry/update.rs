//! Update: versions, writes without a change, generations, immutable fields, and the status
//! subresource.

use ballast::registry::Locator;
use serde_json::json;

use super::world::*;

#[tokio::test]
async fn oc1_a_stale_version_is_refused_and_nothing_changes() {
    let world = World::new().await;
    let first = tree(world.create(rebalancer("a")).await);
    world.update(with(first.clone(), json!({"metadata": {"labels": {"by": "me"}}}))).await;
    let late = with(first, json!({"metadata": {"labels": {"by": "you"}}}));
    let status = world.try_update(late).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (
            409,
            "Operation cannot be fulfilled on workloadrebalancers.apps.karmada.io \"a\": the object has been \
             modified; please apply your changes to the latest version and try again"
        )
    );
    assert_eq!(world.get(&rebalancer("a")).await["metadata"]["labels"]["by"], "me");
}

#[tokio::test]
async fn oc2_an_update_names_the_version_it_was_made_from() {
    let world = World::new().await;
    world.create(rebalancer("a")).await;
    let status = world.try_update(rebalancer("a")).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (
            422,
            "workloadrebalancers.apps.karmada.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must \
             be specified for an update"
        )
    );
    assert_eq!(status.details.unwrap().kind, "workloadrebalancers");
}

#[tokio::test]
async fn oc3_an_update_that_changes_nothing_writes_nothing() {
    let world = World::new().await;
    let stored = world.create(rebalancer("a")).await;
    assert_eq!(world.update(tree(stored.clone())).await, stored);
    // The object is still the same without the fields that the server sets.
    let version = json!({"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}});
    assert_eq!(world.update(with(rebalancer("a"), version)).await, stored);
    assert_eq!(world.revision().0, 1);
}

#[tokio::test]
async fn oc4_another_uid_is_another_object() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let status = world.try_update(with(stored, json!({"metadata": {"uid": "other"}}))).await.unwrap_err();
    assert_eq!(status.code, 409);
    assert!(status.message.ends_with(
        "Precondition failed: UID in precondition: other, UID in object meta: 00000000-0000-4000-8000-000000000000"
    ));
}

#[tokio::test]
async fn vb3_what_is_not_there_cannot_be_updated() {
    let world = World::new().await;
    let status = world.try_update(rebalancer("a")).await.unwrap_err();
    assert_eq!((status.code, &*status.message), (404, "workloadrebalancers.apps.karmada.io \"a\" not found"));
}

#[tokio::test]
async fn vb17_name_and_namespace_are_those_of_the_url() {
    let world = World::new().await;
    let stored = tree(world.create(binding("shop", "web")).await);
    let target = world.at(&stored);
    let update = async |change| {
        let object = with(stored.clone(), change);
        world.update_at(&target, object, &Default::default()).await.unwrap_err()
    };
    let status = update(json!({"metadata": {"name": "b"}})).await;
    assert_eq!(
        (status.code, &*status.message),
        (400, "the name of the object (b) does not match the name on the URL (web)")
    );
    let status = update(json!({"metadata": {"name": null}})).await;
    let undeterminable = "the name of the object (web based on URL) was undeterminable: name must be provided";
    assert_eq!((status.code, &*status.message), (400, undeterminable));
    let status = update(json!({"metadata": {"namespace": "x"}})).await;
    assert_eq!(
        (status.code, &*status.message),
        (400, "the namespace of the object (x) does not match the namespace on the request (shop)")
    );
}

#[tokio::test]
async fn md2_the_generation_counts_changes_of_what_is_wanted() {
    let world = World::new().await;
    let mut object = tree(world.create(rebalancer("a")).await);
    let mut step = async |change| {
        object = tree(world.update(with(object.clone(), change)).await);
        object["metadata"]["generation"].clone()
    };
    assert_eq!(step(json!({"spec": {"ttlSecondsAfterFinished": 5}})).await, 2);
    assert_eq!(step(json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})).await, 2);
    assert_eq!(step(json!({"metadata": {"generation": 77}, "spec": {"ttlSecondsAfterFinished": 6}})).await, 3);
    assert_eq!(step(json!({"spec": {"ttlSecondsAfterFinished": null}})).await, 4);
}

#[tokio::test]
async fn md6_and_md7_identity_is_kept_and_cannot_be_changed() {
    let world = World::new().await;
    let stored = world.create(rebalancer("a")).await;
    let version = json!({"metadata": {"resourceVersion": "1"}, "spec": {"ttlSecondsAfterFinished": 1}});
    let updated = world.update(with(rebalancer("a"), version)).await;
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(updated["metadata"][field], stored["metadata"][field], "{field}");
    }
    let moved = with(tree(updated), json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}));
    let status = world.try_update(moved).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(
        status
            .message
            .ends_with("metadata.creationTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable")
    );
}

#[tokio::test]
async fn st1_st2_st3_and_st4_status_and_the_rest_are_written_apart() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"ttlSecondsAfterFinished": 1},
        "status": {"observedGeneration": 1}});
    let written = world.update_status(with(stored, both.clone())).await.unwrap();
    let written = value(&written.object);
    assert_eq!(written["status"], json!({"observedGeneration": 1}));
    assert!(written["metadata"].get("labels").is_none() && written["spec"].get("ttlSecondsAfterFinished").is_none());
    assert_eq!((&written["metadata"]["generation"], &written["metadata"]["resourceVersion"]), (&json!(1), &json!("2")));

    let other = with(with(tree(written), both), json!({"status": {"observedGeneration": 9}}));
    let written = world.update(other).await;
    assert_eq!(written["status"], json!({"observedGeneration": 1}));
    assert_eq!((&written["metadata"]["generation"], &written["metadata"]["labels"]), (&json!(2), &json!({"a": "b"})));
}

#[tokio::test]
async fn st3_the_status_has_the_same_versions() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    world.update_status(with(stored.clone(), json!({"status": {"observedGeneration": 1}}))).await.unwrap();
    let late = world.update_status(with(stored.clone(), json!({"status": {"observedGeneration": 2}}))).await;
    assert_eq!(late.unwrap_err().code, 409);
    let unversioned = with(stored, json!({"metadata": {"resourceVersion": null}}));
    assert_eq!(world.update_status(unversioned).await.unwrap_err().code, 422);
}

#[tokio::test]
async fn st8_a_kind_without_the_subresource_has_no_status_to_write() {
    let world = World::new().await;
    let stored = tree(world.create(policy("p")).await);
    let target = Locator { status: true, ..world.at(&stored) };
    assert_eq!(world.update_at(&target, stored, &Default::default()).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn st7_a_status_is_judged_with_the_whole_object() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let bad = with(stored, json!({"status": {"observedGeneration": "many"}}));
    let status = world.update_status(bad).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(status.details.unwrap().causes[0].field, "status.observedGeneration");
}

#[tokio::test]
async fn dr1_a_dry_update_keeps_the_version() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let object = with(stored.clone(), json!({"spec": {"ttlSecondsAfterFinished": 3}}));
    let written = world.update_at(&world.at(&stored), object, &dry()).await.unwrap();
    let shown = value(&written.object);
    assert_eq!((&shown["metadata"]["resourceVersion"], &shown["metadata"]["generation"]), (&json!("1"), &json!(2)));
    assert_eq!(tree(world.get(&stored).await), stored);
}

#[tokio::test]
async fn oc7_no_increment_is_lost() {
    const WRITERS: usize = 4;
    const STEPS: usize = 25;
    let world = std::sync::Arc::new(World::new().await);
    world.create(rebalancer("a")).await;
    let writers = (0..WRITERS).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            for _ in 0..STEPS {
                loop {
                    let object = world.get(&rebalancer("a")).await;
                    let count: usize =
                        object["metadata"]["annotations"]["count"].as_str().map_or(0, |text| text.parse().unwrap());
                    let next = json!({"metadata": {"annotations": {"count": (count + 1).to_string()}}});
                    tokio::task::yield_now().await;
                    match world.try_update(with(tree(object), next)).await {
                        Ok(_) => break,
                        Err(status) => assert_eq!(status.code, 409),
                    }
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let count = world.get(&rebalancer("a")).await["metadata"]["annotations"]["count"].clone();
    assert_eq!(count, (WRITERS * STEPS).to_string());
}
