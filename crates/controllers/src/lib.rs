//! Controllers: loops that turn what users want into changes of other objects.
//!
//! ```text
//!   events ──► queue of keys ──► observe: one view
//!                                   │
//!                                 plan: pure (plan.rs)
//!                                   │
//!                                 apply: one batch through the registry's client
//!                                   │
//!                    next: done, look again at a time, retry, or after a conflict plan anew
//! ```
//!
//! Each controller is a folder: `mod.rs` observes and applies, `plan.rs` decides and is pure. So
//! the rules are tested without a server, and a plan needs no lock: if an object changes between
//! observation and write, the write conflicts, and the controller plans again from the new state.
//!
//! *Promises.* A controller writes through the registry's client, so validation and generations
//! apply to its writes as to those of users. Each write has the revision that its plan is based on
//! as a precondition. After a restart, a controller finds in the stored objects what is left to do.
//!
//! *Left out.* Controllers do not call each other, nor the scheduler's loop: they share only
//! objects. `failover` removes a target, and the scheduler sees that replicas are missing. Those
//! that evict ask the scheduler's engine whether there is another place (`places`).
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! What several controllers use:
//! - `clusters`: clusters of the Karmada family
//! - `commit`: writes the changes of a plan
//! - `places`: whether a workload has another place
//! - `eviction_task`: how a binding leaves a cluster
//! - `bindings_by_cluster`: which bindings are on which cluster
//! - `tracked_bindings`: the few bindings that have a field
//! - `placement_loop`: the loop over Fleet placements
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
//! - `retell`: compares the inventory once at the start
//!
//! Controllers of the Fleet family:
//! - `placement`: makes snapshots and the status of placements
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

/// What happens when clusters and workloads fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverOptions {
    pub unready: Unready,
    pub taints: TaintEviction,
    /// Which controller keeps a deleted Cluster until its bindings have left.
    pub finalizer: Finalizer,
    /// The grace period of evictions that have none of their own.
    pub grace_seconds: i64,
    /// Whether evictions of bindings whose scheduling is suspended wait.
    pub holds_suspended: bool,
    /// What ends an eviction whose replicas have no other place.
    pub last_copy: LastCopy,
}

/// What happens at the end of a grace period if the workload would have less than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCopy {
    /// It leaves all the same: upstream's way.
    Leaves,
    /// It stays, for so many seconds more at most. `None`: for as long as that is so.
    Stays { at_most_seconds: Option<i64> },
}

/// Which controller adds and removes the finalizer of Clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    /// `ClusterFinalizer`.
    Managed,
    /// Another controller: Karmada's own.
    Foreign,
}

impl FailoverOptions {
    /// The same as far as counts of evictions need it.
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
    /// Upstream's numbers. Its switch for evictions by taint is off where ours is on.
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

/// The controllers of the Karmada family, each under an identity of its own. Hand them to
/// `worker::Workers::spawn`. `profile` is that of the scheduler that runs beside them.
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

/// The controllers of the Fleet family.
pub fn fleet(registry: &Arc<Registry>, clock: &Arc<dyn Clock>) -> Vec<Box<dyn Work>> {
    let placements = |name, look| -> Box<dyn Work> {
        Box::new(PlacementController::new(name, look, registry.client(User::component(name)), Arc::clone(clock)))
    };
    let clusters = MemberClusterController::new(registry.client(User::component("member-cluster")), Arc::clone(clock));
    vec![placements("placement", placement::changes), placements("rollout", rollout::changes), Box::new(clusters)]
}
