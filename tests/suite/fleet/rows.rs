//! Tests the requirements of the KubeFleet scheduler (R160 to R183) over HTTPS, as far as no story
//! covers them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::stage::{BINDINGS, CLUSTERS, PLACEMENTS, RESOURCES, SNAPSHOTS, Stage, placement};

const PREVIOUS_STATE: &str = "kubernetes-fleet.io/previous-binding-state";
/// Indices of the workers on the stage.
const PLACEMENT_CONTROLLER: usize = 0;
const ROLLOUT: usize = 1;
const MEMBER_CLUSTER: usize = 2;
const SCHEDULER: usize = 3;

fn fixed(names: &[&str]) -> Value {
    json!({"placementType": "PickFixed", "clusterNames": names})
}

async fn three_clusters() -> Stage {
    let stage = Stage::new().await;
    for name in ["a", "b", "c"] {
        stage.join(name, "gold").await;
    }
    stage
}

async fn wants(stage: &Stage, policy: Value) {
    let reply = stage.merge(&format!("{PLACEMENTS}/shop"), &json!({"spec": {"policy": policy}})).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
}

async fn versions(stage: &Stage) -> BTreeMap<String, Value> {
    let version = |binding: Value| {
        let metadata = &binding["metadata"];
        (metadata["name"].as_str().unwrap().to_owned(), metadata["resourceVersion"].clone())
    };
    stage.list(BINDINGS).await.into_iter().map(version).collect()
}

#[tokio::test]
async fn r160_a_snapshot_that_is_no_longer_the_latest_is_never_used() {
    let mut stage = three_clusters().await;
    stage.post(PLACEMENTS, &placement("shop", fixed(&["a"]))).await;
    stage.settle().await;
    let since = stage.get(BINDINGS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    // Two changes before the scheduler runs: the snapshot of the first exists, and is out of date.
    for name in ["b", "c"] {
        wants(&stage, fixed(&[name])).await;
        stage.finish(PLACEMENT_CONTROLLER).await;
    }
    assert_eq!(stage.list(SNAPSHOTS).await.len(), 3);
    stage.settle().await;
    assert_eq!(stage.placed().await, "c:Bound");
    assert_eq!(stage.list(BINDINGS).await[0]["spec"]["schedulingPolicySnapshotName"], "shop-2");
    let targets: BTreeSet<String> = stage
        .events(&format!("{BINDINGS}?resourceVersion={since}"))
        .await
        .iter()
        .map(|event| event["object"]["spec"]["targetCluster"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(targets, ["a", "c"].map(str::to_owned).into());
    stage.stop().await;
}

#[tokio::test]
async fn r163_one_kind_holds_the_three_types_of_placement() {
    let mut stage = three_clusters().await;
    for (name, policy) in [
        ("all", json!({"placementType": "PickAll"})),
        ("some", json!({"placementType": "PickN", "numberOfClusters": 2})),
        ("these", fixed(&["b"])),
    ] {
        stage.post(PLACEMENTS, &placement(name, policy)).await;
    }
    stage.settle().await;
    for (name, count) in [("all", 3), ("some", 2), ("these", 1)] {
        // R169: the label by which they are selected.
        let of = format!("{BINDINGS}?labelSelector=kubernetes-fleet.io/parent-CRP%3D{name}");
        assert_eq!(stage.list(&of).await.len(), count, "{name}");
    }
    stage.stop().await;
}

#[tokio::test]
async fn r162_r164_placements_that_are_decided_at_once_get_each_cluster_once() {
    let mut stage = three_clusters().await;
    let since = stage.get(BINDINGS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for number in 0..20 {
        let object = placement(&format!("shop-{number}"), json!({"placementType": "PickAll"}));
        stage.post(PLACEMENTS, &object).await;
    }
    stage.settle().await;
    let mut made = BTreeSet::new();
    for event in stage.events(&format!("{BINDINGS}?resourceVersion={since}")).await {
        let binding = &event["object"];
        if event["type"] == "ADDED" {
            let of = binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"].to_string();
            assert!(made.insert((of, binding["spec"]["targetCluster"].to_string())), "a second one: {binding}");
        }
    }
    assert_eq!(made.len(), 60);
    stage.stop().await;
}

#[tokio::test]
async fn r169_r170_r172_r173_the_scheduler_makes_and_unschedules_and_the_rollout_does_the_rest() {
    let mut stage = three_clusters().await;
    stage.post(PLACEMENTS, &placement("shop", fixed(&["a"]))).await;
    stage.finish(PLACEMENT_CONTROLLER).await;
    stage.finish(SCHEDULER).await;
    let binding = stage.list(BINDINGS).await.remove(0);
    assert_eq!(binding["metadata"]["finalizers"], json!(["kubernetes-fleet.io/scheduler-crb-cleanup"]));
    let decision = json!({"clusterName": "a", "selected": true,
        "reason": "Successfully scheduled resources for placement in \"a\": picked by scheduling policy"});
    let spec = json!({"state": "Scheduled", "targetCluster": "a", "resourceSnapshotName": "",
        "schedulingPolicySnapshotName": "shop-0", "clusterDecision": decision});
    assert_eq!(binding["spec"], spec);
    stage.settle().await;
    let bound = stage.list(BINDINGS).await.remove(0);
    assert_eq!(
        (&bound["spec"]["state"], &bound["spec"]["resourceSnapshotName"]),
        (&json!("Bound"), &json!("shop-0-snapshot"))
    );
    // No longer desired: marked by the scheduler, and present until the rollout runs.
    wants(&stage, fixed(&["b"])).await;
    stage.finish(PLACEMENT_CONTROLLER).await;
    stage.finish(SCHEDULER).await;
    assert_eq!(stage.placed().await, "a:Unscheduled b:Scheduled");
    let marked =
        stage.list(BINDINGS).await.into_iter().find(|binding| binding["spec"]["targetCluster"] == "a").unwrap();
    assert_eq!(marked["metadata"]["annotations"], json!({PREVIOUS_STATE: "Bound"}));
    assert!(marked["metadata"]["deletionTimestamp"].is_null());
    stage.settle().await;
    assert_eq!(stage.placed().await, "b:Bound");
    stage.stop().await;
}

#[tokio::test]
async fn r171_conditions_come_with_a_generation_and_may_have_nothing_to_say() {
    let mut stage = three_clusters().await;
    stage.post(PLACEMENTS, &placement("shop", fixed(&["a"]))).await;
    stage.settle().await;
    let binding = stage.list(BINDINGS).await.remove(0);
    let generation = &binding["metadata"]["generation"];
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "", "observedGeneration": generation,
               "lastTransitionTime": "2023-11-10T08:14:52Z"})
    };
    let conditions = json!([condition("Bound", "AllWorkSynced"), condition("Applied", "AllWorkHasBeenApplied")]);
    let status = format!("{BINDINGS}/{}/status", binding["metadata"]["name"].as_str().unwrap());
    let reply = stage.merge(&status, &json!({"status": {"conditions": conditions}})).await;
    assert_eq!((reply.code.as_u16(), &reply.json()["status"]["conditions"]), (200, &conditions), "{}", reply.text());
    stage.stop().await;
}

#[tokio::test]
async fn r180_a_cluster_that_joins_gets_its_binding_and_the_others_are_not_touched() {
    let mut stage = three_clusters().await;
    stage.post(PLACEMENTS, &placement("shop", json!({"placementType": "PickAll"}))).await;
    stage.settle().await;
    let before = versions(&stage).await;
    stage.join("d", "gold").await;
    stage.settle().await;
    let after = versions(&stage).await;
    assert_eq!((before.len(), after.len()), (3, 4));
    assert!(before.iter().all(|(name, version)| after.get(name) == Some(version)));
    stage.stop().await;
}

#[tokio::test]
async fn r178_a_cluster_that_was_silent_and_is_heard_again_is_gained() {
    for policy in
        [json!({"placementType": "PickAll"}), json!({"placementType": "PickN", "numberOfClusters": 4}), fixed(&["d"])]
    {
        let mut stage = three_clusters().await;
        stage.join("d", "gold").await;
        stage.hear("d", 301).await;
        stage.post(PLACEMENTS, &placement("shop", policy)).await;
        stage.settle().await;
        assert!(!stage.placed().await.contains("d:"));
        // Its conditions are unchanged except for the time.
        stage.hear("d", 0).await;
        stage.settle().await;
        assert!(stage.placed().await.ends_with("d:Bound"));
        stage.stop().await;
    }
}

#[tokio::test]
async fn r177_a_cluster_that_joins_before_it_is_said_that_one_is_missing_is_not_overlooked() {
    let mut stage = three_clusters().await;
    stage.post(PLACEMENTS, &placement("shop", json!({"placementType": "PickN", "numberOfClusters": 3}))).await;
    stage.settle().await;
    assert_eq!(stage.delete(&format!("{CLUSTERS}/b")).await.code, 200);
    for worker in [SCHEDULER, ROLLOUT, SCHEDULER, MEMBER_CLUSTER, SCHEDULER] {
        stage.finish(worker).await;
    }
    // It is deleted, the scheduler knows that one is missing, and the placement still reports that
    // it is complete.
    stage.join("d", "gold").await;
    stage.finish(SCHEDULER).await;
    stage.settle().await;
    assert_eq!(stage.placed().await, "a:Bound c:Bound d:Bound");
    stage.stop().await;
}

#[tokio::test]
async fn r181_r182_other_resources_move_nothing() {
    let mut stage = three_clusters().await;
    let gold = json!([{"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}]);
    let affinity = json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": gold}});
    let policy = json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity});
    stage.post(PLACEMENTS, &placement("shop", policy)).await;
    stage.settle().await;
    assert_eq!(stage.placed().await, "c:Bound");
    // The policy would now pick another one.
    stage.merge(&format!("{CLUSTERS}/c"), &json!({"metadata": {"labels": {"tier": "tin"}}})).await;
    stage.settle().await;
    let before = versions(&stage).await;
    let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "other"}]);
    let reply = stage.merge(&format!("{PLACEMENTS}/shop"), &json!({"spec": {"resourceSelectors": selectors}})).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
    stage.settle().await;
    assert_eq!((versions(&stage).await, stage.list(SNAPSHOTS).await.len()), (before, 1));
    // The resources alone: rolled out to the present clusters, without a scheduling cycle.
    let policy_version = stage.list(SNAPSHOTS).await[0]["metadata"]["resourceVersion"].clone();
    let labels = json!({"kubernetes-fleet.io/parent-CRP": "shop", "kubernetes-fleet.io/resource-index": "1",
                        "kubernetes-fleet.io/is-latest-snapshot": "true"});
    let newer = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceSnapshot",
        "metadata": {"name": "shop-1-snapshot", "labels": labels}, "spec": {"selectedResources": []}});
    stage.post(RESOURCES, &newer).await;
    stage.settle().await;
    assert_eq!(stage.placed().await, "c:Bound");
    assert_eq!(stage.list(SNAPSHOTS).await[0]["metadata"]["resourceVersion"], policy_version);
    stage.stop().await;
}

#[tokio::test]
async fn r183_a_bound_binding_may_still_say_what_it_was() {
    let mut stage = three_clusters().await;
    stage.post(PLACEMENTS, &placement("shop", fixed(&["a"]))).await;
    stage.settle().await;
    let name = stage.list(BINDINGS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let annotation = json!({"metadata": {"annotations": {PREVIOUS_STATE: "Bound"}}});
    assert_eq!(stage.merge(&format!("{BINDINGS}/{name}"), &annotation).await.code, 200);
    stage.settle().await;
    assert_eq!(stage.placed().await, "a:Bound");
    // Unscheduled and rescheduled before the rollout has observed either: it is unchanged, and
    // still reports its state (C18).
    for names in [["b"], ["a"]] {
        wants(&stage, fixed(&names)).await;
        stage.finish(PLACEMENT_CONTROLLER).await;
        stage.finish(SCHEDULER).await;
    }
    let kept = stage.get(&format!("{BINDINGS}/{name}")).await;
    assert_eq!(
        (&kept["spec"]["state"], &kept["metadata"]["annotations"][PREVIOUS_STATE]),
        (&json!("Bound"), &json!("Bound"))
    );
    stage.settle().await;
    assert_eq!(stage.placed().await, "a:Bound");
    stage.stop().await;
}

/// Returns the decisions of the latest snapshot: each cluster, and whether it was picked.
async fn decisions(stage: &Stage) -> String {
    let latest = stage.list(&format!("{SNAPSHOTS}?labelSelector=kubernetes-fleet.io/is-latest-snapshot%3Dtrue")).await;
    let mut told: Vec<String> = latest[0]["status"]["targetClusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            assert_ne!(it["reason"], "", "{it}");
            format!("{}:{}", it["clusterName"].as_str().unwrap(), it["selected"])
        })
        .collect();
    told.sort();
    told.join(" ")
}

/// Differs from KubeFleet (D59).
#[tokio::test]
async fn r175_after_a_change_of_the_policy_each_cluster_has_its_reason_and_keeps_it() {
    let mut stage = three_clusters().await;
    let prefer = |name: &str| {
        let term = json!([{"weight": 50, "preference": {"labelSelector": {"matchLabels": {"name": name}}}}]);
        let affinity = json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": term}});
        json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity})
    };
    for name in ["a", "b", "c"] {
        stage.merge(&format!("{CLUSTERS}/{name}"), &json!({"metadata": {"labels": {"name": name}}})).await;
    }
    stage.post(PLACEMENTS, &placement("shop", prefer("a"))).await;
    stage.settle().await;
    assert_eq!(decisions(&stage).await, "a:true b:false c:false");
    wants(&stage, prefer("b")).await;
    stage.finish(PLACEMENT_CONTROLLER).await;
    stage.finish(SCHEDULER).await;
    assert_eq!(decisions(&stage).await, "a:false b:true c:false", "before the old binding is gone");
    stage.settle().await;
    assert_eq!(stage.placed().await, "b:Bound");
    assert_eq!(decisions(&stage).await, "a:false b:true c:false", "after it");
    // A pass that changes no binding, as after a restart.
    stage.restart_workers();
    stage.settle().await;
    assert_eq!(decisions(&stage).await, "a:false b:true c:false");
    // A pass that changes some bindings reports again.
    assert_eq!(stage.delete(&format!("{CLUSTERS}/b")).await.code, 200);
    stage.settle().await;
    assert!(decisions(&stage).await.contains(":true"), "{}", decisions(&stage).await);
    assert!(!decisions(&stage).await.contains("b:true"));
    stage.stop().await;
}
