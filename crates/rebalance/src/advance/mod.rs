//! One step of a rebalance: what is seen of the moves under way, which moves begin, and what is
//! written of both.
//!
//! *Invariant:* a step is one transaction (BD3). What it changes of a binding, what the binding's
//! Move says of it, and the summary are written together or not at all. If they are not, the `Run`
//! that the step has changed is thrown away, and made again from what is stored.
//!
//! Where bindings are kept elsewhere there is no such transaction, and `remote` says the same again
//! with an order of writes.
//!
//! A step looks at a bounded number of bindings. What it leaves is the next step's.

mod deleted_moves;
mod remote;
mod begin;
mod observation;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

pub use self::observation::reports;
use self::observation::{now, pairs, settle_level, shares_at, why_superseded};
use super::capacity_ledger::CapacityLedger;
use super::intent::MoveEnd;
use super::placement_moves;
use super::record::{self, AnyRebalance, Owner};
use super::run::{self, ActiveMove, PendingMove, Run};
use super::settle::{self, ClusterReport, SettleState};
use super::surge;
use ballast_api::ballast::v1alpha1::{
    ClusterCount, MovePhase, MoveReason, MoveStatus, RebalanceStatus, SettleWhen, Share, Summary,
};
use ballast_api::fleet::placement::v1beta1::any::PlacementKinds;
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_engine::karmada::{ClusterSet, Profile, Request, Target};
use ballast_k8s::{Edit, GroupResource, Key, Object, Time, read_json};
use ballast_registry::Change;
use ballast_scheduler::convert;
use ballast_scheduler::move_annotation::{MOVE, MoveAnnotation};
use ballast_scheduler::planning::{self, ParsedBinding};
use ballast_watch::View;
use ballast_worker::events::ObjectReference;

/// Bindings that one step looks at or moves.
pub const BINDINGS_PER_STEP_MAX: usize = 1_000;

/// What a step reads.
pub struct StepInput<'a> {
    pub view: &'a View,
    pub fleet: &'a ClusterSet,
    pub profile: &'a Profile,
    pub owner: &'a Owner,
    pub rebalance: &'a AnyRebalance,
    pub now: Time,
    /// Whether the bindings are kept elsewhere.
    pub is_remote: bool,
    /// The most bindings of this step.
    pub most: usize,
    /// Bindings whose writes were refused when the step was tried before, and why.
    pub refused: &'a HashMap<Key, RefusedWrite>,
}

/// Why the write of a binding was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrite {
    pub message: String,
    /// What the Move says in one word, where there is one for it.
    pub reason: Option<MoveReason>,
    /// Whether somebody refused its targets who was asked. Other writes of it go through.
    pub is_by_others: bool,
}

/// What a step writes, besides the rebalance's status, and what it tells.
pub struct Step<'a> {
    input: &'a StepInput<'a>,
    run: &'a mut Run,
    capacity: &'a mut CapacityLedger,
    pub status: RebalanceStatus,
    pub changes: Vec<(GroupResource, Change)>,
    /// Where the change of each Move is among them.
    changed: HashMap<Key, usize>,
    /// Intents to carry out once the changes are written: changes of bindings that are kept
    /// elsewhere.
    pub sends: Vec<(GroupResource, Change)>,
    /// Bindings whose moves have gone back to those that wait.
    withdrawn: HashSet<Key>,
    pub events: Vec<PendingEvent>,
    /// The outcomes of the moves that ended.
    pub ended: Vec<MovePhase>,
    counts: BTreeMap<String, ClusterCount>,
    looked_at: usize,
    /// When the next wave begins.
    pub wakes_at: Option<Time>,
    /// Whether there is more to do at once.
    pub has_more: bool,
}

/// An event, about a binding and its workload.
pub struct PendingEvent {
    pub about: Vec<ObjectReference>,
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl<'a> Step<'a> {
    pub fn new(input: &'a StepInput<'a>, run: &'a mut Run, capacity: &'a mut CapacityLedger) -> Step<'a> {
        let mut status = input.rebalance.status.clone();
        let counts = std::mem::take(&mut status.clusters);
        let counts = counts.into_iter().map(|count| (count.name.clone(), count)).collect();
        Step {
            input,
            run,
            capacity,
            status,
            changes: Vec::new(),
            changed: HashMap::new(),
            sends: Vec::new(),
            withdrawn: HashSet::new(),
            events: Vec::new(),
            ended: Vec::new(),
            counts,
            looked_at: 0,
            wakes_at: None,
            has_more: false,
        }
    }

    /// The status with the counts of the clusters.
    pub fn finished(&mut self) -> RebalanceStatus {
        let clusters = std::mem::take(&mut self.counts).into_values().collect();
        RebalanceStatus { clusters, ..self.status.clone() }
    }

    pub fn summary(&mut self) -> &mut Summary {
        self.status.summary.get_or_insert_default()
    }

    /// Moves that failed when or after their turn came.
    pub fn failed(&self) -> i64 {
        self.run.failed
    }

    fn is_full(&self) -> bool {
        self.looked_at >= self.input.most
    }

    /// Looks at the bindings that have changed, and at those whose time is over.
    pub fn look(&mut self) {
        self.run.bound_deadlines(self.deadline());
        loop {
            if self.is_full() {
                self.has_more = true;
                return;
            }
            let overdue = || self.run.deadlines.first().filter(|(at, _)| *at <= self.input.now).map(|(_, key)| key);
            let next = self.run.dirty.first().or_else(overdue).cloned();
            let Some(binding) = next else { return };
            self.run.dirty.remove(&binding);
            self.looked_at += 1;
            self.look_at(&binding);
        }
    }

    fn look_at(&mut self, key: &Key) {
        let Some(moving) = self.run.moving.get(key).cloned() else { return };
        if let Some(end) = self.refusal(key) {
            self.recount_unwritten(&moving);
            self.unmark(key, &moving);
            return self.end(key, None, &[], end);
        }
        if let Some(kinds) = PlacementKinds::of(key.resource) {
            return self.look_at_placement(key, &moving, kinds);
        }
        let object = self.living(key, &moving);
        let Some((object, binding)) = object.and_then(|object| Some((object, read(object)?))) else {
            return self.end(
                key,
                None,
                &[],
                MoveEnd::of(MovePhase::Superseded, MoveReason::BindingGone, "the binding is gone"),
            );
        };
        let request = convert::karmada::request(&binding.metadata, &binding.spec, &binding.status);
        let mark = MoveAnnotation::of(&binding.metadata.annotations);
        let found = ObservedBinding { object, binding: &binding, request: &request };
        let Some(moving) = self.catch_up(key, moving, found, mark.as_ref()) else { return };
        let is_ours = mark.as_ref() == Some(&moving.mark);
        let disturbance = moving.mark.disturbance(&request, self.input.fleet, self.input.profile);
        if mark.is_none() && self.is_let_go(&moving, found, disturbance.as_ref()) {
            self.recount(&shares_at(&moving.mark.at), &planning::shares(&request.targets));
            return self.carry_on(key, &moving, found);
        }
        if is_ours && disturbance.is_none() {
            return self.carry_on(key, &moving, found);
        }
        // Whoever took the mark away has decided already. Otherwise the scheduler is about to.
        let (reason, message) = why_superseded(disturbance, &request, &moving);
        let edits = if is_ours { vec![Edit::remove(&["metadata", "annotations", MOVE])] } else { Vec::new() };
        if !self.input.is_remote || !is_ours {
            self.recount(&shares_at(&moving.mark.at), &planning::shares(&request.targets));
        }
        self.end(key, Some((found, edits)), &request.targets, MoveEnd::of(MovePhase::Superseded, reason, message));
    }

    /// What moves, if it is still the object that the move was planned for.
    fn living(&self, key: &Key, moving: &ActiveMove) -> Option<&'a Arc<Object>> {
        let input = self.input;
        input.view.get(key).filter(|object| !object.deleting && *object.uid == *moving.uid)
    }

    fn look_at_placement(&mut self, key: &Key, moving: &ActiveMove, kinds: &PlacementKinds) {
        let object = self.living(key, moving);
        let end = match object.map(|object| placement_moves::missing(self.input.view, kinds, object)) {
            None => MoveEnd::of(MovePhase::Superseded, MoveReason::BindingGone, "the placement is gone"),
            Some(None) => return self.end_placement(key, moving),
            Some(Some(_)) if moving.deadline > self.input.now => return,
            Some(Some(what)) => {
                let seconds = self.input.rebalance.spec.rollout.settle.timeout_seconds;
                let message = format!("not settled within {seconds} seconds: {what}");
                MoveEnd::of(MovePhase::Failed, MoveReason::SettleTimeout, message)
            }
        };
        self.end(key, None, &[], end);
    }

    /// Ends the move of a placement whose trigger is answered. Only now it is known where it went.
    fn end_placement(&mut self, key: &Key, moving: &ActiveMove) {
        let at = ParsedBinding::find(self.input.view, key).map(|case| case.from()).unwrap_or_default();
        if self.input.rebalance.spec.undo.is_none() {
            self.end(key, None, &[], MoveEnd::settled(true));
            return self.change_move(&moving.key, vec![Edit::set(&["spec", "to"], record::written(&at))]);
        }
        let wanted = self.input.view.get(&moving.key).and_then(|object| record::AnyMove::read(object));
        let end = match wanted.map(|read| read.spec.to) {
            Some(wanted) if !wanted.is_empty() && wanted != at => {
                let (at, wanted) = (record::listed(&at), record::listed(&wanted));
                let message = format!("its own scheduler places it on {at}, and not back on {wanted}");
                MoveEnd::of(MovePhase::Failed, MoveReason::NoClusterFits, message)
            }
            _ => MoveEnd::settled(true),
        };
        self.end(key, None, &[], end);
    }

    /// Takes the mark off a binding whose next targets somebody refuses. The scheduler takes back
    /// what surplus is left.
    fn unmark(&mut self, key: &Key, moving: &ActiveMove) {
        if !self.input.refused.get(key).is_some_and(|refused| refused.is_by_others) {
            return;
        }
        let object = self.living(key, moving);
        let is_ours = |object: &&Arc<Object>| MoveAnnotation::on(object).is_some_and(|mark| mark == moving.mark);
        if let Some(object) = object.filter(is_ours) {
            self.change(object, vec![Edit::remove(&["metadata", "annotations", MOVE])]);
        }
    }

    /// How the move of a binding ends that cannot be written.
    fn refusal(&self, binding: &Key) -> Option<MoveEnd> {
        let RefusedWrite { message, reason, .. } = self.input.refused.get(binding)?;
        let message = format!("its {} cannot be written: {message}", binding.resource);
        Some(MoveEnd { phase: MovePhase::Failed, reason: *reason, message, observed: None })
    }

    fn carry_on(&mut self, key: &Key, moving: &ActiveMove, found: ObservedBinding<'_>) {
        let reports = reports(&found.binding.status.aggregated_status);
        let is_at_end = MoveAnnotation::listed(&found.request.targets) == pairs(&moving.to);
        if !is_at_end {
            return self.carry_on_surging(key, moving, found, &reports);
        }
        let targets = found.request.targets.iter().map(|target| (&*target.name, i64::from(target.replicas)));
        match settle::evaluate(settle_level(self.settle()), targets, &reports) {
            // Somebody did report when the move began.
            SettleState::Settled { observed: true } => {
                let edits = vec![Edit::remove(&["metadata", "annotations", MOVE])];
                self.end(key, Some((found, edits)), &found.request.targets, MoveEnd::settled(true));
            }
            SettleState::Settled { observed: false } => {
                let late = (MoveReason::SettleTimeout, "nobody reports it any more");
                self.wait(key, moving, found, &reports, late);
            }
            SettleState::Missing(what) => self.wait(key, moving, found, &reports, (MoveReason::SettleTimeout, &what)),
            SettleState::Unhealthy(what) => self.wait(key, moving, found, &reports, (MoveReason::Unhealthy, &what)),
        }
    }

    /// The move is not where it should be. It fails if its time is over, because of `late`.
    fn wait(
        &mut self,
        key: &Key,
        moving: &ActiveMove,
        found: ObservedBinding<'_>,
        reports: &[ClusterReport<'_>],
        late: (MoveReason, &str),
    ) {
        let (reason, what) = late;
        if moving.deadline > self.input.now {
            return self.note_arrivals(key, reports);
        }
        let seconds = self.input.rebalance.spec.rollout.settle.timeout_seconds;
        let message = format!("not settled within {seconds} seconds: {what}");
        let mut edits = Vec::new();
        let mut targets = found.request.targets.clone();
        // New replicas that never became ready are taken back where old ones still stand in for
        // them. Nothing that is ready goes.
        if let Some(back) = surge::rollback_targets(&moving.from, found.request, reports) {
            self.capacity.charge(found.object, &targets, &back);
            edits = placement_edits(found.object, found.binding, &back, None, self.input.now);
            if !self.input.is_remote {
                self.recount(&planning::shares(&targets), &planning::shares(&back));
            }
            targets = back;
        }
        edits.push(Edit::remove(&["metadata", "annotations", MOVE]));
        self.end(key, Some((found, edits)), &targets, MoveEnd::of(MovePhase::Failed, reason, message));
    }

    fn carry_on_surging(
        &mut self,
        key: &Key,
        moving: &ActiveMove,
        found: ObservedBinding<'_>,
        reports: &[ClusterReport<'_>],
    ) {
        let rollout = &self.input.rebalance.spec.rollout;
        let capacity = &mut *self.capacity;
        let left = capacity.left_by_quotas(found.object, found.request);
        let room = |cluster: &str, own: i64| capacity.capacity_besides(found.request, cluster, own);
        match surge::next_targets(rollout, &moving.from, &moving.to, found.request, reports, left, room) {
            surge::NextTargets::To(targets) => {
                self.capacity.charge(found.object, &found.request.targets, &targets);
                let mut edits = placement_edits(found.object, found.binding, &targets, None, self.input.now);
                let mark = MoveAnnotation { at: MoveAnnotation::listed(&targets), ..moving.mark.clone() };
                edits.push(Edit::set(&["metadata", "annotations", MOVE], mark.text()));
                self.change(found.object, edits);
                self.recount(&planning::shares(&found.request.targets), &planning::shares(&targets));
                let status = MoveStatus {
                    phase: Some(MovePhase::Moving),
                    started_at: Some(moving.started),
                    now: now(&targets, reports),
                    ..MoveStatus::default()
                };
                self.change_move(&moving.key, vec![Edit::set(&["status"], record::written(&status))]);
                self.drop_intent(&moving.key);
                let deadline = self.deadline();
                if let Some(mut moving) = self.run.remove(key) {
                    (moving.mark, moving.deadline) = (mark, deadline);
                    self.run.insert(key.clone(), moving);
                }
                self.note_arrivals(key, reports);
            }
            surge::NextTargets::Wait => {
                let late = (MoveReason::SettleTimeout, "too few of its replicas are ready");
                self.wait(key, moving, found, reports, late);
            }
            surge::NextTargets::NoRoom(why) => {
                let edits = vec![Edit::remove(&["metadata", "annotations", MOVE])];
                let end = MoveEnd::of(MovePhase::Failed, MoveReason::NoRoom, why);
                self.end(key, Some((found, edits)), &found.request.targets, end);
            }
        }
    }

    /// Replicas that are ready need no more room than their cluster reports.
    fn note_arrivals(&mut self, key: &Key, reports: &[ClusterReport<'_>]) {
        let Some(mut moving) = self.run.remove(key) else { return };
        let was = |name: &str| {
            moving.from.iter().find(|share| share.name == name).map_or(0, |share| i64::from(share.replicas))
        };
        let mut arriving = run::arrivals(&moving.from, &moving.to);
        for (name, count) in &mut arriving.0 {
            let ready = settle::ready(name, was(name) + *count, reports);
            *count -= (ready - was(name)).clamp(0, *count);
        }
        arriving.0.retain(|_, count| *count > 0);
        moving.arriving = arriving;
        self.run.insert(key.clone(), moving);
    }

    /// Ends a move that has begun. `found`: the binding and the edits of it. Where it is kept
    /// elsewhere and bears the mark, the replicas are counted once the end is written.
    fn end(&mut self, key: &Key, found: Option<(ObservedBinding<'_>, Vec<Edit>)>, targets: &[Target], end: MoveEnd) {
        let is_remote = |(found, edits): &(ObservedBinding<'_>, Vec<Edit>)| {
            self.input.is_remote && !edits.is_empty() && found.binding.metadata.annotations.contains_key(MOVE)
        };
        if let Some((found, edits)) = found.as_ref().filter(|found| is_remote(found)) {
            return self.end_remotely(key, found.object, edits.clone(), targets, end);
        }
        let Some(moving) = self.run.remove(key) else { return };
        let mut seen = Vec::new();
        if let Some((ObservedBinding { object, binding, .. }, edits)) = found {
            seen = now(targets, &reports(&binding.status.aggregated_status));
            if end.phase == MovePhase::Failed {
                let message = format!("{} moves it no further: {}", self.input.owner.title(), end.message);
                self.tell(object, binding, true, "MoveFailed", message);
            }
            self.change(object, edits);
        }
        if end.phase == MovePhase::Settled && end.observed == Some(false) {
            self.run.note_unobserved(&moving.needs, &moving.from, &moving.to);
        }
        let status = MoveStatus {
            phase: Some(end.phase),
            reason: end.reason,
            message: end.message,
            started_at: Some(moving.started),
            finished_at: Some(self.input.now),
            observed: end.observed,
            now: seen,
        };
        self.change_move(&moving.key, vec![Edit::set(&["status"], record::written(&status))]);
        self.drop_intent(&moving.key);
        self.summary().moving -= 1;
        self.count_end(end.phase, moving.replicas);
        self.run.wave_ended = Some(self.input.now);
    }

    fn count_end(&mut self, phase: MovePhase, replicas: i64) {
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
        self.run.failed += i64::from(phase == MovePhase::Failed);
        self.ended.push(phase);
    }

    fn change(&mut self, object: &Arc<Object>, edits: Vec<Edit>) {
        if !edits.is_empty() {
            self.changes.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
        }
    }

    /// Notes what came out otherwise than planned.
    fn change_spec(&mut self, waiting: &PendingMove, from: &[Share], to: &[Share], replicas: i64) {
        let Some(known) = self.input.view.get(&waiting.key).and_then(|object| record::AnyMove::read(object)) else {
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
        self.change_move(&waiting.key, edits);
    }

    /// Changes a Move, in one write with what else is changed of it.
    fn change_move(&mut self, key: &Key, edits: Vec<Edit>) {
        let known = self.changed.get(key).and_then(|at| self.changes.get_mut(*at));
        if let Some((_, Change::Edit { edits: known, .. })) = known {
            return known.extend(edits);
        }
        // A Move that somebody deleted has nothing to say. The rest of the step stands.
        if let Some(object) = self.input.view.get(key) {
            self.changed.insert(key.clone(), self.changes.len());
            self.changes.push((key.resource, Change::Edit { base: Arc::clone(object), edits }));
        }
    }

    /// Counts replicas where they are now.
    fn recount(&mut self, from: &[Share], to: &[Share]) {
        for (shares, sign) in [(from, -1), (to, 1)] {
            for share in shares {
                let fresh = || ClusterCount { name: share.name.clone(), ..ClusterCount::default() };
                let count = self.counts.entry(share.name.clone()).or_insert_with(fresh);
                count.now += sign * i64::from(share.replicas);
            }
        }
    }

    fn tell(&mut self, object: &Object, binding: &AnyBinding, is_warning: bool, reason: &'static str, message: String) {
        let about = binding.subjects(&object.key).to_vec();
        self.events.push(PendingEvent { about, is_warning, reason, message });
    }

    fn settle(&self) -> SettleWhen {
        self.input.rebalance.spec.rollout.settle.when
    }

    fn deadline(&self) -> Time {
        self.input.now.plus_seconds(self.input.rebalance.spec.rollout.settle.timeout_seconds)
    }
}

/// A binding that was looked at.
#[derive(Clone, Copy)]
struct ObservedBinding<'f> {
    object: &'f Arc<Object>,
    binding: &'f AnyBinding,
    request: &'f Request,
}

/// The edits of a pass that decided on these targets.
pub fn placement_edits(
    object: &Object,
    binding: &AnyBinding,
    targets: &[Target],
    term: Option<&str>,
    now: Time,
) -> Vec<Edit> {
    let mut targets = targets.to_vec();
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    planning::edits(object, binding, &targets, term, now)
}

fn read(object: &Object) -> Option<AnyBinding> {
    read_json(&object.text.content()).ok()
}
