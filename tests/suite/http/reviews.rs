//! Placement reviews over HTTPS return a result and leave the database unchanged.

use ballast::k8s::Revision;
use ballast::rebalance::review::ReviewDetails;
use ballast::store::{Change, SqliteStore, Store};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::fleet::{binding, by_room, cluster};
use crate::support::objects::CLUSTERS;
use crate::support::server::{Database, Options, TestServer};

const JSON: (&str, &str) = ("content-type", "application/json");
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const LOCAL_REVIEWS: &str = "/apis/ballast.dev/v1alpha1/namespaces/default/localplacementreviews";
const DEFAULT_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

/// Returns every row of the log of a stopped server.
async fn rows(folder: &TempDir) -> Vec<Change> {
    let store = SqliteStore::open(&folder.path().join("ballast.db"), &[]).await.unwrap();
    let rows = store.changes(Revision::ZERO, usize::MAX).await.unwrap();
    store.close().await.unwrap();
    rows
}

fn review(kind: &str, spec: Value) -> String {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "spec": spec}).to_string()
}

#[tokio::test]
async fn s4_9_a_review_leaves_the_database_as_it_was() {
    let options = || Options { database: Database::Sqlite, ..Options::default() };
    let server = TestServer::with(options()).await;
    let admin = server.admin().connect().await;
    for name in ["member1", "member2"] {
        let cluster = cluster(name);
        let made = admin.send(Method::POST, CLUSTERS, &[JSON], cluster.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text());
        let mut made = made.json();
        made["status"] = cluster["status"].clone();
        let path = format!("{CLUSTERS}/{name}/status");
        assert_eq!(admin.send(Method::PUT, &path, &[JSON], made.to_string()).await.code, 200);
    }
    for name in ["web", "api"] {
        let binding = binding(name, 4, by_room());
        assert_eq!(admin.send(Method::POST, DEFAULT_BINDINGS, &[JSON], binding.to_string()).await.code, 201);
    }
    drop(admin);
    let folder = server.stop().await;
    let before = rows(&folder).await;

    let server = TestServer::with(Options { folder: Some(folder), ..options() }).await;
    let admin = server.admin().connect().await;
    let spec =
        json!({"select": [{}], "explain": "Full", "suppose": {"clusters": [{"name": "member1", "absent": true}]}});
    for (path, kind) in [(REVIEWS, "PlacementReview"), (LOCAL_REVIEWS, "LocalPlacementReview")] {
        let reply = admin.send(Method::POST, path, &[JSON], review(kind, spec.clone())).await;
        assert_eq!(reply.code, 201, "{}", reply.text());
        let status = reply.json()["status"].clone();
        assert_eq!((&status["summary"]["toMove"], &status["remaining"]), (&json!(2), &json!(0)), "{status}");
        assert_eq!(status["moves"][0]["to"], json!([{"name": "member2", "replicas": 4}]));
        // Queries the past, within the window.
        let past = json!({"select": [{}], "asOf": {"revision": status["revision"]}, "mode": "AsIs"});
        let reply = admin.send(Method::POST, path, &[JSON], review(kind, past)).await;
        assert_eq!(reply.json()["status"]["revision"], status["revision"], "{}", reply.text());
        let unknown =
            review(kind, json!({"suppose": {"clusters": [{"name": "member3", "absent": true}]}, "select": [{}]}));
        let reply = admin.send(Method::POST, path, &[JSON], unknown).await;
        assert_eq!(reply.code, 422, "{}", reply.text());
        assert_eq!(reply.json()["details"]["causes"][0]["field"], "spec.suppose.clusters[0].name");
    }
    drop(admin);
    let folder = server.stop().await;
    assert_eq!(rows(&folder).await, before);
}

/// A user of one namespace tries to list other clusters, by every field of a review.
#[tokio::test]
async fn wh11_with_own_details_a_local_review_names_the_clusters_of_its_namespace_alone() {
    for details in [ReviewDetails::Full, ReviewDetails::Own] {
        let server = TestServer::with(Options { local_review_details: details, ..Options::default() }).await;
        let admin = server.admin().connect().await;
        for name in ["member1", "member2", "hidden1"] {
            let cluster = cluster(name);
            assert_eq!(admin.send(Method::POST, CLUSTERS, &[JSON], cluster.to_string()).await.code, 201);
            let path = format!("{CLUSTERS}/{name}/status");
            let status = json!({"status": cluster["status"]}).to_string();
            let form = [("content-type", "application/merge-patch+json")];
            assert_eq!(admin.send(Method::PATCH, &path, &form, status).await.code, 200);
        }
        let only = |name: &str| json!({"clusterAffinity": {"clusterNames": [name]}});
        for binding in [
            binding("web", 4, only("member1")),
            binding("huge", 1_000_000, {
                let mut placement = by_room();
                placement["clusterAffinity"] = json!({"clusterNames": ["member2"]});
                placement
            }),
        ] {
            assert_eq!(admin.send(Method::POST, DEFAULT_BINDINGS, &[JSON], binding.to_string()).await.code, 201);
        }
        let ask = async |kind: &str, path: &str, spec: Value| {
            let reply = admin.send(Method::POST, path, &[JSON], review(kind, spec)).await;
            (reply.code.as_u16(), reply.json())
        };
        let local = async |spec: Value| ask("LocalPlacementReview", LOCAL_REVIEWS, spec).await;
        let told = |answer: &Value| answer["status"].to_string() + &answer["message"].to_string();
        let mut leaks = Vec::new();
        for spec in [
            json!({"select": [{}], "explain": "Full"}),
            json!({"select": [{}], "explain": "Losers", "mode": "AsIs"}),
            // A similar name.
            json!({"select": [{"placedOn": ["hidden"]}]}),
            json!({"select": [{}], "suppose": {"clusters": [{"name": "hidden", "absent": true}]}}),
            json!({"select": [{}], "suppose": {"clusters": [{"name": "new", "like": "hidden"}]}}),
        ] {
            let (_, answer) = local(spec.clone()).await;
            leaks.extend(told(&answer).contains("hidden1").then_some(spec));
        }
        // A cluster outside the namespace gets the same response as one that does not exist.
        let mut refusals = Vec::new();
        for name in ["hidden1", "nothing"] {
            let spec = json!({"select": [{}], "suppose": {"clusters": [{"name": "new", "like": name}]}});
            let (code, answer) = local(spec).await;
            refusals.push((code, answer["message"].to_string().replace(name, "NAME")));
        }
        let (code, planned) = local(json!({"select": [{}], "explain": "Full"})).await;
        assert_eq!(code, 201, "{planned}");
        assert_eq!(planned["status"]["moves"][0]["to"], json!([{"name": "member1", "replicas": 4}]), "{planned}");
        let (_, all) = ask("PlacementReview", REVIEWS, json!({"select": [{}], "explain": "Full"})).await;
        assert!(told(&all).contains("hidden1"), "a review of all namespaces names all clusters: {all}");
        match details {
            ReviewDetails::Full => assert_eq!(leaks.len(), 5, "{leaks:?}"),
            ReviewDetails::Own => {
                assert_eq!(leaks, [Value::Null; 0]);
                assert_eq!(refusals[0], refusals[1]);
                assert_eq!(refusals[0].0, 422);
            }
        }
        server.stop().await;
    }
}
