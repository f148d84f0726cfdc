//! An undo before its plan, when it ends the rebalance that it reverts, and after its last move,
//! when it is recorded in the status of that rebalance.

use std::sync::Arc;

use super::{Shared, WriteFailure, status_change};
use crate::record::{self, AnyRebalance, Owner};
use crate::status;
use crate::undo_order::{self, UndoTurn};
use ballast_api::ballast::v1alpha1::{Phase, RebalanceStatus};
use ballast_k8s::{Edit, GroupResource, Object};
use ballast_registry::Change;
use ballast_scheduler::cause::counted;
use ballast_watch::View;
use ballast_worker::Next;
use ballast_worker::events::Severity;

/// Interval at which a waiting undo checks again, if no change wakes it.
const LOOK_AGAIN_MS: i64 = 30_000;

impl Shared {
    /// Ends the rebalance that an undo reverts, and lets the undo wait for that. `None`: the undo
    /// can be planned.
    pub(super) async fn end_undone(
        &self,
        view: &View,
        object: &Arc<Object>,
        rebalance: &AnyRebalance,
    ) -> Result<Option<Next>, WriteFailure> {
        let owner = Owner::of(object);
        let Some(undo) = rebalance.spec.undo.as_ref().filter(|_| !rebalance.spec.abort) else { return Ok(None) };
        let UndoTurn::Wait { key, .. } = undo_order::turn(view, &owner, undo) else { return Ok(None) };
        // A change after this view wakes the undo.
        self.cache().wait_for(&key, &owner.key);
        let UndoTurn::Wait { key: other, aborts, message } = undo_order::turn(&self.client.view(), &owner, undo) else {
            return Ok(Some(Next::Again));
        };
        self.cache().wait_for(&other, &owner.key);
        if let Some(undone) = aborts {
            let edits = vec![Edit::set(&["spec", "abort"], true)];
            self.commit(vec![(undone.key.resource, Change::Edit { base: Arc::clone(&undone), edits })]).await?;
            let told = format!("aborted, because {} takes back what it has moved", owner.title());
            self.tell(&Owner::of(&undone), Severity::Warning, "Undone", told);
        }
        let mut status = RebalanceStatus {
            phase: Some(Phase::Planning),
            observed_generation: Some(object.generation),
            ..rebalance.status.clone()
        };
        status::set_planned(&mut status, object.generation, self.clock.now(), Some(("Waiting", &message)));
        if status != rebalance.status {
            self.commit(vec![status_change(object, &status)]).await?;
        }
        Ok(Some(Next::After(LOOK_AGAIN_MS)))
    }
}

/// Returns the write that records a finished undo in the status of the undone rebalance. `None`:
/// nothing was reverted.
pub(super) fn note_undone(
    view: &View,
    owner: &Owner,
    undo: &AnyRebalance,
    status: &RebalanceStatus,
) -> Option<(GroupResource, Change)> {
    let key = undo_order::undone_key(&owner.key, undo.spec.undo.as_ref()?);
    let summary =
        status.summary.filter(|summary| status.is_finished() && summary.replicas_moved + summary.settled > 0)?;
    let object = view.get(&key)?;
    let mut undone = AnyRebalance::read(object).ok()?.status;
    let is_whole = summary.failed == 0 && summary.superseded == 0 && undo.spec.undo.as_ref()?.clusters.is_empty();
    let reason = if is_whole && status.phase == Some(Phase::Completed) { "Undone" } else { "UndoneInPart" };
    let replicas = counted(summary.replicas_moved, "replica");
    let message = format!("{} has taken back {replicas}; {} cannot return yet", owner.key.name, summary.failed);
    status::set_undone(&mut undone, object.generation, status.finish_time.unwrap_or_default(), (reason, &message));
    let edits = vec![Edit::set(&["status"], record::written(&undone))];
    Some((key.resource, Change::Edit { base: Arc::clone(object), edits }))
}
