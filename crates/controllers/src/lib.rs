//! Controllers: loops that turn what users ask for into changes of other objects. Each has a
//! `mod.rs` that observes and applies, and a `plan.rs` that decides (pure).
//!
//! Controllers know neither the scheduler nor each other: they only share objects. They write
//! through the registry's client, so validation and generations apply to them too. Each write names
//! the revision that its plan is based on. After a conflict, a new plan is made.

mod application_failover;
mod cluster_finalizer;
mod cluster_taints;
mod eviction_task;
mod failover;
mod graceful_eviction;
mod bindings_by_cluster;
mod member_cluster;
mod tracked_bindings;
mod own_fields;
mod placement;
mod placement_loop;
mod policy;
mod rebalancer;
mod recount;
mod rollout;
mod ttl;

use std::sync::Arc;

use serde_json::{Map, Value};

use ballast_api::core::ObjectReference;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::policy::v1alpha1::PurgeMode;
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Object, Status, User};
use ballast_registry::{Atomicity, Change, Client, Part, Registry};
use ballast_watch::Event;
use ballast_worker::events::Recorder;
use ballast_worker::{Failure, Handled, Next, Work, Worked};

pub use application_failover::ApplicationFailover;
pub use cluster_finalizer::ClusterFinalizer;
pub use cluster_taints::{ClusterTaints, Unready};
pub use failover::{EvictionRate, Failover, TaintEviction};
pub use graceful_eviction::GracefulEviction;
pub use member_cluster::MemberClusterController;
pub use own_fields::OwnFields;
pub use placement_loop::PlacementController;
pub use policy::Policies;
pub use rebalancer::Rebalancer;
pub use recount::Recount;
pub use ttl::Ttl;

const WORKLOAD_REBALANCERS: GroupResource = GroupResource::new("workloadrebalancers.apps.karmada.io");
const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

/// What happens when clusters and workloads fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverOptions {
    pub unready: Unready,
    pub taints: TaintEviction,
    /// Who keeps a deleted Cluster until its bindings have left.
    pub finalizer: Finalizer,
    /// The grace period of evictions that have none of their own.
    pub grace_seconds: i64,
}

/// Who adds and removes the finalizer of Clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    /// `ClusterFinalizer`.
    Managed,
    /// Another controller: Karmada's own.
    Foreign,
}

impl Default for FailoverOptions {
    /// Upstream's numbers. Its switch for evictions by taint is off where ours is on.
    fn default() -> FailoverOptions {
        FailoverOptions {
            unready: Unready::Tainted { evicted_after_seconds: 300 },
            taints: TaintEviction::By { purge_mode: PurgeMode::Gracefully, rate: EvictionRate::default() },
            finalizer: Finalizer::Managed,
            grace_seconds: 600,
        }
    }
}

/// The controllers of the Karmada family, each under an identity of its own. Hand them to
/// `worker::Workers::spawn`. `scheduler_name` is the name of the scheduler that runs beside them.
pub fn karmada(
    registry: &Arc<Registry>,
    clock: &Arc<dyn Clock>,
    recorder: &Recorder,
    scheduler_name: &str,
    failover: FailoverOptions,
) -> Vec<Box<dyn Work>> {
    let client = |name: &str| -> Client { registry.client(User::component(name)) };
    let clock = || Arc::clone(clock);
    let FailoverOptions { unready, taints, finalizer, grace_seconds } = failover;
    let mut work: Vec<Box<dyn Work>> = vec![
        Box::new(Rebalancer::new(client("rebalancer"), clock(), recorder)),
        Box::new(Ttl::new(client("ttl"), clock())),
        Box::new(ClusterTaints::new(client("cluster-taints"), clock(), recorder, unready)),
        Box::new(Failover::new(client("failover"), clock(), scheduler_name, taints)),
        Box::new(GracefulEviction::new(client("graceful-eviction"), clock(), recorder, grace_seconds)),
        Box::new(ApplicationFailover::new(client("application-failover"), clock())),
        Box::new(Policies::new(client("policy"))),
        Box::new(OwnFields::new(client("own-fields"))),
    ];
    if finalizer == Finalizer::Managed {
        work.push(Box::new(ClusterFinalizer::new(client("cluster-finalizer"), recorder)));
    }
    work
}

/// The controllers of the Fleet family.
pub fn fleet(registry: &Arc<Registry>, clock: &Arc<dyn Clock>) -> Vec<Box<dyn Work>> {
    let placements = |name, look| -> Box<dyn Work> {
        Box::new(PlacementController::new(name, look, registry.client(User::component(name)), Arc::clone(clock)))
    };
    let clusters = MemberClusterController::new(registry.client(User::component("member-cluster")), Arc::clone(clock));
    vec![placements("placement", placement::changes), placements("rollout", rollout::changes), Box::new(clusters)]
}

/// Commits a batch of one change.
async fn commit_one(client: &Client, change: (GroupResource, Change)) -> Result<(), Status> {
    let outcomes = client.batch(vec![change], Atomicity::Each).await?;
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}

/// Writes each object, in one transaction, and records the outcome of each key. Returns which
/// objects were written.
async fn commit_each(client: &Client, writes: Vec<(Key, Map<String, Value>, Next)>, worked: &mut Worked) -> Vec<bool> {
    let mut changes = Vec::with_capacity(writes.len());
    let mut writing = Vec::with_capacity(writes.len());
    for (key, object, next) in writes {
        changes.push((key.resource, Change::Update { part: Part::Main, object }));
        writing.push((key, next));
    }
    let outcomes = match client.batch(changes, Atomicity::Each).await {
        Ok(outcomes) => outcomes,
        Err(status) => {
            tracing::warn!(%status, "a batch was not written");
            let done = vec![false; writing.len()];
            worked.outcomes.extend(writing.into_iter().map(|(key, _)| Handled::new(key, Next::Retry)));
            return done;
        }
    };
    let mut done = Vec::with_capacity(writing.len());
    for ((key, next), outcome) in writing.into_iter().zip(outcomes) {
        done.push(outcome.is_ok());
        worked.outcomes.push(match outcome {
            Ok(object) => Handled { seen: Some(object.revision), ..Handled::new(key, next) },
            Err(status) => {
                tracing::debug!(%key, %status, "not written, looking again");
                Handled::new(key, Failure::of(&status).into())
            }
        });
    }
    done
}

/// Bindings written in one batch, where a policy concerns many.
const BINDINGS_PER_COMMIT_MAX: usize = 1_000;

/// Writes many bindings, a bounded batch at a time. Returns what is next for the keys that they
/// were changed because of: if any of the writes has to be tried again, all of them are looked at
/// again.
async fn commit_all(client: &Client, changes: Vec<(GroupResource, Change)>) -> Next {
    let mut next = Next::Done;
    let mut changes = changes.into_iter().peekable();
    while changes.peek().is_some() {
        let chunk: Vec<(GroupResource, Change)> = changes.by_ref().take(BINDINGS_PER_COMMIT_MAX).collect();
        let outcomes = client.batch(chunk, Atomicity::Each).await.unwrap_or_else(|status| vec![Err(status)]);
        for status in outcomes.into_iter().filter_map(Result::err) {
            tracing::debug!(%status, "a binding was not written, looking again");
            next = match (next, Failure::of(&status).into()) {
                (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
                (_, other) => other,
            };
        }
    }
    next
}

fn cluster_key(name: &str) -> Key {
    Key::cluster(CLUSTERS, name)
}

/// What events about a cluster refer to.
fn reference_to_cluster(cluster: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some("cluster.karmada.io/v1alpha1".to_owned()),
        kind: Some("Cluster".to_owned()),
        name: Some(cluster.key.name.to_string()),
        uid: Some(cluster.uid.to_string()),
        ..ObjectReference::default()
    }
}

fn taints_changed(event: &Event) -> bool {
    let before = event.previous.as_ref().and_then(|object| object.typed::<Cluster>().ok());
    let after = event.object.typed::<Cluster>().ok();
    before.map(|cluster| cluster.spec.taints.clone()) != after.map(|cluster| cluster.spec.taints.clone())
}
