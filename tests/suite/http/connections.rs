//! Connections themselves: protocols, hints, bad handshakes, draining.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::raw::{Protocol, Raw};
use crate::support::server::{Options, TestServer};
use crate::support::still::StillTime;
use crate::support::wait_for;

/// Records the names of the CAs in the server's certificate request, and sends no certificate.
#[derive(Debug, Default)]
struct Hints(Mutex<Vec<Vec<u8>>>);

impl ResolvesClientCert for Hints {
    fn resolve(&self, hints: &[&[u8]], _schemes: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        *self.0.lock().unwrap() = hints.iter().map(|hint| hint.to_vec()).collect();
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn an1_the_server_names_its_client_ca_when_it_asks_for_a_certificate() {
    let server = TestServer::start().await;
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let hints = Arc::new(Hints::default());
        let client = Raw::with_resolver(server.address, &server.files, version, hints.clone());
        assert_eq!(client.get("/healthz").await.code, 200);
        let hints = hints.0.lock().unwrap().clone();
        assert_eq!(hints.len(), 1);
        assert!(hints[0].windows(10).any(|window| window == b"ballast-ca"), "{version:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_or_nonsense_does_not_hold_up_the_others() {
    let server = TestServer::start().await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut told = String::new();
    plain.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{told}");
    assert!(told.ends_with("\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "{told}");
    let mut nonsense = TcpStream::connect(server.address).await.unwrap();
    nonsense.write_all(&[0; 64]).await.unwrap();
    let _ = nonsense.read_to_end(&mut Vec::new()).await;
    assert_eq!(server.nobody().get("/healthz").await.code, 200);
    server.stop().await;
    assert_eq!(silent.read(&mut [0; 8]).await.unwrap_or(0), 0, "closed by the shutdown");
}

#[tokio::test]
async fn sh1_a_server_that_shuts_down_is_unready_at_once_and_goes_after_its_delay() {
    let delay = Duration::from_secs(20);
    let server = TestServer::with(Options { delay, ..Options::default() }).await;
    let mut kept = vec![];
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let connection = server.nobody().over(protocol).connect().await;
        assert_eq!(connection.send(Method::GET, "/readyz", &[], "").await.code, 200);
        kept.push(connection);
    }
    let still = StillTime::begin();
    server.shutdown.begin();
    for connection in &kept {
        let reply = connection.send(Method::GET, "/readyz", &[], "").await;
        assert_eq!(reply.code, 500);
        assert_eq!(reply.text(), "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n");
        assert_eq!(connection.send(Method::GET, "/livez", &[], "").await.code, 200);
    }
    let address = server.address;
    still.pass(delay).await;
    drop(still);
    server.stop().await;
    // A process that another test is starting may hold a copy of the listener for a moment.
    wait_for("nobody to listen any more", async || TcpStream::connect(address).await.err()).await;
    for connection in &kept {
        assert!(connection.open(Method::GET, "/livez", &[], "").await.is_err(), "idle connections are closed");
    }
}
