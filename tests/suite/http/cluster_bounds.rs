//! Bounds of clusters at admission (S7): bounds that contradict the replicas are rejected at their
//! field, and fields that the division ignores cause warnings.

use http::Method;
use serde_json::{Value, json};

use super::policy_rules::{JSON, OWN, WIDE, fields, object};
use crate::support::objects;
use crate::support::server::TestServer;

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";

fn bounded(division: &str, more: Value) -> Value {
    let mut strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": division});
    if division == "Duplicated" {
        strategy = json!({"replicaSchedulingType": division});
    }
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    strategy
}

/// Bounds too small for the replicas are rejected if the object alone proves it.
#[tokio::test]
async fn s7_bounds_that_contradict_the_replicas_of_a_binding_are_refused_with_their_field() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let two = json!({"clusterNames": ["m1", "m2"]});
    let most = json!([{"targetCluster": {}, "maxReplicas": 2}]);
    let least = json!([{"targetCluster": {}, "minReplicas": 9}]);
    let bounds = |bounds: &Value| bounded("Aggregated", json!({"clusterBounds": bounds}));
    let partly = bounded("Aggregated", json!({"clusterBounds": most, "whenUnsatisfiable": "ScheduleWhatFits"}));
    for (affinity, strategy, replicas, detail) in [
        (json!({}), bounds(&most), 5, ""),
        (two.clone(), bounds(&most), 4, ""),
        (two.clone(), partly, 5, ""),
        (two.clone(), bounded("Duplicated", json!({"clusterBounds": most})), 5, ""),
        (two.clone(), bounds(&most), 5, "may have 4 replicas, and the workload has 5"),
        (json!({}), bounds(&least), 5, "each cluster must have more than the 5 replicas"),
        (two, bounds(&least), 5, "each cluster must have more than the 5 replicas"),
    ] {
        let placement = json!({"clusterAffinity": affinity, "replicaScheduling": strategy});
        let spec = json!({"replicas": replicas, "placement": placement});
        let body = objects::binding_in("shop", "web-deployment", "web", spec).to_string();
        let reply = connection.send(Method::POST, &format!("{BINDINGS}?dryRun=All"), &[JSON], body).await;
        if detail.is_empty() {
            assert_eq!(reply.code, 201, "{}", reply.text());
            continue;
        }
        assert_eq!((reply.code.as_u16(), fields(&reply)), (422, vec![format!("{STRATEGY}.clusterBounds")]));
        assert!(reply.text().contains(detail), "{} lacks {detail:?}", reply.text());
    }
    server.stop().await;
}

const STRATEGY: &str = "spec.placement.replicaScheduling";

/// A field that the division ignores causes a warning when it is written.
#[tokio::test]
async fn s7_a_field_that_the_division_does_not_obey_is_warned_of() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let own = json!({"clusterBounds": [{"targetCluster": {}, "maxReplicas": 2}],
        "whenUnsatisfiable": "ScheduleWhatFits"});
    for (division, warns) in [("Duplicated", true), ("Weighted", true), ("Aggregated", false)] {
        let spec = json!({"placement": {"replicaScheduling": bounded(division, own.clone())}});
        for path in [OWN, WIDE] {
            let body = object(path, "p", &spec).to_string();
            let reply = connection.send(Method::POST, &format!("{path}?dryRun=All"), &[JSON], body).await;
            assert_eq!(reply.code, 201, "{}", reply.text());
            let warning = reply.header("warning").unwrap_or_default().to_owned();
            let told =
                ["clusterBounds", "whenUnsatisfiable"].map(|field| warning.contains(&format!("{STRATEGY}.{field}")));
            assert!(told[0] == warns, "{division}: {warning}");
        }
    }
    // Strict validation rejects a similar spelling.
    let near = json!({"placement": {"replicaScheduling": bounded("Aggregated", json!({"clusterBound": []}))}});
    let path = format!("{OWN}?dryRun=All&fieldValidation=Strict");
    let reply = connection.send(Method::POST, &path, &[JSON], object(OWN, "p", &near).to_string()).await;
    assert_eq!(reply.code, 400, "{}", reply.text());
    assert!(reply.text().contains("clusterBound"), "{}", reply.text());
    server.stop().await;
}
