//! Malicious or broken clients: too many, too slow, too large. The server remains available, closes
//! their connections, and counts the reasons.

use std::convert::Infallible;
use std::time::Duration;

use ballast::server::ConnectionLimits;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::raw::{Protocol, Raw};
use crate::support::server::{Options, TestServer};
use crate::support::still::StillTime;
use crate::support::wait_for;

const JSON: (&str, &str) = ("content-type", "application/json");

async fn limited(shape: impl FnOnce(&mut ConnectionLimits)) -> TestServer {
    let mut connections = ConnectionLimits::default();
    shape(&mut connections);
    TestServer::with(Options { connections, ..Options::default() }).await
}

/// Returns how many connections the servers of this process have closed for this reason.
fn closed(reason: &str) -> u64 {
    let line = format!("ballast_connections_closed_total{{reason=\"{reason}\"}} ");
    let text = ballast::metrics::text();
    text.lines().find_map(|it| it.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
    // A reset counts as well.
    let _ = read.expect("the server ends the connection");
    rest
}

#[tokio::test]
async fn idle_connections_make_room_and_those_at_work_stay() {
    let server = limited(|limits| limits.connections_max = 24).await;
    let admin = server.admin().connect().await;
    let watching = server.admin().connect().await;
    let watch = watching.open(Method::GET, &format!("{REBALANCERS}?watch=1"), &[], "").await.unwrap();
    let before = closed("evicted");
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(server.nobody().try_connect().await.unwrap());
        assert_eq!(server.nobody().get("/readyz").await.code, 200, "probes get through");
    }
    assert!(closed("evicted") > before);
    rest(&mut idle[0]).await;
    drop(admin);
    let created = server.admin().send(Method::POST, REBALANCERS, &[JSON], rebalancer("seen").to_string()).await;
    assert_eq!(created.code, 201);
    let mut events = watch.into_body();
    let event = tokio::time::timeout(Duration::from_secs(30), events.frame()).await.expect("in time");
    let event = event.unwrap().unwrap().into_data().unwrap();
    assert!(event.starts_with(b"{\"type\":\"ADDED\""), "{event:?}");
    drop((events, watching));
    server.stop().await;
}

/// Opens as many connections as this process may have at both ends, at most 5,000.
#[tokio::test]
async fn five_thousand_idle_connections_do_not_keep_probes_out() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let files: usize = files.and_then(|files| files.parse().ok()).unwrap_or(1024);
    let count = 5_000.min(files / 4);
    let server = limited(|limits| limits.handshake_max = Duration::from_secs(300)).await;
    let before = closed("evicted");
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    for protocol in [Protocol::Http1, Protocol::Http2] {
        assert_eq!(server.nobody().over(protocol).get("/livez").await.code, 200);
        assert_eq!(server.admin().over(protocol).get(REBALANCERS).await.code, 200);
    }
    let evicted = closed("evicted") - before;
    assert!(count <= 4096 || evicted >= 900, "{evicted} of {count} had to go");
    drop(idle);
    server.stop().await;
}

#[tokio::test]
async fn where_everybody_is_at_work_newcomers_hear_so_at_once() {
    let server = limited(|limits| limits.connections_max = 2).await;
    let mut watches = Vec::new();
    for _ in 0..2 {
        let connection = server.admin().connect().await;
        let path = format!("{REBALANCERS}?watch=1");
        watches.push((connection.open(Method::GET, &path, &[], "").await.unwrap(), connection));
    }
    let before = closed("refused");
    assert!(server.nobody().try_connect().await.is_err());
    assert!(closed("refused") > before);
    watches.pop();
    wait_for("the place of one that has left", async || server.nobody().try_connect().await.ok()).await;
    drop(watches);
    server.stop().await;
}

#[tokio::test]
async fn li5_a_head_that_comes_too_slowly_ends_the_connection() {
    let server = limited(|limits| limits.header_read_max = Duration::from_millis(300)).await;
    let before = closed("timeout");
    let mut slow = server.nobody().over(Protocol::Http1).try_connect().await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Never-").await.unwrap();
    assert_eq!(rest(&mut slow).await, b"");
    assert!(closed("timeout") > before);
    // Over HTTP/2 an unfinished head is no request: the connection is idle.
    let before = closed("idle");
    let still = StillTime::begin();
    let mut slow = server.nobody().try_connect().await.unwrap();
    slow.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b""), &frame(HEADERS, END_STREAM, 1, GET)].concat())
        .await
        .unwrap();
    // The server reads from the first frame on.
    let frames = frames_until(&mut slow, SETTINGS).await;
    assert!(frames.iter().any(|(kind, _)| *kind == SETTINGS), "{frames:?}");
    still.pass(ConnectionLimits::default().idle_max).await;
    drop(still);
    let frames = frames_until(&mut slow, GOAWAY).await;
    assert!(frames.iter().any(|(kind, _)| *kind == GOAWAY), "{frames:?}");
    assert!(closed("idle") > before);
    // It does not linger either.
    rest(&mut slow).await;
    server.stop().await;
}

/// Browsers and connection pools keep idle connections, which is no reason for a warning.
#[tokio::test]
async fn li5_a_connection_over_http1_without_a_further_request_is_idle_and_not_too_slow() {
    let server = limited(|limits| limits.header_read_max = Duration::from_millis(300)).await;
    let before = (closed("idle"), closed("timeout"));
    let mut kept = server.nobody().over(Protocol::Http1).try_connect().await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut kept).await.starts_with(b"HTTP/1.1 200 OK"));
    assert!(closed("idle") > before.0);
    // After a request, half of the next one is too slow again.
    let mut slow = server.nobody().over(Protocol::Http1).try_connect().await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(slow.read(&mut [0; 4096]).await.unwrap() > 0, "the first one is answered");
    slow.write_all(b"GET /healthz HTTP/1.1\r\nX-Never-").await.unwrap();
    rest(&mut slow).await;
    assert!(closed("timeout") > before.1);
    server.stop().await;
}

#[tokio::test]
async fn li5_a_body_that_comes_too_slowly_is_given_up_at_the_deadline() {
    let server = TestServer::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{")))]);
        let stream = futures_util::StreamExt::chain(first, futures_util::stream::pending());
        let request = Request::post(format!("https://localhost{REBALANCERS}?timeout=300ms"));
        let request = request.header("host", "localhost").header(JSON.0, JSON.1);
        let reply = server.admin().over(protocol).send_streamed(request.body(StreamBody::new(stream)).unwrap()).await;
        assert_eq!(reply.code, 504, "{protocol:?}: {}", reply.text());
        assert_eq!(server.admin().get(REBALANCERS).await.code, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn li5_a_mebibyte_of_headers_is_taken_and_more_is_431() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let group = "g".repeat(200);
    for (protocol, count, code) in [
        (Protocol::Http1, 3_000, 200),
        (Protocol::Http2, 3_000, 200),
        (Protocol::Http1, 8_000, 431),
        (Protocol::Http2, 8_000, 431),
    ] {
        let headers: Vec<(&str, &str)> = std::iter::repeat_n(("x-remote-group", &*group), count).collect();
        let reply = admin.clone().over(protocol).send(Method::GET, REBALANCERS, &headers, "").await;
        assert_eq!(reply.code, code, "{protocol:?}, {count} headers");
    }
    // Few bytes in many lines: more names than a header map holds.
    let names: Vec<String> = (0..29_000).map(|number| format!("a{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "")).collect();
    let connection = TooMany::connect(&admin).await;
    assert_eq!(connection.answer(&headers).await, 431);
    assert_eq!(admin.get(REBALANCERS).await.code, 200);
    server.stop().await;
}

/// A client over HTTP/1.1 that writes the head by hand.
struct TooMany(TlsStream<TcpStream>);

impl TooMany {
    async fn connect(client: &Raw) -> TooMany {
        TooMany(client.clone().over(Protocol::Http1).try_connect().await.unwrap())
    }

    async fn answer(mut self, headers: &[(&str, &str)]) -> u16 {
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        // It may respond and close before it has read everything.
        let _ = self.0.write_all(head.as_bytes()).await;
        let _ = self.0.flush().await;
        let answer = rest(&mut self.0).await;
        let line = String::from_utf8_lossy(&answer).into_owned();
        let code = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}"));
        code.parse().unwrap()
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `GET https://localhost/`, encoded with the static table of HPACK.
const GET: &[u8] = b"\x82\x87\x84\x01\x09localhost";
const CANCEL: &[u8] = &[0, 0, 0, 8];
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads frames (kind and payload) up to one of the kind `last`, or to the end.
async fn frames_until(stream: &mut TlsStream<TcpStream>, last: u8) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    let read = async {
        let mut head = [0; 9];
        while stream.read_exact(&mut head).await.is_ok() {
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            if stream.read_exact(&mut payload).await.is_err() {
                return;
            }
            frames.push((head[3], payload));
            if head[3] == last {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("the server says something, or ends it");
    frames
}

/// Sends `attack` on a separate connection. The server must close that connection, and respond to
/// others meanwhile.
async fn is_calmed_down(server: &TestServer, attack: Vec<u8>) {
    let before = closed("protocol");
    let (mut reader, mut writer) = tokio::io::split(server.nobody().try_connect().await.unwrap());
    let sending = tokio::spawn(async move {
        // Fails once the server has closed the connection.
        let _ = writer.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b""), &attack].concat()).await;
        let _ = writer.flush().await;
        writer
    });
    let said = rest(&mut reader).await;
    drop(sending.await.unwrap());
    let goaway = said.windows(9).position(|head| head[3] == GOAWAY && head[..3] != [0, 0, 0] && head[4..9] == [0; 5]);
    let at = goaway.expect("whoever is sent away is told so");
    assert_eq!(u32::from_be_bytes(said[at + 13..at + 17].try_into().unwrap()), ENHANCE_YOUR_CALM);
    wait_for("the metric to say why", async || (closed("protocol") > before).then_some(())).await;
    assert_eq!(server.nobody().get("/healthz").await.code, 200);
}

#[tokio::test]
async fn li7_requests_that_are_taken_back_at_once_end_the_connection() {
    let server = TestServer::start().await;
    let pair = |number: u32| {
        let id = 2 * number + 1;
        [frame(HEADERS, END_STREAM | END_HEADERS, id, GET), frame(RST_STREAM, 0, id, CANCEL)].concat()
    };
    is_calmed_down(&server, (0..20_000).flat_map(pair).collect()).await;
    server.stop().await;
}

#[tokio::test]
async fn li7_a_head_of_endless_continuations_ends_the_connection() {
    let server = TestServer::start().await;
    let mut attack = frame(HEADERS, END_STREAM, 1, GET);
    for _ in 0..50_000 {
        attack.extend(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b"));
    }
    is_calmed_down(&server, attack).await;
    server.stop().await;
}
