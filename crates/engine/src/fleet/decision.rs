//! The result of a cycle.

use std::sync::Arc;

use super::fault::Fault;

/// The result of a cycle. Apply `writes` in their order, or all at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub writes: Vec<BindingWrite>,
    /// The new status of the snapshot. None: the status stays.
    pub report: Option<Report>,
    pub next: Next,
    /// The fault that stopped the cycle. It persists until an object changes, so there is no retry.
    pub fault: Option<Fault>,
}

/// The caller's next step after it has applied the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    #[default]
    Done,
    /// The batch limit ended the cycle early. Apply this decision and run another cycle.
    Again,
}

/// One change of a binding.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingWrite {
    /// Removes the scheduler's finalizer from a binding that is being deleted.
    Release { binding: Arc<str> },
    /// Creates a binding in state Scheduled.
    Create { decision: ClusterDecision },
    /// Moves a binding to the current snapshot, in this state.
    Patch { binding: Arc<str>, state: State, decision: ClusterDecision },
    /// Changes a binding to Unscheduled. The binding records its state before that.
    Unschedule { binding: Arc<str>, from: State },
}

/// The state of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Picked, and waits for the rollout.
    Scheduled,
    /// The rollout has begun.
    Bound,
    /// No longer picked, and waits for its removal.
    Unscheduled,
}

/// The reason why a cluster was picked or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterDecision {
    pub cluster: Arc<str>,
    pub selected: bool,
    /// None: clusters were not scored.
    pub score: Option<Score>,
    pub reason: String,
}

/// A score. Compared field by field, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score {
    pub topology_spread: i32,
    pub affinity: i32,
}

/// The status of a policy snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The generation of the placement.
    pub observed_generation: i64,
    /// The generation of the snapshot.
    pub generation: i64,
    pub fulfilled: bool,
    pub message: String,
    /// Selected clusters come first.
    pub decisions: Vec<ClusterDecision>,
}
