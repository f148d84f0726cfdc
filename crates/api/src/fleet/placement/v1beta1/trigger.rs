//! The trigger for a fresh decision about a placement. Pure.
//!
//! KubeFleet has no such trigger. With it, a RescheduleTask or a WorkloadRebalancer can reference a
//! placement of this family. A trigger is an annotation on the placement: the time at which it was
//! accepted. A policy snapshot with the same time serves it. That snapshot has the same policy
//! under a new name, so the scheduler evaluates every cluster again, and the rollout strategy drops
//! clusters that no longer fit. Placements without a trigger are not rescheduled
//! (IgnoreDuringExecution).
//!
//! *Invariants:*
//!
//! - A trigger timestamp is later than all previous ones. So each accepted trigger is a write, and
//!   gets its own snapshot.
//! - A trigger timestamp is kept until a later one replaces it, even if a client writes the
//!   placement without it.

use super::any::{PlacementKinds, SCOPES};
use crate::core::ObjectReference;
use crate::meta::ObjectMeta;
use crate::requester::{self, ASKED_BY};
use crate::tree;
use ballast_k8s::{Edit, Key, Object, Revision, Time};
use ballast_resource::Given;

const GROUP: &str = "placement.kubernetes-fleet.io";

/// Annotation of a placement: the time of the last request for a fresh decision. Annotation of a
/// policy snapshot: the trigger that it serves.
pub const TRIGGERED_AT: &str = "ballast.dev/reschedule-triggered-at";

/// Returns the kinds of the scope whose placement has this kind. Any version of the group is
/// accepted.
pub fn kinds_named(api_version: &str, kind: &str) -> Option<&'static PlacementKinds> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    SCOPES.into_iter().find(|kinds| group == GROUP && kinds.kind == kind)
}

/// Returns the key of the placement that a reference names, or `None` for a reference to another
/// kind.
pub fn placement_named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Key> {
    let kinds = kinds_named(api_version, kind)?;
    Some(Key { resource: kinds.placements, namespace: namespace.into(), name: name.into() })
}

/// Returns the time of the last request for a fresh decision about the placement.
pub fn triggered_at(placement: &Object) -> Option<Time> {
    let tree = placement.value().ok()?;
    tree.get("metadata")?.get("annotations")?.get(TRIGGERED_AT)?.as_str()?.parse().ok()
}

/// Returns the timestamp of a new trigger that was caused at `cause`. `known` is the placement's
/// last trigger timestamp.
pub fn next(known: Option<Time>, cause: Time) -> Time {
    known.map_or(cause, |known| cause.max(known.plus_seconds(1)))
}

/// Returns the number that identifies a trigger in `events::TriggerTracker`. A later trigger of the
/// placement has a larger number.
pub fn pending_pass(timestamp: Time) -> Revision {
    Revision(timestamp.seconds())
}

/// Returns the edits that trigger a placement for `requester`.
pub fn accepted(timestamp: Time, requester: &ObjectReference) -> [Edit; 2] {
    let text = timestamp.to_string();
    let asked = requester::signed(&text, requester);
    [Edit::set(&["metadata", "annotations", TRIGGERED_AT], text), asked]
}

/// Returns the last trigger timestamp, and its requester if the annotation names one.
pub fn last_request(placement: &ObjectMeta) -> Option<(Time, Option<ObjectReference>)> {
    let timestamp = placement.annotations.get(TRIGGERED_AT)?;
    let requester = placement.annotations.get(ASKED_BY).and_then(|text| requester::read(text, timestamp));
    Some((timestamp.parse().ok()?, requester))
}

/// Keeps the last trigger, and its requester, when a client replaces the placement with a manifest
/// that lacks the annotation or has an older one.
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
        if let Some(requester) = given.old.and_then(|old| named(old, ASKED_BY)) {
            annotations.insert(ASKED_BY.to_owned(), requester);
        }
    }
}

/// Returns whether a policy snapshot was created for the placement's last trigger. True if there is
/// no trigger.
pub fn is_served(placement: &ObjectMeta, snapshot: &ObjectMeta) -> bool {
    let trigger = placement.annotations.get(TRIGGERED_AT);
    trigger.is_none() || snapshot.annotations.get(TRIGGERED_AT) == trigger
}

/// Marks a new snapshot as created for the placement's last trigger.
pub fn serve(placement: &ObjectMeta, snapshot: &mut ObjectMeta) {
    if let Some(trigger) = placement.annotations.get(TRIGGERED_AT) {
        snapshot.annotations.insert(TRIGGERED_AT.to_owned(), trigger.clone());
    }
}
