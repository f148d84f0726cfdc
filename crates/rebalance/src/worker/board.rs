//! What the loop remembers of the rebalances between two steps.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::record::Owner;
use crate::run::{Ledger, Run};
use ballast_k8s::{Key, Time};

#[derive(Default)]
pub struct Board {
    /// By rebalance. The one that is worked on is not here.
    runs: HashMap<Key, Run>,
    working: Option<Working>,
    /// Rebalances that wait for somebody, of which nothing is remembered.
    resting: HashSet<Key>,
    /// When finished rebalances ended, for those with a time to live. Never in the future.
    ended: HashMap<Key, Time>,
}

/// What happens while a rebalance is worked on.
struct Working {
    key: Key,
    /// Bindings that have changed.
    changed: HashSet<Key>,
    /// What is remembered of the rebalance has become wrong.
    is_void: bool,
}

impl Board {
    /// Notes that a binding changed. Returns the rebalances that have to look at it.
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

    /// Takes what is remembered of a rebalance, and what all others have under way.
    pub fn take(&mut self, owner: &Owner) -> (Option<Run>, Vec<Ledger>) {
        self.resting.remove(&owner.key);
        self.working = Some(Working { key: owner.key.clone(), changed: HashSet::new(), is_void: false });
        // Another one may have got the name.
        let known = self.runs.remove(&owner.key).filter(|run| run.owner == owner.uid);
        (known, self.runs.values().map(|run| run.ledger.clone()).collect())
    }

    /// Puts back what was worked on. Returns whether something of it changed meanwhile.
    pub fn put_back(&mut self, key: Key, mut run: Run) -> bool {
        let Some(Working { changed, is_void: false, .. }) = self.working.take() else { return true };
        let is_freed = changed.iter().any(|key| run.held_up.contains(key));
        let changed: BTreeSet<Key> = changed.into_iter().filter(|key| run.moving.contains_key(key)).collect();
        let is_changed = is_freed || !changed.is_empty();
        run.dirty.extend(changed);
        self.runs.insert(key, run);
        is_changed
    }

    /// Ends the work on a rebalance that waits for somebody, and has nothing under way. What was
    /// remembered of it is made again when it goes on: kept, it would be a fifth of the memory of
    /// its Moves. Returns whether something of it changed meanwhile.
    pub fn put_to_rest(&mut self, key: Key) -> bool {
        let is_void = self.working.take().is_none_or(|working| working.is_void);
        if !is_void {
            self.resting.insert(key);
        }
        is_void
    }

    /// What was worked on has not been written, and is not put back.
    pub fn give_up(&mut self) {
        self.working = None;
    }

    /// Forgets what is remembered of a rebalance, because it or one of its Moves is gone. Returns
    /// whether anything was.
    pub fn forget(&mut self, key: &Key) -> bool {
        self.ended.remove(key);
        let working = self.working.as_mut().filter(|working| working.key == *key);
        let is_worked_on = working.is_some();
        working.into_iter().for_each(|working| working.is_void = true);
        let is_resting = self.resting.remove(key);
        self.runs.remove(key).is_some() || is_worked_on || is_resting
    }

    /// Forgets the run of a rebalance that is over.
    pub fn forget_run(&mut self, key: &Key) {
        self.runs.remove(key);
    }

    /// When a rebalance ended, by a clock that may have been set back since: then it has ended now,
    /// and stays so.
    pub fn ended(&mut self, key: &Key, finished: Time, now: Time) -> Time {
        let known = self.ended.entry(key.clone()).or_insert(finished);
        *known = (*known).min(finished).min(now);
        *known
    }
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
        let mut board = Board::default();
        let (_, ledgers) = board.take(&owner("1"));
        assert!(ledgers.is_empty());
        assert!(board.forget(&owner("1").key));
        assert!(board.put_back(owner("1").key, Run::default()));
        assert!(board.runs.is_empty());
    }

    #[test]
    fn one_that_rests_is_known_until_it_goes_on_or_is_forgotten() {
        let (mut board, of) = (Board::default(), owner("1"));
        board.take(&of);
        assert!(!board.put_to_rest(of.key.clone()));
        assert!(board.runs.is_empty());
        assert!(board.forget(&of.key), "a Move of it is gone, so it is looked at");
        assert!(!board.forget(&of.key));
        board.take(&of);
        assert!(!board.put_to_rest(of.key.clone()));
        assert!(board.take(&of).0.is_none());
        assert!(board.resting.is_empty());
        board.forget(&of.key);
        assert!(board.put_to_rest(of.key.clone()), "what happened meanwhile is looked at");
        assert!(board.resting.is_empty());
    }

    #[test]
    fn a_rebalance_does_not_inherit_what_is_remembered_of_another_of_its_name() {
        let mut board = Board::default();
        for (uid, is_known) in [("1", false), ("1", true), ("2", false)] {
            let (known, _) = board.take(&owner(uid));
            assert_eq!(known.is_some(), is_known, "{uid}");
            let run = Run { owner: "1".to_owned(), ..Run::default() };
            assert!(!board.put_back(owner(uid).key, run));
        }
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_put_off_an_end() {
        let (mut board, key) = (Board::default(), owner("1").key);
        let at = Time::from_seconds;
        assert_eq!(board.ended(&key, at(100), at(130)), at(100));
        assert_eq!(board.ended(&key, at(100), at(40)), at(40));
        assert_eq!(board.ended(&key, at(100), at(70)), at(40), "the clock goes on");
    }
}
