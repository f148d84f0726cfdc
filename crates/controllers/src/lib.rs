//! Controllers: loops that translate the desired state of objects into changes of other objects.
//!
//! ```text
//!   events ──► queue of keys ──► observe: one view
//!                                   │
//!                                 plan: pure (plan.rs)
//!                                   │
//!                                 apply: one batch through the registry's client
//!                                   │
//!                    next: done, look again at a time, retry, or plan again after a conflict
//! ```
//!
//! Each controller is a folder: `mod.rs` observes and applies, `plan.rs` decides and is pure. So
//! the rules are tested without a server, and a plan needs no lock: if an object changes between
//! observation and write, the write conflicts, and the controller plans again from the new state.
//!
//! *Guarantees.* A controller writes through the registry's client, so validation and generations
//! apply to its writes as to those of users. Each write has the revision that its plan is based on
//! as a precondition. After a restart, a controller finds in the stored objects what is left to do.
//!
//! *Left out.* Controllers do not call each other, nor the scheduler's loop: they share only
//! objects. `failover` removes a target, and the scheduler sees that replicas are missing. Evicting
//! controllers query the scheduler's engine for an alternative placement (`places`).
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Shared by several controllers:
//! - `clusters`: clusters of the Karmada family
//! - `commit`: writes the changes of a plan
//! - `places`: whether a workload fits on other clusters
//! - `eviction_task`: how a binding leaves a cluster
//! - `bindings_by_cluster`: which bindings are on which cluster
//! - `tracked_bindings`: the few bindings that have a field
//! - `placement_loop`: the loop over KubeFleet placements
//!
//! Controllers of the Karmada family:
//! - `rebalancer`: triggers the bindings of a WorkloadRebalancer
//! - `ttl`: deletes finished WorkloadRebalancers
//! - `cluster_taints`: taints clusters that are not Ready, and dates taints
//! - `cluster_finalizer`: keeps a deleted Cluster until its bindings have left
//! - `failover`: evicts bindings from tainted and deleted clusters
//! - `graceful_eviction`: ends eviction tasks
//! - `application_failover`: evicts workloads that are unhealthy
//! - `policy`: copies changed policies to bindings
//! - `own_fields`: copies Ballast's own policy fields, where Karmada copies the rest
//! - `recount`: counts each quota once at the start
//! - `retell`: repairs the inventory once at the start
//!
//! Controllers of the KubeFleet family:
//! - `placement`: writes snapshots and the status of placements
//! - `rollout`: binds clusters as the rollout strategy allows
//! - `member_cluster`: joins and removes member clusters

mod application_failover;
mod cluster_finalizer;
mod cluster_taints;
mod clusters;
mod commit;
mod eviction_task;
mod failover;
mod graceful_eviction;
mod bindings_by_cluster;
mod member_cluster;
mod tracked_bindings;
mod own_fields;
mod placement;
mod placement_loop;
mod places;
mod policy;
mod rebalancer;
mod recount;
mod retell;
mod rollout;
mod ttl;

use std::sync::Arc;

use ballast_api::karmada::policy::v1alpha1::PurgeMode;
use ballast_base::clock::Clock;
use ballast_census::ForecastRules;
use ballast_engine::karmada::Profile;
use ballast_k8s::User;
use ballast_registry::{Client, Registry};
use ballast_worker::Work;
use ballast_worker::events::Recorder;

use self::places::Places;
pub use application_failover::ApplicationFailover;
pub use ballast_census::EvictionRate;
pub use cluster_finalizer::{ClusterFinalizer, FINALIZER};
pub use cluster_taints::{ClusterTaints, Unready};
pub use failover::{Failover, TaintEviction};
use graceful_eviction::EvictionRules;
pub use graceful_eviction::GracefulEviction;
pub use member_cluster::MemberClusterController;
pub use own_fields::OwnFields;
pub use placement_loop::PlacementController;
pub use policy::Policies;
pub use rebalancer::Rebalancer;
pub use recount::Recount;
pub use retell::Retell;
pub use ttl::Ttl;

/// Options for the handling of failed clusters and workloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverOptions {
    pub unready: Unready,
    pub taints: TaintEviction,
    /// The controller that keeps a deleted Cluster until its bindings have left.
    pub finalizer: Finalizer,
    /// The grace period of evictions that do not specify one.
    pub grace_seconds: i64,
    /// Whether evictions of bindings with suspended scheduling wait.
    pub holds_suspended: bool,
    /// Handling of evictions without replacements.
    pub last_copy: LastCopy,
}

/// Handling of a workload that would lose ready replicas at the end of a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCopy {
    /// The workload leaves nevertheless, as upstream.
    Leaves,
    /// The workload stays, for at most this many more seconds; `None` for no limit.
    Stays { at_most_seconds: Option<i64> },
}

/// The controller that adds and removes the finalizer of Clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    /// `ClusterFinalizer`.
    Managed,
    /// Another controller, such as Karmada's own.
    Foreign,
}

impl FailoverOptions {
    /// Returns the subset of the options that eviction forecasts need.
    pub fn forecast_rules(&self) -> ForecastRules {
        let rate = match self.taints {
            TaintEviction::Off => None,
            TaintEviction::By { rate, .. } => Some(rate),
        };
        let evicted_after_seconds = match self.unready {
            Unready::Ignored => None,
            Unready::Tainted { evicted_after_seconds } => Some(evicted_after_seconds),
        };
        ForecastRules { rate, evicted_after_seconds }
    }
}

impl Default for FailoverOptions {
    /// Upstream's values, except that evictions by taint are on.
    fn default() -> FailoverOptions {
        FailoverOptions {
            unready: Unready::Tainted { evicted_after_seconds: 300 },
            taints: TaintEviction::By { purge_mode: PurgeMode::Gracefully, rate: EvictionRate::default() },
            finalizer: Finalizer::Managed,
            grace_seconds: 600,
            holds_suspended: true,
            last_copy: LastCopy::Stays { at_most_seconds: None },
        }
    }
}

/// Creates the controllers of the Karmada family, each with a separate identity, for
/// `worker::Workers::spawn`. `profile` is that of the scheduler.
pub fn karmada(
    registry: &Arc<Registry>,
    clock: &Arc<dyn Clock>,
    recorder: &Recorder,
    profile: &Profile,
    failover: FailoverOptions,
) -> Vec<Box<dyn Work>> {
    let client = |name: &str| -> Client { registry.client(User::component(name)) };
    let clock = || Arc::clone(clock);
    let places = Places::of(profile);
    let asks = || places.clone();
    let FailoverOptions { unready, taints, finalizer, grace_seconds, holds_suspended, last_copy } = failover;
    let scheduler_name = &profile.scheduler_name;
    let evicts = Failover::new(client("failover"), clock(), recorder, scheduler_name, taints, holds_suspended, asks());
    let rules = EvictionRules { grace_seconds, last_copy, holds_suspended };
    let ends = GracefulEviction::new(client("graceful-eviction"), clock(), recorder, rules, asks());
    let applications = client("application-failover");
    let applications = ApplicationFailover::new(applications, clock(), recorder, holds_suspended, asks());
    let mut work: Vec<Box<dyn Work>> = vec![
        Box::new(Rebalancer::new(client("rebalancer"), clock(), recorder)),
        Box::new(Ttl::new(client("ttl"), clock())),
        Box::new(ClusterTaints::new(client("cluster-taints"), clock(), recorder, unready)),
        Box::new(evicts),
        Box::new(ends),
        Box::new(applications),
        Box::new(Policies::new(client("policy"))),
        Box::new(OwnFields::new(client("own-fields"))),
    ];
    if finalizer == Finalizer::Managed {
        work.push(Box::new(ClusterFinalizer::new(client("cluster-finalizer"), recorder)));
    }
    work
}

/// Creates the controllers of the KubeFleet family.
pub fn fleet(registry: &Arc<Registry>, clock: &Arc<dyn Clock>) -> Vec<Box<dyn Work>> {
    let placements = |name, look| -> Box<dyn Work> {
        Box::new(PlacementController::new(name, look, registry.client(User::component(name)), Arc::clone(clock)))
    };
    let clusters = MemberClusterController::new(registry.client(User::component("member-cluster")), Arc::clone(clock));
    vec![placements("placement", placement::changes), placements("rollout", rollout::changes), Box::new(clusters)]
}
