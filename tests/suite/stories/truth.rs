//! Accurate messages (T1 to T6): causes are determined, and conditions and reasons match the state.

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::events::events_about;
use super::fleet::{
    binding, by_room, cluster, deployment, nginx, no_execute, primary_and_backup, rebalancer, small_cluster,
};
use super::safe::{rebalance, report};
use super::safe_reviews::reviewed;
use super::world::{CLUSTER, RB, World, condition};

fn named(name: &str) -> Key {
    Key::cluster(CLUSTER, name)
}

fn message(world: &World, key: &Key) -> String {
    let binding = world.get(key).unwrap();
    condition(&binding, "Scheduled").unwrap()["message"].as_str().unwrap_or_default().to_owned()
}

/// Returns the standing of the binding's placement according to a review.
async fn standing(world: &World) -> String {
    let told = reviewed(world, json!({"select": [{}], "mode": "AsIs", "explain": "Full"})).await;
    told["moves"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn t1_a_stored_policy_and_binding_stay_usable_whatever_they_select_by() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let bad = json!({"labelSelector": {"matchExpressions": [{"key": "t", "operator": "Is", "values": ["v"]}]}});
    let mut stored = binding("old", 2, by_room());
    let metadata = stored["metadata"].as_object_mut().unwrap();
    metadata.remove("labels");
    metadata.remove("annotations");
    metadata.insert("namespace".to_owned(), json!("default"));
    let groups = json!([{"affinityName": "bad", "labelSelector": bad["labelSelector"]},
                        {"affinityName": "good", "clusterNames": ["member1"]}]);
    let placement = stored["spec"]["placement"].as_object_mut().unwrap();
    placement.remove("clusterAffinity");
    placement.insert("clusterAffinities".to_owned(), groups.clone());
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "old", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default"}],
                 "schedulerName": "default-scheduler",
                 "placement": {"clusterAffinities": groups}}});
    let keys = world.stored([stored, policy]).await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:2", "the workers write it");
    world.edit(&keys[0], |binding| binding["spec"]["replicas"] = json!(3)).await;
    let tolerations = json!([{"key": "x", "operator": "Exists"}]);
    for key in &keys {
        world.edit(key, |object| object["spec"]["placement"]["clusterTolerations"] = tolerations.clone()).await;
    }
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:3");
    // New violations by an update are rejected.
    for key in &keys {
        let worse = |object: &mut Value| {
            object["spec"]["placement"]["clusterAffinities"][1] =
                json!({"affinityName": "good", "labelSelector": {"matchLabels": {"a b": "c"}}})
        };
        let refused = world.try_edit(key, worse).await.unwrap_err();
        let fields: Vec<String> = refused.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
        assert_eq!(fields, ["spec.placement.clusterAffinities[1].labelSelector.matchLabels"]);
    }
}

#[tokio::test]
async fn t2_a_toleration_that_has_run_out_is_called_so() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([no_execute("x")])).await;
    world.settle().await;
    let mut placement = by_room();
    placement["clusterTolerations"] =
        json!([{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]);
    let key = world.given(binding("tol0", 2, placement)).await;
    world.settle().await;
    let told = message(&world, &key);
    assert!(told.contains("1 cluster(s) had a taint whose toleration has run out"), "{told}");
    assert!(!told.contains("eviction"), "{told}");
    let review = reviewed(&world, json!({"select": [{}], "explain": "Full"})).await;
    let told = review["unplaceable"][0]["message"].as_str().unwrap().to_owned();
    assert!(told.contains("member1 would fit if its taint were tolerated for longer"), "{told}");
}

#[tokio::test]
async fn t2_a_binding_with_another_name_is_told_of() {
    let (mut world, _) = nginx().await;
    let mut odd = binding("web", 4, by_room());
    odd["metadata"]["name"] = json!("web");
    world.given(odd).await;
    world.settle().await;
    let wanted = rebalancer("demo", vec![deployment("web")]);
    let warnings = super::safe_reviews::warned(&world, wanted).await;
    assert_eq!(
        warnings,
        [
            "spec.workloads[0]: no binding of Deployment default/web; the binding \"web\" is about it, and must be called \
          \"web-deployment\" to be found"
        ]
    );
}

#[tokio::test]
async fn t2_what_keeps_the_scheduler_away_is_named() {
    let (mut world, key) = nginx().await;
    world.edit(&key, |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.settle().await;
    assert_eq!(standing(&world).await, "its scheduling is suspended");
    world
        .edit(&key, |binding| {
            binding["spec"].as_object_mut().unwrap().remove("suspension");
            binding["spec"]["schedulerName"] = json!("other");
        })
        .await;
    world.settle().await;
    assert_eq!(standing(&world).await, "scheduler other places it");
}

#[tokio::test]
async fn t2_a_binding_without_a_target_is_not_fully_applied() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("web", 2, by_room())).await;
    world.settle().await;
    report(&world, &key, &[("member1", 2)]).await;
    let applied = |world: &World| condition(&world.get(&key).unwrap(), "FullyApplied").unwrap()["status"].clone();
    assert_eq!(applied(&world), "True");
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([no_execute("x")])).await;
    world.settle().await;
    world.clock.advance_seconds(700);
    world.settle().await;
    assert_eq!(world.placed(&key), "");
    assert_eq!(applied(&world), "False", "member1 keeps the last copy, and is no target");
    report(&world, &key, &[("member1", 2)]).await;
    assert_eq!(applied(&world), "False", "a report of the copy changes nothing");
    world.delete(&named("member1")).await;
    world.settle().await;
    assert_eq!(applied(&world), "False");
}

#[tokio::test]
async fn t3_a_deleted_cluster_is_the_cause_whichever_loop_is_first() {
    for first in ["failover", "scheduler"] {
        let (mut world, key) = nginx().await;
        world.delete(&named("member1")).await;
        while world.turn_of(first).await {}
        world.settle().await;
        world.pass_seconds(2).await;
        assert_eq!(world.placed(&key), "member2:4");
        let told = events_about(&world, "ResourceBinding");
        let moved: Vec<&String> = told.iter().filter(|told| told.contains("ReplicasMoved")).collect();
        assert!(moved.len() == 1 && moved[0].ends_with("because member1 went away."), "{first}: {told:#?}");
        let binding = world.get(&key).unwrap();
        assert!(binding["metadata"]["annotations"].get("ballast.dev/left-clusters").is_none(), "{binding}");
    }
}

#[tokio::test]
async fn t3_a_deleted_cluster_is_the_cause_also_after_a_crash_and_a_wait_for_room() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(small_cluster("member2", 2)).await;
    let key = world.given(binding("nginx", 4, primary_and_backup())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:4");
    world.delete(&named("member1")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "", "there is no room elsewhere");
    world.crash().await;
    let room = json!("100");
    world
        .edit(&named("member2"), |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = room.clone())
        .await;
    world.settle().await;
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "member2:4");
    let told = events_about(&world, "ResourceBinding");
    assert!(told.iter().any(|told| told.ends_with("because member1 went away.")), "{told:#?}");
}

#[tokio::test]
async fn t4_what_static_weights_do_not_keep_is_told() {
    let mut world = World::new().await;
    for name in ["a", "b"] {
        world.given(small_cluster(name, 3)).await;
    }
    let weights: Vec<Value> =
        ["a", "b"].iter().map(|name| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1})).collect();
    let placement = json!({
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                              "weightPreference": {"staticWeightList": weights}}});
    let wanted = binding("full", 30, placement);
    let warnings = super::safe_reviews::warned(&world, wanted).await;
    assert!(warnings[0].starts_with("spec.placement.spreadConstraints: static weights ignore"), "{warnings:?}");
    world.settle().await;
    let key = Key::namespaced(RB, "default", "full-deployment");
    let breach = "static weights do not keep the spread constraint by cluster (at most 1, and there are 2), and do not \
                  look at room (a: 15 replicas, room for 3; b: 15 replicas, room for 3)";
    assert_eq!(message(&world, &key), format!("Binding has been scheduled successfully. But {breach}."));
    let standing = standing(&world).await;
    assert!(standing.ends_with(breach), "{standing}");
}

#[tokio::test]
async fn t5_a_dry_run_says_why_by_reason() {
    let (mut world, key) = nginx().await;
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([no_execute("x")])).await;
    world.settle().await;
    world.edit(&named("member1"), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.settle().await;
    world.given(rebalance("home", json!({"mode": "Fresh"}))).await;
    world.settle().await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(12)).await;
    world.settle().await;
    let undo = world.given(rebalance("back", json!({"undo": {"name": "home"}}))).await;
    world.settle().await;
    let status = world.get(&undo).unwrap()["status"].clone();
    let message = "it had 4 replicas then, and has 12 now";
    let reasons = json!([
        {"reason": "ReplicasChanged", "count": 1, "message": message, "workload": deployment("nginx")}]);
    assert_eq!(status["reasons"], reasons, "{status}");
}

#[tokio::test]
async fn t6_a_review_says_where_dispatching_is_suspended_and_prefers_others_among_equals() {
    let mut world = World::new().await;
    for name in ["a", "b", "c"] {
        world.given(cluster(name)).await;
    }
    let aggregated = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
                                                  "replicaDivisionPreference": "Aggregated"}});
    for paused in ["a", "b", "c"] {
        let mut one = binding(&format!("web-{paused}"), 1, aggregated.clone());
        one["spec"]["suspension"] = json!({"dispatchingOnClusters": {"clusterNames": [paused]}});
        let key = world.given(one).await;
        world.settle().await;
        assert!(!world.placed(&key).starts_with(paused), "{}", world.placed(&key));
        world.delete(&key).await;
    }
    let mut one = binding("web", 1, json!({"clusterAffinity": {"clusterNames": ["a"]}}));
    one["spec"]["suspension"] = json!({"dispatchingOnClusters": {"clusterNames": ["a", "b"]}});
    world.given(one).await;
    world.settle().await;
    let told = standing(&world).await;
    assert_eq!(told, "it is where it belongs; dispatching to a is suspended: no change of it is sent there");
}
