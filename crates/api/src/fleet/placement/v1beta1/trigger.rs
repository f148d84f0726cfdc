//! The trigger for a fresh decision about a placement. Pure.
//!
//! It is an addition of this project: with it, a RescheduleTask or a WorkloadRebalancer can name a
//! placement of this family. A trigger is an annotation on the placement: the time at which it was
//! accepted. A policy snapshot with the same time serves it. That snapshot has the same policy
//! under a new name, so every cluster is judged again, and clusters that no longer fit are dropped
//! by the rollout strategy. Placements without a trigger stay as they are (IgnoreDuringExecution).
//!
//! *Invariants:*
//!
//! - A stamp is later than every stamp before it. So each accepted trigger is a write, and has a
//!   snapshot of its own.
//! - A stamp stays until a later one comes, whatever a client writes.

use super::any::{PlacementKinds, SCOPES};
use crate::asker::{self, ASKED_BY};
use crate::core::ObjectReference;
use crate::meta::ObjectMeta;
use crate::tree;
use ballast_k8s::{Edit, Key, Object, Revision, Time};
use ballast_resource::Given;

const GROUP: &str = "placement.kubernetes-fleet.io";

/// On a placement: when a fresh decision was last asked for. On a policy snapshot: the trigger that
/// it serves.
pub const TRIGGERED_AT: &str = "ballast.dev/reschedule-triggered-at";

/// The kinds of the scope whose placement has this kind. Any version of the group is accepted.
pub fn kinds_named(api_version: &str, kind: &str) -> Option<&'static PlacementKinds> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    SCOPES.into_iter().find(|kinds| group == GROUP && kinds.kind == kind)
}

/// The key of the placement that a reference names. None: the reference is of another kind.
pub fn placement_named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Key> {
    let kinds = kinds_named(api_version, kind)?;
    Some(Key { resource: kinds.placements, namespace: namespace.into(), name: name.into() })
}

/// When a fresh decision about the placement was last asked for.
pub fn triggered_at(placement: &Object) -> Option<Time> {
    let tree = placement.value().ok()?;
    tree.get("metadata")?.get("annotations")?.get(TRIGGERED_AT)?.as_str()?.parse().ok()
}

/// The stamp of a trigger that was caused at `cause`, over a placement with this stamp.
pub fn next(known: Option<Time>, cause: Time) -> Time {
    known.map_or(cause, |known| cause.max(known.plus_seconds(1)))
}

/// The number that a trigger is known by (`events::Asks`). A later trigger of the placement has a
/// larger one.
pub fn debt(stamp: Time) -> Revision {
    Revision(stamp.seconds())
}

/// The edits that stamp a placement because of `asker`.
pub fn accepted(stamp: Time, asker: &ObjectReference) -> [Edit; 2] {
    let text = stamp.to_string();
    let asked = asker::signed(&text, asker);
    [Edit::set(&["metadata", "annotations", TRIGGERED_AT], text), asked]
}

/// Who asked last, and when. `None` for who: the annotation does not say.
pub fn asked(placement: &ObjectMeta) -> Option<(Time, Option<ObjectReference>)> {
    let stamp = placement.annotations.get(TRIGGERED_AT)?;
    let asker = placement.annotations.get(ASKED_BY).and_then(|text| asker::read(text, stamp));
    Some((stamp.parse().ok()?, asker))
}

/// Keeps the last trigger, and who asked, when a client replaces the placement. The client's
/// manifest does not have the annotation, or has an older one.
pub fn keep(object: &mut tree::Object, given: &Given<'_>) {
    let named = |tree: &tree::Object, name: &str| tree.get("metadata")?.get("annotations")?.get(name).cloned();
    let annotation = |tree: &tree::Object| named(tree, TRIGGERED_AT);
    let read = |annotation: &serde_json::Value| annotation.as_str()?.parse::<Time>().ok();
    let Some(accepted) = given.old.and_then(annotation) else { return };
    let written = annotation(object).as_ref().and_then(read);
    if read(&accepted).is_some_and(|accepted| written.is_none_or(|written| written < accepted))
        && let Some(annotations) = tree::object_or_new(object, &["metadata", "annotations"])
    {
        annotations.insert(TRIGGERED_AT.to_owned(), accepted);
        if let Some(asker) = given.old.and_then(|old| named(old, ASKED_BY)) {
            annotations.insert(ASKED_BY.to_owned(), asker);
        }
    }
}

/// Whether a policy snapshot was made for the placement's last trigger. True if there is no
/// trigger.
pub fn is_served(placement: &ObjectMeta, snapshot: &ObjectMeta) -> bool {
    let trigger = placement.annotations.get(TRIGGERED_AT);
    trigger.is_none() || snapshot.annotations.get(TRIGGERED_AT) == trigger
}

/// Marks a new snapshot as made for the placement's last trigger.
pub fn serve(placement: &ObjectMeta, snapshot: &mut ObjectMeta) {
    if let Some(trigger) = placement.annotations.get(TRIGGERED_AT) {
        snapshot.annotations.insert(TRIGGERED_AT.to_owned(), trigger.clone());
    }
}
