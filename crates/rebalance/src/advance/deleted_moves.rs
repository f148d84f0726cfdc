//! Moves that a client deleted: the rebalance continues without them, and counts them.

use super::{PendingEvent, StepRun};
use ballast_api::ballast::v1alpha1::MovePhase;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_k8s::Edit;
use ballast_scheduler::move_annotation::{MOVE, MoveAnnotation};

impl StepRun<'_> {
    /// Compares the summary with the existing Moves, once after each load. A deleted pending move
    /// counts as unchanged. A deleted move in progress releases its binding to the scheduler, and
    /// counts as superseded.
    pub fn count_deleted_moves(&mut self) {
        if self.run.is_complete {
            return;
        }
        let (pending, moving) = (self.run.pending.len() as i64, self.run.moving.len() as i64);
        let summary = *self.summary();
        let lost = (summary.pending - pending, summary.moving - moving);
        if lost.1 > 0 && !self.let_go() {
            self.has_more = true;
            return;
        }
        self.run.is_complete = true;
        if lost == (0, 0) {
            return;
        }
        let (never, begun) = (lost.0.max(0), lost.1.max(0));
        let summary = self.summary();
        (summary.pending, summary.moving) = (pending, moving);
        summary.unchanged += never;
        summary.superseded += begun;
        let ends = [(never, MovePhase::Unchanged), (begun, MovePhase::Superseded)];
        self.effects.ended.extend(ends.into_iter().flat_map(|(count, phase)| (0..count).map(move |_| phase)));
        let message = format!("Moves were deleted: {never} that never begin, and {begun} that were under way");
        let about = vec![self.input.owner.reference()];
        self.effects.events.push(PendingEvent { about, is_warning: true, reason: "MovesDeleted", message });
    }

    /// Removes the move annotation from bindings with deleted Moves. Returns whether all are
    /// removed.
    fn let_go(&mut self) -> bool {
        let scope = self.input.owner.scope();
        let kinds = if scope.is_some() { &BINDINGS[..1] } else { &BINDINGS[..] };
        let by = self.input.owner.by();
        for object in kinds.iter().flat_map(|kind| self.input.view.list(*kind, scope)) {
            let is_ours = MoveAnnotation::on(object).is_some_and(|mark| mark.by == by);
            if !is_ours || self.run.moving.contains_key(&object.key) {
                continue;
            }
            if self.is_full() {
                return false;
            }
            self.examined += 1;
            self.effects.change_object(object, vec![Edit::remove(&["metadata", "annotations", MOVE])]);
        }
        true
    }
}
