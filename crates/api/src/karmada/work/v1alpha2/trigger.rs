//! The trigger of a Fresh decision for a binding: two fields and an annotation that are read
//! together (C7).
//!
//! The trigger timestamp is the time of the cause of the trigger. Times on the wire have whole
//! seconds, so it can be in the same second as the last pass or another trigger, or earlier (C10).
//! Times alone would lose such a trigger, as they do upstream. So the writer of an accepted trigger
//! also records a pending pass: the annotation `ballast.dev/owed`. The following invariants hold
//! for any clock, including one that steps back:
//!
//! - The annotation contains the revision that its trigger was written over. So each accepted
//!   trigger changes the binding, and a pass that began before it fails with a conflict.
//! - A pass is pending while the annotation is present. Only a successful pass removes it; writes
//!   of clients cannot (`keep`).
//! - The trigger timestamp never decreases while a pass is pending.
//! - `served` is no earlier than the trigger timestamp and the last served time. So a successful
//!   pass leaves nothing pending, and never makes a served trigger pending again.
//!
//! Both writes have the revision as a precondition. If a trigger is written during a pass, the
//! commit of the pass fails, and the pass is repeated with the trigger.
//!
//! A client that writes a trigger timestamp itself does not write the annotation. As upstream, its
//! trigger is pending while the timestamp is later than the last pass (R53).

use serde_json::Value;

use super::AnyBinding;
use crate::core::ObjectReference;
use crate::requester::{self, ASKED_BY};
use crate::tree;
use ballast_k8s::{Edit, Revision, Time};
use ballast_resource::Given;

const TRIGGERED_AT_FIELD: &str = "rescheduleTriggeredAt";

/// Annotation of a pending pass: the revision that the trigger was written over.
pub const PENDING_PASS: &str = "ballast.dev/owed";

/// The parts of a binding that form its trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// `spec.forceRescheduling`
    pub force: bool,
    /// `spec.rescheduleTriggeredAt`
    pub triggered_at: Option<Time>,
    /// `status.lastScheduledTime`
    pub last_scheduled: Option<Time>,
    /// The revision in the annotation, or zero if it is malformed. `None`: the annotation is
    /// absent.
    pub pending_pass: Option<Revision>,
}

// Whether a pass is pending depends on the scheduling profile: see `engine::karmada::Request`.

impl Trigger {
    /// Returns the trigger of a binding.
    pub fn of(binding: &AnyBinding) -> Trigger {
        Trigger {
            force: binding.spec.force_rescheduling == Some(true),
            triggered_at: binding.spec.reschedule_triggered_at,
            last_scheduled: binding.status.last_scheduled_time,
            pending_pass: binding
                .metadata
                .annotations
                .get(PENDING_PASS)
                .map(|pending_pass| Trigger::read_pending_pass(pending_pass)),
        }
    }

    pub(super) fn read_pending_pass(pending_pass: &str) -> Revision {
        Revision::parse(pending_pass).unwrap_or_default()
    }

    /// Returns the seconds since the trigger timestamp, or `None` if there is none.
    pub fn waited_seconds(self, now: Time) -> Option<i64> {
        // A client may have written a timestamp in the future.
        self.triggered_at.map(|timestamp| (now.seconds() - timestamp.seconds()).max(0))
    }

    /// Returns the value of `spec.rescheduleTriggeredAt` for a trigger with a cause at `cause`.
    pub fn timestamp(self, cause: Time) -> Time {
        self.triggered_at.map_or(cause, |known| known.max(cause))
    }

    /// Returns the edits that write a trigger of `requester` with this timestamp over the binding
    /// at revision `base`.
    pub fn accepted(timestamp: Time, base: Revision, requester: &ObjectReference) -> [Edit; 3] {
        [
            Edit::set(&["spec", TRIGGERED_AT_FIELD], timestamp.to_string()),
            Edit::set(&["metadata", "annotations", PENDING_PASS], base.to_string()),
            requester::signed(&base.to_string(), requester),
        ]
    }

    /// Returns the edit that removes the pending pass after a success, or `None` if no pass is
    /// pending.
    pub fn clear(self) -> Option<Edit> {
        self.pending_pass.map(|_| Edit::remove(&["metadata", "annotations", PENDING_PASS]))
    }

    /// Returns the object that requested the trigger, from the binding's annotation `ASKED_BY`.
    pub fn requester(self, annotation: Option<&String>) -> Option<ObjectReference> {
        requester::read(annotation?, &self.pending_pass?.to_string())
    }

    /// Returns the value of `status.lastScheduledTime` after a pass that succeeded at `now`.
    pub fn served(self, now: Time) -> Time {
        now.max(self.triggered_at.unwrap_or(now)).max(self.last_scheduled.unwrap_or(now))
    }
}

/// Preserves a pending trigger when a client replaces the binding with a manifest that does not
/// contain it. Clients can neither write nor remove the annotations of the pending pass and its
/// requester, except in a binding that they create: it may be a copy of a binding with a pending
/// pass.
pub fn keep(binding: &mut tree::Object, given: &Given<'_>) {
    fn time(tree: &tree::Object, part: &str, name: &str) -> Option<Time> {
        tree.get(part)?.get(name)?.as_str()?.parse().ok()
    }
    let annotation = |tree: &tree::Object, name: &str| tree.get("metadata")?.get("annotations")?.get(name).cloned();
    let Some(old) = given.old else { return };
    for name in [PENDING_PASS, ASKED_BY] {
        let known = annotation(old, name);
        if given.is_by_client && annotation(binding, name) != known {
            restore(binding, name, known);
        }
    }
    let known = annotation(old, PENDING_PASS);
    let Some(accepted) = time(old, "spec", TRIGGERED_AT_FIELD) else { return };
    let is_pending = known.is_some() || Some(accepted) > time(old, "status", "lastScheduledTime");
    if is_pending
        && time(binding, "spec", TRIGGERED_AT_FIELD) < Some(accepted)
        && let Some(spec) = tree::object_or_new(binding, &["spec"])
    {
        spec.insert(TRIGGERED_AT_FIELD.to_owned(), Value::from(accepted.to_string()));
    }
}

/// Sets an annotation to its previous value, or removes it if it was absent.
fn restore(binding: &mut tree::Object, name: &str, known: Option<Value>) {
    let Some(annotations) = tree::object_or_new(binding, &["metadata", "annotations"]) else { return };
    match known {
        Some(known) => drop(annotations.insert(name.to_owned(), known)),
        None => drop(annotations.remove(name)),
    }
    if annotations.is_empty()
        && let Some(metadata) = tree::object(binding, &["metadata"])
    {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Option<Time> {
        Some(Time::from_seconds(seconds))
    }

    fn trigger(triggered_at: Option<Time>, last_scheduled: Option<Time>) -> Trigger {
        Trigger { triggered_at, last_scheduled, ..Trigger::default() }
    }

    /// Returns the trigger after a trigger with a cause at `cause` was accepted.
    fn accepted(known: Trigger, cause: Time, base: Revision) -> Trigger {
        Trigger { triggered_at: Some(known.timestamp(cause)), pending_pass: Some(base), ..known }
    }

    #[test]
    fn a_trigger_has_waited_since_its_stamp() {
        let now = Time::from_seconds(9);
        assert_eq!(trigger(at(6), at(5)).waited_seconds(now), Some(3));
        assert_eq!(trigger(at(11), at(5)).waited_seconds(now), Some(0));
        assert_eq!(trigger(None, at(5)).waited_seconds(now), None);
    }

    #[test]
    fn c10_a_stamp_is_the_cause_s_own_time_and_never_goes_back() {
        let cause = Time::from_seconds(5);
        assert_eq!(trigger(None, None).timestamp(cause), cause);
        assert_eq!(trigger(at(2), at(3)).timestamp(cause), cause);
        assert_eq!(trigger(at(5), at(5)).timestamp(cause), cause);
        assert_eq!(trigger(None, at(9)).timestamp(cause), cause, "a pass may have ended since");
        assert_eq!(trigger(at(9), at(5)).timestamp(cause), Time::from_seconds(9));
    }

    #[test]
    fn a_client_neither_signs_for_another_nor_takes_a_name_away() {
        let binding = |annotations: Value| match json!({"metadata": {"annotations": annotations}}) {
            Value::Object(tree) => tree,
            _ => unreachable!(),
        };
        let written = |old: Value, new: Value| {
            let (old, mut new) = (binding(old), binding(new));
            keep(&mut new, &Given { old: Some(&old), now: Time::from_seconds(0), is_by_client: true });
            new["metadata"].get("annotations").cloned()
        };
        let signed = || json!({PENDING_PASS: "5", ASKED_BY: "5 a b  c d"});
        assert_eq!(written(signed(), json!({PENDING_PASS: "5", ASKED_BY: "5 x y  z 0"})), Some(signed()));
        assert_eq!(written(signed(), json!({})), Some(signed()));
        assert_eq!(written(json!({"a": "b"}), json!({ASKED_BY: "5 x y  z 0"})), None);
    }

    #[test]
    fn triggers_and_passes_in_any_order_and_at_any_clock_are_neither_lost_nor_repeated() {
        // All sequences of four steps over all clock readings below. A step is a trigger (`true`)
        // or a pass (`false`), and a revision.
        let clocks = [0, 0, 1, -1, 7];
        for pattern in 0..(2 * clocks.len()).pow(4) {
            let mut state = Trigger::default();
            let mut rest = pattern;
            for revision in 1..=4 {
                let (step, clock) = (rest.is_multiple_of(2), clocks[rest / 2 % clocks.len()]);
                rest /= 2 * clocks.len();
                let now = Time::from_seconds(100 + clock);
                if step {
                    let after = accepted(state, now, Revision(revision));
                    assert_ne!(after, state, "each trigger is a write of its own");
                    assert!(after.triggered_at >= state.triggered_at);
                    state = after;
                } else {
                    let pending_pass = state.clear().map_or(state.pending_pass, |_| None);
                    state = Trigger { pending_pass, last_scheduled: Some(state.served(now)), ..state };
                }
                let is_pending = state.pending_pass.is_some() || state.triggered_at > state.last_scheduled;
                assert_eq!(is_pending, step, "{state:?}");
            }
        }
    }
}
