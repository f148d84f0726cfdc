//! Cleans up after a rebalance that is finished or deleted.

use std::sync::Arc;

use super::{MOVES_PER_COMMIT_MAX, Shared, WriteFailure};
use crate::advance::{placement_edits, reports};
use crate::record::{self, AnyMove, AnyRebalance};
use crate::surge;
use ballast_api::ballast::v1alpha1::MovePhase;
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_k8s::{Edit, Key, Object, Revision};
use ballast_registry::Change;
use ballast_scheduler::cause::Cause;
use ballast_scheduler::convert;
use ballast_scheduler::move_annotation::{MOVE, MoveAnnotation};
use ballast_scheduler::reservations::{Moment, Room};
use ballast_watch::View;
use ballast_worker::Next;

impl Shared {
    /// Deletes a finished rebalance after its time to live.
    pub(super) async fn expire(
        &self,
        object: &Arc<Object>,
        rebalance: &AnyRebalance,
    ) -> Result<(Next, Option<Revision>), WriteFailure> {
        let (Some(ttl), Some(finished)) = (rebalance.spec.ttl_seconds_after_finished, rebalance.status.finish_time)
        else {
            return Ok((Next::Done, Some(object.revision)));
        };
        let now = self.clock.now();
        let ended = self.cache().ended(&object.key, finished, now);
        let left = ended.plus_seconds(i64::from(ttl)).seconds() - now.seconds();
        if left > 0 {
            return Ok((Next::After(left * 1_000), Some(object.revision)));
        }
        let key = object.key.clone();
        let delete = Change::Delete { key: key.clone(), revision: Some(object.revision) };
        self.commit(vec![(key.resource, delete)]).await?;
        Ok((Next::Again, None))
    }

    /// Deletes the Moves of a deleted rebalance, and removes its move annotations from the
    /// bindings. `uid` is the uid of the rebalance that now has the name, if any. `None`: nothing
    /// was left.
    pub(super) async fn clean(&self, view: &Arc<View>, key: &Key, uid: Option<&str>) -> Option<Next> {
        let is_left = |read: &AnyMove| uid.is_none() || read.owner().is_some_and(|owner| uid != Some(&*owner.uid));
        let mut changes = Vec::new();
        let left = record::moves_of(view, key).filter(|(_, read)| is_left(read));
        for (at, read) in left.take(MOVES_PER_COMMIT_MAX) {
            if read.status.phase == Some(MovePhase::Moving)
                && let Some(object) = view.get(&record::binding_key(&read.spec.binding))
                && MoveAnnotation::on(object).is_some_and(|mark| mark.name == *at.name)
            {
                // No replicas arrive.
                let room = Room::of_none(self.profile.reserves);
                let cause = Cause::RolledBack(read.owner().map(|owner| owner.reference()).unwrap_or_default());
                let edits = let_go(object, &read, &cause, Moment { now: self.clock.now(), room: &room });
                changes.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
            }
            changes.push((at.resource, Change::Delete { key: at.clone(), revision: None }));
        }
        if changes.is_empty() {
            return None;
        }
        // In one transaction: a move annotation without its Move would stay forever.
        match self.commit(changes).await {
            Ok(_) => Some(Next::Again),
            Err(WriteFailure { status, .. }) => {
                tracing::debug!(%key, %status, "the Moves of a rebalance that is gone were not deleted");
                Some(Next::Retry)
            }
        }
    }
}

/// Returns the edits that end a move of a deleted rebalance. New replicas that are not ready are
/// removed if old ones still replace them. The scheduler removes the remaining surplus.
fn let_go(object: &Object, read: &AnyMove, cause: &Cause, moment: Moment<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    if let Ok(binding) = serde_json::from_slice::<AnyBinding>(&object.text.content()) {
        let request = convert::karmada::request(&binding.metadata, &binding.spec, &binding.status);
        let reports = reports(&binding.status.aggregated_status);
        let back = surge::rollback_targets(&read.spec.from, &request, &reports);
        edits.extend(back.into_iter().flat_map(|back| placement_edits(object, &binding, &back, None, cause, moment)));
    }
    edits.push(Edit::remove(&["metadata", "annotations", MOVE]));
    edits
}
