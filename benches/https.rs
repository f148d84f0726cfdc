//! Measures requests over TLS with a SQLite file: `cargo bench --bench https`.
//!
//! Client and server are one process. The client creates objects and then reads them, with 32
//! concurrent requests on one HTTP/2 connection. The output is requests per second, and the 50th,
//! 99th and 100th percentile of the latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use support::objects::{BINDINGS, binding};
use support::raw::Connection;
use support::server::{Database, Options, TestServer};

#[allow(dead_code)]
#[path = "../tests/support/mod.rs"]
mod support;

const REQUESTS: usize = 30_000;
const CONCURRENCY: usize = 32;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for database in [Database::Memory, Database::Sqlite] {
            let server = TestServer::with(Options { database, ..Options::default() }).await;
            let connection = server.admin().connect().await;
            measure(&format!("create, {database:?}"), &connection, |i| {
                let mut object = binding(&format!("web-{i}"));
                object["spec"]["replicas"] = i.into();
                (Method::POST, BINDINGS.to_owned(), object.to_string(), 201)
            })
            .await;
            measure(&format!("get, {database:?}"), &connection, |i| {
                (Method::GET, format!("{BINDINGS}/web-{i}"), String::new(), 200)
            })
            .await;
            let began = Instant::now();
            let list = connection.send(Method::GET, BINDINGS, &[], "").await;
            let megabytes = list.body.len() as f64 / 1e6;
            eprintln!("list of {REQUESTS}: {megabytes:.0} MB in {:.0?}", began.elapsed());
            server.stop().await;
        }
    });
}

async fn measure(
    what: &str,
    connection: &Connection,
    request: impl Fn(usize) -> (Method, String, String, u16) + Send + Sync + 'static,
) {
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let began = Instant::now();
    let clients = (0..CONCURRENCY).map(|_| {
        let (next, request, connection) = (next.clone(), request.clone(), connection.clone());
        tokio::spawn(async move {
            let mut latencies = vec![];
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= REQUESTS {
                    return latencies;
                }
                let (method, path, body, code) = request(i);
                let sent = Instant::now();
                let reply = connection.send(method, &path, &[("content-type", "application/json")], body).await;
                assert_eq!(reply.code, code, "{}", reply.text());
                latencies.push(sent.elapsed());
            }
        })
    });
    let mut latencies: Vec<Duration> = vec![];
    for client in clients.collect::<Vec<_>>() {
        latencies.extend(client.await.expect("no client panics"));
    }
    let elapsed = began.elapsed();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let per_second = REQUESTS as f64 / elapsed.as_secs_f64();
    eprintln!("{what}: {per_second:.0}/s, p50 {:.1?}, p99 {:.1?}, max {:.1?}", at(0.5), at(0.99), at(1.0));
}
