//! Limits of requests and responses: body size, compression, long lists.

use std::io::Read;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use crate::support::objects::{REBALANCERS, rebalancer, workload};
use crate::support::raw::{Connection, Protocol};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A valid object of exactly this size in bytes.
fn sized(bytes: usize) -> String {
    let mut object = rebalancer("big");
    let one = workload(&"w".repeat(200));
    let each = one.to_string().len() + 1;
    object["spec"]["workloads"] = Value::from(vec![one; (bytes - 2000) / each]);
    let mut text = object.to_string();
    text.push_str(&" ".repeat(bytes - text.len()));
    text
}

async fn create_all(admin: &Connection, count: usize) {
    for i in 0..count {
        let mut object = rebalancer(&format!("r{i:04}"));
        object["spec"]["workloads"] = Value::from(vec![workload("w"); 10]);
        let reply = admin.send(Method::POST, REBALANCERS, &[JSON], object.to_string()).await;
        assert_eq!(reply.code, 201);
    }
}

#[tokio::test]
async fn li3_three_mebibytes_are_taken_and_more_is_413_over_both_protocols() {
    let server = TestServer::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let admin = server.admin().over(protocol);
        let fits = admin.send(Method::POST, REBALANCERS, &[JSON], sized(BODY_BYTES_MAX)).await;
        assert_eq!(fits.code, 201, "{protocol:?}: {:?}", fits.text().get(..300));
        for excess in [1, 1024 * 1024, 8 * 1024 * 1024] {
            let reply = admin.send(Method::POST, REBALANCERS, &[JSON], sized(BODY_BYTES_MAX + excess)).await;
            let status = reply.json();
            assert_eq!((reply.code.as_u16(), &status["reason"]), (413, &json!("RequestEntityTooLarge")));
            assert_eq!(status["message"], "Request entity too large: limit is 3145728");
        }
        assert_eq!(admin.send(Method::DELETE, &format!("{REBALANCERS}/big"), &[], "").await.code, 200);
    }
    server.stop().await;
}

/// A client that is still sending when it is rejected must receive the response, not a broken
/// connection.
#[tokio::test]
async fn a_refusal_before_the_body_is_read_leaves_the_connection_usable() {
    let server = TestServer::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let admin = server.admin().over(protocol);
        let connection = admin.connect().await;
        for (path, code) in [(REBALANCERS, 415), ("/apis/%ff", 400), ("/nowhere", 404)] {
            for (bytes, times) in [(200_000, 20), (BODY_BYTES_MAX, 3)] {
                for _ in 0..times {
                    let plain = ("content-type", "text/plain");
                    let refused = connection.send(Method::POST, path, &[plain], sized(bytes)).await;
                    assert_eq!(refused.code, code, "{protocol:?} {path}");
                }
            }
        }
        assert_eq!(connection.send(Method::GET, REBALANCERS, &[], "").await.code, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn li3_a_body_without_an_announced_length_is_measured_as_it_comes() {
    let server = TestServer::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let pieces = (0..4).map(|_| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![b' '; 1 << 20]))));
        let body = StreamBody::new(futures_util::stream::iter(pieces)).boxed();
        let request = Request::post(format!("https://localhost{REBALANCERS}")).header("host", "localhost");
        let reply = server.admin().over(protocol).send_streamed(request.body(body).unwrap()).await;
        assert_eq!(reply.code, 413, "{protocol:?}");
    }
    server.stop().await;
}

/// Ages grow between two requests.
fn without_ages(mut table: Value) -> Value {
    let columns = table["columnDefinitions"].as_array().unwrap();
    let age = columns.iter().position(|column| column["name"] == "Age").unwrap();
    table["rows"].as_array_mut().unwrap().iter_mut().for_each(|row| row["cells"][age] = Value::Null);
    table
}

#[tokio::test]
async fn ct7_large_answers_are_compressed_for_who_takes_it_and_mean_the_same() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    create_all(&admin, 400).await;
    let plain = admin.send(Method::GET, REBALANCERS, &[], "").await;
    assert!(plain.body.len() > 256 * 1024);
    assert_eq!(plain.header("content-length"), Some(&*plain.body.len().to_string()));
    assert_eq!(plain.header("content-encoding"), None);
    let packed = admin.send(Method::GET, REBALANCERS, &[("accept-encoding", "gzip")], "").await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("Accept-Encoding")));
    assert!(packed.body.len() * 3 < plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain.text());
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let packed = admin.send(Method::GET, REBALANCERS, &[("accept-encoding", "gzip"), table], "").await;
    let table = admin.send(Method::GET, REBALANCERS, &[table], "").await;
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(without_ages(serde_json::from_str(&text).unwrap()), without_ages(table.json()));
    let small = format!("{REBALANCERS}/r0000");
    let reply = admin.send(Method::GET, &small, &[("accept-encoding", "gzip")], "").await;
    assert_eq!(reply.header("content-encoding"), None);
    server.stop().await;
}

/// The runtime has one thread, and the work on the large body is moved off it, as a test of `write`
/// shows.
#[tokio::test]
async fn a_large_body_is_admitted_while_others_are_answered() {
    let server = TestServer::start().await;
    let (writer, reader) = (server.admin().connect().await, server.admin().connect().await);
    let body = sized(2_000_000);
    let large = tokio::spawn(async move { writer.send(Method::POST, REBALANCERS, &[JSON], body).await });
    while !large.is_finished() {
        assert_eq!(reader.send(Method::GET, &format!("{REBALANCERS}/none"), &[], "").await.code, 404);
    }
    assert_eq!(large.await.unwrap().code, 201);
    server.stop().await;
}
