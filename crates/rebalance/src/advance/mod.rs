//! One step of a rebalance, over one view.
//!
//! ```text
//!   StepInput ──► observe ──► decide ──► StepEffects ──► StepWrites ──► the worker commits
//!   view, Run     binding,    pure       edits, counts,   one transaction,
//!                 reports                events           then upstream writes
//! ```
//!
//! A step observes the moves in progress (`observation`), decides each (`decision`), and applies
//! the decisions to its effects (`effects`), which become writes in one module. Then it starts
//! moves, as far as the rollout allows (`start`).
//!
//! *Invariant:* a step is one transaction (BD3). Its changes of a binding, of the binding's Move
//! and of the summary are written together or not at all. If they are not, the `Run` that the step
//! has changed is dropped, and loaded again from the stored objects.
//!
//! Bindings that are stored upstream cannot be in that transaction. `remote` gives the same
//! guarantee by the order of the writes.
//!
//! A step examines a bounded number of bindings. The next step continues after them.

mod observation;
mod decision;
mod effects;
mod deleted_moves;
mod drain;
mod gates;
mod remote;
mod start;

use std::collections::HashSet;
use std::sync::Arc;

use self::decision::{BindingEdit, MoveDecision, ObservedMove, SettleRules, decide};
use self::effects::StepEffects;
pub use self::effects::{PendingEvent, StepWrites};
pub use self::observation::reports;
use self::observation::{now, settle_level, shares_at, unselected};
use super::capacity_ledger::CapacityLedger;
use super::gates::GateQuestion;
use super::intent::{INTENT, MoveEnd};
use super::placement_moves;
use super::record;
use super::run::{self, ActiveMove, Run};
use super::settle::{self, ClusterReport};
use super::step_input::{RefusedWrite, StepInput};
use super::surge;
use ballast_api::ballast::v1alpha1::{MovePhase, MoveReason, MoveStatus, RebalanceStatus, Summary};
use ballast_api::fleet::placement::v1beta1::any::PlacementKinds;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, HOME};
use ballast_engine::karmada::{Request, Target};
use ballast_k8s::{Edit, Key, Object, Time, read_json};
use ballast_scheduler::cause::Cause;
use ballast_scheduler::move_annotation::{MOVE, MoveAnnotation};
use ballast_scheduler::planning::{self, ParsedBinding};
use ballast_scheduler::reservations::Moment;
use ballast_scheduler::{convert, home};

/// Maximum number of bindings that one step examines or moves.
pub const BINDINGS_PER_STEP_MAX: usize = 1_000;

/// Minimum time between two writes of a Move that only update the number of ready replicas. Users
/// read no faster, and a rollout reports each replica.
const READY_TOLD_EVERY_MS: i64 = 1_000;

/// A step in progress: its changes of the `Run`, and its effects so far.
pub struct StepRun<'a> {
    input: &'a StepInput<'a>,
    run: &'a mut Run,
    capacity: &'a mut CapacityLedger,
    effects: StepEffects<'a>,
    /// Bindings with moves that this step has reset to pending.
    withdrawn: HashSet<Key>,
    examined: usize,
    /// The time of the next action, in milliseconds since 1970.
    pub wakes_at_ms: Option<i64>,
    /// Whether another step is needed at once.
    pub has_more: bool,
    /// The gates to query once the step is written.
    pub question: Option<GateQuestion>,
}

impl<'a> StepRun<'a> {
    pub fn new(input: &'a StepInput<'a>, run: &'a mut Run, capacity: &'a mut CapacityLedger) -> StepRun<'a> {
        StepRun {
            input,
            run,
            capacity,
            effects: StepEffects::new(input),
            withdrawn: HashSet::new(),
            examined: 0,
            wakes_at_ms: None,
            has_more: false,
            question: None,
        }
    }

    pub fn into_writes(self) -> StepWrites {
        self.effects.into_writes()
    }

    pub fn summary(&mut self) -> &mut Summary {
        self.effects.summary()
    }

    /// Returns the status so far.
    pub fn status(&self) -> &RebalanceStatus {
        &self.effects.status
    }

    /// Returns the number of moves that failed when or after they were due.
    pub fn failed(&self) -> i64 {
        self.run.failed
    }

    fn is_full(&self) -> bool {
        self.examined >= self.input.most
    }

    /// Examines the bindings that have changed, and those past their deadline.
    pub fn examine_moves(&mut self) {
        self.run.bound_deadlines(self.deadline());
        self.look_at_untold();
        loop {
            if self.is_full() {
                self.has_more = true;
                return;
            }
            let overdue = || self.run.deadlines.first().filter(|(at, _)| *at <= self.input.now).map(|(_, key)| key);
            let next = self.run.dirty.first().or_else(overdue).cloned();
            let Some(binding) = next else { return };
            self.run.dirty.remove(&binding);
            self.examined += 1;
            self.examine(&binding);
        }
    }

    fn examine(&mut self, key: &Key) {
        let Some(moving) = self.run.moving.get(key).cloned() else { return };
        if let Some(end) = self.refusal(key) {
            self.recount_unwritten(&moving);
            self.remove_mark_if_refused(key, &moving);
            return self.end(key, None, &[], end);
        }
        if let Some(kinds) = PlacementKinds::of(key.resource) {
            return self.examine_placement(key, &moving, kinds);
        }
        let object = self.living(key, &moving);
        let Some((object, binding)) = object.and_then(|object| Some((object, read(object)?))) else {
            let end = MoveEnd::of(MovePhase::Superseded, MoveReason::BindingGone, "the binding is gone");
            return self.end(key, None, &[], end);
        };
        let request = convert::karmada::request(&binding.metadata, &binding.spec, &binding.status);
        let mark = MoveAnnotation::of(&binding.metadata.annotations);
        let found = ObservedBinding { object, binding: &binding, request: &request };
        let Some(active) = self.reconcile(key, moving, found, mark.as_ref()) else { return };
        let reports = reports(&binding.status.aggregated_status);
        let (fleet, profile) = (self.input.fleet, self.input.profile);
        let disturbance = active.mark.disturbance(&request, fleet, profile);
        let disturbance = disturbance.or_else(|| unselected(&active, &request, fleet, profile));
        let observed = ObservedMove {
            active: &active,
            binding: found,
            is_marked: mark.as_ref() == Some(&active.mark),
            is_released: mark.is_none() && self.is_released(&active, found, disturbance.as_ref()),
            disturbance,
        };
        let rules = self.settle_rules();
        let decision = decide(&observed, rules, &reports, || self.next_targets(&active, found, &reports));
        self.apply(key, &observed, &reports, decision);
    }

    /// Returns the object that moves, if it is still the planned one.
    fn living(&self, key: &Key, moving: &ActiveMove) -> Option<&'a Arc<Object>> {
        let input = self.input;
        input.view.get(key).filter(|object| !object.deleting && *object.uid == *moving.uid)
    }

    /// Returns the next targets of a surge in progress.
    fn next_targets(
        &mut self,
        active: &ActiveMove,
        found: ObservedBinding<'_>,
        reports: &[ClusterReport<'_>],
    ) -> surge::NextTargets {
        let rollout = &self.input.rebalance.spec.rollout;
        let capacity = &mut *self.capacity;
        let left = capacity.left_by_quotas(found.object, found.request);
        let room = |cluster: &str, own: i64| capacity.capacity_besides(found.request, cluster, own);
        surge::next_targets(rollout, &active.from, &active.to, found.request, reports, left, room)
    }

    /// Applies the decision about a move in progress.
    fn apply(&mut self, key: &Key, observed: &ObservedMove<'_>, reports: &[ClusterReport<'_>], decision: MoveDecision) {
        let ObservedMove { active, binding: found, is_marked, is_released, .. } = observed;
        let (present, storage) = (&found.request.targets, self.input.storage);
        let is_superseded = !observed.goes_on();
        if *is_released || is_superseded && storage.counts_in_same_step(*is_marked) {
            self.effects.recount(&shares_at(&active.mark.at), &planning::shares(present));
        }
        match decision {
            MoveDecision::Wait => {
                self.note_arrivals(key, reports);
                self.follow_reports(key, present, reports);
            }
            MoveDecision::Advance(targets) => {
                self.advance(key, active, *found, reports, &targets);
                self.note_arrivals(key, reports);
            }
            MoveDecision::End(end, BindingEdit::Keep) => self.end(key, Some((*found, Vec::new())), present, end),
            MoveDecision::End(end, BindingEdit::RemoveMark) => {
                self.end(key, Some((*found, vec![remove_mark()])), present, end);
            }
            MoveDecision::End(end, BindingEdit::RollBack(targets)) => {
                self.capacity.charge(found.object, found.request, &targets);
                let cause = Cause::RolledBack(self.input.owner.reference());
                let moment = self.input.moment();
                let mut edits = placement_edits(found.object, found.binding, &targets, None, &cause, moment);
                if storage.counts_in_same_step(true) {
                    self.effects.recount(&planning::shares(present), &planning::shares(&targets));
                }
                edits.push(remove_mark());
                edits.extend(self.home_of(&active.key, found.binding));
                self.end(key, Some((*found, edits)), &targets, end);
            }
        }
    }

    /// Returns the edit that restores the annotation of the former placement, if the move has
    /// removed it and is rolled back.
    fn home_of(&self, key: &Key, binding: &AnyBinding) -> Option<Edit> {
        let read = self.input.view.get(key).and_then(|object| record::AnyMove::read(object))?;
        let home = read.metadata.annotations.get(HOME).cloned()?;
        let is_forgotten = !binding.metadata.annotations.contains_key(HOME);
        is_forgotten.then(|| Edit::set(&["metadata", "annotations", HOME], home))
    }

    /// Writes the next targets of a surge.
    fn advance(
        &mut self,
        key: &Key,
        active: &ActiveMove,
        found: ObservedBinding<'_>,
        reports: &[ClusterReport<'_>],
        targets: &[Target],
    ) {
        self.capacity.charge(found.object, found.request, targets);
        let (cause, moment) = (self.cause(), self.input.moment());
        let mut edits = placement_edits(found.object, found.binding, targets, None, &cause, moment);
        edits.extend(home::edit_of_move(found.binding, found.request, targets, false));
        let mark = MoveAnnotation { at: MoveAnnotation::listed(targets), ..active.mark.clone() };
        edits.push(Edit::set(&["metadata", "annotations", MOVE], mark.text()));
        self.effects.change_object(found.object, edits);
        self.effects.recount(&planning::shares(&found.request.targets), &planning::shares(targets));
        let status = MoveStatus { now: now(targets, reports), ..active.status() };
        self.effects.change_move(&active.key, vec![Edit::set(&["status"], record::written(&status))]);
        self.effects.remove_intent(&active.key);
        let deadline = self.deadline();
        if let Some(mut moving) = self.run.remove(key) {
            (moving.mark, moving.deadline) = (mark, deadline);
            moving.told = (status.now, self.input.now_ms);
            self.run.insert(key.clone(), moving);
        }
    }

    /// Publishes the number of ready replicas of a move in progress (SG10), at most once a second;
    /// a later change is published after the interval.
    fn follow_reports(&mut self, key: &Key, targets: &[Target], reports: &[ClusterReport<'_>]) {
        let Some(moving) = self.run.moving.get_mut(key) else { return };
        let seen = now(targets, reports);
        let (told, at_ms) = (&moving.told.0, moving.told.1);
        if *told == seen {
            return;
        }
        let now_ms = self.input.now_ms;
        // If the clock was set back, the number is published now.
        if (at_ms..at_ms.saturating_add(READY_TOLD_EVERY_MS)).contains(&now_ms) {
            self.run.untold.insert((at_ms + READY_TOLD_EVERY_MS, key.clone()));
            return self.wake_at(at_ms + READY_TOLD_EVERY_MS);
        }
        moving.told = (seen.clone(), now_ms);
        let status = MoveStatus { now: seen, ..moving.status() };
        let at = moving.key.clone();
        self.effects.change_move(&at, vec![Edit::set(&["status"], record::written(&status))]);
    }

    /// Examines the moves with unpublished reports again.
    fn look_at_untold(&mut self) {
        let now_ms = self.input.now_ms;
        while let Some((due, key)) = self.run.untold.first().cloned() {
            // If the clock was set back, nothing is due later than one interval from now.
            if due > now_ms && due <= now_ms.saturating_add(READY_TOLD_EVERY_MS) {
                return self.wake_at(due);
            }
            self.run.untold.remove(&(due, key.clone()));
            if self.run.moving.contains_key(&key) {
                self.run.dirty.insert(key);
            }
        }
    }

    /// Requests another step at this time, in milliseconds since 1970.
    fn wake_at(&mut self, at_ms: i64) {
        self.wakes_at_ms = Some(self.wakes_at_ms.map_or(at_ms, |known| known.min(at_ms)));
    }

    fn examine_placement(&mut self, key: &Key, moving: &ActiveMove, kinds: &PlacementKinds) {
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

    /// Ends the move of a placement with a served trigger. Its new clusters are known only now.
    fn end_placement(&mut self, key: &Key, moving: &ActiveMove) {
        let at = ParsedBinding::find(self.input.view, key).map(|case| case.from()).unwrap_or_default();
        if self.input.rebalance.spec.undo.is_none() {
            self.end(key, None, &[], MoveEnd::settled(true));
            return self.effects.change_move(&moving.key, vec![Edit::set(&["spec", "to"], record::written(&at))]);
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

    /// Removes the move annotation of a binding if a webhook refused its next targets. The
    /// scheduler removes the surplus replicas.
    fn remove_mark_if_refused(&mut self, key: &Key, moving: &ActiveMove) {
        if !self.input.refused.get(key).is_some_and(|refused| refused.is_by_others) {
            return;
        }
        let object = self.living(key, moving);
        let is_ours = |object: &&Arc<Object>| MoveAnnotation::on(object).is_some_and(|mark| mark == moving.mark);
        if let Some(object) = object.filter(is_ours) {
            self.effects.change_object(object, vec![remove_mark()]);
        }
    }

    /// Returns the end of a move with a binding that cannot be written.
    fn refusal(&self, binding: &Key) -> Option<MoveEnd> {
        let RefusedWrite { message, reason, .. } = self.input.refused.get(binding)?;
        let message = format!("its {} cannot be written: {message}", binding.resource);
        Some(MoveEnd { phase: MovePhase::Failed, reason: *reason, message, observed: None })
    }

    /// Counts ready replicas as arrived: the reported capacity of their cluster includes them.
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

    /// Ends a move that has started. `found` is the binding with its edits. If the end is recorded
    /// first (`BindingStorage::end_intent`), the move stays in progress until the binding is
    /// written.
    fn end(&mut self, key: &Key, found: Option<(ObservedBinding<'_>, Vec<Edit>)>, targets: &[Target], end: MoveEnd) {
        let end = end.of_part(self.run.moving.get(key).and_then(|moving| moving.short.as_ref()));
        if let Some((ObservedBinding { object, binding, .. }, edits)) = &found
            && let Some(moving) = self.run.moving.get(key)
        {
            let is_marked = !edits.is_empty() && binding.metadata.annotations.contains_key(MOVE);
            let (storage, replicas) = (self.input.storage, moving.mark.replicas);
            if let Some(intent) = storage.end_intent(is_marked, object.revision, replicas, targets, &end) {
                let Some(mut moving) = self.run.remove(key) else { return };
                let edit = Edit::set(&["metadata", "annotations", INTENT], intent.text());
                self.effects.change_move(&moving.key, vec![edit]);
                self.effects.change_upstream(object, edits.clone());
                moving.intent = Some(intent);
                self.run.insert(key.clone(), moving);
                return;
            }
        }
        let Some(moving) = self.run.remove(key) else { return };
        let mut seen = Vec::new();
        if let Some((ObservedBinding { object, binding, .. }, edits)) = found {
            seen = now(targets, &reports(&binding.status.aggregated_status));
            if end.phase == MovePhase::Failed {
                let message = format!("{} moves it no further: {}", self.input.owner.title(), end.message);
                self.effects.tell(object, binding, true, "MoveFailed", message);
            }
            self.effects.change_object(object, edits);
        }
        if end.phase == MovePhase::Settled || end.observed.is_some() {
            self.run.note_departures(&moving, self.input.now);
        }
        if end.observed == Some(false) {
            self.run.note_unobserved(&moving.needs, &moving.from, &moving.to);
        }
        let message = if end.message.is_empty() { moving.note.clone() } else { end.message };
        let status = MoveStatus {
            phase: Some(end.phase),
            reason: end.reason,
            message,
            started_at: Some(moving.started),
            finished_at: Some(self.input.now),
            observed: end.observed,
            wave: moving.wave,
            now: seen,
        };
        self.effects.change_move(&moving.key, vec![Edit::set(&["status"], record::written(&status))]);
        self.effects.remove_intent(&moving.key);
        self.summary().moving -= 1;
        match (end.observed, end.phase) {
            (Some(_), phase) => self.count_arrival(phase == MovePhase::Failed, moving.replicas),
            (None, phase) => self.count_end(phase, moving.replicas),
        }
        self.run.wave_ended_ms = Some(self.input.now_ms);
    }

    fn count_end(&mut self, phase: MovePhase, replicas: i64) {
        self.run.failed += i64::from(phase == MovePhase::Failed);
        self.effects.count_end(phase, replicas);
    }

    /// Counts a move that has reached its targets. A partial move counts as failed, and its
    /// replicas as moved.
    fn count_arrival(&mut self, is_short: bool, replicas: i64) {
        match is_short {
            false => self.count_end(MovePhase::Settled, replicas),
            true => {
                self.effects.count_end(MovePhase::Failed, 0);
                self.summary().replicas_moved += replicas;
            }
        }
    }

    /// Returns the cause that bindings record for changes by this rebalance.
    fn cause(&self) -> Cause {
        Cause::Requested(self.input.owner.reference())
    }

    fn settle_rules(&self) -> SettleRules {
        let settle = &self.input.rebalance.spec.rollout.settle;
        SettleRules { level: settle_level(settle.when), timeout_seconds: settle.timeout_seconds, now: self.input.now }
    }

    fn deadline(&self) -> Time {
        self.input.now.plus_seconds(self.input.rebalance.spec.rollout.settle.timeout_seconds)
    }
}

/// A binding as observed by the step.
#[derive(Clone, Copy)]
struct ObservedBinding<'f> {
    object: &'f Arc<Object>,
    binding: &'f AnyBinding,
    request: &'f Request,
}

/// Returns the edit that removes the move annotation.
fn remove_mark() -> Edit {
    Edit::remove(&["metadata", "annotations", MOVE])
}

/// Returns the edits of a pass that decided on these targets, for this cause.
pub fn placement_edits(
    object: &Object,
    binding: &AnyBinding,
    targets: &[Target],
    term: Option<&str>,
    cause: &Cause,
    moment: Moment<'_>,
) -> Vec<Edit> {
    let mut targets = targets.to_vec();
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    planning::edits(object, binding, &targets, term, cause, moment)
}

fn read(object: &Object) -> Option<AnyBinding> {
    read_json(&object.text.content()).ok()
}
