//! Clients that write, read and watch through all replicas during a demo, and their observations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Endpoint;
use super::stories::REBALANCERS;
use crate::cli::client::Client;

/// Number of concurrent writers.
const WRITERS: usize = 6;
/// Pause of a client between two requests, and before it tries another replica.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum lag of the watch behind the last write.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// The observations of the clients.
#[derive(Default)]
struct Observations {
    /// The revision in the response, by name.
    acknowledged: BTreeMap<String, i64>,
    /// Writes that were cut off or got an error. They may have been committed.
    unanswered: usize,
    longest_write: Duration,
    reads: usize,
    longest_read: Duration,
    /// The events of a watch: the revision, the type and the name.
    events: Vec<(i64, String, String)>,
}

pub struct Traffic {
    seen: Arc<Mutex<Observations>>,
    stop: CancellationToken,
    writers: JoinSet<()>,
    /// Readers and the watcher.
    others: JoinSet<()>,
}

/// The totals of the traffic.
pub struct TrafficTotals {
    pub acknowledged: usize,
    pub unanswered: usize,
    pub longest_write: Duration,
    pub reads: usize,
    pub longest_read: Duration,
    pub events: usize,
}

impl Traffic {
    /// Starts clients that write to all `endpoints` in turn, read from `staying`, and watch the
    /// first of these.
    pub async fn start(endpoints: &[Endpoint], staying: &[Endpoint]) -> anyhow::Result<Traffic> {
        let (seen, stop) = (Arc::<Mutex<Observations>>::default(), CancellationToken::new());
        let (mut writers, mut others) = (JoinSet::new(), JoinSet::new());
        let Some(endpoint) = staying.first() else { bail!("there is a replica that stays") };
        let watcher = endpoint.connect().await?;
        // Before the first write, because the watch must report each.
        let start = version_of(&watcher.get(REBALANCERS).await?)?;
        others.spawn(watch(watcher, start, Arc::clone(&seen)));
        for writer in 0..WRITERS {
            writers.spawn(write(endpoints.to_vec(), writer, Arc::clone(&seen), stop.clone()));
        }
        for endpoint in staying {
            others.spawn(read(endpoint.connect().await?, Arc::clone(&seen), stop.clone()));
        }
        Ok(Traffic { seen, stop, writers, others })
    }

    /// Resets the longest waits.
    pub fn measure_from_here(&self) {
        let mut seen = self.seen.lock().expect("no panic while it is held");
        (seen.longest_write, seen.longest_read) = (Duration::ZERO, Duration::ZERO);
    }

    pub fn acknowledged(&self) -> usize {
        self.seen.lock().expect("no panic while it is held").acknowledged.len()
    }

    /// Stops the clients, and checks their observations: every acknowledged write exists, the
    /// workers have finished each, and the watch reported each once and in order.
    pub async fn end(mut self, client: &Client) -> anyhow::Result<TrafficTotals> {
        self.stop.cancel();
        while self.writers.join_next().await.is_some() {}
        let acknowledged = self.seen.lock().expect("no panic while it is held").acknowledged.clone();
        let unfinished = |list: &Value| -> Option<String> {
            let there: BTreeMap<&str, &Value> =
                items(list).filter_map(|item| Some((item["metadata"]["name"].as_str()?, item))).collect();
            let is_done = |name: &str| there.get(name).is_some_and(|item| item["status"]["finishTime"].is_string());
            acknowledged.keys().find(|name| !is_done(name)).cloned()
        };
        let deadline = Instant::now() + CATCH_UP_MAX;
        while let Some(name) = unfinished(&client.get(REBALANCERS).await?) {
            ensure!(Instant::now() < deadline, "{name} was acknowledged, and is not there or not finished");
            tokio::time::sleep(PAUSE).await;
        }
        let newest = acknowledged.values().max().copied().unwrap_or_default();
        while self.seen.lock().expect("no panic while it is held").events.last().map_or(0, |event| event.0) < newest {
            ensure!(Instant::now() < deadline, "the watch did not come to revision {newest}");
            tokio::time::sleep(PAUSE).await;
        }
        self.others.shutdown().await;
        let seen = self.seen.lock().expect("no panic while it is held");
        ensure!(seen.events.is_sorted_by(|one, next| one.0 < next.0), "the watch was out of order, or told twice");
        let added = seen.events.iter().filter(|(_, type_, _)| type_ == "ADDED");
        let added: BTreeSet<(&str, i64)> = added.map(|(revision, _, name)| (name.as_str(), *revision)).collect();
        let missed = acknowledged.iter().find(|(name, revision)| !added.contains(&(name.as_str(), **revision)));
        ensure!(missed.is_none(), "the watch did not tell of {missed:?}");
        Ok(TrafficTotals {
            acknowledged: acknowledged.len(),
            unanswered: seen.unanswered,
            longest_write: seen.longest_write,
            reads: seen.reads,
            longest_read: seen.longest_read,
            events: seen.events.len(),
        })
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn version_of(object: &Value) -> anyhow::Result<i64> {
    match object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()) {
        Some(version) => Ok(version),
        None => bail!("an answer has no resourceVersion"),
    }
}

/// Returns a trigger for a workload that does not exist: the workers finish it, and move nothing.
fn rebalancer(name: &str) -> Value {
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nobody"}]}})
}

/// Creates objects, each through the next replica that accepts the connection.
async fn write(endpoints: Vec<Endpoint>, writer: usize, seen: Arc<Mutex<Observations>>, stop: CancellationToken) {
    let mut clients: Vec<Option<Client>> = endpoints.iter().map(|_| None).collect();
    let mut number = 0;
    while !stop.is_cancelled() {
        number += 1;
        tokio::time::sleep(PAUSE).await;
        let at = (writer + number) % endpoints.len();
        if clients[at].as_ref().is_none_or(Client::is_closed) {
            clients[at] = endpoints[at].connect().await.ok();
        }
        let Some(client) = &clients[at] else { continue };
        let (name, begin) = (format!("load-{writer}-{number}"), Instant::now());
        let answer = client.post(REBALANCERS, &rebalancer(&name)).await;
        let answer = answer.and_then(|made| version_of(&made));
        let mut seen = seen.lock().expect("no panic while it is held");
        match answer {
            Ok(revision) => {
                seen.longest_write = seen.longest_write.max(begin.elapsed());
                seen.acknowledged.insert(name, revision);
            }
            Err(_) => seen.unanswered += 1,
        }
    }
}

/// Reads without a revision, so that each response is up to date.
async fn read(client: Client, seen: Arc<Mutex<Observations>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let begin = Instant::now();
        let answered = client.get(super::stories::CLUSTERS).await.is_ok();
        {
            let mut seen = seen.lock().expect("no panic while it is held");
            seen.reads += usize::from(answered);
            seen.longest_read = seen.longest_read.max(begin.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch(client: Client, start: i64, seen: Arc<Mutex<Observations>>) {
    let path = format!("{REBALANCERS}?resourceVersion={start}");
    // If the watch ends early, the missing events are detected at the end.
    let _ended = client
        .watch(&path, |event| {
            let object = &event["object"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let told =
                (version_of(object).unwrap_or_default(), text(&event["type"]), text(&object["metadata"]["name"]));
            seen.lock().expect("no panic while it is held").events.push(told);
            false
        })
        .await;
}
