//! Creates objects over HTTPS: `cargo bench --bench load -- create`.
//!
//! 32 requests at a time share one HTTP/2 connection. Each object is durable before its answer.

use std::sync::Arc;

use ballast::cli::client::Client;
use serde_json::Value;

use super::process::ServerProcess;
use super::setup::{BINDINGS, percentile, storm};

const REQUESTS: usize = 30_000;
const CONCURRENT: usize = 32;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    measured(&server, &client, |_| {}).await;
}

/// Returns the rate, and the revision before the creates that were measured. `shape` changes each
/// object before it is sent.
pub async fn measured(server: &ServerProcess, client: &Arc<Client>, shape: fn(&mut Value)) -> (f64, i64) {
    let (mut rate, mut begin) = (0.0, 0);
    for round in ["warm-up", "measured"] {
        let sender = client.clone();
        let list = client.get(&format!("{BINDINGS}?limit=1")).await.expect("a list");
        begin = list["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).expect("a revision");
        let cpu_before = server.cpu();
        let (whole, took) = storm(REQUESTS, CONCURRENT, move |i| {
            let client = sender.clone();
            async move {
                let mut object = super::setup::binding(i);
                object["metadata"]["name"] = format!("{round}-{i}").into();
                shape(&mut object);
                client.post(BINDINGS, &object).await.expect("created");
            }
        })
        .await;
        rate = REQUESTS as f64 / whole.as_secs_f64();
        println!(
            "{round}: {REQUESTS} creates, {CONCURRENT} at a time: {rate:.0}/s, p50 {:.1?}, p99 {:.1?}, server CPU {:.0} µs each",
            percentile(&took, 50),
            percentile(&took, 99),
            (server.cpu() - cpu_before).as_secs_f64() * 1e6 / REQUESTS as f64,
        );
    }
    (rate, begin)
}
