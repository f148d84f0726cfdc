//! Measures the cost of clients that never read: the server's resident set while 300 watches and
//! then 200 lists of 10,000 bindings are open and unread, and a minute after they are closed. Run
//! with `cargo bench --bench load -- unread`; `UNREAD_WATCHES` and `UNREAD_UPDATES` change the
//! sizes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use ballast::node::certs::Files;
use bytes::Bytes;
use http::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::process::ServerProcess;
use super::raw::{Protocol, Raw};
use super::setup::{ALL_BINDINGS, BINDINGS, body_of, make_idle_bindings, storm};

const WATCHES: usize = 300;
const UPDATES: usize = 20_000;
const LISTS: usize = 200;
const OBJECTS: usize = 10_000;
/// Time within which the memory of a peak should be returned to the system.
const AFTERWARDS: Duration = Duration::from_secs(60);

pub async fn run() {
    let (watches, updates) = (from_environment("UNREAD_WATCHES", WATCHES), from_environment("UNREAD_UPDATES", UPDATES));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    make_idle_bindings(&client, OBJECTS).await;
    println!("{OBJECTS} bindings: {} MB", megabytes(&server));

    // The updates alone fill the windows of the cache, which is not measured here.
    update(&client, updates).await;
    println!("after {updates} updates without watches: {} MB", megabytes(&server));

    let unread = open(
        &server,
        folder.path(),
        watches,
        &format!("{ALL_BINDINGS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
    )
    .await;
    println!("{watches} unread watches: {} MB", megabytes(&server));
    update(&client, updates).await;
    println!("{watches} unread watches, {updates} updates: {} MB", megabytes(&server));
    drop(unread);
    afterwards(&server).await;

    let unread = open(&server, folder.path(), LISTS, BINDINGS).await;
    println!("{LISTS} unread lists: {} MB", megabytes(&server));
    drop(unread);
    afterwards(&server).await;
}

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn megabytes(server: &ServerProcess) -> usize {
    server.resident_bytes() / 1_000_000
}

/// Sends a request on each of `count` connections over HTTP/1.1, and reads nothing.
async fn open(server: &ServerProcess, folder: &Path, count: usize, path: &str) -> Vec<TlsStream<TcpStream>> {
    let client = Raw::admin(server.address, &Files::in_dir(&folder.join("certs"))).over(Protocol::Http1);
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = client.try_connect().await.expect("the server lets its admin in");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the server listens");
        stream.flush().await.expect("the server listens");
        streams.push(stream);
    }
    settle(server).await;
    streams
}

async fn update(client: &Arc<Client>, count: usize) {
    let writer = Arc::clone(client);
    storm(count, 64, move |turn| {
        let client = Arc::clone(&writer);
        async move {
            let patch = format!(r#"{{"metadata":{{"labels":{{"turn":"{turn}"}}}}}}"#);
            let path = format!("{BINDINGS}/web-{}-deployment", turn % OBJECTS);
            let kind = Some("application/merge-patch+json");
            body_of(&client, Method::PATCH, &path, kind, Bytes::from(patch)).await;
        }
    })
    .await;
}

/// Waits until the server is idle: the kernel accepts several megabytes per connection.
async fn settle(server: &ServerProcess) {
    let mut before = server.cpu();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = server.cpu();
        if now - before < Duration::from_millis(50) {
            return;
        }
        before = now;
    }
}

async fn afterwards(server: &ServerProcess) {
    let gone = Instant::now();
    for seconds in [10, 30, AFTERWARDS.as_secs()] {
        tokio::time::sleep_until((gone + Duration::from_secs(seconds)).into()).await;
        println!("  {seconds} s after they have gone: {} MB", megabytes(server));
    }
}
