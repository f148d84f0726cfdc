//! Creates objects over HTTPS: `cargo bench --bench load -- create`.
//!
//! 32 concurrent requests share one HTTP/2 connection. Each object is durable before its response.
//!
//! `-- create-beside` alternates with another API server that serves the bindings, for example a
//! kube-apiserver with Karmada's definitions. `BESIDE_ADDRESS` is its address and port, and
//! `BESIDE_PEM` a folder with `ca.crt`, `client.crt` and `client.key`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballast::cli::client::{Client, Credentials};
use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::process::ServerProcess;
use super::setup::{BINDINGS, binding, body_of, percentile, storm, unscheduled};

const REQUESTS: usize = 30_000;
const CONCURRENT: usize = 32;
/// A slower server gets fewer requests, so that both measurements take about as long.
const REQUESTS_BESIDE: usize = 3_000;
const TURNS: usize = 3;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    measured(&server, &client, |_| {}).await;
}

/// Returns the rate, and the revision before the measured creates. `shape` changes each object
/// before it is sent.
pub async fn measured(server: &ServerProcess, client: &Arc<Client>, shape: fn(&mut Value)) -> (f64, i64) {
    let (mut rate, mut begin) = (0.0, 0);
    for round in ["warm-up", "measured"] {
        let list = client.get(&format!("{BINDINGS}?limit=1")).await.expect("a list");
        begin = list["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).expect("a revision");
        let cpu_before = server.cpu();
        let (whole, took) = creates(client, round, REQUESTS, shape).await;
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

async fn creates(client: &Arc<Client>, round: &str, count: usize, shape: fn(&mut Value)) -> (Duration, Vec<Duration>) {
    // The client shares the processors with the server, so it prepares its bodies in advance, and
    // does not decode the responses.
    let body = |i| {
        let mut object = binding(i);
        object["metadata"]["name"] = format!("{round}-{i}").into();
        shape(&mut object);
        Bytes::from(serde_json::to_vec(&object).expect("JSON"))
    };
    let (sender, bodies) = (client.clone(), (0..count).map(body).collect::<Vec<_>>());
    storm(count, CONCURRENT, move |i| {
        let (client, body) = (sender.clone(), bodies[i].clone());
        async move {
            body_of(&client, Method::POST, BINDINGS, Some("application/json"), body).await;
        }
    })
    .await
}

/// Measures both servers in turns. The other server's objects stay there unscheduled; so there is
/// also a turn in which Ballast has nothing to schedule.
pub async fn beside() {
    let given = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} must be set"));
    let pem = PathBuf::from(given("BESIDE_PEM"));
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|name| pem.join(name));
    let credentials = Credentials { ca: &ca, certificate: &certificate, key: &key };
    let address = given("BESIDE_ADDRESS").parse().expect("an address and a port");
    let theirs = Arc::new(Client::connect(address, &credentials).await.expect("the other server answers"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let ours = Arc::new(server.client().await);
    creates(&ours, "warm-up", REQUESTS, |_| {}).await;
    for turn in 0..TURNS {
        let round = format!("turn{turn}-{}", std::process::id());
        let mut rates = Vec::new();
        for (name, client, count, shape) in [
            ("ballast", &ours, REQUESTS, (|_| {}) as fn(&mut Value)),
            ("ballast, not scheduled", &ours, REQUESTS, unscheduled),
            ("the other", &theirs, REQUESTS_BESIDE, unscheduled),
        ] {
            let round = format!("{round}-{}", rates.len());
            let (whole, took) = creates(client, &round, count, shape).await;
            let rate = count as f64 / whole.as_secs_f64();
            let [p50, p99] = [50, 99].map(|percent| percentile(&took, percent));
            println!("{name}: {count} creates, {CONCURRENT} at a time: {rate:.0}/s, p50 {p50:.1?}, p99 {p99:.1?}");
            rates.push(rate);
        }
        println!("ratio {:.1}, not scheduled {:.1}", rates[0] / rates[2], rates[1] / rates[2]);
    }
}
