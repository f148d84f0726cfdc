//! Unavailable replicas over HTTPS: in reviews and in columns, from the moment of a failure.

use http::Method;
use serde_json::{Value, json};

use crate::support::fleet::{binding, by_room, cluster};
use crate::support::objects::{CLUSTERS, with};
use crate::support::raw::Connection;
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
const API: &str = "/apis/ballast.dev/v1alpha1";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

async fn ready(admin: &Connection, name: &str, status: &str) {
    let path = format!("{CLUSTERS}/{name}/status");
    let mut now = admin.send(Method::GET, &path, &[], "").await.json();
    now["status"] = cluster(name)["status"].clone();
    now["status"]["conditions"] = json!([{"type": "Ready", "status": status, "reason": "r", "message": "m",
        "lastTransitionTime": "2026-11-27T03:00:00Z"}]);
    let reply = admin.send(Method::PUT, &path, &[JSON], now.to_string()).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
}

/// Returns the response to a review, of the namespace or cluster-wide.
async fn review(admin: &Connection, namespace: Option<&str>) -> Value {
    let (path, kind) = match namespace {
        Some(namespace) => (format!("{API}/namespaces/{namespace}/localfleetreviews"), "LocalFleetReview"),
        None => (format!("{API}/fleetreviews"), "FleetReview"),
    };
    let question = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind});
    let reply = admin.send(Method::POST, &path, &[JSON], question.to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    reply.json()["status"].clone()
}

/// Creates a workload with four replicas on two clusters in two regions, three of them ready.
async fn fleet(server: &TestServer) -> Connection {
    let admin = server.admin().connect().await;
    for (name, region) in [("member1", "eu-west"), ("member2", "us-east")] {
        let cluster = with(cluster(name), json!({"spec": {"region": region}}));
        assert_eq!(admin.send(Method::POST, CLUSTERS, &[JSON], cluster.to_string()).await.code, 201);
        ready(&admin, name, "True").await;
    }
    let placed =
        json!({"spec": {"clusters": [{"name": "member1", "replicas": 3}, {"name": "member2", "replicas": 1}]}});
    let web = with(binding("web", 4, by_room()), placed);
    let reply = admin.send(Method::POST, BINDINGS, &[JSON], web.to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    let path = format!("{BINDINGS}/web-deployment/status");
    let mut web = admin.send(Method::GET, &path, &[], "").await.json();
    web["status"]["aggregatedStatus"] = json!([
        {"clusterName": "member1", "applied": true, "status": {"replicas": 3, "readyReplicas": 2}},
        {"clusterName": "member2", "applied": true, "status": {"replicas": 1, "readyReplicas": 1}},
    ]);
    let reply = admin.send(Method::PUT, &path, &[JSON], web.to_string()).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
    admin
}

#[tokio::test]
async fn ng1_a_review_tells_what_is_missing_from_the_moment_of_the_loss() {
    let server = TestServer::start().await;
    let admin = fleet(&server).await;
    let counts =
        |wanted: i64, ready: i64| json!({"workloads": 1, "wanted": wanted, "ready": ready, "missing": wanted - ready});
    let before = review(&admin, None).await;
    assert_eq!(before["replicas"], counts(4, 3), "{before}");
    assert_eq!(before["clusterCounts"], json!({"total": 2, "lost": 0}));

    ready(&admin, "member1", "Unknown").await;
    let after = review(&admin, None).await;
    assert_eq!(after["replicas"], counts(4, 1), "{after}");
    assert_eq!(after["clusterCounts"], json!({"total": 2, "lost": 1}));
    let region = &after["regions"][0];
    assert_eq!((&region["name"], &region["replicas"]), (&json!("eu-west"), &counts(3, 0)));
    let lost = &after["clusters"][0];
    assert_eq!(
        (&lost["name"], &lost["ready"], &lost["replicas"]),
        (&json!("member1"), &json!("Unknown"), &counts(3, 0))
    );
    assert_eq!(lost["toEvict"], 1, "{after}");
    assert_eq!(after["namespaces"], json!([{"name": "default", "replicas": counts(4, 1)}]));
    // The timeout of the eviction has long expired: the test's server has no workers that evict.
    let evictions = &after["evictions"];
    assert_eq!((&evictions["waiting"], &evictions["perSecond"]), (&json!(1), &json!("0.5")), "{after}");
    assert!(evictions["ends"].is_string(), "{after}");
    assert_eq!(review(&admin, Some("default")).await["replicas"], counts(4, 1));
    let other = review(&admin, Some("shop")).await;
    assert_eq!((&other["replicas"]["wanted"], other.get("clusters")), (&json!(0), None), "{other}");
    server.stop().await;
}

#[tokio::test]
async fn ng1_the_columns_of_clusters_show_the_same_numbers() {
    let server = TestServer::start().await;
    let admin = fleet(&server).await;
    let cells = async |name: &str| {
        let table = admin.send(Method::GET, &format!("{CLUSTERS}/{name}"), &[TABLE], "").await.json();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let at = |name: &str| columns.iter().position(|column| column["name"] == name).unwrap();
        let cells = &table["rows"][0]["cells"];
        (cells[at("Replicas")].clone(), cells[at("Missing")].clone())
    };
    assert_eq!(cells("member1").await, (json!("2/3"), json!(1)));
    ready(&admin, "member1", "False").await;
    assert_eq!(cells("member1").await, (json!("0/3"), json!(3)));
    assert_eq!(cells("member2").await, (json!("1/1"), json!(0)));
    server.stop().await;
}

#[tokio::test]
async fn ng2_an_eviction_limit_has_one_name_and_a_rate_that_can_be() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let path = format!("{API}/evictionlimits");
    let create = async |name: &str, rate: Value| {
        let limit = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "EvictionLimit", "metadata": {"name": name},
            "spec": {"bindingsPerSecond": rate}});
        admin.send(Method::POST, &path, &[JSON], limit.to_string()).await
    };
    for (name, rate, field) in [
        ("other", json!("5"), "metadata.name"),
        ("fleet", json!("-1"), "spec.bindingsPerSecond"),
        ("fleet", json!("1001"), "spec.bindingsPerSecond"),
        ("fleet", json!("fast"), "spec.bindingsPerSecond"),
    ] {
        let refused = create(name, rate.clone()).await;
        assert_eq!(refused.code, 422, "{name} {rate}: {}", refused.text());
        assert_eq!(refused.json()["details"]["causes"][0]["field"], field, "{}", refused.text());
    }
    assert_eq!(review(&admin, None).await["evictions"]["rateFrom"], "Flags");
    assert_eq!(create("fleet", json!(7)).await.code, 201);
    let evictions = &review(&admin, None).await["evictions"];
    assert_eq!((&evictions["rateFrom"], &evictions["perSecond"]), (&json!("EvictionLimit"), &json!("7")));
    server.stop().await;
}

#[tokio::test]
async fn a_limit_names_its_author_and_the_past_is_counted_as_it_was() {
    let server = TestServer::start().await;
    let admin = fleet(&server).await;
    let before = review(&admin, None).await;
    ready(&admin, "member1", "Unknown").await;
    let path = format!("{API}/evictionlimits");
    let metadata = json!({"name": "fleet", "annotations": {"ballast.dev/set-by": "somebody else"}});
    let limit = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "EvictionLimit", "metadata": metadata,
        "spec": {"bindingsPerSecond": "0", "note": "INC-4711"}});
    let made = admin.send(Method::POST, &path, &[JSON], limit.to_string()).await.json();
    let author = made["metadata"]["annotations"]["ballast.dev/set-by"].as_str().unwrap();
    assert_ne!(author, "somebody else");
    let now = review(&admin, None).await;
    let evictions = &now["evictions"];
    assert_eq!((&evictions["rateSetBy"], &evictions["rateNote"]), (&json!(author), &json!("INC-4711")), "{now}");
    let table = admin.send(Method::GET, &path, &[TABLE], "").await.json();
    assert!(table["rows"][0]["cells"].as_array().unwrap().contains(&json!(author)), "{table}");

    let as_of = async |as_of: Value| {
        let question = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "FleetReview", "spec": {"asOf": as_of}});
        admin.send(Method::POST, &format!("{API}/fleetreviews"), &[JSON], question.to_string()).await
    };
    let then = as_of(json!({"revision": before["revision"]})).await.json()["status"].clone();
    for part in ["revision", "replicas", "clusterCounts", "regions"] {
        assert_eq!(then[part], before[part], "{part}: {then}");
    }
    assert_eq!(then["evictions"]["rateFrom"], "Flags", "{then}");
    for (asked, fault) in [
        (json!({}), "exactly one of revision and time"),
        (json!({"revision": "9999999"}), "the newest revision is"),
        (json!({"time": "2999-01-01T00:00:00Z"}), "must not be in the future"),
    ] {
        let refused = as_of(asked).await;
        assert_eq!(refused.code, 422, "{}", refused.text());
        assert!(refused.text().contains(fault), "{}", refused.text());
    }
    server.stop().await;
}
