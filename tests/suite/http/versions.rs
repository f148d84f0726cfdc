//! A kind that is served in two versions: one object under two names.

use http::Method;
use serde_json::{Value, json};

use crate::support::raw::{Connection, Reply};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const BETA: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const STABLE: &str = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements";

fn placement(version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("placement.kubernetes-fleet.io/{version}"), "kind": "ClusterResourcePlacement",
           "metadata": {"name": name},
           "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]}})
}

async fn get(admin: &Connection, path: &str) -> Reply {
    admin.send(Method::GET, path, &[], "").await
}

#[tokio::test]
async fn an_object_is_read_and_written_in_both_versions() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let created = admin.send(Method::POST, STABLE, &[JSON], placement("v1", "a").to_string()).await;
    assert_eq!(
        (created.code.as_u16(), &created.json()["apiVersion"]),
        (201, &json!("placement.kubernetes-fleet.io/v1"))
    );
    let mut beta = get(&admin, &format!("{BETA}/a")).await.json();
    assert_eq!(beta["apiVersion"], "placement.kubernetes-fleet.io/v1beta1");
    let mut stable = get(&admin, &format!("{STABLE}/a")).await.json();
    assert_eq!(stable["apiVersion"], "placement.kubernetes-fleet.io/v1");
    assert_eq!((&stable["metadata"], &stable["spec"]), (&beta["metadata"], &beta["spec"]));

    // The object is written in one version and read in the other, at the same resourceVersion.
    stable["metadata"]["labels"] = json!({"tier": "front"});
    let put = admin.send(Method::PUT, &format!("{STABLE}/a"), &[JSON], stable.to_string()).await;
    assert_eq!((put.code.as_u16(), &put.json()["apiVersion"]), (200, &json!("placement.kubernetes-fleet.io/v1")));
    beta["metadata"]["labels"] = json!({"tier": "back"});
    let stale = admin.send(Method::PUT, &format!("{BETA}/a"), &[JSON], beta.to_string()).await;
    assert_eq!(stale.code.as_u16(), 409);
    let patch = json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "metadata": {"labels": {"tier": "mid"}}});
    let patched = admin.send(Method::PATCH, &format!("{STABLE}/a"), &[MERGE], patch.to_string()).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["metadata"]["labels"]["tier"]), (200, &json!("mid")));
    assert_eq!(get(&admin, &format!("{BETA}/a")).await.json()["metadata"]["labels"]["tier"], "mid");
    // A manager that applies in one version still owns what it applied in the other.
    let apply = [("content-type", "application/apply-patch+yaml")];
    for (path, version, tier) in [(STABLE, "v1", "top"), (BETA, "v1beta1", "low")] {
        let mut config = placement(version, "c");
        config["metadata"]["labels"] = json!({"tier": tier});
        let applied = admin.send(Method::PATCH, &format!("{path}/c?fieldManager=me"), &apply, config.to_string()).await;
        let applied = applied.json();
        assert_eq!(
            (&applied["apiVersion"], &applied["metadata"]["labels"]["tier"]),
            (&config["apiVersion"], &json!(tier))
        );
        assert_eq!(applied["metadata"]["managedFields"].as_array().unwrap().len(), 1, "{applied}");
    }
    let wrong = admin.send(Method::POST, STABLE, &[JSON], placement("v1beta1", "b").to_string()).await;
    assert_eq!(wrong.code.as_u16(), 400);
    server.stop().await;
}

#[tokio::test]
async fn lists_tables_and_watches_speak_the_version_of_their_path() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for (path, version, name) in [(BETA, "v1beta1", "a"), (STABLE, "v1", "b")] {
        assert_eq!(admin.send(Method::POST, path, &[JSON], placement(version, name).to_string()).await.code, 201);
    }
    for (path, version) in
        [(BETA, "placement.kubernetes-fleet.io/v1beta1"), (STABLE, "placement.kubernetes-fleet.io/v1")]
    {
        let list = get(&admin, path).await.json();
        assert_eq!(list["apiVersion"], version);
        let versions: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["apiVersion"]).collect();
        assert_eq!(versions, [version, version]);
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let table = admin.send(Method::GET, &format!("{path}?includeObject=Object"), &table, "").await.json();
        assert_eq!(table["rows"][1]["object"]["apiVersion"], version);
        let watched = get(&admin, &format!("{path}?watch=1&timeoutSeconds=1")).await;
        let events: Vec<Value> = watched.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let versions: Vec<&Value> = events.iter().take(2).map(|event| &event["object"]["apiVersion"]).collect();
        assert_eq!(versions, [version, version]);
    }
    let groups = get(&admin, "/apis/placement.kubernetes-fleet.io").await.json();
    assert_eq!(groups["preferredVersion"]["version"], "v1");
    server.stop().await;
}

/// Upstream's `v1` lacks some of these fields. A client that reads an object in that version and
/// writes it back must not lose them.
#[tokio::test]
async fn a_round_trip_through_one_version_loses_nothing_that_was_set_through_the_other() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut whole = placement("v1beta1", "a");
    whole["spec"]["statusReportingScope"] = json!("NamespaceAccessible");
    whole["spec"]["resourceSelectors"][0]["selectionScope"] = json!("NamespaceOnly");
    whole["spec"]["strategy"] = json!({
        "deleteStrategy": {"propagationPolicy": "Abandon"},
        "reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"},
        "applyStrategy": {"whenToTakeOver": "Never"},
    });
    assert_eq!(admin.send(Method::POST, BETA, &[JSON], whole.to_string()).await.code, 201);
    let before = get(&admin, &format!("{BETA}/a")).await.json();
    let stable = get(&admin, &format!("{STABLE}/a")).await.json();
    let put = admin.send(Method::PUT, &format!("{STABLE}/a?fieldValidation=Strict"), &[JSON], stable.to_string()).await;
    assert_eq!(put.code, 200, "{}", put.text());
    assert_eq!(get(&admin, &format!("{BETA}/a")).await.json(), before, "nothing was written");
    let patch = json!({"spec": {"revisionHistoryLimit": 3}});
    assert_eq!(admin.send(Method::PATCH, &format!("{STABLE}/a"), &[MERGE], patch.to_string()).await.code, 200);
    let mut expected = before["spec"].clone();
    expected["revisionHistoryLimit"] = json!(3);
    assert_eq!(get(&admin, &format!("{BETA}/a")).await.json()["spec"], expected);
    // Stored fields are also published: `kubectl explain
    // --api-version=placement.kubernetes-fleet.io/v1`.
    let schema = get(&admin, "/openapi/v3/apis/placement.kubernetes-fleet.io/v1").await;
    for field in ["statusReportingScope", "selectionScope", "deleteStrategy", "reportBackStrategy"] {
        assert!(schema.text().contains(field), "{field} is published");
    }
    server.stop().await;
}
