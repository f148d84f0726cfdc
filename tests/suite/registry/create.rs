//! Create: identity, names, dropped fields and rejections.

use ballast::k8s::{Body, WriteOptions};
use ballast::registry::Locator;
use serde_json::json;

use super::world::*;

#[tokio::test]
async fn md1_the_server_sets_identity_and_drops_what_the_client_claims() {
    let world = World::new().await;
    let claimed = with(
        rebalancer("a"),
        json!({"metadata": {"uid": "x", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9,
            "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3, "selfLink": "/x",
            "managedFields": [{"manager": "m"}]}}),
    );
    let stored = world.create(claimed).await;
    let metadata = stored["metadata"].as_object().unwrap();
    assert_eq!(metadata["uid"], "00000000-0000-4000-8000-000000000000");
    assert_eq!(metadata["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["resourceVersion"], "1");
    let fields: Vec<&str> = metadata.keys().map(String::as_str).collect();
    assert_eq!(fields, ["creationTimestamp", "generation", "managedFields", "name", "resourceVersion", "uid"]);
    // The managers that the client claims are ignored, so tracking restarts.
    assert_eq!(metadata["managedFields"][0]["manager"], "unknown");
}

#[tokio::test]
async fn vb21_what_is_answered_is_what_is_read_later() {
    let world = World::new().await;
    let stored = world.create(binding("shop", "web")).await;
    assert_eq!(world.get(&binding("shop", "web")).await, stored);
}

#[tokio::test]
async fn er2_a_name_is_taken_once() {
    let world = World::new().await;
    world.create(rebalancer("a")).await;
    let status = world.try_create(rebalancer("a")).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, "AlreadyExists"));
    assert_eq!(status.message, "workloadrebalancers.apps.karmada.io \"a\" already exists");
    assert_eq!(world.revision().0, 1);
}

#[tokio::test]
async fn gn1_and_gn2_names_are_generated_and_the_base_stays() {
    let world = World::new().await;
    let unnamed = with(rebalancer("x"), json!({"metadata": {"name": null, "generateName": "move-"}}));
    let first = world.create(unnamed.clone()).await;
    let second = world.create(unnamed.clone()).await;
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("move-") && name.len() == 10, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["metadata"]["generateName"], "move-");
    let named = with(unnamed, json!({"metadata": {"name": "mine"}}));
    assert_eq!(world.create(named).await["metadata"]["name"], "mine");
}

#[tokio::test]
async fn gn3_and_gn4_a_name_is_needed_and_its_base_is_checked() {
    let world = World::new().await;
    let unnamed = with(rebalancer("x"), json!({"metadata": {"name": null}}));
    let status = world.try_create(unnamed).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (
            422,
            "WorkloadRebalancer.apps.karmada.io \"\" is invalid: metadata.name: Required value: name or generateName \
             is required"
        )
    );
    let bad = with(rebalancer("x"), json!({"metadata": {"name": null, "generateName": "A_"}}));
    let status = world.try_create(bad).await.unwrap_err();
    assert!(status.message.contains("metadata.generateName: Invalid value: \"A_\": a lowercase RFC 1123 subdomain"));
}

#[tokio::test]
async fn vb15_and_vb16_the_object_says_what_it_is() {
    let world = World::new().await;
    let target = world.all(REBALANCERS);
    let create = async |change| {
        let body = Body::of(with(rebalancer("a"), change));
        world.create_at(&target, body, &WriteOptions::default()).await
    };
    let status = create(json!({"kind": null})).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.starts_with(
        "the object provided is unrecognized (must be of type WorkloadRebalancer): Object 'Kind' is missing in '{"
    ));
    let status = create(json!({"apiVersion": "x/y"})).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (400, "the API version in the data (x/y) does not match the expected API version (apps.karmada.io/v1alpha1)")
    );
    let status = create(json!({"kind": "Foo"})).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (422, "Foo.apps.karmada.io \"a\" is invalid: kind: Invalid value: \"Foo\": must be WorkloadRebalancer")
    );
}

#[tokio::test]
async fn vb17_the_namespace_is_that_of_the_url() {
    let world = World::new().await;
    let create =
        async |target: Locator, object| world.create_at(&target, Body::of(object), &WriteOptions::default()).await;
    let unplaced = with(binding("shop", "web"), json!({"metadata": {"namespace": null}}));
    let stored = create(world.in_namespace(BINDINGS, "shop"), unplaced).await.unwrap();
    assert_eq!(value(&stored.object)["metadata"]["namespace"], "shop");
    let status = create(world.in_namespace(BINDINGS, "shop"), binding("x", "web")).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (400, "the namespace of the provided object does not match the namespace sent on the request")
    );
    let status = create(world.in_namespace(BINDINGS, "No_Name"), binding("No_Name", "web")).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.contains("metadata.namespace: Invalid value: \"No_Name\""), "{}", status.message);
}

#[tokio::test]
async fn md15_a_cluster_scoped_object_loses_its_namespace() {
    let world = World::new().await;
    let target = world.all(REBALANCERS);
    let object = with(rebalancer("a"), json!({"metadata": {"namespace": "shop"}}));
    let created = world.create_at(&target, Body::of(object), &WriteOptions::default()).await;
    assert!(value(&created.unwrap().object)["metadata"].get("namespace").is_none());
}

#[tokio::test]
async fn oc5_a_new_object_has_no_version() {
    let world = World::new().await;
    let status = world.try_create(with(rebalancer("a"), json!({"metadata": {"resourceVersion": "1"}}))).await;
    let status = status.unwrap_err();
    assert_eq!((status.code, &*status.message), (400, "resourceVersion should not be set on objects to be created"));
}

#[tokio::test]
async fn st1_and_st8_status_is_dropped_where_it_is_a_subresource() {
    let world = World::new().await;
    let claimed = with(rebalancer("a"), json!({"status": {"observedGeneration": 5}}));
    assert!(world.create(claimed).await.get("status").is_none());
}

#[tokio::test]
async fn fv2_strict_names_every_unknown_and_duplicate_field() {
    let world = World::new().await;
    let text = br#"{"apiVersion":"apps.karmada.io/v1alpha1","kind":"WorkloadRebalancer",
        "metadata":{"name":"a","name":"a","who":1},"spec":{"x":1,
        "workloads":[{"apiVersion":"v1","kind":"A","name":"a","y":1}]}}"#;
    let body = Body::from_json(text).unwrap();
    let target = world.all(REBALANCERS);
    let created = world.create_at(&target, body.clone(), &strict()).await;
    let status = created.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (
            400,
            "WorkloadRebalancer in version \"v1alpha1\" cannot be handled as a WorkloadRebalancer: strict decoding \
             error: duplicate field \"metadata.name\", unknown field \"metadata.who\", unknown field \
             \"spec.workloads[0].y\", unknown field \"spec.x\""
        )
    );
    let created = world.create_at(&target, body, &WriteOptions::default()).await;
    let created = created.unwrap();
    assert_eq!(
        created.warnings,
        [
            "duplicate field \"metadata.name\"",
            "unknown field \"metadata.who\"",
            "unknown field \"spec.workloads[0].y\"",
            "unknown field \"spec.x\"",
        ]
    );
    assert!(value(&created.object)["spec"].get("x").is_none(), "pruned (FV5)");
}

#[tokio::test]
async fn fv4_and_fv5_ignore_is_silent_and_prunes_all_the_same() {
    let world = World::new().await;
    let options = WriteOptions { field_validation: ballast::k8s::FieldValidation::Ignore, ..WriteOptions::default() };
    let written = world.create_with(with(rebalancer("a"), json!({"spec": {"x": 1}})), &options).await.unwrap();
    assert!(written.warnings.is_empty());
    assert!(value(&written.object)["spec"].get("x").is_none());
}

#[tokio::test]
async fn r58_and_r60_faults_are_listed_with_their_fields() {
    let world = World::new().await;
    let bad = with(rebalancer("a"), json!({"metadata": {"labels": {"a b": ""}}, "spec": {"workloads": []}}));
    let status = world.try_create(bad).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    let fields: Vec<&str> = status.details.as_ref().unwrap().causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["metadata.labels", "spec.workloads"], "{}", status.message);
    assert_eq!(world.revision().0, 0, "nothing stored");
}

#[tokio::test]
async fn md12_metadata_of_a_wrong_type_is_400() {
    let world = World::new().await;
    let status = world.try_create(with(rebalancer("a"), json!({"metadata": {"labels": {"a": 1}}}))).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(
        status.message.ends_with("json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string")
    );
}

#[tokio::test]
async fn dr1_a_dry_run_shows_everything_and_leaves_nothing() {
    let world = World::new().await;
    let written = world.create_with(rebalancer("a"), &dry()).await.unwrap();
    let shown = value(&written.object);
    assert!(shown["metadata"]["uid"].is_string() && shown["metadata"].get("resourceVersion").is_none());
    assert_eq!(world.revision().0, 0);
    assert_eq!(world.try_get(&rebalancer("a")).await.unwrap_err().code, 404);
    world.create(rebalancer("a")).await;
    assert_eq!(world.create_with(rebalancer("a"), &dry()).await.unwrap_err().code, 409);
}

#[tokio::test]
async fn r52_times_are_stored_in_whole_seconds_utc() {
    let world = World::new().await;
    let stamped =
        with(binding("shop", "web"), json!({"spec": {"rescheduleTriggeredAt": "2024-04-17T17:04:05.9+02:00"}}));
    assert_eq!(world.create(stamped).await["spec"]["rescheduleTriggeredAt"], "2024-04-17T15:04:05Z");
}

#[tokio::test]
async fn md9_repeated_owners_are_merged_with_a_warning() {
    let world = World::new().await;
    let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"});
    let owned = with(rebalancer("a"), json!({"metadata": {"ownerReferences": [owner, owner]}}));
    let written = world.try_create(owned).await.unwrap();
    assert_eq!(value(&written.object)["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(written.warnings.len(), 1);
}

#[tokio::test]
async fn st10_nothing_is_created_at_a_subresource() {
    let world = World::new().await;
    let target = Locator { status: true, ..world.at(&rebalancer("a")) };
    let created = world.create_at(&target, Body::of(rebalancer("a")), &WriteOptions::default()).await;
    let status = created.unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (405, "create is not supported on resources of kind \"workloadrebalancers.apps.karmada.io\"")
    );
}
