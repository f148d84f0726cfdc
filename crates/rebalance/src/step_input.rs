//! What one step of a rebalance reads.

use std::collections::HashMap;

use super::binding_storage::BindingStorage;
use super::record::{AnyRebalance, Owner};
use ballast_api::ballast::v1alpha1::MoveReason;
use ballast_engine::karmada::{ClusterSet, Profile};
use ballast_k8s::{Key, Time};
use ballast_scheduler::reservations::{Moment, Room};
use ballast_watch::View;

/// What a step reads.
pub struct StepInput<'a> {
    pub view: &'a View,
    pub fleet: &'a ClusterSet,
    /// Who holds what the clusters do not have left.
    pub room: &'a Room,
    pub profile: &'a Profile,
    pub owner: &'a Owner,
    pub rebalance: &'a AnyRebalance,
    pub now: Time,
    /// The same moment, in milliseconds since 1970.
    pub now_ms: i64,
    pub storage: &'static dyn BindingStorage,
    /// The most bindings of this step.
    pub most: usize,
    /// Bindings whose writes were refused in an earlier attempt at this step, and why.
    pub refused: &'a HashMap<Key, RefusedWrite>,
}

impl StepInput<'_> {
    pub fn moment(&self) -> Moment<'_> {
        Moment { now: self.now, room: self.room }
    }
}

/// Why the write of a binding was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrite {
    pub message: String,
    /// The reason in the status of the Move, if there is one for this case.
    pub reason: Option<MoveReason>,
    /// Whether a webhook refused the targets. Other writes of the binding go through.
    pub is_by_others: bool,
}
