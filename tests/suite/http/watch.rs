//! Watches over raw HTTP: content, timing, formats and ends.

use std::time::Duration;

use ballast::watch::Limits;
use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::support::objects::{ALL_BINDINGS, BINDINGS, REBALANCERS, binding, rebalancer};
use crate::support::raw::{Connection, Protocol};
use crate::support::server::{Database, Options, TestServer};
use crate::support::still::StillTime;

const JSON: (&str, &str) = ("content-type", "application/json");
const SOON: Duration = Duration::from_secs(20);

/// The lines of a watch as they come.
struct Lines {
    body: Incoming,
    buffer: BytesMut,
}

impl Lines {
    async fn open(connection: &Connection, path: &str, headers: &[(&str, &str)]) -> Lines {
        let opened = tokio::time::timeout(SOON, connection.open(Method::GET, path, headers, ""));
        let response = opened.await.expect("the head comes at once").unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert!(!response.headers().contains_key("content-length"));
        Lines { body: response.into_body(), buffer: BytesMut::new() }
    }

    /// The next event; `None` at a clean end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(SOON, self.body.frame()).await.expect("the watch says something");
            match frame {
                Some(frame) => self.buffer.extend_from_slice(&frame.expect("no error").into_data().unwrap()),
                None => {
                    assert!(self.buffer.is_empty(), "the last line is whole");
                    return None;
                }
            }
        }
    }

    async fn expect(&mut self, kind: &str) -> Value {
        let event = self.next().await.expect("the watch goes on");
        assert_eq!(event["type"], kind, "{event}");
        event["object"].clone()
    }
}

async fn create(connection: &Connection, path: &str, object: &Value) -> Value {
    let reply = connection.send(Method::POST, path, &[JSON], object.to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    reply.json()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn wa1_wa4_wa7_a_watch_starts_at_once_and_tells_what_happens() {
    let server = TestServer::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (writer, reader) = (server.admin().connect().await, server.admin().over(protocol).connect().await);
        let mut lines = Lines::open(&reader, &format!("{BINDINGS}?watch=1"), &[("accept-encoding", "gzip")]).await;
        let created = create(&writer, BINDINGS, &binding("web")).await;
        assert_eq!(lines.expect("ADDED").await, created);
        let path = format!("{BINDINGS}/web");
        let patch = [("content-type", "application/merge-patch+json")];
        let changed = writer.send(Method::PATCH, &path, &patch, r#"{"metadata":{"labels":{"a":"b"}}}"#).await.json();
        assert_eq!(lines.expect("MODIFIED").await, changed);
        writer.send(Method::DELETE, &path, &[], "").await;
        let deleted = lines.expect("DELETED").await;
        assert_eq!(revision(&deleted), revision(&changed) + 1, "the deletion has a revision of its own");
    }
    server.stop().await;
}

#[tokio::test]
async fn wa8_wa19_selectors_narrow_a_watch_and_leaving_them_is_a_deletion() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut labelled = Lines::open(&admin, &format!("{ALL_BINDINGS}?watch&labelSelector=tier%3Dfront"), &[]).await;
    let mut named = Lines::open(&admin, &format!("{BINDINGS}?watch&fieldSelector=metadata.name%3Dother"), &[]).await;
    create(&admin, BINDINGS, &binding("web")).await;
    let path = format!("{BINDINGS}/web");
    let patch = [("content-type", "application/merge-patch+json")];
    for label in ["front", "back"] {
        let body = json!({"metadata": {"labels": {"tier": label}}}).to_string();
        admin.send(Method::PATCH, &path, &patch, body).await;
    }
    let added = labelled.expect("ADDED").await;
    let gone = labelled.expect("DELETED").await;
    assert_eq!((&gone["metadata"]["labels"]["tier"], revision(&gone)), (&json!("front"), revision(&added) + 1));
    create(&admin, BINDINGS, &binding("other")).await;
    assert_eq!(named.expect("ADDED").await["metadata"]["name"], "other");
    server.stop().await;
}

#[tokio::test]
async fn wa9_wa10_a_watch_ends_cleanly_in_time_with_a_bookmark_before() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let created = create(&admin, REBALANCERS, &rebalancer("r")).await;
    let start = revision(&created);
    let query = format!("watch=1&resourceVersion={start}&timeoutSeconds=3&allowWatchBookmarks=true");
    let still = StillTime::begin();
    let mut lines = Lines::open(&admin, &format!("{REBALANCERS}?{query}"), &[]).await;
    still.pass(Duration::from_secs(1)).await;
    let bookmark = lines.expect("BOOKMARK").await;
    assert_eq!(
        bookmark,
        json!({"kind": "WorkloadRebalancer", "apiVersion": "apps.karmada.io/v1alpha1",
            "metadata": {"resourceVersion": start.to_string()}})
    );
    still.pass(Duration::from_secs(2)).await;
    assert_eq!(lines.next().await, None);
    drop(still);
    server.stop().await;
}

#[tokio::test]
async fn wa12_the_state_may_come_first_with_a_mark_at_its_end() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for name in ["a", "b"] {
        create(&admin, BINDINGS, &binding(name)).await;
    }
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = Lines::open(&admin, &format!("{BINDINGS}?{query}"), &[]).await;
    for name in ["a", "b"] {
        assert_eq!(lines.expect("ADDED").await["metadata"]["name"], name);
    }
    let end = lines.expect("BOOKMARK").await;
    assert_eq!(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    server.stop().await;
}

#[tokio::test]
async fn wa20_a_watch_of_tables_names_its_columns_once() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let query = "watch=1&allowWatchBookmarks=true&resourceVersion=0";
    create(&admin, BINDINGS, &binding("a")).await;
    let mut lines = Lines::open(&admin, &format!("{BINDINGS}?{query}"), &table).await;
    let first = lines.expect("ADDED").await;
    assert_eq!((&first["kind"], &first["columnDefinitions"][0]["name"]), (&json!("Table"), &json!("Name")));
    assert_eq!(first["rows"][0]["cells"][0], "a");
    assert_eq!(first["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let bookmark = lines.expect("BOOKMARK").await;
    let object = &bookmark["rows"][0]["object"];
    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    create(&admin, BINDINGS, &binding("b")).await;
    let second = lines.expect("ADDED").await;
    assert_eq!((&second["columnDefinitions"], &second["rows"][0]["cells"][0]), (&Value::Null, &json!("b")));
    server.stop().await;
}

#[tokio::test]
async fn wa21_wa22_a_watch_of_metadata_and_a_watch_of_yaml() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                  application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let path = format!("{BINDINGS}?watch=1&resourceVersion=0&allowWatchBookmarks=true");
    let mut lines = Lines::open(&admin, &path, &[("accept", accept)]).await;
    let bookmark = lines.expect("BOOKMARK").await;
    assert_eq!(
        (&bookmark["kind"], &bookmark["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    create(&admin, BINDINGS, &binding("a")).await;
    let added = lines.expect("ADDED").await;
    assert_eq!((&added["kind"], &added["spec"]), (&json!("PartialObjectMetadata"), &Value::Null));
    let refused = admin.send(Method::GET, &path, &[("accept", "application/yaml")], "").await;
    assert_eq!((refused.code.as_u16(), refused.header("content-type")), (406, Some("application/yaml")));
    server.stop().await;
}

#[tokio::test]
async fn wa30_sh1_a_watch_ends_cleanly_with_its_server_and_goes_on_with_the_next() {
    let sqlite = || Options { database: Database::Sqlite, ..Options::default() };
    let server = TestServer::with(sqlite()).await;
    let admin = server.admin().connect().await;
    let mut lines = Lines::open(&admin, &format!("{BINDINGS}?watch=1&resourceVersion=0"), &[]).await;
    let seen = create(&admin, BINDINGS, &binding("a")).await;
    assert_eq!(lines.expect("ADDED").await, seen);
    // These two happen while the client is not connected.
    let missed = create(&admin, BINDINGS, &binding("b")).await;
    admin.send(Method::DELETE, &format!("{BINDINGS}/a"), &[], "").await;
    let folder = server.stop().await;
    while let Some(event) = lines.next().await {
        assert_ne!(event["type"], "ERROR");
    }

    let server = TestServer::with(Options { folder: Some(folder), ..sqlite() }).await;
    let admin = server.admin().connect().await;
    let path = format!("{BINDINGS}?watch=1&resourceVersion={}", revision(&seen));
    let mut lines = Lines::open(&admin, &path, &[]).await;
    assert_eq!(lines.expect("ADDED").await, missed);
    assert_eq!(lines.expect("DELETED").await["metadata"]["name"], "a");
    let next = create(&admin, BINDINGS, &binding("c")).await;
    assert_eq!(revision(&next), revision(&missed) + 2, "revisions go on without a gap");
    assert_eq!(lines.expect("ADDED").await, next);
    server.stop().await;
}

#[tokio::test]
async fn wa28_many_watches_share_one_connection() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut watches = vec![];
    for _ in 0..500 {
        watches.push(Lines::open(&admin, &format!("{BINDINGS}?watch=1"), &[]).await);
    }
    create(&admin, BINDINGS, &binding("a")).await;
    for lines in &mut watches {
        assert_eq!(lines.expect("ADDED").await["metadata"]["name"], "a");
    }
    server.stop().await;
}

#[tokio::test]
async fn wa17_a_client_that_does_not_read_holds_up_nobody() {
    let mut options = Options::default();
    options.limits.window_events_max = 64;
    let server = TestServer::with(options).await;
    let (slow, admin) = (server.admin().connect().await, server.admin().connect().await);
    let mut asleep = Lines::open(&slow, &format!("{REBALANCERS}?watch=1"), &[]).await;
    let mut awake = Lines::open(&admin, &format!("{REBALANCERS}?watch=1"), &[]).await;
    // More than all buffers in between hold.
    for i in 0..150 {
        let mut object = rebalancer(&format!("r{i}"));
        object["spec"]["workloads"] = Value::from(vec![object["spec"]["workloads"][0].clone(); 2000]);
        create(&admin, REBALANCERS, &object).await;
        assert_eq!(awake.expect("ADDED").await["metadata"]["name"], format!("r{i}"));
    }
    // The window has dropped most of it, but the log has not.
    for i in 0..150 {
        assert_eq!(asleep.expect("ADDED").await["metadata"]["name"], format!("r{i}"));
    }
    create(&admin, REBALANCERS, &rebalancer("afterwards")).await;
    for lines in [&mut awake, &mut asleep] {
        assert_eq!(lines.expect("ADDED").await["metadata"]["name"], "afterwards");
    }
    server.stop().await;
}

/// The window remembers almost nothing, so the events come from the log.
fn forgetful(limits: Limits) -> Options {
    Options { database: Database::Sqlite, limits: Limits { window_events_max: 2, ..limits }, ..Options::default() }
}

#[tokio::test]
async fn wa5_a_watch_resumes_from_any_revision_in_the_log_also_after_a_restart() {
    let mut server = TestServer::with(forgetful(Limits::default())).await;
    let mut first = 0;
    for life in 0..2 {
        let admin = server.admin().connect().await;
        for i in 0..20 {
            let created = create(&admin, REBALANCERS, &rebalancer(&format!("r{life}-{i}"))).await;
            first = if first == 0 { revision(&created) } else { first };
        }
        let path = format!("{REBALANCERS}?watch=1&resourceVersion={first}");
        let mut lines = Lines::open(&admin, &path, &[]).await;
        for name in (0..=life).flat_map(|life| (0..20).map(move |i| format!("r{life}-{i}"))).skip(1) {
            assert_eq!(lines.expect("ADDED").await["metadata"]["name"], name);
        }
        let later = create(&admin, BINDINGS, &binding(&format!("web-{life}"))).await;
        let path = format!("{BINDINGS}?watch=1&resourceVersion={}", revision(&later) - 1);
        assert_eq!(Lines::open(&admin, &path, &[]).await.expect("ADDED").await, later);
        let folder = Some(server.stop().await);
        server = TestServer::with(Options { folder, ..forgetful(Limits::default()) }).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn wa5_a_revision_that_compaction_has_taken_from_the_log_is_410() {
    let limits = Limits {
        log_rows_max: 10,
        log_rows_per_object: 0,
        compaction_every: Duration::from_millis(10),
        ..Limits::default()
    };
    let server = TestServer::with(forgetful(limits)).await;
    let admin = server.admin().connect().await;
    let first = revision(&create(&admin, REBALANCERS, &rebalancer("first")).await);
    for i in 0..20 {
        create(&admin, REBALANCERS, &rebalancer(&format!("r{i}"))).await;
    }
    let path = format!("{REBALANCERS}?watch=1&resourceVersion={first}");
    let error = tokio::time::timeout(SOON, async {
        loop {
            let mut lines = Lines::open(&admin, &path, &[]).await;
            let event = lines.next().await.expect("an event or an error");
            // Until the compaction, the log still has it.
            if event["type"] == "ERROR" {
                assert_eq!(lines.next().await, None, "an error is the end");
                break event["object"].clone();
            }
        }
    });
    let error = error.await.expect("compaction comes by");
    assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
    server.stop().await;
}
