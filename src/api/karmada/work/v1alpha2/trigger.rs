//! When a binding is to be scheduled afresh: one trigger out of two fields (C7), told apart from
//! passes within the same second (C10; design.md §4).
//!
//! Invariants, which hold for any clock, also one that steps back:
//! - `stamp` is later than everything the binding carries, so each accepted trigger is a write of
//!   its own and is pending after it;
//! - a stamp that is owed a pass stays, or gives way to a later one, whatever a client writes
//!   (`keep`);
//! - `served` is no earlier than the trigger and than what was there, so a pass that succeeded
//!   leaves nothing pending and never makes a served trigger pending again.
//!
//! Together with the revision as precondition of both writes, a trigger that comes during a pass
//! makes the pass's commit fail, and the pass is decided again knowing of it.

use serde_json::Value;

use super::{ResourceBindingSpec, ResourceBindingStatus};
use crate::api::tree;
use crate::k8s::Time;
use crate::resource::Given;

const STAMP: &str = "rescheduleTriggeredAt";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// `spec.forceRescheduling`
    pub force: bool,
    /// `spec.rescheduleTriggeredAt`
    pub triggered_at: Option<Time>,
    /// `status.lastScheduledTime`
    pub last_scheduled: Option<Time>,
}

impl Trigger {
    pub fn of(spec: &ResourceBindingSpec, status: &ResourceBindingStatus) -> Trigger {
        Trigger {
            force: spec.force_rescheduling == Some(true),
            triggered_at: spec.reschedule_triggered_at,
            last_scheduled: status.last_scheduled_time,
        }
    }

    /// A Fresh pass is owed. A time that equals the last pass's is one that was served (R53, R71).
    pub fn is_pending(self) -> bool {
        self.force || self.triggered_at > self.last_scheduled
    }

    /// Seconds since the stamp, while the pass it asks for is owed.
    pub fn waited_seconds(self, now: Time) -> Option<i64> {
        let stamp = self.triggered_at.filter(|_| self.is_pending())?;
        // A stamp may lie ahead: it is always later than the one before.
        Some((now.seconds() - stamp.seconds()).max(0))
    }

    /// What to write to `spec.rescheduleTriggeredAt` for a trigger whose cause happened at `cause`.
    pub fn stamp(self, cause: Time) -> Time {
        let later = |time: Time| time.plus_seconds(1);
        cause.max(self.last_scheduled.map_or(cause, later)).max(self.triggered_at.map_or(cause, later))
    }

    /// What to write to `status.lastScheduledTime` when a pass succeeded at `now`.
    pub fn served(self, now: Time) -> Time {
        now.max(self.triggered_at.unwrap_or(now)).max(self.last_scheduled.unwrap_or(now))
    }
}

/// A new version of a binding does not take back a trigger that is still owed: who replaces the
/// binding by a manifest has never seen the stamp, and was promised no less than others.
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
    fn a_served_trigger_waits_no_longer() {
        let now = Time::from_seconds(9);
        assert_eq!(trigger(at(6), at(5)).waited_seconds(now), Some(3));
        assert_eq!(trigger(at(11), at(5)).waited_seconds(now), Some(0));
        assert_eq!(trigger(at(5), at(5)).waited_seconds(now), None);
    }

    #[test]
    fn r53_only_a_later_time_triggers() {
        assert!(!trigger(None, at(5)).is_pending());
        assert!(!trigger(at(4), at(5)).is_pending());
        assert!(!trigger(at(5), at(5)).is_pending());
        assert!(trigger(at(6), at(5)).is_pending());
        assert!(Trigger { force: true, ..trigger(None, at(5)) }.is_pending());
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
        // Every clock reading from a few, every order of trigger (true) and pass (false), four
        // steps long.
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
                assert_eq!(state.is_pending(), owed, "{state:?}");
            }
        }
    }
}
