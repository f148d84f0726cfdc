//! The runs of rebalances that the loop keeps between steps.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::record::Owner;
use crate::run::{ActiveMove, Run, UnreportedReplicas};
use ballast_k8s::{Key, Time};

#[derive(Default)]
pub struct RunCache {
    /// By rebalance, except the current one.
    runs: HashMap<Key, Run>,
    working: Option<CheckedOut>,
    /// Rebalances that wait for a user. Their runs are not kept.
    suspended: HashSet<Key>,
    /// The undos that wait for a rebalance, by that rebalance.
    awaited: HashMap<Key, HashSet<Key>>,
    /// The end of finished rebalances with a time to live. Never in the future.
    ended: HashMap<Key, Time>,
}

/// The changes during the work on a rebalance.
struct CheckedOut {
    key: Key,
    /// Bindings that have changed.
    changed: HashSet<Key>,
    /// Clusters with changed labels or spec.
    clusters: HashSet<String>,
    /// Whether the run is invalid.
    is_void: bool,
}

impl RunCache {
    /// Records that a binding changed. Returns the rebalances that have to examine it.
    pub fn note(&mut self, binding: &Key) -> Vec<Key> {
        if let Some(working) = &mut self.working {
            working.changed.insert(binding.clone());
        }
        let mut concerned = Vec::new();
        for (key, run) in &mut self.runs {
            if run.moving.contains_key(binding) {
                run.dirty.insert(binding.clone());
                concerned.push(key.clone());
            } else if run.held_up.contains(binding) {
                concerned.push(key.clone());
            }
        }
        concerned
    }

    /// Records that the labels, spec or taints of a cluster changed. Returns the rebalances that
    /// move replicas to it, or drain it.
    pub fn note_cluster(&mut self, cluster: &str) -> Vec<Key> {
        if let Some(working) = &mut self.working {
            working.clusters.insert(cluster.to_owned());
        }
        let concerns = |(key, run): (&Key, &mut Run)| mark_arrivals(run, cluster).then(|| key.clone());
        self.runs.iter_mut().filter_map(concerns).collect()
    }

    /// Takes the run of a rebalance, and the unreported replicas of all others.
    pub fn check_out(&mut self, owner: &Owner) -> (Option<Run>, Vec<UnreportedReplicas>) {
        self.suspended.remove(&owner.key);
        self.working = Some(CheckedOut {
            key: owner.key.clone(),
            changed: HashSet::new(),
            clusters: HashSet::new(),
            is_void: false,
        });
        // Another rebalance may have the name now.
        let known = self.runs.remove(&owner.key).filter(|run| run.owner == owner.uid);
        (known, self.runs.values().map(|run| run.unreported.clone()).collect())
    }

    /// Puts the run back. Returns whether its bindings or clusters changed meanwhile.
    pub fn check_in(&mut self, key: Key, mut run: Run) -> bool {
        let Some(CheckedOut { changed, clusters, is_void: false, .. }) = self.working.take() else { return true };
        let mut is_reselected = false;
        clusters.iter().for_each(|cluster| is_reselected |= mark_arrivals(&mut run, cluster));
        let is_freed = changed.iter().any(|key| run.held_up.contains(key));
        let changed: BTreeSet<Key> = changed.into_iter().filter(|key| run.moving.contains_key(key)).collect();
        let is_changed = is_freed || is_reselected || !changed.is_empty();
        run.dirty.extend(changed);
        self.runs.insert(key, run);
        is_changed
    }

    /// Ends the work on a rebalance that waits for a user and has no move in progress. Its run is
    /// loaded again when it continues, because the run would take a fifth of the memory of its
    /// Moves. Returns whether it changed meanwhile.
    pub fn suspend(&mut self, key: Key) -> bool {
        let is_void = self.working.take().is_none_or(|working| working.is_void);
        if !is_void {
            self.suspended.insert(key);
        }
        is_void
    }

    /// Records that an undo waits for a change of another rebalance.
    pub fn wait_for(&mut self, other: &Key, undo: &Key) {
        self.awaited.entry(other.clone()).or_default().insert(undo.clone());
    }

    /// Takes the undos that wait for a change of this rebalance.
    pub fn take_waiting(&mut self, other: &Key) -> HashSet<Key> {
        self.awaited.remove(other).unwrap_or_default()
    }

    /// Drops the run after a failed write.
    pub fn discard(&mut self) {
        self.working = None;
    }

    /// Drops the run of a rebalance, because it or one of its Moves was deleted. Returns whether
    /// there was one.
    pub fn forget(&mut self, key: &Key) -> bool {
        self.ended.remove(key);
        let working = self.working.as_mut().filter(|working| working.key == *key);
        let is_worked_on = working.is_some();
        working.into_iter().for_each(|working| working.is_void = true);
        let is_suspended = self.suspended.remove(key);
        self.runs.remove(key).is_some() || is_worked_on || is_suspended
    }

    /// Drops the run of a finished rebalance.
    pub fn forget_run(&mut self, key: &Key) {
        self.runs.remove(key);
    }

    /// Returns the end of a rebalance. If the clock was set back since, the end is now, and stays.
    pub fn ended(&mut self, key: &Key, finished: Time, now: Time) -> Time {
        let known = self.ended.entry(key.clone()).or_insert(finished);
        *known = (*known).min(finished).min(now);
        *known
    }
}

/// Marks the bindings with moves that bring replicas to a cluster. Returns whether there are any,
/// or the cluster is drained.
fn mark_arrivals(run: &mut Run, cluster: &str) -> bool {
    let arrives = |moving: &ActiveMove| moving.to.iter().any(|share| share.name == *cluster);
    let concerned: Vec<Key> =
        run.moving.iter().filter(|(_, moving)| arrives(moving)).map(|(key, _)| key.clone()).collect();
    let is_any = !concerned.is_empty();
    run.dirty.extend(concerned);
    is_any || run.drained.iter().any(|name| *name == *cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CLUSTER_REBALANCES;

    fn owner(uid: &str) -> Owner {
        Owner { key: Key::cluster(CLUSTER_REBALANCES, "home"), uid: uid.to_owned() }
    }

    #[test]
    fn what_was_forgotten_while_it_was_worked_on_is_not_put_back() {
        let mut cache = RunCache::default();
        let (_, unreported) = cache.check_out(&owner("1"));
        assert!(unreported.is_empty());
        assert!(cache.forget(&owner("1").key));
        assert!(cache.check_in(owner("1").key, Run::default()));
        assert!(cache.runs.is_empty());
    }

    #[test]
    fn one_that_rests_is_known_until_it_goes_on_or_is_forgotten() {
        let (mut cache, of) = (RunCache::default(), owner("1"));
        cache.check_out(&of);
        assert!(!cache.suspend(of.key.clone()));
        assert!(cache.runs.is_empty());
        assert!(cache.forget(&of.key), "a Move of it is gone, so it is looked at");
        assert!(!cache.forget(&of.key));
        cache.check_out(&of);
        assert!(!cache.suspend(of.key.clone()));
        assert!(cache.check_out(&of).0.is_none());
        assert!(cache.suspended.is_empty());
        cache.forget(&of.key);
        assert!(cache.suspend(of.key.clone()), "what happened meanwhile is looked at");
        assert!(cache.suspended.is_empty());
    }

    #[test]
    fn a_rebalance_does_not_inherit_what_is_remembered_of_another_of_its_name() {
        let mut cache = RunCache::default();
        for (uid, is_known) in [("1", false), ("1", true), ("2", false)] {
            let (known, _) = cache.check_out(&owner(uid));
            assert_eq!(known.is_some(), is_known, "{uid}");
            let run = Run { owner: "1".to_owned(), ..Run::default() };
            assert!(!cache.check_in(owner(uid).key, run));
        }
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_put_off_an_end() {
        let (mut cache, key) = (RunCache::default(), owner("1").key);
        let at = Time::from_seconds;
        assert_eq!(cache.ended(&key, at(100), at(130)), at(100));
        assert_eq!(cache.ended(&key, at(100), at(40)), at(40));
        assert_eq!(cache.ended(&key, at(100), at(70)), at(40), "the clock goes on");
    }
}
