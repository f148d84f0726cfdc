//! Placement reviews over HTTPS: they answer, and the database is the same before and after.

use ballast::k8s::Revision;
use ballast::store::{Change, SqliteStore, Store};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stories::fleet::{binding, by_room, cluster};
use crate::support::objects::CLUSTERS;
use crate::support::server::{Database, Options, TestServer};

const JSON: (&str, &str) = ("content-type", "application/json");
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const LOCAL_REVIEWS: &str = "/apis/ballast.dev/v1alpha1/namespaces/default/localplacementreviews";
const DEFAULT_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

/// Every row of the log of a server that has stopped.
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
        // Asked of the past, which the window remembers.
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
