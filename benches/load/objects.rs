//! Reads and patches single objects: `cargo bench --bench load -- get` or `-- patch`.
//!
//! 32 concurrent requests share one HTTP/2 connection. Each patch is durable before its response.
//! Client and server share the machine, so the output contains the rate and the server's CPU time
//! per request.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use ballast::cli::client::Client;

use super::process::ServerProcess;
use super::setup::{BINDINGS, body_of, make_idle_bindings, percentile, storm};

const OBJECTS: usize = 1_000;
const GETS: usize = 200_000;
const PATCHES: usize = 30_000;
const CONCURRENT: usize = 32;

pub async fn get() {
    measure("GET", GETS, |_| (Method::GET, None, Bytes::new())).await;
}

pub async fn patch() {
    measure("PATCH", PATCHES, |i| {
        let patch = format!(r#"{{"metadata":{{"labels":{{"turn":"{i}"}}}}}}"#);
        (Method::PATCH, Some("application/merge-patch+json"), patch.into())
    })
    .await;
}

async fn measure(name: &str, count: usize, request: fn(usize) -> (Method, Option<&'static str>, Bytes)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    make_idle_bindings(&client, OBJECTS).await;
    measured(&server, &client, name, count, move |i| {
        let (method, kind, body) = request(i);
        (method, format!("{BINDINGS}/web-{}-deployment", i % OBJECTS), kind, body)
    })
    .await;
}

/// A request: the method, the path, the content type and the body.
pub type Request = (Method, String, Option<&'static str>, Bytes);

pub async fn measured(
    server: &ServerProcess,
    client: &Arc<Client>,
    name: &str,
    count: usize,
    request: impl Fn(usize) -> Request + Clone + Send + Sync + 'static,
) {
    for round in ["warm-up", "measured"] {
        let (sender, request) = (client.clone(), request.clone());
        let cpu_before = server.cpu();
        let (whole, took) = storm(count, CONCURRENT, move |i| {
            let client = sender.clone();
            let (method, path, kind, body) = request(i);
            async move {
                body_of(&client, method, &path, kind, body).await;
            }
        })
        .await;
        println!(
            "{round}: {count} {name}, {CONCURRENT} at a time: {:.0}/s, p50 {:.1?}, p99 {:.1?}, server CPU {:.1} µs each",
            count as f64 / whole.as_secs_f64(),
            percentile(&took, 50),
            percentile(&took, 99),
            (server.cpu() - cpu_before).as_secs_f64() * 1e6 / count as f64,
        );
    }
}
