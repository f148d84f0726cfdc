//! Moves of bindings that are stored upstream, where a step is no transaction. The order of the
//! writes gives the same guarantees (BD13):
//!
//! - A move starts and ends with an intent. The Move is written locally first, and counts as in
//!   progress. Then the binding is written upstream, with targets and move annotation in one write.
//!   The outcome is written locally last.
//! - The next targets of a surge are written upstream first, with the move annotation that contains
//!   them, and then locally. If the second write is lost, the next step detects that the binding is
//!   ahead of its Move, and completes the Move.
//!
//! Therefore all moves in progress upstream are counted locally, and the bounds hold for every
//! state upstream. After a crash at any point, the move annotation of the binding shows which write
//! was applied, and the Move shows its purpose. A write of this rebalance is never mistaken for one
//! of another client.

use super::observation::{pairs, reports, shares_at};
use super::{ObservedBinding, StepRun, now, placement_edits, remove_mark, start};
use crate::intent::{BindingState, Intent, IntentOutcome, MoveEnd};
use crate::record;
use crate::run::{ActiveMove, PendingMove};
use crate::settle::{self, SettleState};
use ballast_api::ballast::v1alpha1::{MovePhase, MoveStatus};
use ballast_engine::karmada::Target;
use ballast_k8s::{Edit, Key};
use ballast_scheduler::cause::Cause;
use ballast_scheduler::move_annotation::{Disturbance, MoveAnnotation};
use ballast_scheduler::planning;

impl StepRun<'_> {
    /// Returns the move as shown by the upstream binding, or `None` if there is nothing to decide
    /// in this step.
    pub(super) fn reconcile(
        &mut self,
        key: &Key,
        moving: ActiveMove,
        found: ObservedBinding<'_>,
        mark: Option<&MoveAnnotation>,
    ) -> Option<ActiveMove> {
        if !self.input.storage.needs_reconciling() {
            return Some(moving);
        }
        let ours = mark.filter(|mark| mark.by == moving.mark.by && mark.name == moving.mark.name);
        if let Some(intent) = &moving.intent {
            let ObservedBinding { object, request, .. } = found;
            let seen = BindingState { revision: object.revision, is_marked: ours.is_some(), targets: &request.targets };
            let outcome = intent.outcome(&moving.from, seen);
            let goes_on = match &intent.ends {
                Some(end) => self.has_resumed(key, &moving, found, outcome, (intent, end)),
                None => self.has_started(key, &moving, found, outcome, (intent, ours.is_some())),
            };
            if !goes_on {
                return None;
            }
        }
        if let Some(ours) = ours.filter(|ours| **ours != moving.mark) {
            self.follow(key, &moving, ours, found);
        }
        self.run.moving.get(key).cloned()
    }

    /// Returns whether a move that was about to begin is or was in progress.
    fn has_started(
        &mut self,
        key: &Key,
        moving: &ActiveMove,
        found: ObservedBinding<'_>,
        outcome: IntentOutcome,
        (intent, is_marked): (&Intent, bool),
    ) -> bool {
        let ObservedBinding { object, binding, request } = found;
        match (outcome, intent.settles) {
            (IntentOutcome::Open, settles) => {
                let mark = (settles.is_none(), &moving.mark);
                let (targets, term) = (intent.targets(), intent.term.as_deref());
                let edits =
                    start::start_edits(object, binding, &targets, term, mark, &self.cause(), self.input.moment());
                self.effects.change_upstream(object, edits);
                false
            }
            (IntentOutcome::Overtaken, _) => {
                self.withdraw(key);
                false
            }
            (IntentOutcome::Written, Some(observed)) => {
                self.end(key, Some((found, Vec::new())), &request.targets, MoveEnd::settled(observed));
                false
            }
            (IntentOutcome::Written, None) => {
                // If the move annotation has been removed again, the deadline began before that.
                self.run.confirm_written(key, if is_marked { self.deadline() } else { moving.deadline });
                true
            }
            (IntentOutcome::Lost, _) => true,
        }
    }

    /// Completes the Move after the local write of a step was lost.
    fn follow(&mut self, key: &Key, moving: &ActiveMove, mark: &MoveAnnotation, found: ObservedBinding<'_>) {
        self.effects.recount(&shares_at(&moving.mark.at), &shares_at(&mark.at));
        let targets: Vec<Target> = mark.at.iter().map(|(name, replicas)| target(name, *replicas)).collect();
        let now = now(&targets, &reports(&found.binding.status.aggregated_status));
        let status = MoveStatus { now, ..moving.status() };
        self.effects.change_move(&moving.key, vec![Edit::set(&["status"], record::written(&status))]);
        if let Some(mut known) = self.run.remove(key) {
            known.mark.clone_from(mark);
            known.told = (status.now, self.input.now_ms);
            self.run.insert(key.clone(), known);
        }
    }

    /// Returns whether a move that was about to end continues: its end is not written, and is
    /// decided again.
    fn has_resumed(
        &mut self,
        key: &Key,
        moving: &ActiveMove,
        found: ObservedBinding<'_>,
        outcome: IntentOutcome,
        (intent, end): (&Intent, &MoveEnd),
    ) -> bool {
        let ObservedBinding { object, binding, request } = found;
        match outcome {
            IntentOutcome::Open => {
                let targets = intent.targets();
                let mut edits = match planning::shares(&targets) == planning::shares(&request.targets) {
                    true => Vec::new(),
                    false => {
                        let cause = match end.phase {
                            MovePhase::Settled => self.cause(),
                            _ => Cause::RolledBack(self.input.owner.reference()),
                        };
                        placement_edits(object, binding, &targets, None, &cause, self.input.moment())
                    }
                };
                edits.push(remove_mark());
                self.effects.change_upstream(object, edits);
                false
            }
            IntentOutcome::Written => {
                self.effects.recount(&shares_at(&moving.mark.at), &planning::shares(&request.targets));
                self.end(key, Some((found, Vec::new())), &request.targets, end.clone());
                false
            }
            IntentOutcome::Overtaken | IntentOutcome::Lost => {
                self.run.resume(key);
                // The new decision may write nothing.
                self.effects.remove_intent(&moving.key);
                true
            }
        }
    }

    /// Returns whether the move annotation was removed without an intent although the move is
    /// complete: the targets are the wanted ones, and the move has settled or its deadline has
    /// passed. A Ballast version without intents for ends leaves a binding in this state when it
    /// stops, and so does a pass that decided on the same targets.
    pub(super) fn is_released(
        &self,
        moving: &ActiveMove,
        found: ObservedBinding<'_>,
        disturbance: Option<&Disturbance>,
    ) -> bool {
        let ObservedBinding { binding, request, .. } = found;
        let is_triggered = request.triggered_at >= Some(moving.started);
        let is_disturbed = !matches!(disturbance, None | Some(Disturbance::TargetsChanged));
        if !self.input.storage.needs_reconciling() || is_disturbed || is_triggered {
            return false;
        }
        let targets = request.targets.iter().map(|target| (&*target.name, i64::from(target.replicas)));
        let state = settle::evaluate(self.settle_rules().level, targets, &reports(&binding.status.aggregated_status));
        let is_at_end = MoveAnnotation::listed(&request.targets) == pairs(&moving.to);
        is_at_end && (matches!(state, SettleState::Settled { observed: true }) || moving.deadline <= self.input.now)
    }

    /// Resets a move to pending, because another client wrote the binding first. It is decided
    /// again in its order.
    fn withdraw(&mut self, key: &Key) {
        let Some(moving) = self.run.remove(key) else { return };
        self.recount_unwritten(&moving);
        let status = MoveStatus { phase: Some(MovePhase::Pending), ..MoveStatus::default() };
        self.effects.change_move(&moving.key, vec![Edit::set(&["status"], record::written(&status))]);
        self.effects.remove_intent(&moving.key);
        let summary = self.summary();
        summary.moving -= 1;
        summary.pending += 1;
        if let Some(wave) = &mut self.effects.status.wave {
            wave.begun = (wave.begun - 1).max(0);
        }
        self.withdrawn.insert(key.clone());
        let waiting = PendingMove { key: moving.key, replicas: moving.replicas };
        self.run.add_pending(self.input.view, self.input.rebalance.spec.rollout.order, key, waiting);
        self.has_more = true;
    }

    /// Counts the replicas of a move that was never written on their present clusters.
    pub(super) fn recount_unwritten(&mut self, moving: &ActiveMove) {
        if moving.intent.as_ref().is_some_and(|intent| intent.ends.is_none()) {
            self.effects.recount(&shares_at(&moving.mark.at), &moving.from);
        }
    }
}

fn target(name: &str, replicas: i64) -> Target {
    Target { name: name.into(), replicas: i32::try_from(replicas).unwrap_or(i32::MAX), components: Vec::new() }
}
