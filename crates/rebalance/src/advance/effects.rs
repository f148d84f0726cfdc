//! The effects of a step: edits of bindings and Moves, the status, and events. Only this module
//! turns decisions into writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::intent::INTENT;
use crate::record;
use crate::run::PendingMove;
use crate::step_input::StepInput;
use ballast_api::ballast::v1alpha1::{ClusterCount, MovePhase, MoveSpec, RebalanceStatus, Share, Summary};
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_k8s::{Edit, GroupResource, Key, Object};
use ballast_registry::Change;
use ballast_worker::events::ObjectReference;

/// An event about a binding and its workload.
pub struct PendingEvent {
    pub about: Vec<ObjectReference>,
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The writes after a step.
pub struct StepWrites {
    pub status: RebalanceStatus,
    /// Written together or not at all.
    pub changes: Vec<(GroupResource, Change)>,
    /// Separate writes of bindings that are stored upstream. They follow once `changes`, which
    /// contains their intents, is written.
    pub upstream_changes: Vec<(GroupResource, Change)>,
    pub events: Vec<PendingEvent>,
    /// The phases of the moves that ended.
    pub ended: Vec<MovePhase>,
}

/// The effects of a step so far.
pub(super) struct StepEffects<'a> {
    input: &'a StepInput<'a>,
    pub status: RebalanceStatus,
    /// Replicas by cluster.
    counts: BTreeMap<String, ClusterCount>,
    changes: Vec<(GroupResource, Change)>,
    /// The index in `changes` of the change of each Move.
    move_changes: HashMap<Key, usize>,
    upstream_changes: Vec<(GroupResource, Change)>,
    pub events: Vec<PendingEvent>,
    pub ended: Vec<MovePhase>,
}

impl<'a> StepEffects<'a> {
    pub fn new(input: &'a StepInput<'a>) -> StepEffects<'a> {
        let mut status = input.rebalance.status.clone();
        let counts = std::mem::take(&mut status.clusters);
        let counts = counts.into_iter().map(|count| (count.name.clone(), count)).collect();
        StepEffects {
            input,
            status,
            counts,
            changes: Vec::new(),
            move_changes: HashMap::new(),
            upstream_changes: Vec::new(),
            events: Vec::new(),
            ended: Vec::new(),
        }
    }

    pub fn into_writes(self) -> StepWrites {
        let StepEffects { status, counts, changes, upstream_changes, events, ended, .. } = self;
        let status = RebalanceStatus { clusters: counts.into_values().collect(), ..status };
        StepWrites { status, changes, upstream_changes, events, ended }
    }

    pub fn summary(&mut self) -> &mut Summary {
        self.status.summary.get_or_insert_default()
    }

    /// Creates an object in the transaction of the step.
    pub fn create(&mut self, resource: GroupResource, object: Map<String, Value>) {
        self.changes.push((resource, Change::Create(object)));
    }

    /// Returns whether the step changes no binding and no Move.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.upstream_changes.is_empty()
    }

    /// Counts a workload that a drain plans after its plan. `is_known`: a Move of it was counted
    /// before.
    pub fn count_arrival(&mut self, spec: &MoveSpec, is_failed: bool, is_known: bool) {
        let summary = self.summary();
        summary.selected += 1;
        match is_failed {
            true => summary.failed += 1,
            false => {
                summary.to_move += 1;
                summary.pending += 1;
                summary.replicas_to_move += spec.replicas;
            }
        }
        let to = if is_failed { &spec.from } else { &spec.to };
        for (shares, is_after) in [(&spec.from, false), (to, true)] {
            for share in shares {
                let fresh = || ClusterCount { name: share.name.clone(), ..ClusterCount::default() };
                let count = self.counts.entry(share.name.clone()).or_insert_with(fresh);
                let replicas = i64::from(share.replicas);
                match (is_after, is_known) {
                    (true, _) => count.planned += replicas,
                    (false, true) => count.planned -= replicas,
                    (false, false) => {
                        count.before += replicas;
                        count.now += replicas;
                    }
                }
            }
        }
        self.ended.extend(is_failed.then_some(MovePhase::Failed));
    }

    /// Counts the end of a move.
    pub fn count_end(&mut self, phase: MovePhase, replicas: i64) {
        let summary = self.summary();
        match phase {
            MovePhase::Settled => {
                summary.settled += 1;
                summary.replicas_moved += replicas;
            }
            MovePhase::Unchanged => summary.unchanged += 1,
            MovePhase::Superseded => summary.superseded += 1,
            _ => summary.failed += 1,
        }
        self.ended.push(phase);
    }

    /// Counts replicas that move from these clusters to those.
    pub fn recount(&mut self, from: &[Share], to: &[Share]) {
        for (shares, sign) in [(from, -1), (to, 1)] {
            for share in shares {
                let fresh = || ClusterCount { name: share.name.clone(), ..ClusterCount::default() };
                let count = self.counts.entry(share.name.clone()).or_insert_with(fresh);
                count.now += sign * i64::from(share.replicas);
            }
        }
    }

    /// Changes a binding or placement in the transaction of the step.
    pub fn change_object(&mut self, object: &Arc<Object>, edits: Vec<Edit>) {
        if !edits.is_empty() {
            self.changes.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
        }
    }

    /// Changes a binding upstream after the transaction of the step.
    pub fn change_upstream(&mut self, object: &Arc<Object>, edits: Vec<Edit>) {
        self.upstream_changes.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
    }

    /// Changes a Move. All changes of one Move are one write.
    pub fn change_move(&mut self, key: &Key, edits: Vec<Edit>) {
        let known = self.move_changes.get(key).and_then(|at| self.changes.get_mut(*at));
        if let Some((_, Change::Edit { edits: known, .. })) = known {
            return known.extend(edits);
        }
        // A deleted Move is not changed. The rest of the step stands.
        if let Some(object) = self.input.view.get(key) {
            self.move_changes.insert(key.clone(), self.changes.len());
            self.changes.push((key.resource, Change::Edit { base: Arc::clone(object), edits }));
        }
    }

    /// Corrects the planned fields of a Move.
    pub fn correct_plan(&mut self, pending: &PendingMove, from: &[Share], to: &[Share], replicas: i64) {
        let Some(known) = self.input.view.get(&pending.key).and_then(|object| record::AnyMove::read(object)) else {
            return;
        };
        let mut edits = Vec::new();
        if known.spec.from != from {
            edits.push(Edit::set(&["spec", "from"], record::written(&from)));
        }
        if known.spec.to != to {
            edits.push(Edit::set(&["spec", "to"], record::written(&to)));
        }
        if known.spec.replicas != replicas {
            edits.push(Edit::set(&["spec", "replicas"], replicas));
        }
        self.change_move(&pending.key, edits);
    }

    /// Removes the intent of a Move, if it has one.
    pub fn remove_intent(&mut self, key: &Key) {
        if !self.input.storage.needs_reconciling() {
            return;
        }
        let read = self.input.view.get(key).and_then(|object| record::AnyMove::read(object));
        let annotations = read.map(|read| read.metadata.annotations).unwrap_or_default();
        if annotations.contains_key(INTENT) {
            // Removes the map if it becomes empty, as an update of the whole object would.
            let is_last = annotations.len() == 1;
            let member: &'static [&'static str] =
                if is_last { &["metadata", "annotations"] } else { &["metadata", "annotations", INTENT] };
            self.change_move(key, vec![Edit::remove(member)]);
        }
    }

    /// Records an event about a binding and its workload.
    pub fn tell(
        &mut self,
        object: &Object,
        binding: &AnyBinding,
        is_warning: bool,
        reason: &'static str,
        message: String,
    ) {
        let about = binding.subjects(&object.key).to_vec();
        self.events.push(PendingEvent { about, is_warning, reason, message });
    }
}
