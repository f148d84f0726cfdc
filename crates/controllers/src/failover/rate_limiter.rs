//! Limits the rate of evictions and determines their order. Pure. The rate comes from
//! `census::RateInForce`.
//!
//! The order is Ballast's (D122): the most urgent of all waiting bindings is evicted first. The
//! waiting bindings are kept sorted, so a turn costs a look-up instead of a sort, however many
//! bindings wait. One timer serves all of them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use ballast_k8s::Key;

/// Interval at which bindings are checked again while evictions are halted.
const HALTED_LOOK_AGAIN_MS: i64 = 10_000;

/// Turns that are late by more than this are lost. The loop may be busy for a moment, but a clock
/// that steps forward must not evict everything at once.
const LATE_MAX_MS: f64 = 1_000.0;

/// Maximum number of bindings that one call of `grant` considers. Each may have to be read, which
/// takes some 10 µs, and the loop must not be blocked for long.
const GRANTED_MAX: usize = 1_000;

/// The urgency of an eviction. The lesser value is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    /// `spec.schedulePriority`.
    priority: Reverse<i32>,
    /// Share of the workload on clusters that it does not leave, in thousandths.
    left_elsewhere: u32,
}

impl Urgency {
    /// Creates the urgency of a binding that keeps `left` of its `total` replicas or copies.
    pub fn new(priority: i32, left: i64, total: i64) -> Urgency {
        let (left, total) = (i128::from(left.max(0)), i128::from(total.max(1)));
        let share = u32::try_from(left * 1_000 / total).unwrap_or(u32::MAX);
        Urgency { priority: Reverse(priority), left_elsewhere: share }
    }
}

/// Grants turns to waiting evictions.
#[derive(Debug, Default)]
pub struct EvictionRateLimiter {
    /// The time of the next turn.
    next_ms: f64,
    waiting: BTreeSet<(Urgency, Key)>,
    /// The urgency of each waiting binding.
    urgencies: HashMap<Key, Urgency>,
    /// The bindings that have been granted a turn and have not been evicted yet.
    granted: HashSet<Key>,
}

/// The result of a call of `grant`.
#[derive(Debug, PartialEq, Eq)]
pub struct Turns {
    /// The bindings that are granted a turn.
    pub granted: Vec<Key>,
    /// Milliseconds until the next call; `None` if no binding waits.
    pub again_ms: Option<i64>,
}

impl EvictionRateLimiter {
    /// Returns whether the binding may be evicted now. Otherwise the binding waits until `grant`
    /// returns it.
    pub fn acquire(&mut self, key: &Key, urgency: Urgency, now_ms: i64, per_second: f64) -> bool {
        if self.granted.remove(key) || per_second == f64::INFINITY {
            self.forget(key);
            return true;
        }
        if self.waiting.is_empty() {
            // Turns do not accumulate while no binding waits.
            self.next_ms = self.next_ms.max(now_ms as f64);
        }
        if let Some(known) = self.urgencies.insert(key.clone(), urgency).filter(|known| *known != urgency) {
            self.waiting.remove(&(known, key.clone()));
        }
        self.waiting.insert((urgency, key.clone()));
        false
    }

    /// Grants the turns that are due. A binding for which `is_due` returns false is forgotten and
    /// uses no turn.
    pub fn grant(&mut self, now_ms: i64, per_second: f64, mut is_due: impl FnMut(&Key) -> bool) -> Turns {
        let mut granted = Vec::new();
        if per_second <= 0.0 {
            let again_ms = (!self.waiting.is_empty()).then_some(HALTED_LOOK_AGAIN_MS);
            return Turns { granted, again_ms };
        }
        let (now, interval) = (now_ms as f64, 1_000.0 / per_second);
        // Clocks may step.
        self.next_ms = self.next_ms.clamp(now - LATE_MAX_MS, now + interval);
        for _ in 0..GRANTED_MAX {
            if self.next_ms > now {
                break;
            }
            let Some((_, key)) = self.waiting.pop_first() else { break };
            self.urgencies.remove(&key);
            if is_due(&key) {
                self.next_ms += interval;
                self.granted.insert(key.clone());
                granted.push(key);
            }
        }
        let wait_ms = (self.next_ms - now).max(0.0).ceil() as i64;
        Turns { granted, again_ms: (!self.waiting.is_empty()).then_some(wait_ms) }
    }

    /// Removes a binding that need not be evicted any more.
    pub fn forget(&mut self, key: &Key) {
        if let Some(urgency) = self.urgencies.remove(key) {
            self.waiting.remove(&(urgency, key.clone()));
        }
        self.granted.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::GroupResource;

    fn key(number: usize) -> Key {
        Key::cluster(GroupResource::new("things"), format!("{number:06}"))
    }

    fn usual() -> Urgency {
        Urgency::new(0, 0, 1)
    }

    /// Returns a limiter in which bindings with these urgencies wait, numbered in order.
    fn waiting(urgencies: &[Urgency], now_ms: i64, per_second: f64) -> EvictionRateLimiter {
        let mut limiter = EvictionRateLimiter::default();
        for (number, urgency) in urgencies.iter().enumerate() {
            assert!(!limiter.acquire(&key(number), *urgency, now_ms, per_second));
        }
        limiter
    }

    fn granted(limiter: &mut EvictionRateLimiter, now_ms: i64, per_second: f64) -> (Vec<Key>, Option<i64>) {
        let Turns { granted, again_ms } = limiter.grant(now_ms, per_second, |_| true);
        (granted, again_ms)
    }

    #[test]
    fn evictions_take_turns_and_a_granted_one_goes_at_once() {
        let mut limiter = waiting(&[usual(); 3], 1_000, 0.5);
        assert_eq!(granted(&mut limiter, 1_000, 0.5), (vec![key(0)], Some(2_000)));
        assert!(limiter.acquire(&key(0), usual(), 1_000, 0.5));
        assert!(!limiter.acquire(&key(0), usual(), 1_000, 0.5), "a turn is for one eviction");
        limiter.forget(&key(0));
        assert_eq!(granted(&mut limiter, 2_999, 0.5), (vec![], Some(1)));
        assert_eq!(granted(&mut limiter, 3_000, 0.5), (vec![key(1)], Some(2_000)));
        limiter.forget(&key(2));
        assert_eq!(granted(&mut limiter, 9_000, 0.5), (vec![], None));
    }

    #[test]
    fn sre_11_higher_priority_goes_first_and_then_what_has_the_least_elsewhere() {
        let urgencies = [
            Urgency::new(0, 5, 100),
            Urgency::new(0, 1, 2),
            Urgency::new(7, 1, 2),
            Urgency::new(0, 0, 4),
            Urgency::new(1_000_000, 3, 4),
            Urgency::new(-1, 0, 1),
        ];
        let mut limiter = waiting(&urgencies, 0, 1.0);
        let order: Vec<Key> = (0..6).flat_map(|second| granted(&mut limiter, second * 1_000, 1.0).0).collect();
        assert_eq!(order, [4, 2, 3, 0, 1, 5].map(key));
    }

    #[test]
    fn sre_11_a_binding_that_becomes_more_urgent_while_it_waits_overtakes_the_others() {
        let mut limiter = waiting(&[usual(), usual()], 0, 1.0);
        assert!(!limiter.acquire(&key(1), Urgency::new(9, 0, 1), 0, 1.0));
        assert_eq!(granted(&mut limiter, 0, 1.0), (vec![key(1)], Some(1_000)));
        assert_eq!(granted(&mut limiter, 1_000, 1.0), (vec![key(0)], None), "it waits once");
    }

    #[test]
    fn a_binding_that_need_not_leave_any_more_takes_no_turn_from_the_others() {
        let mut limiter = waiting(&[usual(); 4], 0, 1.0);
        let turns = limiter.grant(0, 1.0, |known| *known == key(2));
        assert_eq!(turns, Turns { granted: vec![key(2)], again_ms: Some(1_000) });
        assert_eq!(granted(&mut limiter, 1_000, 1.0), (vec![key(3)], None));
    }

    #[test]
    fn turns_that_pass_while_evictions_are_halted_or_while_none_waits_are_lost() {
        let mut limiter = waiting(&[usual(); 3], 0, 1.0);
        assert_eq!(granted(&mut limiter, 0, 0.0), (vec![], Some(HALTED_LOOK_AGAIN_MS)));
        // At most one late turn.
        assert_eq!(granted(&mut limiter, 60_000, 1.0), (vec![key(0), key(1)], Some(1_000)));
        assert_eq!(granted(&mut limiter, 61_000, 1.0), (vec![key(2)], None));
        assert!(!limiter.acquire(&key(7), usual(), 900_000, 1.0));
        assert!(!limiter.acquire(&key(8), usual(), 900_000, 1.0));
        assert_eq!(granted(&mut limiter, 900_000, 1.0), (vec![key(7)], Some(1_000)));
    }

    #[test]
    fn a_clock_that_steps_delays_no_eviction_for_long_and_evicts_no_crowd() {
        let mut limiter = waiting(&[usual(); 9], 7_200_000, 0.5);
        assert_eq!(granted(&mut limiter, 7_200_000, 0.5).0, [key(0)]);
        assert_eq!(granted(&mut limiter, 1_000, 0.5), (vec![], Some(2_000)));
        assert_eq!(granted(&mut limiter, 9_000_000, 0.5), (vec![key(1)], Some(1_000)));
    }

    #[test]
    fn a_fast_rate_is_kept_although_the_loop_is_slower() {
        let mut limiter = waiting(&[usual(); 500], 0, 1_000.0);
        let got: usize = (0..10).map(|turn| granted(&mut limiter, turn * 20, 1_000.0).0.len()).sum();
        assert_eq!(got, 181, "one a millisecond");
    }

    #[test]
    fn without_a_limit_no_binding_waits() {
        let mut limiter = EvictionRateLimiter::default();
        assert!((0..1_000).all(|number| limiter.acquire(&key(number), usual(), 5, f64::INFINITY)));
        assert!(limiter.waiting.is_empty() && limiter.urgencies.is_empty() && limiter.granted.is_empty());
    }

    /// The loss of a cluster with 100,000 bindings. Sorting them at each turn would take minutes.
    #[test]
    fn sre_11_a_turn_among_100_000_bindings_costs_a_look_up() {
        let urgencies: Vec<Urgency> = (0..100_000).map(|number| Urgency::new(number % 977, 0, 1)).collect();
        let mut limiter = waiting(&urgencies, 0, 1_000.0);
        let mut last = i32::MAX;
        for turn in 0..2_000_usize {
            let (keys, _) = granted(&mut limiter, turn as i64, 1_000.0);
            let [granted] = &keys[..] else { panic!("{} at turn {turn}", keys.len()) };
            let number: i32 = granted.name.parse().unwrap();
            assert!(number % 977 <= last);
            last = number % 977;
            assert!(limiter.acquire(granted, usual(), turn as i64, 1_000.0));
        }
        assert_eq!((limiter.waiting.len(), limiter.urgencies.len(), limiter.granted.len()), (98_000, 98_000, 0));
    }
}
