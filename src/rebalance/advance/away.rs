//! Moves of bindings that are kept elsewhere, where a step is no transaction. What one transaction
//! promises is said again by the order of the writes (BD13):
//!
//! - A move begins with an intent. The Move and the summary are written here first, and the move
//!   counts as under way. Then the binding is written at its home, targets and mark in one write.
//! - Everything else is written at home first, and then here. If the second write is lost, the next
//!   look finds the binding ahead of its Move, and writes what is missing.
//!
//! So whatever is under way at home counts here, and a bound holds for every state at home.

use std::sync::Arc;

use super::seen::{depth, pairs, reports, shares_at};
use super::{End, Found, Step, begin};
use crate::api::ballast::v1alpha1::{MovePhase, MoveStatus};
use crate::k8s::{Edit, Key, Object};
use crate::rebalance::intent::{Fate, INTENT, Seen};
use crate::rebalance::record;
use crate::rebalance::run::{Moving, Waiting};
use crate::rebalance::settle::{self, Sight};
use crate::registry::Change;
use crate::scheduler::underway::{Disturbance, UnderWay};

impl Step<'_> {
    /// Sends these edits home once the step is written.
    pub(super) fn send(&mut self, object: &Arc<Object>, edits: Vec<Edit>) {
        self.sends.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
    }

    /// The move as the binding's home has it. `None`: there is nothing to look at now.
    pub(super) fn caught_up(
        &mut self,
        key: &Key,
        moving: Moving,
        found: Found<'_>,
        mark: Option<&UnderWay>,
    ) -> Option<Moving> {
        if !self.scene.is_away {
            return Some(moving);
        }
        let ours = mark.filter(|mark| mark.by == moving.mark.by && mark.name == moving.mark.name);
        if let Some(intent) = &moving.intent {
            let Found { object, binding, request } = found;
            let seen = Seen { revision: object.revision, is_marked: ours.is_some(), targets: &request.targets };
            match (intent.fate(&moving.from, seen), intent.settles) {
                (Fate::Open, settles) => {
                    let mark = (settles.is_none(), &moving.mark);
                    let (targets, term) = (intent.targets(), intent.term.as_deref());
                    let edits = begin::begun(object, binding, &targets, term, mark, self.scene.now);
                    self.send(object, edits);
                    return None;
                }
                (Fate::Overtaken, _) => {
                    self.withdraw(key);
                    return None;
                }
                (Fate::Written, Some(observed)) => {
                    let end = End::settled(observed);
                    self.end(key, Some((found, Vec::new())), &request.targets, end);
                    return None;
                }
                // Its time has begun before the mark went away.
                (Fate::Written, None) if ours.is_none() => self.run.arrived(key, moving.deadline),
                (Fate::Written, None) => self.run.arrived(key, self.deadline()),
                (Fate::Lost, _) => {}
            }
        }
        // A step whose second write was lost.
        if let Some(ours) = ours.filter(|ours| **ours != moving.mark) {
            self.recount(&shares_at(&moving.mark.at), &shares_at(&ours.at));
            if let Some(mut known) = self.run.remove(key) {
                known.mark.clone_from(ours);
                self.run.insert(key.clone(), known);
            }
        }
        self.run.moving.get(key).cloned()
    }

    /// Whether a step of ours took the mark away, and what it wrote here was lost: the targets are
    /// what was wanted, and all of it has arrived or the move's time is over. Here its targets may
    /// be those of an earlier step, whose second write was lost, too.
    pub(super) fn is_let_go(&self, moving: &Moving, found: Found<'_>, disturbance: Option<&Disturbance>) -> bool {
        let Found { binding, request, .. } = found;
        let is_triggered = request.triggered_at >= Some(moving.started);
        let is_disturbed = !matches!(disturbance, None | Some(Disturbance::TargetsChanged));
        if !self.scene.is_away || is_disturbed || is_triggered {
            return false;
        }
        let targets = request.targets.iter().map(|target| (&*target.name, i64::from(target.replicas)));
        let sight = settle::look(depth(self.settle()), targets, &reports(&binding.status.aggregated_status));
        let is_at_end = UnderWay::listed(&request.targets) == pairs(&moving.to);
        is_at_end && (matches!(sight, Sight::Settled { observed: true }) || moving.deadline <= self.scene.now)
    }

    /// Puts a move back among those that wait, because somebody else wrote the binding first. It is
    /// decided again when its turn comes.
    fn withdraw(&mut self, key: &Key) {
        let Some(moving) = self.run.remove(key) else { return };
        self.recount_unwritten(&moving);
        let status = MoveStatus { phase: Some(MovePhase::Pending), ..MoveStatus::default() };
        self.change_move(&moving.key, vec![Edit::set(&["status"], record::written(&status))]);
        self.drop_intent(&moving.key);
        let summary = self.summary();
        summary.moving -= 1;
        summary.pending += 1;
        self.withdrawn.insert(key.clone());
        let waiting = Waiting { key: moving.key, replicas: moving.replicas };
        self.run.wait(self.scene.view, self.scene.rebalance.spec.rollout.order, key, waiting);
        self.has_more = true;
    }

    /// Counts the replicas of a move that was never written where they are.
    pub(super) fn recount_unwritten(&mut self, moving: &Moving) {
        if moving.intent.is_some() {
            self.recount(&shares_at(&moving.mark.at), &moving.from);
        }
    }

    /// Adds to the change of a Move that was made last: it has no intent any more.
    pub(super) fn drop_intent(&mut self, key: &Key) {
        if !self.scene.is_away {
            return;
        }
        let read = self.scene.view.get(key).and_then(|object| record::AnyMove::read(object));
        let annotations = read.map(|read| read.metadata.annotations).unwrap_or_default();
        if annotations.contains_key(INTENT) {
            // No empty map stays behind, as after an update of the whole object.
            let is_last = annotations.len() == 1;
            let member: &'static [&'static str] =
                if is_last { &["metadata", "annotations"] } else { &["metadata", "annotations", INTENT] };
            self.add_to_move(key, Edit::remove(member));
        }
    }
}
