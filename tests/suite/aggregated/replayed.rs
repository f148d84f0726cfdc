//! Recorded requests of the aggregator and of the clients behind it, sent byte for byte over
//! HTTP/1.1.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::aggregated::Aggregated;
use crate::support::objects::binding;
use crate::support::raw::{Protocol, Raw};

const GV: &str = "/apis/work.karmada.io/v1alpha2";
const R: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
const V2: &str = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const TABLE: &str = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const METADATA: &str = "Accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const AGGREGATOR: &str = "X-Remote-User: system:kube-aggregator";
const POLLER: &str = "X-Remote-User: system:aggregator";
const JANE: &str = "X-Remote-User: jane\r\nX-Remote-Group: staff";
/// The time for one whole answer, or for the expected part of a watch.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Sends these bytes, and reads until all of `wanted` has arrived. Returns head and body unparsed.
async fn play(proxy: &Raw, request: &str, headers: &[&str], body: &str, wanted: &[&str]) -> String {
    let mut text =
        format!("{request} HTTP/1.1\r\nHost: ballast.ballast-system.svc\r\nUser-Agent: Go-http-client/1.1\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("Connection: close\r\n\r\n");
    text.push_str(body);
    let mut stream = proxy.try_connect().await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let has_all = |answer: &[u8]| {
        let answer = String::from_utf8_lossy(answer);
        wanted.iter().all(|part| answer.contains(part))
    };
    let read = tokio::time::timeout(ANSWER_MAX, async {
        while !has_all(&answer) {
            // The peer may close the connection without a TLS close_notify.
            if stream.read_buf(&mut answer).await.unwrap_or(0) == 0 {
                break;
            }
        }
    });
    let _late = read.await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    for part in wanted {
        assert!(answer.contains(part), "{part:?} is missing in the answer to {text}\n{answer}");
    }
    answer
}

async fn server() -> Aggregated {
    let server = Aggregated::with(|args, _| args.host.namespace_lifecycle = false).await;
    server.host.allow(|_| true);
    server
}

async fn create(server: &Aggregated, name: &str) -> Value {
    let headers = [("X-Remote-User", "jane"), ("Content-Type", "application/json")];
    let reply = server.proxy().send(Method::POST, R, &headers, binding(name).to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn ag1_ag8_ag11_ag13_di7_the_aggregators_requests_are_answered_to_the_byte() {
    let server = server().await;
    let proxy = server.proxy().over(Protocol::Http1);
    let masters = "X-Remote-Group: system:masters";
    let (get_gv, get_apis) = (format!("GET {GV}"), "GET /apis");
    let ok = "HTTP/1.1 200 OK\r\n";
    play(&proxy, &get_gv, &[AGGREGATOR, masters], "", &[ok, "\"kind\":\"APIResourceList\""]).await;
    let v2 = "content-type: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n";
    let stale = "If-None-Match: \"0123\"";
    let answer = play(&proxy, get_apis, &[AGGREGATOR, masters, V2, stale], "", &[ok, v2, "work.karmada.io"]).await;
    let etag = answer.lines().find_map(|line| line.strip_prefix("etag: ")).expect("an etag");
    let known = format!("If-None-Match: {etag}");
    play(&proxy, get_apis, &[AGGREGATOR, masters, V2, &known], "", &["HTTP/1.1 304 Not Modified\r\n"]).await;
    play(&proxy, &get_gv, &[AGGREGATOR], "", &[ok, "\"kind\":\"APIResourceList\""]).await;
    let json = "Accept: application/json";
    play(&proxy, "GET /openapi/v2", &[POLLER, json], "", &[ok, "\"swagger\":\"2.0\""]).await;
    play(&proxy, "GET /openapi/v3", &[POLLER, json], "", &[ok, "apis/work.karmada.io/v1alpha2"]).await;
    let client = format!("{V2},application/json");
    play(&proxy, get_apis, &[JANE, &client], "", &[ok, v2]).await;
    server.stop().await;
}

#[tokio::test]
async fn ta1_pm4_wa12_readers_are_answered_to_the_byte() {
    let server = server().await;
    let proxy = server.proxy().over(Protocol::Http1);
    let ok = "HTTP/1.1 200 OK\r\n";
    let revision = create(&server, "web").await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    create(&server, "shop").await;
    let get = |query: &str| format!("GET {R}{query}");
    let json = "Accept: application/json";
    play(&proxy, &get("?limit=500"), &[JANE, TABLE], "", &[ok, "\"kind\":\"Table\"", "\"web\""]).await;
    let watch = format!("?watch=true&resourceVersion={revision}");
    play(&proxy, &get(&watch), &[JANE, TABLE], "", &[ok, "\"type\":\"ADDED\"", "\"kind\":\"Table\"", "\"shop\""]).await;
    let metadata = [ok, "content-type: application/json\r\n", "\"kind\":\"PartialObjectMetadataList\"", "\"web\""];
    play(&proxy, &get(""), &[JANE, METADATA], "", &metadata).await;
    let list = "?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=true";
    let initial = [ok, "\"type\":\"ADDED\"", "\"type\":\"BOOKMARK\"", "\"k8s.io/initial-events-end\":\"true\""];
    play(&proxy, &get(list), &[JANE, json], "", &initial).await;
    let listed =
        play(&proxy, &get("?limit=500&resourceVersion=0"), &[JANE, json], "", &[ok, "\"web\"", "\"items\":["]).await;
    assert!(listed.contains("\"kind\":\"ResourceBindingList\""), "{listed}");
    let watch = format!("?allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds=300&watch=true");
    play(&proxy, &get(&watch), &[JANE, json], "", &[ok, "\"type\":\"ADDED\"", "\"shop\""]).await;
    let waiting = "?fieldSelector=metadata.name%3Dweb";
    let found = play(&proxy, &get(waiting), &[JANE, json], "", &[ok, "\"web\"", "}]}"]).await;
    assert!(!found.contains("\"name\":\"shop\",\"namespace\""), "{found}");
    let deleting = format!("{waiting}&resourceVersion={revision}&watch=true");
    let (gone, seen) = tokio::join!(
        async { play(&proxy, &format!("DELETE {R}/web"), &[JANE, json], "", &[ok, "\"status\":\"Success\""]).await },
        async { play(&proxy, &get(&deleting), &[JANE, json], "", &[ok, "\"type\":\"DELETED\""]).await },
    );
    assert!(gone.contains("\"uid\":") && !seen.contains("\"name\":\"shop\""), "{gone}\n{seen}");
    server.stop().await;
}

#[tokio::test]
async fn de12_ap1_writers_are_answered_to_the_byte() {
    let server = server().await;
    let proxy = server.proxy().over(Protocol::Http1);
    let (ok, json) = ("HTTP/1.1 200 OK\r\n", "Accept: application/json");
    let web = create(&server, "web").await;
    let apply = "PATCH /apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web\
                 ?fieldManager=kubectl&fieldValidation=Strict&force=false";
    let yaml =
        "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata:\n  name: web\n  labels:\n    a: b\n";
    let media = "Content-Type: application/apply-patch+yaml";
    let applied =
        play(&proxy, apply, &[JANE, json, media], yaml, &[ok, "\"a\":\"b\"", "\"operation\":\"Apply\"", "\"uid\":"])
            .await;
    let body = applied.split_once("\r\n\r\n").unwrap().1;
    let version = body.split_once("\"resourceVersion\":\"").unwrap().1.split('"').next().unwrap();
    // The garbage collector removes its finalizer, and deletes objects without their owner.
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": ["example.com/kept"]}}).to_string();
    let media = "Content-Type: application/merge-patch+json";
    let one = format!("{R}/web");
    play(&proxy, &format!("PATCH {one}"), &[JANE, json, media], &patch, &[ok, "example.com/kept"]).await;
    play(&proxy, &format!("PATCH {one}"), &[JANE, json, media], &patch, &["HTTP/1.1 409 Conflict\r\n"]).await;
    let patch = r#"{"metadata":{"finalizers":[]}}"#;
    play(&proxy, &format!("PATCH {one}"), &[JANE, json, media], patch, &[ok]).await;
    let media = "Content-Type: application/json";
    let options = |uid: &str| {
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid},
            "propagationPolicy": "Background"})
        .to_string()
    };
    let delete = format!("DELETE {one}");
    play(&proxy, &delete, &[JANE, json, media], &options("another"), &["HTTP/1.1 409 Conflict\r\n"]).await;
    let uid = web["metadata"]["uid"].as_str().unwrap();
    play(&proxy, &delete, &[JANE, json, media], &options(uid), &[ok, "\"status\":\"Success\"", uid]).await;
    // The namespace controller empties a namespace.
    create(&server, "left").await;
    let options = r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#;
    play(&proxy, &format!("DELETE {R}"), &[JANE, json, media], options, &[ok, "\"left\""]).await;
    play(&proxy, &format!("GET {R}"), &[JANE, METADATA], "", &[ok, "\"items\":[]"]).await;
    server.stop().await;
}
