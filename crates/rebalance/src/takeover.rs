//! The fields that an undo inherits from the undone rebalance (RM30). Pure.
//!
//! An undo moves as many replicas as the rebalance did. Without bounds it would move them all at
//! once, however carefully they were moved before. Therefore it inherits the rollout and the limits
//! of the undone rebalance, field by field, unless it has its own. They are written into the object
//! when it is created, where all users can see them.
//!
//! Gates are not inherited: a failed gate may be the reason for the undo, and would block it.

use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::TAKEN_OVER;
use ballast_k8s::Key;
use ballast_watch::View;

/// Fills in the fields that the undo in `spec` omits. `own` is the key of the undo; the other
/// rebalance has the same kind and namespace. If it does not exist, the plan reports the error.
pub fn take_over(view: &View, own: &Key, spec: &mut Map<String, Value>) {
    let Some(name) = spec.get("undo").and_then(|undo| undo["name"].as_str()) else { return };
    let other = Key { name: name.into(), ..own.clone() };
    let other = view.get(&other).and_then(|object| object.value().ok());
    let Some(other) = other.as_ref().and_then(|other| other.get("spec")?.as_object()) else { return };
    for name in TAKEN_OVER {
        if !spec.contains_key(name)
            && let Some(theirs) = other.get(name)
        {
            let mut theirs = theirs.clone();
            theirs.as_object_mut().into_iter().for_each(|members| drop(members.remove("gates")));
            spec.insert(name.to_owned(), theirs);
        }
    }
}
