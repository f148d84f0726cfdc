//! What is done about a rebalance that is over or gone.

use std::sync::Arc;

use super::{MOVES_PER_COMMIT_MAX, Shared};
use crate::api::ballast::v1alpha1::MovePhase;
use crate::api::karmada::work::v1alpha2::BindingSketch;
use crate::k8s::{Edit, Key, Object, Revision, Status};
use crate::rebalance::record::{self, AnyMove, AnyRebalance};
use crate::registry::Change;
use crate::scheduler::underway::{MOVE, UnderWay};
use crate::watch::View;
use crate::worker::Next;

impl Shared {
    /// Deletes a rebalance whose time to live is over.
    pub(super) async fn expire(
        &self,
        object: &Arc<Object>,
        rebalance: &AnyRebalance,
    ) -> Result<(Next, Option<Revision>), Status> {
        let (Some(ttl), Some(finished)) = (rebalance.spec.ttl_seconds_after_finished, rebalance.status.finish_time)
        else {
            return Ok((Next::Done, Some(object.revision)));
        };
        // A clock that was set back does not lengthen a life beyond the time to live.
        let now = self.clock.now();
        let left = finished.plus_seconds(i64::from(ttl)).seconds() - now.seconds();
        let left = left.min(i64::from(ttl));
        if left > 0 {
            return Ok((Next::After(left * 1_000), Some(object.revision)));
        }
        let key = object.key.clone();
        let delete = Change::Delete { key: key.clone(), revision: Some(object.revision) };
        self.commit(vec![(key.resource, delete)]).await?;
        Ok((Next::Again, None))
    }

    /// Deletes the Moves of a rebalance that is gone, and takes its marks off the bindings. `uid`
    /// is that of the rebalance that has its name now, if any. `None`: nothing was left.
    pub(super) async fn clean(&self, view: &Arc<View>, key: &Key, uid: Option<&str>) -> Option<Next> {
        let is_left = |read: &AnyMove| uid.is_none() || read.owner().is_some_and(|owner| uid != Some(&*owner.uid));
        let mut changes = Vec::new();
        let left = record::moves_of(view, key).filter(|(_, read)| is_left(read));
        for (at, read) in left.take(MOVES_PER_COMMIT_MAX) {
            if read.status.phase == Some(MovePhase::Moving)
                && let Some(object) = view.get(&record::binding_key(&read.spec.binding))
                && is_marked(object, &at)
            {
                let edits = vec![Edit::remove(&["metadata", "annotations", MOVE])];
                changes.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
            }
            changes.push((at.resource, Change::Delete { key: at.clone(), revision: None }));
        }
        if changes.is_empty() {
            return None;
        }
        // Together: a mark whose Move is gone would stay for ever.
        match self.commit(changes).await {
            Ok(_) => Some(Next::Again),
            Err(status) => {
                tracing::debug!(%key, %status, "the Moves of a rebalance that is gone were not deleted");
                Some(Next::Retry)
            }
        }
    }
}

fn is_marked(binding: &Object, by: &Key) -> bool {
    let sketch = BindingSketch::of(binding).ok();
    let mark = sketch.and_then(|sketch| UnderWay::of(&sketch.annotations().into_iter().collect()));
    mark.is_some_and(|mark| mark.name == *by.name)
}
