//! Delivers 1,000 updates to 1,000 watchers: `cargo bench --bench load -- watchers`.
//!
//! Each watcher must receive every update, in order. The cost of an event is the CPU time of the
//! server process, including the updates, divided by the number of delivered events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use tokio::task::JoinSet;

use super::process::ServerProcess;
use super::setup::{ALL_BINDINGS, BINDINGS, body_of, make_idle_bindings};

const WATCHERS: usize = 1_000;
const UPDATES: usize = 1_000;
const OBJECTS: usize = 100;
/// The pause between two updates. Without a pause, the next update is sent as soon as the previous
/// one has a response. With a pause, no two events can be sent together.
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(20)];
/// The number of connections. Watchers share them, like agents behind a front proxy, or have one
/// each.
const CONNECTIONS: [usize; 2] = [10, WATCHERS];

pub async fn run() {
    for connections in CONNECTIONS {
        for pause in PAUSES {
            measure(connections, pause).await;
        }
    }
}

async fn measure(connections: usize, pause: Duration) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let writer = Arc::new(server.client().await);
    make_idle_bindings(&writer, OBJECTS).await;
    let list = writer.get(&format!("{BINDINGS}?limit=1")).await.expect("a list");
    let since = list["metadata"]["resourceVersion"].as_str().expect("a list has a version").to_owned();
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        clients.push(Arc::new(server.client().await));
    }
    let mut watchers = JoinSet::new();
    for i in 0..WATCHERS {
        watchers.spawn(watch(Arc::clone(&clients[i % connections]), since.clone()));
    }
    // All watchers have started once they have received the first update. A later watcher gets it
    // from memory.
    let cpu_before = server.cpu();
    let begun = Instant::now();
    for turn in 0..UPDATES {
        let patch = format!(r#"{{"metadata":{{"labels":{{"turn":"{turn}"}}}}}}"#);
        let path = format!("{BINDINGS}/web-{}-deployment", turn % OBJECTS);
        body_of(&writer, Method::PATCH, &path, Some("application/merge-patch+json"), Bytes::from(patch)).await;
        tokio::time::sleep(pause).await;
    }
    let written = begun.elapsed();
    let mut bytes = 0;
    while let Some(seen) = watchers.join_next().await {
        bytes += seen.expect("every watcher sees every event in order");
    }
    let events = WATCHERS * UPDATES;
    println!(
        "{WATCHERS} watchers on {connections} connections, {UPDATES} updates in {written:.1?}, seen by all after {:.1?}: \
         {} bytes and {:.2} µs server CPU an event",
        begun.elapsed(),
        bytes / events,
        (server.cpu() - cpu_before).as_secs_f64() * 1e6 / events as f64,
    );
}

/// Watches until it has received all updates. Returns their size in bytes.
async fn watch(client: Arc<Client>, since: String) -> usize {
    let (mut next, mut bytes) = (0, 0);
    let path = format!("{ALL_BINDINGS}?resourceVersion={since}");
    let all = client.watch_lines(&path, |line| {
        bytes += line.len();
        let turn = format!(r#""turn":"{next}""#);
        let text = std::str::from_utf8(line)?;
        assert!(text.starts_with(r#"{"type":"MODIFIED""#) && text.contains(&turn), "not event {next}: {text}");
        next += 1;
        Ok(next == UPDATES)
    });
    assert!(all.await.expect("the watch goes on"), "the watch ended early");
    bytes
}
