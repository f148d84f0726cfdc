//! The moves that begin now, under the bounds of the rollout. Pure.
//!
//! Moves are considered in their order. A move that waits for a bound blocks the moves behind it
//! that need the same bound, so small moves cannot starve a large one. A full cluster blocks only
//! the moves to this cluster.
//!
//! A move that is larger than a bound by itself would never begin. It begins alone: when no other
//! replicas count against that bound. Under SurgeFirst it then proceeds in steps within the bound
//! (`surge`), and all replicas that have not arrived count, so that no other move overtakes it. If
//! it cannot be split, its Move names the bound (`RolloutBounds::exceeded`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The bounds of a rollout, in numbers. `None`: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutBounds {
    pub concurrent: Option<i64>,
    pub replicas: Option<i64>,
    pub incoming_per_cluster: Option<i64>,
}

/// Arriving replicas: assigned, and not reported as ready yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals(pub BTreeMap<Arc<str>, i64>);

/// Whether a move may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveDecision {
    Begin,
    /// It waits, and others may begin.
    Wait,
    /// It waits, and so does every move behind it.
    WaitAll,
}

/// The moves that have begun, against the bounds.
#[derive(Clone, Debug, Default)]
pub struct Waves {
    bounds: RolloutBounds,
    moving: i64,
    replicas: i64,
    incoming: BTreeMap<Arc<str>, i64>,
    /// The clusters that a move waits for.
    closed: BTreeSet<Arc<str>>,
    is_closed: bool,
}

impl RolloutBounds {
    /// Returns a message about the bound that the replicas of one step exceed. `why` is the reason
    /// why the move is not split.
    pub fn exceeded(&self, arrivals: &Arrivals, why: &str) -> Option<String> {
        let told = |name: &str, most: i64, what: String| {
            format!("larger than {name}, {most}: {what} at once, because {why}; it begins alone")
        };
        let of_one = self.incoming_per_cluster.and_then(|most| {
            let (cluster, count) = arrivals.0.iter().find(|(_, count)| **count > most)?;
            Some(told("maxIncomingPerCluster", most, format!("{count} replicas go to {cluster}")))
        });
        let total = arrivals.total();
        of_one.or_else(|| {
            let most = self.replicas.filter(|most| total > *most)?;
            Some(told("maxMovingReplicas", most, format!("{total} replicas move")))
        })
    }
}

impl Arrivals {
    pub fn total(&self) -> i64 {
        self.0.values().sum()
    }

    /// Returns the excess of `to` over `from`, by cluster.
    pub fn between<'a>(
        from: impl IntoIterator<Item = (&'a str, i64)>,
        to: impl IntoIterator<Item = (&'a Arc<str>, i64)>,
    ) -> Arrivals {
        let from: BTreeMap<&str, i64> = from.into_iter().collect();
        let more = to
            .into_iter()
            .map(|(name, replicas)| (Arc::clone(name), replicas - from.get(&**name).copied().unwrap_or_default()));
        Arrivals(more.filter(|(_, more)| *more > 0).collect())
    }
}

impl Waves {
    pub fn new(bounds: RolloutBounds) -> Waves {
        Waves { bounds, ..Waves::default() }
    }

    /// Counts a move that has begun, with its replicas that have not arrived.
    pub fn count(&mut self, arrivals: &Arrivals) {
        self.moving += 1;
        self.replicas += arrivals.total();
        for (cluster, replicas) in &arrivals.0 {
            *self.incoming.entry(Arc::clone(cluster)).or_default() += replicas;
        }
    }

    /// Returns whether a move may begin, as far as known without its arrivals.
    pub fn is_open(&self) -> bool {
        !self.is_closed && self.bounds.concurrent.is_none_or(|most| self.moving < most.max(1))
    }

    /// Decides about one move, and counts it if it begins.
    pub fn try_begin(&mut self, arrivals: &Arrivals) -> WaveDecision {
        if !self.is_open() {
            return WaveDecision::WaitAll;
        }
        let exceeds = |bound: Option<i64>, there: i64, more: i64| {
            bound.is_some_and(|most| more > 0 && there > 0 && there.saturating_add(more) > most)
        };
        if exceeds(self.bounds.replicas, self.replicas, arrivals.total()) {
            self.is_closed = true;
            return WaveDecision::WaitAll;
        }
        let is_full = |(cluster, more): (&Arc<str>, &i64)| {
            let there = self.incoming.get(cluster).copied().unwrap_or_default();
            exceeds(self.bounds.incoming_per_cluster, there, *more)
        };
        let must_wait = |at: (&Arc<str>, &i64)| self.closed.contains(at.0) || is_full(at);
        if arrivals.0.iter().any(must_wait) {
            self.closed.extend(arrivals.0.keys().cloned());
            return WaveDecision::Wait;
        }
        self.count(arrivals);
        WaveDecision::Begin
    }
}

/// Returns the time at which the next wave may begin, or `None` for now. `ended` is the end of the
/// last move of the previous wave. All times are milliseconds since 1970: in whole seconds, a pause
/// could be shorter than specified (SG11). With an interval, a wave ends before the next one
/// begins.
pub fn pause_until(interval_seconds: i64, ended: Option<i64>, now: i64) -> Option<i64> {
    let interval = interval_seconds.max(0).saturating_mul(1_000);
    let begins = ended?.saturating_add(interval);
    // A clock that was set back lengthens no pause beyond the interval.
    (begins > now).then(|| begins.min(now.saturating_add(interval)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrivals(list: &[(&str, i64)]) -> Arrivals {
        Arrivals(list.iter().map(|(name, replicas)| ((*name).into(), *replicas)).collect())
    }

    #[test]
    fn no_more_move_at_once_than_may() {
        let mut waves = Waves::new(RolloutBounds { concurrent: Some(2), ..RolloutBounds::default() });
        waves.count(&arrivals(&[("a", 1)]));
        assert_eq!(waves.try_begin(&arrivals(&[("a", 1)])), WaveDecision::Begin);
        assert_eq!(waves.try_begin(&arrivals(&[("a", 1)])), WaveDecision::WaitAll);
    }

    #[test]
    fn a_move_larger_than_a_bound_begins_alone() {
        let bounds = RolloutBounds { replicas: Some(10), incoming_per_cluster: Some(5), ..RolloutBounds::default() };
        let mut waves = Waves::new(bounds);
        assert_eq!(waves.try_begin(&arrivals(&[("a", 20)])), WaveDecision::Begin);
        assert_eq!(waves.try_begin(&arrivals(&[("b", 1)])), WaveDecision::WaitAll);
        let mut waves = Waves::new(bounds);
        assert_eq!(waves.try_begin(&arrivals(&[("a", 1)])), WaveDecision::Begin);
        assert_eq!(waves.try_begin(&arrivals(&[("b", 20)])), WaveDecision::WaitAll);
        assert_eq!(
            waves.try_begin(&arrivals(&[("a", 1)])),
            WaveDecision::WaitAll,
            "small ones do not pass a large one"
        );
    }

    #[test]
    fn a_step_that_exceeds_a_bound_names_it() {
        let bounds = RolloutBounds { replicas: Some(10), incoming_per_cluster: Some(5), ..RolloutBounds::default() };
        let exceeded = |list: &[(&str, i64)]| bounds.exceeded(&arrivals(list), "it runs as a whole");
        assert_eq!(exceeded(&[("a", 5), ("b", 5)]), None);
        assert_eq!(
            exceeded(&[("a", 5), ("b", 6)]).unwrap(),
            "larger than maxIncomingPerCluster, 5: 6 replicas go to b at once, because it runs as a whole; it begins alone"
        );
        assert_eq!(
            exceeded(&[("a", 5), ("b", 5), ("c", 1)]).unwrap(),
            "larger than maxMovingReplicas, 10: 11 replicas move at once, because it runs as a whole; it begins alone"
        );
        assert_eq!(RolloutBounds::default().exceeded(&arrivals(&[("a", 99)]), ""), None);
    }

    #[test]
    fn a_full_cluster_holds_up_only_what_goes_there() {
        let mut waves = Waves::new(RolloutBounds { incoming_per_cluster: Some(3), ..RolloutBounds::default() });
        assert_eq!(waves.try_begin(&arrivals(&[("a", 2)])), WaveDecision::Begin);
        assert_eq!(waves.try_begin(&arrivals(&[("a", 2)])), WaveDecision::Wait);
        assert_eq!(waves.try_begin(&arrivals(&[("a", 1)])), WaveDecision::Wait, "its turn is not taken");
        assert_eq!(waves.try_begin(&arrivals(&[("b", 3)])), WaveDecision::Begin);
    }

    #[test]
    fn what_only_leaves_counts_as_a_move_and_not_as_replicas() {
        let bounds = RolloutBounds { replicas: Some(1), concurrent: Some(2), ..RolloutBounds::default() };
        let mut waves = Waves::new(bounds);
        assert_eq!(waves.try_begin(&arrivals(&[("a", 1)])), WaveDecision::Begin);
        assert_eq!(waves.try_begin(&arrivals(&[])), WaveDecision::Begin);
        assert_eq!(waves.try_begin(&arrivals(&[])), WaveDecision::WaitAll);
    }

    #[test]
    fn arrivals_are_what_comes_in_addition() {
        let names: [Arc<str>; 2] = ["a".into(), "b".into()];
        let found = Arrivals::between([("a", 1), ("b", 3)], [(&names[0], 4), (&names[1], 2)]);
        assert_eq!(found, arrivals(&[("a", 3)]));
    }

    #[test]
    fn a_pause_is_as_long_as_the_interval_and_no_longer_whatever_the_clock_does() {
        assert_eq!(pause_until(60, None, 100_000), None);
        assert_eq!(pause_until(60, Some(90_000), 100_000), Some(150_000));
        assert_eq!(pause_until(60, Some(40_000), 100_000), None);
        assert_eq!(pause_until(60, Some(40_999), 100_000), Some(100_999), "it is not shorter than asked");
        assert_eq!(pause_until(60, Some(9_000_000), 100_000), Some(160_000));
        assert_eq!(pause_until(0, Some(100_000), 100_000), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bounds_hold_except_for_one_that_is_alone(
            concurrent in proptest::option::of(1..5i64),
            replicas in proptest::option::of(1..12i64),
            incoming_per_cluster in proptest::option::of(1..6i64),
            asked in proptest::collection::vec(proptest::collection::btree_map(0..3u8, 1..9i64, 0..3), 0..20),
        ) {
            let mut waves = Waves::new(RolloutBounds { concurrent, replicas, incoming_per_cluster });
            let (mut count, mut total, mut there) = (0, 0, BTreeMap::<Arc<str>, (i64, i64)>::new());
            let mut begun = 0;
            for asked in asked {
                let asked = Arrivals(asked.into_iter().map(|(at, n)| (at.to_string().into(), n)).collect());
                if waves.try_begin(&asked) != WaveDecision::Begin {
                    continue;
                }
                count += 1;
                begun += i64::from(asked.total() > 0);
                total += asked.total();
                for (cluster, n) in asked.0 {
                    let (moves, replicas) = there.entry(cluster).or_default();
                    (*moves, *replicas) = (*moves + 1, *replicas + n);
                }
            }
            prop_assert!(concurrent.is_none_or(|most| count <= most));
            prop_assert!(replicas.is_none_or(|most| total <= most || begun == 1));
            for (moves, replicas) in there.values() {
                prop_assert!(incoming_per_cluster.is_none_or(|most| *replicas <= most || *moves == 1));
            }
        }
    }
}
