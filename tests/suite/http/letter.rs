//! Unusual requests, legal or nearly so, are handled exactly as by the server for custom resources
//! of Kubernetes 1.36 (TL1 to TL10).

use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::objects::{BINDINGS, REBALANCERS, binding, rebalancer, workload};
use crate::support::raw::{Connection, Protocol, Reply};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const YAML: (&str, &str) = ("content-type", "application/yaml");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");

async fn start() -> (TestServer, Connection) {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    (server, connection)
}

fn message(reply: &Reply) -> String {
    reply.json()["message"].as_str().unwrap_or_default().to_owned()
}

/// Returns the text of a rebalancer with more members of its metadata.
fn text(metadata: &str) -> String {
    let workload = workload("w");
    format!(
        r#"{{"apiVersion":"apps.karmada.io/v1alpha1","kind":"WorkloadRebalancer","metadata":{{"name":"a"{metadata}}},"spec":{{"workloads":[{workload}]}}}}"#
    )
}

async fn dry_run(admin: &Connection, content_type: (&str, &str), body: impl Into<bytes::Bytes>) -> Reply {
    admin.send(Method::POST, &format!("{REBALANCERS}?dryRun=All"), &[content_type], body).await
}

#[tokio::test]
async fn tl1_a_delete_whose_options_cannot_be_read_deletes_nothing() {
    let (server, admin) = start().await;
    admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer("a").to_string()).await;
    let one = format!("{REBALANCERS}/a");
    for (options, why) in [
        (
            json!({"apiVersion": ["v1"], "kind": 5}),
            "cannot unmarshal array into Go struct field .apiVersion of type string",
        ),
        (json!({"kind": 5}), "cannot unmarshal number into Go struct field .kind of type string"),
        (json!({"preconditions": {"uid": 5}}), "Go struct field Preconditions.preconditions.uid of type types.UID"),
        (json!({"dryRun": [5]}), "cannot unmarshal number into Go struct field DeleteOptions.dryRun of type string"),
    ] {
        for path in [&*one, REBALANCERS] {
            let refused = admin.send(Method::DELETE, path, &[JSON], options.to_string()).await;
            assert_eq!(refused.code, 400, "{options}");
            assert!(message(&refused).ends_with(why), "{}", message(&refused));
        }
        assert_eq!(admin.send(Method::GET, &one, &[], "").await.code, 200, "{options}");
    }
    assert_eq!(admin.send(Method::DELETE, &one, &[JSON], r#"{"kind":null}"#).await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn tl2_paths_of_a_json_patch_are_read_as_upstream_reads_them() {
    let (server, admin) = start().await;
    let mut object = binding("a");
    object["metadata"]["labels"] = json!({"x": "1"});
    admin.send(Method::POST, BINDINGS, &[JSON], object.to_string()).await;
    let path = format!("{BINDINGS}/a?dryRun=All");
    let patched =
        async |operations: Value| admin.send(Method::PATCH, &path, &[JSON_PATCH], operations.to_string()).await;
    let clusters = json!({"op": "add", "path": "/spec/clusters", "value": [{"name": "m1"}, {"name": "m2"}]});
    for (index, expected) in [("-1", ["m1", "m9"]), ("00", ["m9", "m2"]), ("+0", ["m9", "m2"])] {
        let replace = json!({"op": "replace", "path": format!("/spec/clusters/{index}"), "value": {"name": "m9"}});
        let reply = patched(json!([clusters, replace])).await;
        assert_eq!(reply.code, 200, "{index}: {}", message(&reply));
        let names: Vec<Value> =
            reply.json()["spec"]["clusters"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, expected, "{index}");
    }
    assert_eq!(patched(json!([{"op": "test", "path": "/nope"}])).await.code, 200);
    let tilde = patched(json!([{"op": "add", "path": "/metadata/labels/a~", "value": "1"}])).await;
    assert_eq!(tilde.code, 422);
    assert!(message(&tilde).contains("metadata.labels: Invalid value: \"a~\""), "{}", message(&tilde));
    assert_eq!(patched(json!([{"op": "add", "path": "/spec/clusters/0"}])).await.code, 400, "without a value");
    server.stop().await;
}

#[tokio::test]
async fn tl3_tl4_tl5_bodies_are_read_as_upstream_reads_them() {
    let (server, admin) = start().await;
    let annotation = |value: &[u8]| {
        let body = text(r#","annotations":{"a":"@"}"#);
        let (before, after) = body.split_once('@').unwrap();
        [before.as_bytes(), value, after.as_bytes()].concat()
    };
    for value in [&b"\xff"[..], br"\ud800"] {
        let reply = dry_run(&admin, JSON, annotation(value)).await;
        assert_eq!((reply.code.as_u16(), &reply.json()["metadata"]["annotations"]["a"]), (201, &json!("\u{fffd}")));
    }
    let yaml = |labels: &str| {
        format!(
            "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata:\n  name: a\n  labels: {labels}\n\
             spec:\n  workloads:\n  - {{apiVersion: v1, kind: ConfigMap, name: a}}\n"
        )
    };
    for (labels, expected) in
        [("{a: tRUE}", "tRUE"), ("{a: 1e400}", "1e400"), ("{a: !!timestamp 2001-01-01}", "2001-01-01")]
    {
        let reply = dry_run(&admin, YAML, yaml(labels)).await;
        assert_eq!(
            (reply.code.as_u16(), &reply.json()["metadata"]["labels"]["a"]),
            (201, &json!(expected)),
            "{labels}"
        );
    }
    for (labels, why) in
        [("{~: b}", "a key must not be null"), ("{a: !!null x}", "cannot decode !!str `x` as a !!null")]
    {
        let reply = dry_run(&admin, YAML, yaml(labels)).await;
        assert_eq!(reply.code, 400, "{labels}");
        assert!(message(&reply).contains(&format!("yaml: line 5: {why}")), "{}", message(&reply));
    }
    let mut aliases = "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata:\n  name: a\n  annotations:\n    z: &a v\n".to_owned();
    for i in 0..2_000 {
        let _ = writeln!(aliases, "    k{i}: *a");
    }
    aliases.push_str("spec:\n  workloads:\n  - {apiVersion: v1, kind: ConfigMap, name: a}\n");
    assert_eq!(dry_run(&admin, YAML, aliases).await.code, 201);
    // Differs from Kubernetes (D70).
    for (levels, code) in [(120, 201), (200, 400)] {
        let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let json = text("").replacen(r#""spec":{"#, &format!(r#""spec":{{"x":{nested},"#), 1);
        assert_eq!(dry_run(&admin, JSON, json).await.code, code, "{levels}");
        let deep = format!("{}x: {nested}\n", yaml("{}"));
        assert_eq!(dry_run(&admin, YAML, deep).await.code, code, "{levels}");
    }
    server.stop().await;
}

#[tokio::test]
async fn tl6_tl7_paths_and_queries_are_read_as_upstream_reads_them() {
    let (server, admin) = start().await;
    for (path, code) in [
        (format!("{REBALANCERS}?labelSelector=%zz"), 200),
        (format!("{REBALANCERS}?limit=1;labelSelector=a"), 200),
        (format!("{REBALANCERS}?timeout=-1s"), 200),
        (format!("{REBALANCERS}?timeout=1"), 400),
        (format!("{REBALANCERS}?limit=x"), 400),
        ("/apis/work.karmada.io/v1alpha2/namespaces/a%2Fb/resourcebindings".to_owned(), 404),
        (format!("{REBALANCERS}/a%2Fstatus"), 404),
        (format!("/{REBALANCERS}"), 404),
        ("//apis".to_owned(), 404),
        ("//healthz".to_owned(), 404),
    ] {
        assert_eq!(admin.send(Method::GET, &path, &[], "").await.code, code, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn tl8_accept_and_content_type_are_read_as_upstream_reads_them() {
    let (server, admin) = start().await;
    for (accept, code) in [
        ("*", 200),
        ("APPLICATION/JSON", 406),
        ("application/json;AS=Table;v=v1;g=meta.k8s.io", 406),
        (",", 406),
        ("", 200),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", 200),
    ] {
        for path in [REBALANCERS, "/openapi/v3/apis/apps.karmada.io/v1alpha1"] {
            let is_table = accept.ends_with("g=meta.k8s.io");
            if path == REBALANCERS || !is_table {
                let reply = admin.send(Method::GET, path, &[("accept", accept)], "").await;
                assert_eq!(reply.code, code, "{accept} {path}");
            }
        }
    }
    for (content_type, code) in [
        ("application/json;;", 415),
        ("application/json;a=b;a=c", 415),
        ("application/json; =", 415),
        ("application/json;a=\"b", 415),
        ("application/json;charset=utf-8;", 201),
        ("Application/JSON", 201),
    ] {
        let reply = dry_run(&admin, ("content-type", content_type), text("")).await;
        assert_eq!(reply.code, code, "{content_type}");
    }
    server.stop().await;
}

#[tokio::test]
async fn tl9_metadata_has_the_types_that_upstream_demands() {
    let (server, admin) = start().await;
    let whole = dry_run(&admin, JSON, text(r#","generation":1e2"#)).await;
    assert_eq!((whole.code.as_u16(), &whole.json()["metadata"]["generation"]), (201, &json!(1)));
    assert_eq!(dry_run(&admin, JSON, text(r#","generation":1.5"#)).await.code, 400);
    for (list, why) in [
        (r#""x""#, "string into Go struct field ObjectMeta.managedFields of type []v1.ManagedFieldsEntry"),
        ("[5]", "number into Go struct field ObjectMeta.managedFields of type v1.ManagedFieldsEntry"),
        (r#"[{"manager":5}]"#, "number into Go struct field ManagedFieldsEntry.managedFields.manager of type string"),
    ] {
        let refused = dry_run(&admin, JSON, text(&format!(r#","managedFields":{list}"#))).await;
        assert_eq!(refused.code, 400, "{list}");
        assert!(message(&refused).ends_with(why), "{}", message(&refused));
    }
    admin.send(Method::POST, BINDINGS, &[JSON], binding("a").to_string()).await;
    let path = format!("{BINDINGS}/a?dryRun=All");
    let why = "cannot unmarshal string into Go struct field ObjectMeta.managedFields";
    let merge = admin.send(Method::PATCH, &path, &[MERGE], r#"{"metadata":{"managedFields":"x"}}"#).await;
    assert_eq!(merge.code, 422);
    assert!(message(&merge).contains(why), "{}", message(&merge));
    let replace = r#"[{"op":"replace","path":"/metadata/managedFields","value":{}}]"#;
    assert_eq!(admin.send(Method::PATCH, &path, &[JSON_PATCH], replace).await.code, 422);
    server.stop().await;
}

/// Sends bytes over HTTP/1.1, and reads until the server closes the connection.
async fn exchanged(server: &TestServer, request: &[u8]) -> (String, Value) {
    let mut stream = server.admin().over(Protocol::Http1).try_connect().await.unwrap();
    // The server may respond and stop reading before it has everything.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the server ends the connection");
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    (head.to_owned(), serde_json::from_str(body).unwrap_or_else(|_| panic!("{body:?} is no Status")))
}

/// Rejections by hyper, before there is a request.
#[tokio::test]
async fn tl10_a_head_that_cannot_be_read_is_answered_with_a_status() {
    let server = TestServer::start().await;
    let long = "x".repeat(70_000);
    let many = "x: y\r\n".repeat(20_000);
    let large = format!("x: {}\r\n", "y".repeat(1_200_000));
    for (request, code, reason) in [
        (format!("GET {REBALANCERS}?labelSelector={long} HTTP/1.1\r\nHost: x\r\n\r\n"), 414, "RequestURITooLong"),
        (format!("GET {REBALANCERS} HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n"), 400, "BadRequest"),
        ("G@T / HTTP/1.1\r\n\r\n".to_owned(), 400, "BadRequest"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400, "BadRequest"),
        (format!("GET {REBALANCERS} HTTP/1.1\r\nHost: x\r\n{many}\r\n"), 431, "RequestHeaderFieldsTooLarge"),
        (format!("GET {REBALANCERS} HTTP/1.1\r\nHost: x\r\n{large}\r\n"), 431, "RequestHeaderFieldsTooLarge"),
    ] {
        let shown = &request[..request.len().min(80)];
        let (head, status) = exchanged(&server, request.as_bytes()).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{shown}: {head}");
        assert!(head.contains("\r\ncontent-type: application/json"), "{shown}: {head}");
        assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!(reason)), "{shown}");
        assert_eq!(status["code"], code, "{shown}");
    }
    // An earlier request receives its usual response.
    let two = format!("GET {REBALANCERS} HTTP/1.1\r\nHost: x\r\n\r\nG@T / HTTP/1.1\r\n\r\n");
    let mut stream = server.admin().over(Protocol::Http1).try_connect().await.unwrap();
    stream.write_all(two.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("WorkloadRebalancerList"), "{answer}");
    assert!(answer.contains("HTTP/1.1 400 Bad Request") && answer.ends_with("\"code\":400}\n"), "{answer}");
    // Over HTTP/2 the server reads longer heads than it accepts, so that its rejection is a Status.
    let group = ("x-remote-group", &*"g".repeat(200));
    let reply = server.admin().over(Protocol::Http2).send(Method::GET, REBALANCERS, &vec![group; 7_000], "").await;
    assert_eq!((reply.code.as_u16(), &reply.json()["reason"]), (431, &json!("RequestHeaderFieldsTooLarge")));
    server.stop().await;
}
