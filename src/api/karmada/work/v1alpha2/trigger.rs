//! The trigger for a fresh placement of a binding: two fields, read as one (C7).
//!
//! Times on the wire have whole seconds, so a trigger and a pass can carry the same second (C10).
//! These functions tell them apart. The invariants hold for any clock, also for one that steps
//! back:
//!
//! - `stamp` is later than every time that the binding carries. So each accepted trigger is a write
//!   of its own, and is pending afterwards.
//! - A stamp whose pass is still owed stays, or is replaced by a later one, whatever a client
//!   writes (`keep`).
//! - `served` is no earlier than the trigger, and no earlier than the last served time. So a
//!   successful pass leaves nothing pending, and never makes a served trigger pending again.
//!
//! Both writes have the revision as a precondition. So a trigger that comes during a pass makes the
//! commit of the pass fail, and the pass is repeated with the trigger.

use serde_json::Value;

use super::{ResourceBindingSpec, ResourceBindingStatus};
use crate::api::tree;
use crate::k8s::Time;
use crate::resource::Given;

const STAMP: &str = "rescheduleTriggeredAt";

/// The fields of a binding that a trigger consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// `spec.forceRescheduling`
    pub force: bool,
    /// `spec.rescheduleTriggeredAt`
    pub triggered_at: Option<Time>,
    /// `status.lastScheduledTime`
    pub last_scheduled: Option<Time>,
}

// Whether a pass is owed depends on the scheduling profile: `engine::karmada::Request` says so.

impl Trigger {
    pub fn of(spec: &ResourceBindingSpec, status: &ResourceBindingStatus) -> Trigger {
        Trigger {
            force: spec.force_rescheduling == Some(true),
            triggered_at: spec.reschedule_triggered_at,
            last_scheduled: status.last_scheduled_time,
        }
    }

    /// Seconds since the stamp, for a pass that answers it. `None`: there is no stamp.
    pub fn waited_seconds(self, now: Time) -> Option<i64> {
        // A stamp may lie ahead, because it is always later than the one before.
        self.triggered_at.map(|stamp| (now.seconds() - stamp.seconds()).max(0))
    }

    /// The value of `spec.rescheduleTriggeredAt` for a trigger that was caused at `cause`.
    pub fn stamp(self, cause: Time) -> Time {
        let later = |time: Time| time.plus_seconds(1);
        cause.max(self.last_scheduled.map_or(cause, later)).max(self.triggered_at.map_or(cause, later))
    }

    /// The value of `status.lastScheduledTime` after a pass that succeeded at `now`.
    pub fn served(self, now: Time) -> Time {
        now.max(self.triggered_at.unwrap_or(now)).max(self.last_scheduled.unwrap_or(now))
    }
}

/// Keeps a trigger that is still owed when a client replaces the binding. The client's manifest
/// does not have the stamp, but the trigger was accepted.
pub fn keep(binding: &mut tree::Object, given: &Given<'_>) {
    fn time(tree: &tree::Object, part: &str, name: &str) -> Option<Time> {
        tree.get(part)?.get(name)?.as_str()?.parse().ok()
    }
    let Some(old) = given.old else { return };
    let Some(accepted) = time(old, "spec", STAMP) else { return };
    let is_owed = Some(accepted) > time(old, "status", "lastScheduledTime");
    if is_owed
        && time(binding, "spec", STAMP) < Some(accepted)
        && let Some(spec) = tree::object_or_new(binding, &["spec"])
    {
        spec.insert(STAMP.to_owned(), Value::from(accepted.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<Time> {
        Some(Time::from_seconds(seconds))
    }

    fn trigger(triggered_at: Option<Time>, last_scheduled: Option<Time>) -> Trigger {
        Trigger { force: false, triggered_at, last_scheduled }
    }

    #[test]
    fn a_trigger_has_waited_since_its_stamp() {
        let now = Time::from_seconds(9);
        assert_eq!(trigger(at(6), at(5)).waited_seconds(now), Some(3));
        assert_eq!(trigger(at(11), at(5)).waited_seconds(now), Some(0));
        assert_eq!(trigger(None, at(5)).waited_seconds(now), None);
    }

    #[test]
    fn c10_a_stamp_is_later_than_what_the_binding_carries() {
        let cause = Time::from_seconds(5);
        assert_eq!(trigger(None, None).stamp(cause), cause);
        assert_eq!(trigger(at(2), at(3)).stamp(cause), cause);
        assert_eq!(trigger(None, at(5)).stamp(cause), Time::from_seconds(6));
        assert_eq!(trigger(at(9), at(5)).stamp(cause), Time::from_seconds(10));
        assert_eq!(trigger(at(5), at(9)).stamp(cause), Time::from_seconds(10));
    }

    #[test]
    fn triggers_and_passes_in_any_order_and_at_any_clock_are_neither_lost_nor_repeated() {
        // Every clock reading from a few, with every order of triggers (true) and passes (false),
        // in four steps.
        let clocks = [0, 0, 1, -1, 7];
        for pattern in 0..(2 * clocks.len()).pow(4) {
            let mut state = Trigger::default();
            let mut rest = pattern;
            for _ in 0..4 {
                let (step, clock) = (rest.is_multiple_of(2), clocks[rest / 2 % clocks.len()]);
                rest /= 2 * clocks.len();
                let now = Time::from_seconds(100 + clock);
                let owed = step;
                if owed {
                    let stamp = state.stamp(now);
                    assert_ne!(state.triggered_at, Some(stamp), "each trigger is a write of its own");
                    state.triggered_at = Some(stamp);
                } else {
                    state.last_scheduled = Some(state.served(now));
                }
                assert_eq!(state.triggered_at > state.last_scheduled, owed, "{state:?}");
            }
        }
    }
}
