//! Clients that use all replicas in turn, and record their observations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::checker::{History, Seen};
use super::fleet::Doors;
use crate::support::objects;

pub const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const TARGETS: usize = 5;

/// The pause of a client before it looks again for an available replica.
const PAUSE: Duration = Duration::from_millis(20);
/// One in so many writes triggers a rescheduling of the targets.
const TRIGGER_EVERY: usize = 15;

/// One connection to each replica, which are used in turn.
pub struct Turns {
    doors: Arc<Doors>,
    at: usize,
    clients: Vec<Option<Client>>,
}

impl Turns {
    pub fn new(doors: &Arc<Doors>, first: usize) -> Turns {
        let clients = (0..doors.count()).map(|_| None).collect();
        Turns { doors: Arc::clone(doors), at: first, clients }
    }

    /// Returns the next replica that accepts this client.
    pub async fn next(&mut self) -> &Client {
        loop {
            self.at = (self.at + 1) % self.clients.len();
            let slot = &mut self.clients[self.at];
            if slot.as_ref().is_none_or(Client::is_closed) {
                *slot = self.doors.enter(self.at).await;
            }
            if slot.is_some() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.clients[self.at].as_ref().expect("it is connected")
    }
}

/// Creates a cluster and bindings that triggers can move.
pub async fn prepare(client: &Client) {
    let cluster = objects::cluster("m1");
    client.post(CLUSTERS, &cluster).await.unwrap();
    let status = objects::room("1000", "1Ti", "10000");
    client.merge_patch(&format!("{CLUSTERS}/m1/status"), &status).await.unwrap();
    for target in 0..TARGETS {
        let mut binding = binding(&format!("target-{target}-deployment"));
        binding["spec"]["resource"]["name"] = format!("target-{target}").into();
        binding["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": ["m1"]}});
        client.post(BINDINGS, &binding).await.unwrap();
    }
}

/// A binding that no worker acts on, because it has no placement.
pub fn binding(name: &str) -> Value {
    objects::binding_in("default", name, name, json!({"replicas": 2}))
}

fn rebalancer(name: &str) -> Value {
    let workload =
        |target| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": target});
    let workloads: Vec<Value> = (0..TARGETS).map(|target| workload(format!("target-{target}"))).collect();
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": workloads}})
}

pub fn revision(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("an object has one")
}

/// Creates objects, updates its own binding, and reads it at another replica, until `stop`. An
/// acknowledged write must be visible at every replica.
pub async fn write(doors: Arc<Doors>, writer: usize, history: Arc<History>, stop: CancellationToken) {
    let mut turns = Turns::new(&doors, writer);
    let (counter, mut lowest, mut highest) = (format!("counter-{writer}"), 0, 0);
    let mut is_made = false;
    for round in 0.. {
        if stop.is_cancelled() {
            return;
        }
        let begin = Instant::now();
        if round % TRIGGER_EVERY == 0 || round % 3 == 0 {
            let (collection, name, object) = match round % TRIGGER_EVERY {
                0 => {
                    let name = format!("rebalancer-{writer}-{round}");
                    (REBALANCERS, name.clone(), rebalancer(&name))
                }
                _ if !is_made => (BINDINGS, counter.clone(), binding(&counter)),
                _ => {
                    let name = format!("binding-{writer}-{round}");
                    (BINDINGS, name.clone(), binding(&name))
                }
            };
            match turns.next().await.post(collection, &object).await {
                Ok(made) => history.acknowledge(&name, revision(&made), begin),
                Err(error) if name == counter && error.to_string().contains("already exists") => {}
                // The create is retried, so the result of one attempt does not apply to the name.
                Err(_) if name == counter => continue,
                Err(error) => {
                    history.failed(&name, &error);
                    continue;
                }
            }
            is_made |= name == counter;
        } else if is_made && round % 3 == 1 {
            highest = round;
            let patch = json!({"metadata": {"annotations": {"count": highest.to_string()}}});
            if let Ok(patched) = turns.next().await.merge_patch(&format!("{BINDINGS}/{counter}"), &patch).await {
                lowest = highest;
                history.moved_on(revision(&patched), begin);
            }
        } else if is_made {
            // Without a revision, the response is not older than any acknowledged write.
            let Ok(found) = turns.next().await.get(&format!("{BINDINGS}/{counter}")).await else { continue };
            let count = found["metadata"]["annotations"]["count"].as_str().and_then(|text| text.parse().ok());
            let count = count.unwrap_or(0);
            if !(lowest..=highest).contains(&count) {
                history.fault(format!("{counter} was read as {count}, and is from {lowest} to {highest}"));
            }
            lowest = lowest.max(count);
        }
    }
}

/// Reads over one connection to the replica at a seat, with and without `resourceVersion=0`, until
/// `stop`. No response may be older than a previous one, and without a revision none may be older
/// than the acknowledged writes.
pub async fn read(doors: Arc<Doors>, seat: usize, history: Arc<History>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let Some(client) = doors.enter(seat).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (mut newest, mut round) = (0, 0);
        while !stop.is_cancelled() {
            round += 1;
            let is_consistent = round % 3 == 0;
            let acknowledged = history.newest();
            let path = if is_consistent { CLUSTERS.to_owned() } else { format!("{CLUSTERS}?resourceVersion=0") };
            match client.get(&path).await {
                Ok(list) => {
                    let shown = revision(&list);
                    if shown < newest {
                        history.fault(format!("replica {seat} showed {shown} after {newest} on one connection"));
                    }
                    if is_consistent && shown < acknowledged {
                        history.fault(format!("replica {seat} showed {shown} after {acknowledged} was acknowledged"));
                    }
                    newest = newest.max(shown);
                }
                Err(_) if client.is_closed() => break,
                // The replica reports that it cannot be sure at the moment.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Watches all bindings after `start` until `stop`, at the next replica whenever a watch ends.
pub async fn watch(
    doors: Arc<Doors>,
    first: usize,
    start: i64,
    history: Arc<History>,
    stop: CancellationToken,
    told: tokio::sync::watch::Sender<i64>,
) -> Vec<Seen> {
    let (mut turns, mut at, mut seen) = (Turns::new(&doors, first), start, Vec::new());
    while !stop.is_cancelled() {
        let path = format!("{BINDINGS}?resourceVersion={at}");
        let client = tokio::select! {
            () = stop.cancelled() => break,
            client = turns.next() => client,
        };
        let watching = client.watch(&path, |event| {
            let object = &event["object"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            at = revision(object);
            seen.push((at, text(&object["metadata"]["name"]), text(&event["type"])));
            told.send_replace(at);
            false
        });
        let ended = tokio::select! {
            () = stop.cancelled() => break,
            ended = watching => ended,
        };
        match ended {
            Err(error) if error.to_string().contains("the watch failed") => {
                history.fault(format!("a watch from {at}: {error:#}"));
                return seen;
            }
            Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    seen
}
