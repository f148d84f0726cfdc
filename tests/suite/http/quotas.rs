//! Quotas apply to client writes, over HTTPS (QU1-QU3).

use http::Method;
use serde_json::{Value, json};

use crate::support::objects;
use crate::support::raw::{Connection, Reply};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
const QUOTAS: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/federatedresourcequotas";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";

fn binding(name: &str, clusters: Value) -> Value {
    let spec = json!({
        "replicas": 1, "clusters": clusters,
        "replicaRequirements": {"resourceRequest": {"cpu": "10m"}},
    });
    objects::with(objects::binding(name), json!({"spec": spec}))
}

fn on(replicas: i64) -> Value {
    json!([{"name": "m1", "replicas": replicas}])
}

struct Shop {
    server: TestServer,
    connection: Connection,
}

impl Shop {
    /// A namespace with a quota of 20m.
    async fn open() -> Shop {
        let server = TestServer::start().await;
        let connection = server.admin().connect().await;
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q"}, "spec": {"overall": {"cpu": "20m"}}});
        let shop = Shop { server, connection };
        assert_eq!(shop.send(Method::POST, QUOTAS, JSON, &quota).await.code, 201);
        shop
    }

    async fn send(&self, method: Method, path: &str, form: (&str, &str), body: &Value) -> Reply {
        self.connection.send(method, path, &[form], body.to_string()).await
    }

    async fn post(&self, query: &str, body: &Value) -> Reply {
        self.send(Method::POST, &format!("{BINDINGS}{query}"), JSON, body).await
    }

    async fn used(&self) -> Value {
        let quota = self.connection.send(Method::GET, &format!("{QUOTAS}/q"), &[], "").await.json();
        quota["status"]["overallUsed"]["cpu"].clone()
    }
}

#[track_caller]
fn assert_refused(reply: &Reply, sum: &str) {
    let status = reply.json();
    let message = format!("FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum {sum}, limit 20m.");
    assert_eq!((reply.code.as_u16(), &status["reason"]), (403, &json!("QuotaExceeded")), "{status}");
    assert_eq!(status["message"], json!(message));
    assert_eq!((&status["details"]["kind"], &status["code"]), (&json!("resourcebindings"), &json!(403)));
}

#[tokio::test]
async fn qu3_what_clients_write_above_a_quota_is_refused_by_every_verb() {
    let shop = Shop::open().await;
    assert_refused(&shop.post("", &binding("web", on(8))).await, "80m");
    assert_eq!(shop.used().await, Value::Null);
    assert_eq!(shop.post("", &binding("web", on(1))).await.code, 201);
    assert_eq!(shop.used().await, "10m");
    let path = format!("{BINDINGS}/web");
    let grown = json!({"spec": {"clusters": on(3)}});
    assert_refused(&shop.send(Method::PATCH, &path, MERGE, &grown).await, "30m");
    let mut whole = shop.connection.send(Method::GET, &path, &[], "").await.json();
    whole["spec"]["replicaRequirements"]["resourceRequest"]["cpu"] = json!("30m");
    assert_refused(&shop.send(Method::PUT, &path, JSON, &whole).await, "30m");
    let applied = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "spec": {"resource": whole["spec"]["resource"], "clusters": on(5)}});
    let forced = format!("{path}?fieldManager=me&force=true");
    assert_refused(&shop.send(Method::PATCH, &forced, APPLY, &applied).await, "50m");
    assert_eq!(shop.used().await, "10m", "what was refused was not charged");
    let fits = json!({"spec": {"clusters": on(2)}});
    assert_eq!(shop.send(Method::PATCH, &path, MERGE, &fits).await.code, 200);
    assert_eq!(shop.used().await, "20m");
    assert_eq!(shop.send(Method::DELETE, &path, JSON, &json!({})).await.code, 200);
    assert_eq!(shop.used().await, Value::Null, "a deletion gives back");
    shop.server.stop().await;
}

#[tokio::test]
async fn qu3_a_dry_run_is_refused_alike_and_updates_nothing() {
    let shop = Shop::open().await;
    assert_refused(&shop.post("?dryRun=All", &binding("web", on(3))).await, "30m");
    assert_eq!(shop.post("?dryRun=All", &binding("web", on(2))).await.code, 201);
    assert_eq!(shop.used().await, Value::Null);
    assert_eq!(shop.post("", &binding("web", on(2))).await.code, 201);
    let path = format!("{BINDINGS}/web?dryRun=All");
    let grown = json!({"spec": {"clusters": on(3)}});
    assert_refused(&shop.send(Method::PATCH, &path, MERGE, &grown).await, "30m");
    let shrunk = json!({"spec": {"clusters": on(1)}});
    assert_eq!(shop.send(Method::PATCH, &path, MERGE, &shrunk).await.code, 200);
    assert_eq!(shop.send(Method::DELETE, &path, JSON, &json!({})).await.code, 200);
    assert_eq!(shop.used().await, "20m");
    shop.server.stop().await;
}

#[tokio::test]
async fn qu2_what_uses_no_more_than_before_is_not_looked_at() {
    let shop = Shop::open().await;
    assert_eq!(shop.post("", &binding("web", on(2))).await.code, 201);
    let quota = json!({"spec": {"overall": {"cpu": "10m"}}});
    assert_eq!(shop.send(Method::PATCH, &format!("{QUOTAS}/q"), MERGE, &quota).await.code, 200);
    let path = format!("{BINDINGS}/web");
    for change in [
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"spec": {"clusters": [{"name": "m2", "replicas": 2}]}}),
        json!({"spec": {"replicas": 7}}),
    ] {
        let reply = shop.send(Method::PATCH, &path, MERGE, &change).await;
        assert_eq!(reply.code, 200, "{}", reply.text());
    }
    assert_eq!(shop.used().await, "20m");
    assert_eq!(shop.post("", &binding("free", json!([]))).await.code, 201);
    shop.server.stop().await;
}

/// Twenty concurrent clients request capacity that suffices for two.
#[tokio::test]
async fn qu2_clients_that_come_together_do_not_overshoot() {
    let shop = Shop::open().await;
    let writes = (0..20).map(|index| {
        let body = binding(&format!("w{index}"), on(1));
        let shop = &shop;
        async move { shop.post("", &body).await.code.as_u16() }
    });
    let mut codes = futures_util::future::join_all(writes).await;
    codes.sort_unstable();
    assert_eq!((codes[1], codes[2], codes.len()), (201, 403, 20));
    assert_eq!(shop.used().await, "20m");
    shop.server.stop().await;
}

/// Karmada's webhook counts quotas itself, by a PUT of the status from its cache, for many bindings
/// at once. It rejects a binding after a few conflicts.
#[tokio::test]
async fn qu5_a_status_that_differs_in_what_is_counted_alone_is_no_write_and_no_conflict() {
    let shop = Shop::open().await;
    let (path, status) = (format!("{QUOTAS}/q"), format!("{QUOTAS}/q/status"));
    let stored = async || shop.send(Method::GET, &path, JSON, &json!({})).await.json();
    let put = async |body: &Value| shop.send(Method::PUT, &status, JSON, body).await;
    let old = stored().await;
    assert_eq!(shop.post("", &binding("web", on(1))).await.code, 201);
    let newest = stored().await;
    assert_ne!(newest["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);

    for version in [&old, &newest] {
        let mut counted = version.clone();
        counted["status"]["overallUsed"] = json!({"cpu": "20m"});
        let reply = put(&counted).await;
        assert_eq!((reply.code.as_u16(), reply.json()), (200, newest.clone()), "the answer is what is stored");
    }
    assert_eq!(stored().await, newest, "nothing was written");

    let mut reported = old.clone();
    reported["status"]["aggregatedStatus"] = json!([{"clusterName": "m1", "used": {"cpu": "1m"}}]);
    assert_eq!(put(&reported).await.code, 409, "what clients write has its version");
    reported["metadata"]["resourceVersion"] = newest["metadata"]["resourceVersion"].clone();
    reported["status"]["overallUsed"] = json!({"cpu": "7m"});
    let reply = put(&reported).await.json();
    assert_eq!(reply["status"]["aggregatedStatus"], reported["status"]["aggregatedStatus"]);
    assert_eq!(reply["status"]["overallUsed"], json!({"cpu": "10m"}), "the answer has what is counted");

    let mut other = old.clone();
    other["metadata"]["uid"] = json!("9d7f6d5c-0000-4000-8000-000000000000");
    assert_eq!(put(&other).await.code, 409, "another object");
    let mut unversioned = newest.clone();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(put(&unversioned).await.code, 422);
    let mut main = old;
    main["spec"]["overall"]["cpu"] = json!("30m");
    assert_eq!(shop.send(Method::PUT, &path, JSON, &main).await.code, 409, "the rest has its version, too");
    shop.server.stop().await;
}

#[tokio::test]
async fn an_eviction_task_of_a_client_holds_what_was_there_and_counts() {
    let shop = Shop::open().await;
    let task = |cluster: &str, replicas: i64| {
        json!({"fromCluster": cluster, "replicas": replicas, "reason": "R", "producer": "p",
            "suppressDeletion": true})
    };
    let tasks = |tasks: Value| json!({"spec": {"clusters": [], "gracefulEvictionTasks": tasks}});
    let replicas = |stored: &Value| -> Vec<i64> {
        let tasks = stored["spec"]["gracefulEvictionTasks"].as_array().unwrap();
        tasks.iter().map(|task| task["replicas"].as_i64().unwrap()).collect()
    };
    let huge = i64::from(i32::MAX);
    let invented = objects::with(binding("web", on(2)), tasks(json!([task("m2", huge), task("m3", huge)])));
    let stored = shop.post("", &objects::with(invented, json!({"spec": {"clusters": on(2)}}))).await;
    let restored = "a new binding has no more than its replicas";
    assert_eq!((stored.code.as_u16(), replicas(&stored.json())), (201, vec![1, 0]), "{restored}: {}", stored.text());
    let path = format!("{BINDINGS}/web");
    let without = json!({"spec": {"gracefulEvictionTasks": null}});
    assert_eq!(shop.send(Method::PATCH, &path, MERGE, &without).await.code, 200);
    assert_eq!(shop.used().await, "20m");
    // It leaves the only cluster: its replicas still count.
    let left = shop.send(Method::PATCH, &path, MERGE, &tasks(json!([task("m1", huge), task("m2", huge)]))).await;
    assert_eq!((left.code.as_u16(), replicas(&left.json())), (200, vec![2, 0]), "{}", left.text());
    assert_eq!(shop.used().await, "10m", "one of them is what the workload wants, the other moves");
    let replaced = json!({"spec": {"clusters": [{"name": "m4", "replicas": 1}]}});
    assert_eq!(shop.send(Method::PATCH, &path, MERGE, &replaced).await.code, 200);
    assert_eq!(shop.used().await, "20m", "one more than the workload has is leaving");
    shop.server.stop().await;
}
