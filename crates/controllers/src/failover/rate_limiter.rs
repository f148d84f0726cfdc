//! Limits how fast bindings are evicted, by the state of all clusters. Pure.
//!
//! If most clusters are not ready, the fault is more likely in the control plane. Then a large
//! fleet is evicted from slowly, and a small one not at all. The rules and numbers are upstream's.

use std::collections::HashMap;

use ballast_k8s::Key;

/// While evictions are halted, bindings are checked again after this time.
const HALTED_LOOK_AGAIN_MS: i64 = 10_000;

/// Evictions per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRate {
    pub per_second: f64,
    /// The rate while more than `unhealthy_share` of many clusters are not ready.
    pub secondary_per_second: f64,
    pub unhealthy_share: f64,
    /// More clusters than this count as many.
    pub large_fleet: usize,
}

impl Default for EvictionRate {
    /// Upstream's numbers.
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

/// Assigns a time to each eviction.
#[derive(Debug, Default)]
pub struct EvictionRateLimiter {
    /// The earliest time that is not assigned yet.
    next_ms: i64,
    /// The bindings that wait, with their assigned times.
    reserved: HashMap<Key, i64>,
}

impl EvictionRateLimiter {
    /// Whether the binding may be evicted now. The error is the time to wait before the next call.
    /// A binding that calls too early keeps its time; all bindings of a cluster do that when its
    /// taints change again. Clocks may step, so no binding waits longer than all assigned evictions
    /// take together.
    pub fn acquire(&mut self, key: &Key, now_ms: i64, per_second: f64) -> Result<(), i64> {
        if per_second <= 0.0 {
            // Times that pass while evictions are halted must not all be used at once afterwards.
            self.forget(key);
            return Err(HALTED_LOOK_AGAIN_MS);
        }
        let interval_ms = (1_000.0 / per_second) as i64;
        let longest_ms = interval_ms.saturating_mul(i64::try_from(self.reserved.len()).unwrap_or(i64::MAX) + 1);
        let turn_ms = match self.reserved.get(key) {
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
        self.reserved.insert(key.clone(), turn_ms);
        Err(turn_ms - now_ms)
    }

    /// The binding need not be evicted any more.
    pub fn forget(&mut self, key: &Key) {
        self.reserved.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::GroupResource;

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
        let mut limiter = EvictionRateLimiter::default();
        assert_eq!(limiter.acquire(&key(0), 1_000, 0.5), Ok(()));
        assert_eq!(limiter.acquire(&key(1), 1_000, 0.5), Err(2_000));
        assert_eq!(limiter.acquire(&key(2), 1_000, 0.5), Err(4_000));
        assert_eq!(limiter.acquire(&key(1), 3_000, 0.5), Ok(()));
        assert_eq!(limiter.acquire(&key(3), 3_000, 0.5), Err(4_000));
        limiter.forget(&key(2));
        assert_eq!(limiter.acquire(&key(9), 900_000, 0.5), Ok(()));
        assert_eq!(limiter.acquire(&key(8), 900_000, 0.0), Err(HALTED_LOOK_AGAIN_MS));
    }

    #[test]
    fn who_asks_too_early_waits_for_the_turn_that_was_promised() {
        let mut limiter = EvictionRateLimiter::default();
        assert_eq!(limiter.acquire(&key(0), 1_000, 0.5), Ok(()));
        assert_eq!(limiter.acquire(&key(1), 1_000, 0.5), Err(2_000));
        assert_eq!(limiter.acquire(&key(2), 1_000, 0.5), Err(4_000));
        assert_eq!(limiter.acquire(&key(2), 2_000, 0.5), Err(3_000));
        assert_eq!(limiter.acquire(&key(1), 2_500, 0.5), Err(500));
        assert_eq!(limiter.acquire(&key(1), 3_000, 0.5), Ok(()));
        // The turns that passed during the halt are lost.
        assert_eq!(limiter.acquire(&key(2), 5_000, 0.0), Err(HALTED_LOOK_AGAIN_MS));
        assert_eq!(limiter.acquire(&key(3), 9_000, 0.5), Ok(()));
        assert_eq!(limiter.acquire(&key(2), 9_000, 0.5), Err(2_000));
    }

    #[test]
    fn a_clock_that_steps_back_delays_nobody_for_long() {
        let mut limiter = EvictionRateLimiter::default();
        assert_eq!(limiter.acquire(&key(0), 7_200_000, 0.5), Ok(()));
        assert_eq!(limiter.acquire(&key(1), 1_000, 0.5), Err(2_000));
        assert_eq!(limiter.acquire(&key(2), 1_000, 0.5), Err(4_000));
        assert_eq!(limiter.acquire(&key(2), -9_000_000, 0.5), Err(6_000));
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let mut limiter = EvictionRateLimiter::default();
        assert!((0..1_000).all(|number| limiter.acquire(&key(number), 5, f64::INFINITY).is_ok()));
    }
}
