//! The order between a rebalance, its undo, and other undos of it: one of them is active at a time.
//! Pure.
//!
//! An undo ends the rebalance that it reverts, and is planned when no move of that rebalance is
//! pending or in progress. Of several undos of one rebalance, the earliest comes first.

use super::record::{AnyRebalance, Owner};
use super::status::{self, RolloutState};
use std::sync::Arc;

use ballast_api::ballast::v1alpha1::Undo;
use ballast_k8s::{Key, Object};
use ballast_watch::View;

/// The next action of an undo before its plan.
#[derive(Clone, Debug)]
pub enum UndoTurn {
    /// Plan it now.
    Plan,
    /// Wait for the rebalance of this key. `aborts`: the rebalance is still running, and must be
    /// aborted first.
    Wait { key: Key, aborts: Option<Arc<Object>>, message: String },
}

/// Returns the key of the rebalance that an undo reverts.
pub fn undone_key(own: &Key, undo: &Undo) -> Key {
    Key { name: undo.name.as_str().into(), ..own.clone() }
}

/// Returns the next action of an undo before its plan.
pub fn turn(view: &View, owner: &Owner, undo: &Undo) -> UndoTurn {
    let key = undone_key(&owner.key, undo);
    let read = |object: &Arc<Object>| {
        let mut read = AnyRebalance::read(object).ok()?;
        read.spec.abort |= object.deleting;
        Some(read)
    };
    let undone = view.get(&key).and_then(|object| Some((object, read(object)?)));
    if let Some((object, AnyRebalance { spec, status, .. })) = undone
        && !status::has_stopped(&spec, &status)
    {
        let goes_on = status::rollout_state(&spec, &status, 0) != RolloutState::Ending;
        let phase = status.phase.map_or("Planning", |phase| phase.as_str());
        let message = format!("{} is {phase}, and ends first: its moves under way settle", key.name);
        return UndoTurn::Wait { key, aborts: goes_on.then(|| Arc::clone(object)), message };
    }
    // An undo that is not stored yet comes last.
    let own_rank = view.get(&owner.key).and_then(|object| rank(object));
    let scope = owner.scope();
    let others = view.list(owner.key.resource, scope).filter(|object| object.key != owner.key);
    let earlier = others.filter(|object| {
        let Some(read) = read(object) else { return false };
        let is_undo = read.spec.undo.as_ref().is_some_and(|it| it.name == undo.name);
        is_undo && !status::has_stopped(&read.spec, &read.status) && (own_rank.is_none() || rank(object) < own_rank)
    });
    match earlier.map(|object| object.key.clone()).min() {
        Some(other) => {
            let message = format!("{} takes back {} already, and comes first", other.name, undo.name);
            UndoTurn::Wait { key: other, aborts: None, message }
        }
        None => UndoTurn::Plan,
    }
}

/// Returns the sort key: older rebalances come first, and within one second the smaller name.
fn rank(object: &Object) -> Option<(String, Arc<str>)> {
    let read = AnyRebalance::read(object).ok()?;
    let created = read.metadata.creation_timestamp.map(|at| at.to_string()).unwrap_or_default();
    Some((created, Arc::clone(&object.key.name)))
}
