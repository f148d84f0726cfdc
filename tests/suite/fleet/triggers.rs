//! An accepted trigger is served, regardless of later writes to its placement.

use http::Method;
use serde_json::{Value, json};

use super::stage::{CLUSTERS, PLACEMENTS, SNAPSHOTS, Stage, placement};

const TASKS: &str = "/apis/task.karmada.io/v1alpha1/rescheduletasks";
const TRIGGERED_AT_FIELD: &str = "ballast.dev/reschedule-triggered-at";

fn manifest() -> Value {
    let gold = json!([{"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}]);
    let affinity = json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": gold}});
    placement("shop", json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity}))
}

/// Creates a placement on `a`, where a new decision would pick `b`: only a trigger moves it.
async fn left_behind() -> Stage {
    let mut stage = Stage::new().await;
    stage.join("a", "gold").await;
    stage.join("b", "tin").await;
    stage.post(PLACEMENTS, &manifest()).await;
    stage.settle().await;
    for (name, tier) in [("a", "tin"), ("b", "gold")] {
        let labels = json!({"metadata": {"labels": {"tier": tier}}});
        assert_eq!(stage.merge(&format!("{CLUSTERS}/{name}"), &labels).await.code, 200);
    }
    stage.settle().await;
    assert_eq!(stage.placed().await, "a:Bound", "IgnoreDuringExecution is the rule");
    stage
}

async fn trigger(stage: &Stage) {
    let resource = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
                          "name": "shop"});
    let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
                      "metadata": {"name": "again"}, "spec": {"targetRefResource": [resource]}});
    stage.post(TASKS, &task).await;
}

#[tokio::test]
async fn a_trigger_survives_whoever_writes_the_placement_before_it_is_served() {
    let shop = format!("{PLACEMENTS}/shop");
    let past = json!({"metadata": {"annotations": {TRIGGERED_AT_FIELD: "2001-01-01T00:00:00Z"}}});
    for way in ["replace", "replace with an earlier stamp", "merge patch", "JSON patch"] {
        let mut stage = left_behind().await;
        trigger(&stage).await;
        let timestamp = stage.get(&shop).await["metadata"]["annotations"][TRIGGERED_AT_FIELD].clone();
        assert!(timestamp.is_string());
        let reply = match way {
            "replace" => stage.replace(&shop, &manifest()).await,
            "replace with an earlier stamp" => {
                let mut object = manifest();
                object["metadata"]["annotations"] = past["metadata"]["annotations"].clone();
                stage.replace(&shop, &object).await
            }
            "merge patch" => stage.merge(&shop, &json!({"metadata": {"annotations": null}})).await,
            _ => {
                let remove = json!([{"op": "remove", "path": "/metadata/annotations"}]);
                stage.send(Method::PATCH, &shop, "application/json-patch+json", &remove).await
            }
        };
        assert_eq!(reply.code, 200, "{way}: {}", reply.text());
        assert_eq!(
            reply.json()["metadata"]["annotations"][TRIGGERED_AT_FIELD],
            timestamp,
            "{way}: the answer shows what is stored"
        );
        stage.settle().await;
        assert_eq!(stage.placed().await, "b:Bound", "{way}");
        stage.stop().await;
    }
}

/// Once served, a trigger stays on record without further effect.
#[tokio::test]
async fn a_trigger_that_was_served_is_not_served_again_by_a_replace() {
    let mut stage = left_behind().await;
    trigger(&stage).await;
    stage.settle().await;
    assert_eq!(stage.list(SNAPSHOTS).await.len(), 2);
    assert_eq!(stage.replace(&format!("{PLACEMENTS}/shop"), &manifest()).await.code, 200);
    stage.settle().await;
    assert_eq!(stage.list(SNAPSHOTS).await.len(), 2);
    // A later timestamp by hand is a trigger, too.
    let later = json!({"metadata": {"annotations": {TRIGGERED_AT_FIELD: "2999-01-01T00:00:00Z"}}});
    assert_eq!(stage.merge(&format!("{PLACEMENTS}/shop"), &later).await.code, 200);
    stage.settle().await;
    assert_eq!(stage.list(SNAPSHOTS).await.len(), 3);
    stage.stop().await;
}
