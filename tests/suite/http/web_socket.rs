//! Watches over a WebSocket, as kube-apiserver serves them (CU1).

use ballast::auth::Policy;
use ballast::server::ConnectionLimits;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::support::objects::{BINDINGS, binding};
use crate::support::raw::{Protocol, Raw};
use crate::support::server::{Options, TestServer};

const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const OWN: &str = "Origin: https://localhost\r\n";
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;

/// Sends the head of a request over HTTP/1.1. Returns the head of the response.
async fn asked(client: &Raw, path: &str, headers: &str) -> (String, TlsStream<TcpStream>) {
    let mut stream = client.clone().over(Protocol::Http1).try_connect().await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.expect("the head is whole"));
    }
    (String::from_utf8(answer).unwrap().to_ascii_lowercase(), stream)
}

/// Returns the next frame: its first byte and its payload.
async fn frame(stream: &mut TlsStream<TcpStream>) -> (u8, Vec<u8>) {
    let first = stream.read_u8().await.unwrap();
    let length = match stream.read_u8().await.unwrap() {
        126 => u64::from(stream.read_u16().await.unwrap()),
        127 => stream.read_u64().await.unwrap(),
        length => u64::from(length),
    };
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

async fn event(stream: &mut TlsStream<TcpStream>) -> Value {
    let (first, text) = frame(stream).await;
    assert_eq!(first, TEXT);
    assert!(text.ends_with(b"\n"), "each message is a line");
    serde_json::from_slice(&text).unwrap()
}

async fn create(client: &Raw, name: &str) {
    let json = [("content-type", "application/json")];
    let made = client.send(Method::POST, BINDINGS, &json, binding(name).to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text());
}

#[tokio::test]
async fn cu1_a_watch_over_a_websocket_sends_each_event_as_a_text_message() {
    let server = TestServer::start().await;
    let admin = server.admin();
    create(&admin, "before").await;
    let (head, mut stream) = asked(&admin, &format!("{BINDINGS}?watch=1"), &format!("{HANDSHAKE}{OWN}")).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    assert!(!head.contains("sec-websocket-protocol"), "{head}");
    let first = event(&mut stream).await;
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("before")));
    create(&admin, "after").await;
    assert_eq!(event(&mut stream).await["object"]["metadata"]["name"], "after");
    let open = ballast::metrics::text();
    let counted = |line: &str| line.starts_with("apiserver_longrunning_requests{") && line.contains("resourcebindings");
    assert!(open.lines().any(|line| counted(line) && !line.ends_with(" 0")), "it counts as a watch: {open}");

    // The client's close frame, with a mask of zeros.
    stream.write_all(&[CLOSE, 0x80, 0, 0, 0, 0]).await.unwrap();
    let (goodbye, _) = frame(&mut stream).await;
    assert_eq!(goodbye, CLOSE);
    server.stop().await;
}

#[tokio::test]
async fn cu1_a_watch_over_a_websocket_ends_with_1000_in_time_and_with_its_server() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let timed = format!("{BINDINGS}?watch=1&timeoutSeconds=1");
    let (_, mut stream) = asked(&admin, &timed, &format!("{HANDSHAKE}{OWN}")).await;
    assert_eq!(frame(&mut stream).await, (CLOSE, 1000_u16.to_be_bytes().to_vec()));
    let (_, mut stream) = asked(&admin, &format!("{BINDINGS}?watch=1"), &format!("{HANDSHAKE}{OWN}")).await;
    let stopping = tokio::spawn(server.stop());
    assert_eq!(frame(&mut stream).await, (CLOSE, 1000_u16.to_be_bytes().to_vec()));
    drop(stream);
    stopping.await.unwrap();
}

#[tokio::test]
async fn cu1_a_handshake_is_answered_as_kube_apiserver_answers_it() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let watch = format!("{BINDINGS}?watch=1");
    let version = HANDSHAKE.replace("Version: 13", "Version: 8");
    let keyless = HANDSHAKE.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "");
    for (headers, expected) in [
        (format!("{HANDSHAKE}{OWN}"), "101"),
        (format!("{HANDSHAKE}{OWN}Sec-WebSocket-Protocol: binary.k8s.io\r\n"), "101"),
        (format!("{HANDSHAKE}{OWN}Sec-WebSocket-Protocol: binary.k8s.io, base64.binary.k8s.io\r\n"), "400"),
        (HANDSHAKE.to_owned(), "403"),
        (format!("{HANDSHAKE}Origin: null\r\n"), "403"),
        (format!("{HANDSHAKE}Origin: https://elsewhere\r\n"), "403"),
        (format!("{version}{OWN}"), "400"),
        (format!("{keyless}{OWN}"), "400"),
        (format!("{HANDSHAKE}{OWN}Accept: application/yaml\r\n"), "406"),
        // Without Connection, the protocol is not upgraded.
        (HANDSHAKE.replace("keep-alive, Upgrade", "keep-alive"), "200"),
    ] {
        let (head, _stream) = asked(&admin, &watch, &headers).await;
        assert!(head.starts_with(&format!("http/1.1 {expected} ")), "{headers}: {head}");
        assert_eq!(head.contains("sec-websocket-protocol: binary.k8s.io\r\n"), headers.contains(": binary.k8s.io\r"));
    }
    let (head, _stream) = asked(&server.nobody(), &watch, &format!("{HANDSHAKE}{OWN}")).await;
    assert!(head.starts_with("http/1.1 401 "), "{head}");
    server.stop().await;
}

/// A WebSocket keeps its connection for hours, as other watches do.
#[tokio::test]
async fn cu1_li10_websockets_of_one_user_keep_no_newcomer_out() {
    let policy = "rules:\n- {users: [jane], verbs: [watch], apiGroups: ['*'], resources: ['*'], namespaces: ['*']}\n";
    let policy = Policy::parse(policy).unwrap();
    let connections = ConnectionLimits { connections_max: 4, ..ConnectionLimits::default() };
    let server = TestServer::with(Options { policy: Some(policy), connections, ..Options::default() }).await;
    let jane = server.client("jane", &[], |_| {});
    let mut held = Vec::new();
    for _ in 0..4 {
        let (head, stream) = asked(&jane, &format!("{BINDINGS}?watch=1"), &format!("{HANDSHAKE}{OWN}")).await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        held.push(stream);
    }
    assert_eq!(server.admin().get(BINDINGS).await.code, 200);
    assert!(held[0].read_u8().await.is_err(), "the oldest watch of jane was closed");
    server.stop().await;
}
