//! The input of one step of a rebalance.

use std::collections::HashMap;

use super::binding_storage::BindingStorage;
use super::record::{AnyRebalance, Owner};
use ballast_api::ballast::v1alpha1::MoveReason;
use ballast_engine::karmada::{ClusterSet, Profile};
use ballast_k8s::{Key, Time};
use ballast_scheduler::reservations::{Moment, Room};
use ballast_watch::View;

/// The input of a step.
pub struct StepInput<'a> {
    pub view: &'a View,
    pub fleet: &'a ClusterSet,
    /// The capacity that is reserved on the clusters, with its holders.
    pub room: &'a Room,
    pub profile: &'a Profile,
    pub owner: &'a Owner,
    pub rebalance: &'a AnyRebalance,
    pub now: Time,
    /// The same time in milliseconds since 1970.
    pub now_ms: i64,
    pub storage: &'static dyn BindingStorage,
    /// Maximum number of bindings in this step.
    pub most: usize,
    /// Bindings with writes that were refused in an earlier attempt at this step, with the reasons.
    pub refused: &'a HashMap<Key, RefusedWrite>,
}

impl StepInput<'_> {
    pub fn moment(&self) -> Moment<'_> {
        Moment { now: self.now, room: self.room }
    }
}

/// The reason why the write of a binding was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrite {
    pub message: String,
    /// The reason in the status of the Move, if there is one for this case.
    pub reason: Option<MoveReason>,
    /// Whether a webhook refused the targets. Other writes of the binding succeed.
    pub is_by_others: bool,
}
