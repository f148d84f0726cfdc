//! "Think again about this placement": an addition of ours, so that a RescheduleTask or a
//! WorkloadRebalancer may name a placement of this family. Pure.
//!
//! A trigger is an annotation on the placement, the time at which it was accepted. It is served by
//! a policy snapshot that carries the same time: the same policy under another name, so that every
//! cluster is judged afresh, and what is no longer wanted goes by the rollout strategy. Placements
//! nobody asked about stay as they are: IgnoreDuringExecution is the rule, and this the exception.
//!
//! *Invariants:* a stamp is later than every stamp before it, so each accepted trigger is a write
//! and a snapshot that is made after it; a stamp stays until a later one comes, whatever a client
//! writes.

use super::any::{PlacementKinds, SCOPES};
use crate::api::meta::ObjectMeta;
use crate::api::tree;
use crate::k8s::{Edit, Key, Object, Time};
use crate::resource::Given;

const GROUP: &str = "placement.kubernetes-fleet.io";

/// On a placement: when a fresh decision was last asked for. On a policy snapshot: which of these
/// it answers.
pub const TRIGGERED_AT: &str = "ballast.dev/reschedule-triggered-at";

/// The kinds of the scope whose placement is called so; any version of the group will do.
pub fn kinds_named(api_version: &str, kind: &str) -> Option<&'static PlacementKinds> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    SCOPES.into_iter().find(|kinds| group == GROUP && kinds.kind == kind)
}

/// The placement that a reference names. None if it is of another kind.
pub fn placement_named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Key> {
    let kinds = kinds_named(api_version, kind)?;
    Some(Key { resource: kinds.placements, namespace: namespace.into(), name: name.into() })
}

/// When a fresh decision about the placement was last asked for.
pub fn triggered_at(placement: &Object) -> Option<Time> {
    let tree = placement.value().ok()?;
    tree.get("metadata")?.get("annotations")?.get(TRIGGERED_AT)?.as_str()?.parse().ok()
}

/// What stamps a placement.
pub fn stamp(time: Time) -> Edit {
    Edit::set(&["metadata", "annotations", TRIGGERED_AT], time.to_string())
}

/// A new version of a placement that knows nothing of the last trigger, or of an earlier one only,
/// does not take it back: who replaces the object by their manifest has never seen the annotation.
pub fn keep(object: &mut tree::Object, given: &Given<'_>) {
    let annotation = |tree: &tree::Object| tree.get("metadata")?.get("annotations")?.get(TRIGGERED_AT).cloned();
    let read = |annotation: &serde_json::Value| annotation.as_str()?.parse::<Time>().ok();
    let Some(accepted) = given.old.and_then(annotation) else { return };
    let written = annotation(object).as_ref().and_then(read);
    if read(&accepted).is_some_and(|accepted| written.is_none_or(|written| written < accepted))
        && let Some(annotations) = tree::object_or_new(object, &["metadata", "annotations"])
    {
        annotations.insert(TRIGGERED_AT.to_owned(), accepted);
    }
}

/// Whether a policy snapshot was made for the placement's last trigger, or there is none.
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
