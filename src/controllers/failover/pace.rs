//! How fast bindings may be driven out, by the state of the whole fleet. Pure.
//!
//! When most of a fleet is not ready, the fault is more likely here than there: a large fleet is
//! then evicted from slowly, a small one not at all (upstream's rules and numbers).

use std::collections::HashMap;

use crate::k8s::Key;

/// Evictions that may not happen now are looked at again after this long.
const HALTED_LOOK_AGAIN_MS: i64 = 10_000;

/// Evictions a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRate {
    pub per_second: f64,
    /// While more than `unhealthy_share` of a large fleet is not ready.
    pub secondary_per_second: f64,
    pub unhealthy_share: f64,
    /// A fleet of more clusters is large.
    pub large_fleet: usize,
}

impl Default for EvictionRate {
    /// Upstream's.
    fn default() -> EvictionRate {
        EvictionRate { per_second: 0.5, secondary_per_second: 0.1, unhealthy_share: 0.55, large_fleet: 10 }
    }
}

impl EvictionRate {
    pub fn of_fleet(self, clusters: usize, unready: usize) -> f64 {
        if clusters == 0 || unready as f64 / clusters as f64 <= self.unhealthy_share {
            return self.per_second;
        }
        if clusters > self.large_fleet { self.secondary_per_second } else { 0.0 }
    }
}

/// Gives evictions their turns.
#[derive(Debug, Default)]
pub struct Pace {
    /// When the next turn may be.
    next_ms: i64,
    /// Those who were told to come back, and when.
    promised: HashMap<Key, i64>,
}

impl Pace {
    /// Whether it may leave now; otherwise when to ask again. Who asks too early, as all do when
    /// the taints of their cluster change again, keeps the turn that was promised. Clocks may step:
    /// nobody waits longer than all who were promised a turn would take.
    pub fn ask(&mut self, key: &Key, now_ms: i64, per_second: f64) -> Result<(), i64> {
        if per_second <= 0.0 {
            // Turns that pass meanwhile must not all be taken at once when it goes on.
            self.forget(key);
            return Err(HALTED_LOOK_AGAIN_MS);
        }
        let interval_ms = (1_000.0 / per_second) as i64;
        let longest_ms = interval_ms.saturating_mul(i64::try_from(self.promised.len()).unwrap_or(i64::MAX) + 1);
        let turn_ms = match self.promised.get(key) {
            Some(turn_ms) => (*turn_ms).min(now_ms + longest_ms),
            None => {
                let turn_ms = self.next_ms.clamp(now_ms, now_ms + longest_ms);
                self.next_ms = turn_ms + interval_ms;
                turn_ms
            }
        };
        if turn_ms <= now_ms {
            self.forget(key);
            return Ok(());
        }
        self.promised.insert(key.clone(), turn_ms);
        Err(turn_ms - now_ms)
    }

    /// It need not leave any more.
    pub fn forget(&mut self, key: &Key) {
        self.promised.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::GroupResource;

    fn key(number: usize) -> Key {
        Key::cluster(GroupResource::new("things"), format!("{number}"))
    }

    #[test]
    fn a_fleet_that_is_mostly_not_ready_is_evicted_from_slowly_or_not_at_all() {
        let rate = EvictionRate::default();
        assert_eq!(rate.of_fleet(0, 0), 0.5);
        assert_eq!(rate.of_fleet(10, 5), 0.5);
        assert_eq!(rate.of_fleet(10, 6), 0.0);
        assert_eq!(rate.of_fleet(11, 7), 0.1);
    }

    #[test]
    fn evictions_take_turns_and_keep_them() {
        let mut pace = Pace::default();
        assert_eq!(pace.ask(&key(0), 1_000, 0.5), Ok(()));
        assert_eq!(pace.ask(&key(1), 1_000, 0.5), Err(2_000));
        assert_eq!(pace.ask(&key(2), 1_000, 0.5), Err(4_000));
        assert_eq!(pace.ask(&key(1), 3_000, 0.5), Ok(()));
        assert_eq!(pace.ask(&key(3), 3_000, 0.5), Err(4_000));
        pace.forget(&key(2));
        assert_eq!(pace.ask(&key(9), 900_000, 0.5), Ok(()));
        assert_eq!(pace.ask(&key(8), 900_000, 0.0), Err(HALTED_LOOK_AGAIN_MS));
    }

    #[test]
    fn who_asks_too_early_waits_for_the_turn_that_was_promised() {
        let mut pace = Pace::default();
        assert_eq!(pace.ask(&key(0), 1_000, 0.5), Ok(()));
        assert_eq!(pace.ask(&key(1), 1_000, 0.5), Err(2_000));
        assert_eq!(pace.ask(&key(2), 1_000, 0.5), Err(4_000));
        assert_eq!(pace.ask(&key(2), 2_000, 0.5), Err(3_000));
        assert_eq!(pace.ask(&key(1), 2_500, 0.5), Err(500));
        assert_eq!(pace.ask(&key(1), 3_000, 0.5), Ok(()));
        // Turns that pass while all is halted are over.
        assert_eq!(pace.ask(&key(2), 5_000, 0.0), Err(HALTED_LOOK_AGAIN_MS));
        assert_eq!(pace.ask(&key(3), 9_000, 0.5), Ok(()));
        assert_eq!(pace.ask(&key(2), 9_000, 0.5), Err(2_000));
    }

    #[test]
    fn a_clock_that_steps_back_delays_nobody_for_long() {
        let mut pace = Pace::default();
        assert_eq!(pace.ask(&key(0), 7_200_000, 0.5), Ok(()));
        assert_eq!(pace.ask(&key(1), 1_000, 0.5), Err(2_000));
        assert_eq!(pace.ask(&key(2), 1_000, 0.5), Err(4_000));
        assert_eq!(pace.ask(&key(2), -9_000_000, 0.5), Err(6_000));
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let mut pace = Pace::default();
        assert!((0..1_000).all(|number| pace.ask(&key(number), 5, f64::INFINITY).is_ok()));
    }
}
