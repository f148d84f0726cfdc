//! Manual changes of the objects of a placement are detected and repaired, in both scopes.

use serde_json::{Value, json};

use super::stage::{BINDINGS, PLACEMENTS, RESOURCES, SNAPSHOTS, Stage, placement};

const PARENT: &str = "kubernetes-fleet.io/parent-CRP";
const ROOT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/team";

/// The paths of the kinds of one scope.
struct Scope {
    kind: &'static str,
    placements: String,
    snapshots: String,
    resources: String,
    bindings: String,
}

fn scopes() -> [Scope; 2] {
    let in_team = |plural: &str| format!("{ROOT}/{plural}");
    [
        Scope {
            kind: "ClusterResourcePlacement",
            placements: PLACEMENTS.to_owned(),
            snapshots: SNAPSHOTS.to_owned(),
            resources: RESOURCES.to_owned(),
            bindings: BINDINGS.to_owned(),
        },
        Scope {
            kind: "ResourcePlacement",
            placements: in_team("resourceplacements"),
            snapshots: in_team("schedulingpolicysnapshots"),
            resources: in_team("resourcesnapshots"),
            bindings: in_team("resourcebindings"),
        },
    ]
}

impl Scope {
    /// `shop` on all of two clusters.
    async fn placed(&self) -> Stage {
        let mut stage = Stage::new().await;
        stage.join("a", "gold").await;
        stage.join("b", "gold").await;
        let mut shop = placement("shop", json!({"placementType": "PickAll"}));
        shop["kind"] = json!(self.kind);
        stage.post(&self.placements, &shop).await;
        stage.settle().await;
        assert_eq!(stage.placed_by(&self.bindings).await, "a:Bound b:Bound");
        stage
    }

    fn shop(&self) -> String {
        format!("{}/shop", self.placements)
    }

    fn binding(&self, binding: &Value) -> String {
        format!("{}/{}", self.bindings, binding["metadata"]["name"].as_str().unwrap())
    }

    /// Deletes the placement, and asserts that none of its objects remain.
    async fn end(&self, mut stage: Stage) {
        assert_eq!(stage.delete(&self.shop()).await.code, 200);
        stage.settle().await;
        for kind in [&self.placements, &self.snapshots, &self.resources, &self.bindings] {
            assert_eq!(stage.list(kind).await, [] as [Value; 0], "{kind}");
        }
        stage.stop().await;
    }
}

#[tokio::test]
async fn r162_a_second_binding_goes_under_whatever_name_it_was_made() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        let first = stage.list(&scope.bindings).await.remove(0);
        // The scheduler's own binding remains: it has the reported status.
        for name in ["shop-a-00000000", "0-made-by-hand", "z-made-by-hand"] {
            let mut twin = first.clone();
            twin["metadata"] = json!({"name": name, "labels": first["metadata"]["labels"]});
            twin.as_object_mut().unwrap().remove("status");
            stage.post(&scope.bindings, &twin).await;
            stage.settle().await;
            let bindings = stage.list(&scope.bindings).await;
            assert_eq!(bindings.len(), 2, "{name}: {bindings:?}");
            assert!(bindings.iter().any(|binding| binding["metadata"]["uid"] == first["metadata"]["uid"]), "{name}");
        }
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn a_binding_under_a_name_of_its_own_goes_with_its_placement_though_the_workers_start_anew() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        let first = stage.list(&scope.bindings).await.remove(0);
        let mut other = first.clone();
        other["metadata"] = json!({"name": "made-by-hand", "labels": first["metadata"]["labels"]});
        other["spec"]["targetCluster"] = json!("nowhere");
        other.as_object_mut().unwrap().remove("status");
        stage.post(&scope.bindings, &other).await;
        stage.restart_workers();
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn a_binding_in_a_state_that_nobody_knows_can_be_deleted_and_is_made_anew() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        let first = stage.list(&scope.bindings).await.remove(0);
        let strange = stage.merge(&scope.binding(&first), &json!({"spec": {"state": "Strange"}})).await;
        assert_eq!(strange.code, 200, "{}", strange.text());
        stage.settle().await;
        assert_eq!(stage.delete(&scope.binding(&first)).await.code, 200);
        stage.settle().await;
        assert_eq!(stage.placed_by(&scope.bindings).await, "a:Bound b:Bound");
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn a_binding_that_is_deleted_is_made_anew_whether_or_not_anybody_holds_it() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        for finalizers in [json!(["kubernetes-fleet.io/scheduler-crb-cleanup"]), json!([])] {
            let first = stage.list(&scope.bindings).await.remove(0);
            let held = stage.merge(&scope.binding(&first), &json!({"metadata": {"finalizers": finalizers}})).await;
            assert_eq!(held.code, 200, "{}", held.text());
            stage.settle().await;
            assert_eq!(stage.delete(&scope.binding(&first)).await.code, 200);
            stage.settle().await;
            assert_eq!(stage.placed_by(&scope.bindings).await, "a:Bound b:Bound", "{finalizers}");
        }
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn snapshots_that_are_deleted_are_made_anew_and_nothing_moves() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        for kind in [&scope.snapshots, &scope.resources] {
            let name = stage.list(kind).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
            assert_eq!(stage.delete(&format!("{kind}/{name}")).await.code, 200);
            stage.settle().await;
            assert_eq!(
                (stage.list(kind).await.len(), stage.placed_by(&scope.bindings).await.as_str()),
                (1, "a:Bound b:Bound")
            );
        }
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn labels_that_are_taken_off_a_snapshot_do_not_stop_its_placement() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        for label in ["kubernetes-fleet.io/is-latest-snapshot", PARENT] {
            let snapshots = stage.list(&scope.snapshots).await;
            let newest = snapshots.last().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
            let bare = json!({"metadata": {"labels": {label: null}}});
            assert_eq!(stage.merge(&format!("{}/{newest}", scope.snapshots), &bare).await.code, 200);
            stage.settle().await;
            let bindings = stage.list(&scope.bindings).await;
            for binding in &bindings {
                let by = binding["spec"]["schedulingPolicySnapshotName"].as_str().unwrap();
                assert!(by > newest.as_str(), "{label}: {by} after {newest}");
            }
        }
        let stopped = json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": null}}});
        assert_eq!(stage.merge(&format!("{}/shop-0-snapshot", scope.resources), &stopped).await.code, 200);
        stage.settle().await;
        stage.join("c", "gold").await;
        stage.settle().await;
        assert_eq!(stage.placed_by(&scope.bindings).await, "a:Bound b:Bound c:Bound");
        // An object without the placement's label is no longer managed by it.
        assert_eq!(stage.delete(&format!("{}/shop-1", scope.snapshots)).await.code, 200);
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn a_binding_that_is_marked_by_hand_is_taken_back() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        // Neither may be unavailable, so the rollout removes neither.
        let careful = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 0}}}});
        assert_eq!(stage.merge(&scope.shop(), &careful).await.code, 200);
        stage.settle().await;
        let first = stage.list(&scope.bindings).await.remove(0);
        let generation = first["metadata"]["generation"].as_i64().unwrap();
        let available = json!({"type": "Available", "status": "True", "reason": "AllWorkAreAvailable", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2026-03-01T12:00:00Z"});
        let told = json!({"status": {"conditions": [available]}});
        assert_eq!(stage.merge(&format!("{}/status", scope.binding(&first)), &told).await.code, 200);
        let mark = json!({"metadata": {"annotations": {"kubernetes-fleet.io/previous-binding-state": "Bound"}},
                          "spec": {"state": "Unscheduled"}});
        assert_eq!(stage.merge(&scope.binding(&first), &mark).await.code, 200);
        stage.settle().await;
        assert_eq!(stage.placed_by(&scope.bindings).await, "a:Bound b:Bound");
        assert_eq!(stage.get(&scope.binding(&first)).await["metadata"]["uid"], first["metadata"]["uid"]);
        scope.end(stage).await;
    }
}

#[tokio::test]
async fn a_binding_that_is_sent_elsewhere_by_hand_is_given_up_and_its_cluster_gets_another() {
    for scope in scopes() {
        let mut stage = scope.placed().await;
        let first = stage.list(&scope.bindings).await.remove(0);
        let sent = stage.merge(&scope.binding(&first), &json!({"spec": {"targetCluster": "nowhere"}})).await;
        assert_eq!(sent.code, 200, "{}", sent.text());
        stage.settle().await;
        assert_eq!(stage.placed_by(&scope.bindings).await, "a:Bound b:Bound");
        scope.end(stage).await;
    }
}
