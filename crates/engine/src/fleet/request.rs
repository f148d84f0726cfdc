//! The input of a cycle.

use std::sync::Arc;

use super::affinity::{AffinityTerm, Preference};
use super::cluster::MemberClusters;
use super::decision::{ClusterDecision, Report, State};
use super::fault::Fault;
use super::topology_spread::SpreadConstraint;
use ballast_k8s::{Time, Toleration};

/// The complete input of a cycle.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub now: Time,
    pub fleet: &'a MemberClusters,
    pub snapshot: &'a PolicySnapshot,
    /// All bindings of the placement, in any order.
    pub bindings: &'a [Binding],
}

/// The active policy.
#[derive(Clone, Debug)]
pub struct PolicySnapshot {
    pub name: Arc<str>,
    pub generation: i64,
    /// The generation of the placement that this snapshot belongs to.
    pub placement_generation: Result<i64, Fault>,
    pub placement: Placement,
    /// The stored status. None: it is absent or cannot be preserved.
    pub status: Option<Report>,
}

/// The placement type: which clusters the policy picks.
#[derive(Clone, Debug)]
pub enum Placement {
    All(Requirements),
    Count {
        /// The number of clusters to pick.
        wanted: Result<usize, Fault>,
        requirements: Requirements,
        preferences: Vec<Preference>,
        constraints: Vec<SpreadConstraint>,
    },
    Fixed(Vec<Arc<str>>),
}

/// Requirements for every picked cluster.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// Alternative terms, of which one must match. Empty: every cluster matches.
    pub terms: Vec<AffinityTerm>,
    pub tolerations: Vec<Toleration>,
    /// The namespace that must exist on the cluster. None for cluster-scoped placements.
    pub namespace: Option<Box<str>>,
}

/// A binding of the placement to a cluster that was picked.
#[derive(Clone, Debug)]
pub struct Binding {
    pub name: Arc<str>,
    pub cluster: Arc<str>,
    pub state: State,
    /// The state before Unscheduled. Only Scheduled or Bound.
    pub previous_state: Option<State>,
    /// The name of the policy snapshot that picked the cluster.
    pub snapshot: Arc<str>,
    pub deleting: bool,
    /// Whether the scheduler's finalizer is on the binding.
    pub held_by_scheduler: bool,
    pub decision: ClusterDecision,
}
