//! What a cycle gives back.

use std::sync::Arc;

use super::fault::Fault;
use super::request::State;

/// The whole outcome of a cycle. `writes` are to be done in their order, or all at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub writes: Vec<Write>,
    /// The snapshot's status; None leaves it as it is.
    pub report: Option<Report>,
    pub next: Next,
    /// What stopped the cycle half way. It comes back until an object changes, so nobody retries.
    pub fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    #[default]
    Done,
    /// The batch limit cut the cycle short: apply this decision and run another.
    Again,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Drop the scheduler's finalizer: the binding is being deleted.
    Release { binding: Arc<str> },
    /// A new binding in state Scheduled.
    Create { decision: ClusterDecision },
    /// Move a binding to the current snapshot, in this state.
    Patch { binding: Arc<str>, state: State, decision: ClusterDecision },
    /// The binding's state is remembered in it.
    Unschedule { binding: Arc<str>, from: State },
}

/// Why a cluster was picked, or was not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterDecision {
    pub cluster: Arc<str>,
    pub selected: bool,
    /// None where nothing was scored.
    pub score: Option<Score>,
    pub reason: String,
}

/// Compared field by field from the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score {
    pub topology_spread: i32,
    pub affinity: i32,
}

/// The status of a policy snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Of the placement.
    pub observed_generation: i64,
    /// Of the snapshot.
    pub generation: i64,
    pub fulfilled: bool,
    pub message: String,
    /// Selected ones first.
    pub decisions: Vec<ClusterDecision>,
}
