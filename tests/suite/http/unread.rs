//! Clients that do not read: their memory, and their connections when memory is short.

use ballast::node::certs::Files;
use ballast::server::ConnectionLimits;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::raw::{Connection, Protocol, Raw};
use crate::support::server::{Options, TestServer};
use crate::support::{metric, wait_for};

const JSON: (&str, &str) = ("content-type", "application/json");
/// The limit of one unread stream, `server::send_buffers::STREAM_BYTES_MAX`.
const STREAM_BYTES_MAX: f64 = 256.0 * 1024.0;
/// A stream that its client does not read holds at least one piece of its response.
const PIECE_BYTES: f64 = 48.0 * 1024.0;

/// More than the kernel and the window of a stream buffer: 8 MB.
async fn fill(admin: &Connection) {
    for i in 0..500 {
        let mut object = rebalancer(&format!("r{i:04}"));
        object["metadata"]["annotations"] = json!({"note": "x".repeat(16_000)});
        assert_eq!(admin.send(Method::POST, REBALANCERS, &[JSON], object.to_string()).await.code, 201);
    }
}

/// Requests `count` watches and as many lists, and reads none of them.
async fn open_unread(client: &Raw, count: usize) -> Vec<(Connection, http::Response<Incoming>)> {
    let mut unread = Vec::new();
    let shared = client.clone().over(Protocol::Http2).connect().await;
    for turn in 0..2 * count {
        let watch = if turn % 2 == 0 { "?watch=1" } else { "" };
        let connection = match turn % 4 {
            0 | 1 => client.clone().over(Protocol::Http1).connect().await,
            _ => shared.clone(),
        };
        let response = connection.open(Method::GET, &format!("{REBALANCERS}{watch}"), &[], "").await.unwrap();
        assert_eq!(response.status(), 200);
        unread.push((connection, response));
    }
    unread
}

#[tokio::test]
async fn an_unread_stream_costs_no_more_than_its_bound_and_its_memory_is_given_back() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let client = Raw::admin(server.address, &Files::in_dir(&home.path().join("certs")));
    let admin = client.connect().await;
    fill(&admin).await;
    let unsent = async || {
        let reply = admin.send(Method::GET, "/metrics", &[], "").await;
        metric(reply.text(), "ballast_unsent_bytes")
    };
    let before = server.resident_bytes();
    let unread = open_unread(&client, 32).await;
    let count = unread.len() as f64;
    let held = wait_for("every stream to hold a piece", async || {
        let bytes = unsent().await;
        (bytes >= count * PIECE_BYTES).then_some(bytes)
    })
    .await;
    assert!(held <= count * STREAM_BYTES_MAX, "{held} bytes in {count} streams");
    let grown = server.resident_bytes().saturating_sub(before) as f64;
    // Connections with their handshakes use some memory as well.
    assert!(grown <= count * 2.0 * STREAM_BYTES_MAX, "{grown} bytes for {count} streams");
    drop(unread);
    wait_for("the streams to end", async || (unsent().await < PIECE_BYTES).then_some(())).await;
    assert!(server.terminate().success());
}

/// Starts a server without memory for unread data.
async fn full_server() -> TestServer {
    let connections = ConnectionLimits { unsent_bytes_max: 0, ..ConnectionLimits::default() };
    let server = TestServer::with(Options { connections, ..Options::default() }).await;
    fill(&server.admin().connect().await).await;
    server
}

fn ended(kind: &str) -> f64 {
    metric(&ballast::metrics::text(), &format!("ballast_unread_ended_total{{kind=\"{kind}\"}}"))
}

/// Takes several seconds: the server waits that long before it considers a client slow.
async fn until_ended(kind: &str, expected: f64) {
    wait_for("unread answers to be ended", async || (ended(kind) >= expected).then_some(())).await;
}

#[tokio::test]
async fn a_watch_that_nobody_reads_is_told_when_memory_is_short_and_one_that_is_read_goes_on() {
    let server = full_server().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = server.admin().over(protocol);
        let reading = client.connect().await;
        let path = format!("{REBALANCERS}?watch=1&resourceVersion=500");
        let mut reading = reading.open(Method::GET, &path, &[], "").await.unwrap().into_body();
        let connection = client.connect().await;
        let path = format!("{REBALANCERS}?watch=1");
        let before = ended("watch");
        let unread = connection.open(Method::GET, &path, &[], "").await.unwrap();
        until_ended("watch", before + 1.0).await;
        let text = unread.into_body().collect().await.expect("a clean end").to_bytes();
        let lines: Vec<Value> =
            text.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let (last, events) = lines.split_last().unwrap();
        assert!(events.iter().all(|event| event["type"] == "ADDED"), "whole events up to the end");
        assert_eq!(last["type"], "ERROR", "{protocol:?}");
        assert_eq!((&last["object"]["code"], &last["object"]["reason"]), (&json!(429), &json!("TooManyRequests")));
        assert_eq!(last["object"]["message"], "the watch was ended because its client does not read the events");
        let name = format!("{protocol:?}").to_lowercase();
        server.admin().send(Method::POST, REBALANCERS, &[JSON], rebalancer(&name).to_string()).await;
        let event = reading.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(event.starts_with(b"{\"type\":\"ADDED\""), "{event:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_list_that_nobody_reads_is_cut_off_when_memory_is_short_and_its_neighbours_are_not() {
    let server = full_server().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let connection = server.admin().over(protocol).connect().await;
        let before = ended("answer");
        let unread = connection.open(Method::GET, REBALANCERS, &[], "").await.unwrap();
        until_ended("answer", before + 1.0).await;
        assert!(unread.into_body().collect().await.is_err(), "{protocol:?}: it is not whole");
        if protocol == Protocol::Http2 {
            let other = connection.send(Method::GET, &format!("{REBALANCERS}/r0000"), &[], "").await;
            assert_eq!(other.code, 200, "only the stream was ended");
        }
    }
    server.stop().await;
}
