//! What a cycle is given.

use std::sync::Arc;

use super::affinity::{Preference, Term};
use super::cluster::MemberClusters;
use super::decision::{ClusterDecision, Report};
use super::fault::Fault;
use super::topology_spread::SpreadConstraint;
use crate::k8s::{Time, Toleration};

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub now: Time,
    pub fleet: &'a MemberClusters,
    pub snapshot: &'a PolicySnapshot,
    /// All bindings of the placement, in any order.
    pub bindings: &'a [Binding],
}

/// The policy that is in force.
#[derive(Clone, Debug)]
pub struct PolicySnapshot {
    pub name: Arc<str>,
    pub generation: i64,
    /// The placement's generation that this snapshot stands for.
    pub placement_generation: Result<i64, Fault>,
    pub placement: Placement,
    /// Its status as it is stored, None when it has none that could be kept.
    pub status: Option<Report>,
}

#[derive(Clone, Debug)]
pub enum Placement {
    All(Requirements),
    Count {
        /// How many clusters are wanted.
        wanted: Result<usize, Fault>,
        requirements: Requirements,
        preferences: Vec<Preference>,
        constraints: Vec<SpreadConstraint>,
    },
    Fixed(Vec<Arc<str>>),
}

/// What every cluster that is picked must fulfil.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// One of these must match; none at all means that nothing is required.
    pub terms: Vec<Term>,
    pub tolerations: Vec<Toleration>,
    /// The namespace that must exist on the cluster; None for cluster-scoped placements.
    pub namespace: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Picked, waiting for the rollout.
    Scheduled,
    /// The rollout has begun.
    Bound,
    /// No longer picked, waiting for its removal.
    Unscheduled,
}

#[derive(Clone, Debug)]
pub struct Binding {
    pub name: Arc<str>,
    pub cluster: Arc<str>,
    pub state: State,
    /// The state it had before it became Unscheduled: only Scheduled or Bound.
    pub previous_state: Option<State>,
    /// Name of the policy snapshot that picked it.
    pub snapshot: Arc<str>,
    pub deleting: bool,
    /// The scheduler's finalizer is on it.
    pub held_by_scheduler: bool,
    pub decision: ClusterDecision,
}
