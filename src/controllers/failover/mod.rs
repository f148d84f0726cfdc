//! Takes bindings off the clusters that they may not stay on (see `plan`). The scheduler, which
//! notices that replicas are missing, finds them another place.
//!
//! Two kinds of keys are worked on. A cluster's: find the bindings that run there. A binding's:
//! leave what must be left, look again when the next toleration runs out. All is decided from the
//! newest view, so it makes no difference which change was noticed, or whether a restart lies in
//! between; the date of a taint is stored on the cluster for that reason.
//!
//! Evictions take turns (see `pace`). A binding leaves a tainted cluster by an eviction task, which
//! `graceful_eviction` ends; one that is gone is left without.

mod pace;
mod plan;

use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::{Map, Value};

pub use self::pace::EvictionRate;
use self::pace::Pace;
use self::plan::{Host, Plan, Why};
use super::eviction_task::{evict, preserve};
use super::{CLUSTERS, cluster_key, commit_each, taints_changed};
use crate::api::core::Toleration;
use crate::api::karmada::cluster::v1alpha1::{Cluster, is_no_execute};
use crate::api::karmada::policy::v1alpha1::{ClusterPurgeMode, PurgeMode};
use crate::api::karmada::work::v1alpha2::{AnyBinding, BINDINGS, GracefulEvictionTask};
use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Object, Time};
use crate::registry::Client;
use crate::watch::{Event, EventKind, View};
use crate::worker::{Handled, Next, Queue, Work, Worked};

/// Keys looked at, and at most as many bindings written, at once.
const BATCH_MAX: usize = 1_000;

/// Clusters go before the bindings on them: a taint decides what becomes of the bindings.
const CLUSTER_PRIORITY: i32 = 1;

/// Whether NoExecute taints drive bindings out, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaintEviction {
    Off,
    By {
        /// For bindings that do not say so themselves.
        purge_mode: PurgeMode,
        rate: EvictionRate,
    },
}

pub struct Failover {
    client: Client,
    clock: Arc<dyn Clock>,
    taints: TaintEviction,
    pace: Arc<Mutex<Pace>>,
}

impl Failover {
    pub fn new(client: Client, clock: Arc<dyn Clock>, taints: TaintEviction) -> Failover {
        Failover { client, clock, taints, pace: Arc::default() }
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
        if event.kind == EventKind::Deleted || taints_changed(event) {
            queue.mark(key, CLUSTER_PRIORITY);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let (client, now_ms) = (self.client.clone(), self.clock.now_ms());
        let now = self.clock.now();
        let (taints, pace) = (self.taints, Arc::clone(&self.pace));
        async move {
            let (clusters, bindings): (Vec<Key>, Vec<Key>) = keys.into_iter().partition(|key| key.resource == CLUSTERS);
            let mut worked = Worked::default();
            let view = client.view();
            for key in clusters {
                find_bindings(&view, key, &mut worked).await;
            }
            let writes = {
                let mut pace = pace.lock().expect("no holder of this lock can panic");
                let mut eviction = Eviction { view: &view, taints, pace: &mut pace, now, now_ms };
                eviction.judge_all(bindings, &mut worked)
            };
            commit_each(&client, writes, &mut worked).await;
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// Finds the bindings on a cluster that they may have to leave.
async fn find_bindings(view: &Arc<View>, key: Key, worked: &mut Worked) {
    if view.get(&key).is_none_or(|object| is_hostile(object)) {
        let (view, name) = (Arc::clone(view), key.name.to_string());
        // A look into every binding: milliseconds for thousands of them, so not between two awaits.
        let found = tokio::task::spawn_blocking(move || bindings_on(&view, &name)).await;
        worked.found.extend(found.unwrap_or_default().into_iter().map(|key| (key, 0)));
    }
    worked.outcomes.push(Handled::new(key, Next::Done));
}

/// What a batch of bindings is judged by.
struct Eviction<'a> {
    view: &'a View,
    taints: TaintEviction,
    pace: &'a mut Pace,
    now: Time,
    now_ms: i64,
}

impl Eviction<'_> {
    /// The bindings to write.
    fn judge_all(&mut self, keys: Vec<Key>, worked: &mut Worked) -> Vec<(Key, Map<String, Value>, Next)> {
        let per_second = self.per_second();
        let mut writes = Vec::new();
        for key in keys {
            let Some(object) = self.view.get(&key).filter(|object| !object.deleting) else {
                self.pace.forget(&key);
                worked.outcomes.push(Handled::new(key, Next::Done));
                continue;
            };
            let Some(placed) = placed(object) else {
                worked.outcomes.push(Handled::new(key, Next::Park));
                continue;
            };
            let mut plan = self.plan(&placed);
            let mut next = match plan.look_again {
                Some(end) => Next::After((end.seconds() - self.now.seconds()).saturating_mul(1_000)),
                None => Next::Done,
            };
            if !plan.evicts() {
                self.pace.forget(&key);
            } else if let Err(wait_ms) = self.pace.ask(&key, self.now_ms, per_second) {
                plan.leave.retain(|(_, why)| *why == Why::Gone);
                next = Next::After(wait_ms);
            }
            let left = match plan.leave.is_empty() {
                true => Ok(None),
                false => self.without(object, &plan).map(Some),
            };
            match left {
                Ok(None) => worked.outcomes.push(Handled { seen: Some(object.revision), ..Handled::new(key, next) }),
                Ok(Some(tree)) => {
                    tracing::info!(%key, leaves = ?plan.leave, "evicted");
                    writes.push((key, tree, next));
                }
                Err(why) => {
                    tracing::warn!(%key, why, "not evicted, trying again");
                    worked.outcomes.push(Handled::new(key, Next::Retry));
                }
            }
        }
        writes
    }

    fn per_second(&self) -> f64 {
        let TaintEviction::By { rate, .. } = self.taints else { return 0.0 };
        let (mut clusters, mut unready) = (0, 0);
        for cluster in self.view.list(CLUSTERS, None).filter_map(|object| object.typed::<Cluster>().ok()) {
            clusters += 1;
            let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
            unready += usize::from(ready.is_some_and(|ready| ready.status != "True"));
        }
        rate.of_fleet(clusters, unready)
    }

    fn plan(&self, placed: &Placed) -> Plan {
        let names = placed.spec.clusters.iter().map(|cluster| &*cluster.name);
        let clusters: Vec<(&str, Option<Arc<Cluster>>)> = names
            // A cluster that cannot be read is there all the same: nothing is evicted for that.
            .map(|name| (name, self.view.get(&cluster_key(name)).map(|object| object.typed().unwrap_or_default())))
            .collect();
        let evicts = self.taints != TaintEviction::Off;
        let hosts = clusters.iter().map(|(name, cluster)| match cluster {
            Some(cluster) if evicts => (*name, Host::There { taints: &cluster.spec.taints }),
            Some(_) => (*name, Host::There { taints: &[] }),
            None => (*name, Host::Gone),
        });
        let tolerations = placed.spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
        plan::plan(hosts, tolerations, self.now)
    }

    /// The binding without the clusters that it leaves.
    fn without(&self, object: &Object, plan: &Plan) -> Result<Map<String, Value>, String> {
        let mut tree = object.value().map_err(|error| error.to_string())?;
        let binding: AnyBinding = serde_json::from_slice(object.text.content()).map_err(|error| error.to_string())?;
        let behavior = binding.spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
        let purge_mode = match (behavior, self.taints) {
            (Some(behavior), _) if behavior.purge_mode == Some(ClusterPurgeMode::Directly) => PurgeMode::Directly,
            (None, TaintEviction::By { purge_mode, .. }) => purge_mode,
            _ => PurgeMode::Gracefully,
        };
        for (cluster, why) in &plan.leave {
            if *why == Why::Gone {
                if let Some(Value::Array(clusters)) = tree.get_mut("spec").and_then(|spec| spec.get_mut("clusters")) {
                    clusters.retain(|target| target["name"] != **cluster);
                }
                continue;
            }
            let rules = behavior.and_then(|behavior| behavior.state_preservation.as_ref());
            let mut task = GracefulEvictionTask {
                from_cluster: cluster.clone(),
                purge_mode: Some(purge_mode),
                creation_timestamp: Some(self.now),
                ..GracefulEvictionTask::by_taint()
            };
            preserve(rules, &binding, &mut task)?;
            evict(&mut tree, task).ok_or("it is not there any more")?;
        }
        Ok(tree)
    }
}

fn bindings_on(view: &View, cluster: &str) -> Vec<Key> {
    let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
    let on_cluster = |object: &&Arc<Object>| {
        placed(object).is_some_and(|placed| placed.spec.clusters.iter().any(|host| host.name == cluster))
    };
    bindings.filter(on_cluster).map(|object| object.key.clone()).collect()
}

fn is_hostile(cluster: &Object) -> bool {
    cluster.typed::<Cluster>().is_ok_and(|cluster| cluster.spec.taints.iter().any(is_no_execute))
}

/// As much of a binding as matters here. Read anew each time: kept typed forms of all bindings
/// would cost more memory than the bindings themselves.
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
    serde_json::from_slice(object.text.content()).ok()
}
