//! Creates objects over HTTPS: `cargo bench --bench load -- create`.
//!
//! 32 requests at a time share one HTTP/2 connection. Each object is durable before its answer.

use std::sync::Arc;

use super::process::ServerProcess;
use super::setup::{BINDINGS, percentile, storm};

const REQUESTS: usize = 30_000;
const CONCURRENT: usize = 32;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    for round in ["warm-up", "measured"] {
        let sender = client.clone();
        let cpu_before = server.cpu();
        let (whole, took) = storm(REQUESTS, CONCURRENT, move |i| {
            let client = sender.clone();
            async move {
                let mut object = super::setup::binding(i);
                object["metadata"]["name"] = format!("{round}-{i}").into();
                client.post(BINDINGS, &object).await.expect("created");
            }
        })
        .await;
        println!(
            "{round}: {REQUESTS} creates, {CONCURRENT} at a time: {:.0}/s, p50 {:.1?}, p99 {:.1?}, server CPU {:.0} µs each",
            REQUESTS as f64 / whole.as_secs_f64(),
            percentile(&took, 50),
            percentile(&took, 99),
            (server.cpu() - cpu_before).as_secs_f64() * 1e6 / REQUESTS as f64,
        );
    }
}
