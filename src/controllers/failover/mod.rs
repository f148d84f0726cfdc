//! Takes bindings off the clusters that they may not stay on (see `plan`). The scheduler, which notices
//! that replicas are missing, finds them another place.
//!
//! Two kinds of keys are worked on. A cluster's: date its NoExecute taints, find the bindings that run
//! there. A binding's: leave what must be left, look again when the next toleration runs out. All is
//! decided from the newest view, so it makes no difference which change was noticed, or whether a restart
//! lies in between; the date of a taint is stored on the cluster for that reason.
//!
//! Deliberately absent, so far: graceful eviction tasks, a rate limit, and setting the taints of clusters
//! that are not ready.

mod plan;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::{Map, Value};

use self::plan::{Host, Plan};
use super::{CLUSTERS, commit_one};
use crate::api::core::Toleration;
use crate::api::karmada::cluster::v1alpha1::{Cluster, is_no_execute, is_undated};
use crate::api::karmada::work::v1alpha2::BINDINGS;
use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Object, Time};
use crate::registry::{Atomicity, Change, Client, Part};
use crate::watch::{Event, EventKind, View};
use crate::worker::{Failure, Next, Outcome, Queue, Work, Worked};

/// Keys looked at, and at most as many bindings written, at once.
const BATCH_MAX: usize = 1_000;

/// Clusters go before the bindings on them: a taint's date decides what becomes of the bindings.
const CLUSTER_PRIORITY: i32 = 1;

pub struct Failover {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Failover {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Failover {
        Failover { client, clock }
    }
}

impl Work for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn interest(&self) -> Vec<GroupResource> {
        [CLUSTERS].into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(CLUSTERS, None).filter(|object| is_hostile(object)) {
            queue.mark(object.key.clone(), CLUSTER_PRIORITY);
        }
        for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
            let is_at_risk = placed(object).is_some_and(|placed| {
                let mut hosts = placed.spec.clusters.iter();
                hosts.any(|host| view.get(&cluster_key(&host.name)).is_none_or(|cluster| is_hostile(cluster)))
            });
            if is_at_risk {
                queue.mark(object.key.clone(), 0);
            }
        }
    }

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        let key = event.object.key.clone();
        if key.resource != CLUSTERS {
            let before = event.previous.as_ref().map(|object| object.generation);
            if event.kind != EventKind::Deleted && before != Some(event.object.generation) {
                queue.mark_changed(key, 0, event.revision);
            }
            return;
        }
        let taints_changed = || {
            let before = event.previous.as_ref().and_then(|object| object.typed::<Cluster>().ok());
            let after = event.object.typed::<Cluster>().ok();
            before.map(|cluster| cluster.spec.taints.clone()) != after.map(|cluster| cluster.spec.taints.clone())
        };
        if event.kind == EventKind::Deleted || taints_changed() {
            queue.mark(key, CLUSTER_PRIORITY);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let (client, now) = (self.client.clone(), self.clock.now());
        async move {
            let (clusters, bindings): (Vec<Key>, Vec<Key>) = keys.into_iter().partition(|key| key.resource == CLUSTERS);
            let mut worked = Worked::default();
            for key in clusters {
                judge_cluster(&client, key, now, &mut worked).await;
            }
            judge_bindings(&client, bindings, now, &mut worked).await;
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

async fn judge_cluster(client: &Client, key: Key, now: Time, worked: &mut Worked) {
    let view = client.view();
    let next = match view.get(&key) {
        Some(object) => date_taints(client, object, now).await,
        None => Next::Done,
    };
    // Undated taints are counted from when they are dated: the bindings are looked at after that.
    if next == Next::Done && view.get(&key).is_none_or(|object| is_hostile(object)) {
        let name = key.name.to_string();
        // A look into every binding: milliseconds for thousands of them, so not between two awaits.
        let found = tokio::task::spawn_blocking(move || bindings_on(&view, &name)).await;
        worked.found.extend(found.unwrap_or_default().into_iter().map(|key| (key, 0)));
    }
    worked.outcomes.push(Outcome::new(key, next));
}

/// Writes `timeAdded` where a NoExecute taint lacks it. `Done`: there is nothing to date.
async fn date_taints(client: &Client, object: &Arc<Object>, now: Time) -> Next {
    let Ok(cluster) = object.typed::<Cluster>() else { return Next::Park };
    if !cluster.spec.taints.iter().any(is_undated) {
        return Next::Done;
    }
    let Ok(mut tree) = object.value() else { return Next::Park };
    if let Some(Value::Array(taints)) = tree.get_mut("spec").and_then(|spec| spec.get_mut("taints")) {
        for (taint, written) in cluster.spec.taints.iter().zip(taints) {
            if is_undated(taint) {
                written["timeAdded"] = Value::from(now.to_string());
            }
        }
    }
    let change = (CLUSTERS, Change::Update { part: Part::Main, object: tree });
    match commit_one(client, change).await {
        Ok(()) => Next::Again,
        Err(status) => {
            tracing::debug!(key = %object.key, %status, "taints not dated, trying again");
            Failure::of(&status).into()
        }
    }
}

async fn judge_bindings(client: &Client, keys: Vec<Key>, now: Time, worked: &mut Worked) {
    let view = client.view();
    let mut changes = Vec::new();
    let mut writing = Vec::new();
    for key in keys {
        let Some(object) = view.get(&key).filter(|object| !object.deleting) else {
            worked.outcomes.push(Outcome::new(key, Next::Done));
            continue;
        };
        let Some(placed) = placed(object) else {
            worked.outcomes.push(Outcome::new(key, Next::Park));
            continue;
        };
        let plan = judge(&view, &placed, now);
        let next = match plan.look_again {
            Some(end) => Next::After((end.seconds() - now.seconds()).saturating_mul(1_000)),
            None => Next::Done,
        };
        let left = (!plan.leave.is_empty()).then(|| without(object, &plan)).flatten();
        let Some(binding) = left else {
            worked.outcomes.push(Outcome { seen: Some(object.revision), ..Outcome::new(key, next) });
            continue;
        };
        tracing::info!(%key, leaves = ?plan.leave, "evicted");
        changes.push((key.resource, Change::Update { part: Part::Main, object: binding }));
        writing.push((key, next));
    }
    if changes.is_empty() {
        return;
    }
    let outcomes = match client.batch(changes, Atomicity::Each).await {
        Ok(outcomes) => outcomes,
        Err(status) => {
            tracing::warn!(%status, "failed to commit evictions");
            worked.outcomes.extend(writing.into_iter().map(|(key, _)| Outcome::new(key, Next::Retry)));
            return;
        }
    };
    for ((key, next), outcome) in writing.into_iter().zip(outcomes) {
        worked.outcomes.push(match outcome {
            Ok(object) => Outcome { seen: Some(object.revision), ..Outcome::new(key, next) },
            Err(status) => {
                tracing::debug!(%key, %status, "not evicted, looking again");
                Outcome::new(key, Failure::of(&status).into())
            }
        });
    }
}

fn judge(view: &View, placed: &Placed, now: Time) -> Plan {
    let names = placed.spec.clusters.iter().map(|cluster| &*cluster.name);
    let clusters: Vec<(&str, Option<Arc<Cluster>>)> = names
        // A cluster that cannot be read is there all the same: nothing is evicted for that.
        .map(|name| (name, view.get(&cluster_key(name)).map(|object| object.typed().unwrap_or_default())))
        .collect();
    let hosts = clusters.iter().map(|(name, cluster)| match cluster {
        Some(cluster) => (*name, Host::There { taints: &cluster.spec.taints }),
        None => (*name, Host::Gone),
    });
    let tolerations = placed.spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
    plan::plan(hosts, tolerations, now)
}

/// The binding without the clusters that it leaves.
fn without(object: &Object, plan: &Plan) -> Option<Map<String, Value>> {
    let mut tree = object.value().ok()?;
    let clusters = tree.get_mut("spec")?.get_mut("clusters")?.as_array_mut()?;
    clusters.retain(|cluster| !plan.leave.iter().any(|(name, _)| cluster["name"] == **name));
    Some(tree)
}

fn bindings_on(view: &View, cluster: &str) -> Vec<Key> {
    let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
    let on_cluster = |object: &&Arc<Object>| {
        placed(object).is_some_and(|placed| placed.spec.clusters.iter().any(|host| host.name == cluster))
    };
    bindings.filter(on_cluster).map(|object| object.key.clone()).collect()
}

fn cluster_key(name: &str) -> Key {
    Key::cluster(CLUSTERS, name)
}

fn is_hostile(cluster: &Object) -> bool {
    cluster.typed::<Cluster>().is_ok_and(|cluster| cluster.spec.taints.iter().any(is_no_execute))
}

/// As much of a binding as matters here. Read anew each time: kept typed forms of all bindings would cost
/// more memory than the bindings themselves.
#[derive(Deserialize)]
struct Placed {
    spec: PlacedSpec,
}

#[derive(Deserialize)]
struct PlacedSpec {
    #[serde(default)]
    clusters: Vec<PlacedCluster>,
    placement: Option<PlacedPlacement>,
}

#[derive(Deserialize)]
struct PlacedCluster {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlacedPlacement {
    #[serde(default)]
    cluster_tolerations: Vec<Toleration>,
}

fn placed(object: &Object) -> Option<Placed> {
    serde_json::from_slice(&object.json).ok()
}
