//! Measures a fleet of a million bindings: `cargo bench --bench load -- million`. It needs 30 GB of
//! disk space, and only runs if it is named.
//!
//! It is configured by environment variables:
//!
//! - `MILLION_STEPS`: the steps, in this order, separated by commas (`STEPS`; all of them).
//! - `MILLION_BINDINGS`: the number of bindings (1,000,000).
//! - `MILLION_FOLDER`: the folder of the database and the certificates, which the next run reuses
//!   (a folder that is removed at the end).
//! - `MILLION_DATABASE`: the URL of another database than the SQLite file in the folder.
//! - `BALLAST_PROGRAM`: another program than the one built with the bench.

mod beside;
mod cluster;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use serde_json::json;

use self::beside::{Gets, Watch};
use super::preview::count;
use super::process::ServerProcess;
use super::setup::{ALL_BINDINGS, BINDINGS, binding, body_of, make_fleet, percentile, storm};

const STEPS: &str = "fill,rest,list,rebalance,watched,cluster,start,killed";
const TASKS: &str = "/apis/task.karmada.io/v1alpha1/rescheduletasks";
const CONCURRENT: usize = 32;
const CLUSTERS_COUNT: usize = 20;
/// Number of bindings for comparing the cost per binding of a mass rebalance.
const FEW: usize = 10_000;
/// Memory is measured after texts have been packed, and free memory has been returned.
const REST: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Rate of evictions. The remaining time is spent on finding and writing them.
const FLAGS: [&str; 2] = ["--resource-eviction-rate", "100000"];

struct Site {
    folder: PathBuf,
    database: String,
    bindings: usize,
    _removed: Option<tempfile::TempDir>,
}

pub async fn run() {
    let site = Site::chosen();
    let steps = std::env::var("MILLION_STEPS").unwrap_or_else(|_| STEPS.to_owned());
    let begun = Instant::now();
    let mut server = site.start();
    println!("ready after {:.2?}, {} MB", begun.elapsed(), megabytes(&server));
    for step in steps.split(',') {
        println!("-- {step}");
        match step {
            "fill" => fill(&server, site.bindings).await,
            "rest" => rest(&server).await,
            "list" => list(&server).await,
            "rebalance" => rebalance(&server, site.bindings, false).await,
            "watched" => rebalance(&server, site.bindings, true).await,
            "cluster" => cluster::fails(&server).await,
            "start" | "killed" => {
                let begun = Instant::now();
                match step {
                    "start" => assert!(server.terminate().success()),
                    _ => server.kill(),
                }
                println!("ended after {:.2?}", begun.elapsed());
                let begun = Instant::now();
                server = site.start();
                println!("ready after {:.2?}, {} MB", begun.elapsed(), megabytes(&server));
                println!("CPU until then {:.2?}", server.cpu());
                idle(&server).await;
                println!("workers have listed after {:.2?}, CPU {:.2?}", begun.elapsed(), server.cpu());
                rest(&server).await;
            }
            other => panic!("{other:?} is none of {STEPS}"),
        }
        site.sizes(&server).await;
    }
}

impl Site {
    fn chosen() -> Site {
        let (folder, removed) = match std::env::var_os("MILLION_FOLDER") {
            Some(folder) => (PathBuf::from(folder), None),
            None => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                (folder.path().to_owned(), Some(folder))
            }
        };
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let own = || format!("sqlite://{}", folder.join("ballast.db").display());
        let bindings = std::env::var("MILLION_BINDINGS").map(|given| given.parse().expect("a number"));
        Site {
            database: std::env::var("MILLION_DATABASE").unwrap_or_else(|_| own()),
            bindings: bindings.unwrap_or(1_000_000),
            folder,
            _removed: removed,
        }
    }

    fn start(&self) -> ServerProcess {
        ServerProcess::start_on(&self.folder, &self.database, &FLAGS)
    }

    async fn sizes(&self, server: &ServerProcess) {
        let metrics = metrics(server).await;
        let size = |name: &str| value(&metrics, name, "") / 1e9;
        println!(
            "database {:.2} GB, {:.2} GB of it free, WAL {:.2} GB",
            size("ballast_store_size_bytes"),
            size("ballast_store_free_bytes"),
            length(&self.folder.join("ballast.db-wal")) as f64 / 1e9,
        );
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

fn megabytes(server: &ServerProcess) -> usize {
    server.resident_bytes() / 1_000_000
}

async fn metrics(server: &ServerProcess) -> String {
    let client = server.client().await;
    let text = body_of(&client, Method::GET, "/metrics", None, Bytes::new()).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the sum of a metric's values with labels that contain a text.
fn value(metrics: &str, name: &str, labels: &str) -> f64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let ours = lines.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels));
    ours.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn decided(metrics: &str) -> f64 {
    value(metrics, "ballast_scheduler_bindings_total", "")
}

/// Waits until the metrics satisfy a condition.
async fn reached(server: &ServerProcess, wanted: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    while !wanted(&metrics(server).await) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until no worker has due work.
async fn idle(server: &ServerProcess) {
    reached(server, |metrics| value(metrics, "ballast_worker_queue_depth", "") == 0.0).await;
}

async fn rest(server: &ServerProcess) {
    idle(server).await;
    tokio::time::sleep(REST).await;
    println!("{} s at rest: {} MB", REST.as_secs(), megabytes(server));
}

/// Creates the bindings, and waits until they are scheduled. Runs one rebalance over the first
/// ones.
async fn fill(server: &ServerProcess, bindings: usize) {
    let client = Arc::new(server.client().await);
    make_fleet(&client, CLUSTERS_COUNT).await;
    create(server, &client, 0..FEW.min(bindings)).await;
    rebalance(server, FEW.min(bindings), false).await;
    let all = Instant::now();
    for from in (FEW..bindings).step_by(100_000) {
        create(server, &client, from..bindings.min(from + 100_000)).await;
    }
    println!("created after {:.1?}, {} MB", all.elapsed(), megabytes(server));
    idle(server).await;
    println!("{} are there, scheduled after {:.1?}", count(&client, ALL_BINDINGS).await, all.elapsed());
}

async fn create(server: &ServerProcess, client: &Arc<Client>, numbers: std::ops::Range<usize>) {
    // The client must use few resources, or it measures itself.
    let text = serde_json::to_string(&binding(999_999_999)).expect("JSON");
    let parts: Arc<Vec<String>> = Arc::new(text.split("999999999").map(str::to_owned).collect());
    let (sender, cpu, from, total) = (client.clone(), server.cpu(), numbers.start, numbers.len());
    let (whole, took) = storm(total, CONCURRENT, move |i| {
        let (client, body) = (sender.clone(), parts.join(&(from + i).to_string()));
        async move {
            body_of(&client, Method::POST, BINDINGS, Some("application/json"), body.into()).await;
        }
    })
    .await;
    println!(
        "created up to {}: {:.0}/s, p50 {:.1?}, p99 {:.1?}, server CPU {:.0} µs each, {} MB",
        from + total,
        total as f64 / whole.as_secs_f64(),
        percentile(&took, 50),
        percentile(&took, 99),
        (server.cpu() - cpu).as_secs_f64() * 1e6 / total as f64,
        megabytes(server),
    );
}

/// Reads all bindings page by page.
async fn list(server: &ServerProcess) {
    let client = server.client().await;
    let (begun, cpu, mut took, mut bytes, mut next) = (Instant::now(), server.cpu(), Vec::new(), 0, String::new());
    loop {
        let asked = Instant::now();
        let path = format!("{ALL_BINDINGS}?limit=500{next}");
        let page = body_of(&client, Method::GET, &path, None, Bytes::new()).await;
        took.push(asked.elapsed());
        bytes += page.len();
        // The list's own metadata is at its start or end, so the rest need not be parsed.
        let Some(token) = token(&page) else { break };
        next = format!("&continue={token}");
    }
    took.sort_unstable();
    println!(
        "{} pages with {:.2} GB after {:.1?} (server CPU {:.1?}), p50 {:.1?}, p99 {:.1?}; {} MB",
        took.len(),
        bytes as f64 / 1e9,
        begun.elapsed(),
        server.cpu() - cpu,
        percentile(&took, 50),
        percentile(&took, 99),
        megabytes(server),
    );
}

fn token(page: &[u8]) -> Option<String> {
    const HEAD: usize = 4_096;
    let ends = [&page[..page.len().min(HEAD)], &page[page.len().saturating_sub(HEAD)..]];
    ends.into_iter().find_map(|end| {
        let text = String::from_utf8_lossy(end);
        let (_, rest) = text.split_once(r#""continue":""#)?;
        let (token, _) = rest.split_once('"')?;
        (!token.is_empty()).then(|| token.to_owned())
    })
}

/// Runs one RescheduleTask that selects all bindings, with concurrent GETs.
async fn rebalance(server: &ServerProcess, bindings: usize, is_watched: bool) {
    let client = Arc::new(server.client().await);
    let before = metrics(server).await;
    let gets = Gets::begin(Arc::new(server.client().await), bindings);
    let first = client.get(&format!("{ALL_BINDINGS}?limit=1")).await.expect("a list");
    let since = first["metadata"]["resourceVersion"].as_str().expect("a revision");
    let watch = is_watched.then(|| Watch::begin(server, since));
    let (begun, cpu) = (Instant::now(), server.cpu());
    let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
        "metadata": {"name": format!("all-{}", cpu.as_millis())}, "spec": {"targetRefPolicy": [{}]}});
    let body = serde_json::to_vec(&task).expect("JSON").into();
    let answer = client.send(Method::POST, TASKS, Some("application/json"), body).await;
    let (status, _) = answer.expect("an answer");
    println!("answered {status} after {:.2?}", begun.elapsed());
    let wanted = decided(&before) + bindings as f64;
    reached(server, |metrics| decided(metrics) >= wanted && value(metrics, "ballast_worker_queue_depth", "") == 0.0)
        .await;
    let (whole, cpu) = (begun.elapsed(), server.cpu() - cpu);
    println!(
        "all of {bindings} decided after {whole:.1?}: {:.0}/s, server CPU {:.0} µs each; {} MB",
        bindings as f64 / whole.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / bindings as f64,
        megabytes(server),
    );
    let took = gets.end().await;
    println!("{} GETs beside it: p50 {:.1?}, p99 {:.1?}", took.len(), percentile(&took, 50), percentile(&took, 99));
    if let Some(watch) = watch {
        let (events, errors) = watch.end();
        println!("a watch of all bindings saw {events} events and {errors} errors");
    }
    told(&client).await;
}

/// Prints the events of the tasks.
async fn told(client: &Client) {
    let path = "/api/v1/events?fieldSelector=involvedObject.kind%3DRescheduleTask";
    let list = client.get(path).await.unwrap_or_default();
    for event in list["items"].as_array().into_iter().flatten() {
        println!("event {} {}: {}", event["lastTimestamp"], event["reason"], event["message"]);
    }
}
