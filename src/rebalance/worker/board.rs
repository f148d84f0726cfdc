//! What the loop remembers of the rebalances between two steps.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::k8s::Key;
use crate::rebalance::run::Run;

#[derive(Default)]
pub struct Board {
    /// By rebalance. The one that is worked on is not here.
    pub runs: HashMap<Key, Run>,
    /// Bindings that changed while a rebalance was worked on.
    pub changed: HashSet<Key>,
    pub is_working: bool,
}

impl Board {
    /// Notes that a binding changed. Returns the rebalances that have to look at it.
    pub fn note(&mut self, binding: &Key) -> Vec<Key> {
        if self.is_working {
            self.changed.insert(binding.clone());
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

    /// Puts back what was worked on. Returns whether something of it changed meanwhile.
    pub fn put_back(&mut self, key: Key, mut run: Run) -> bool {
        let is_freed = self.changed.iter().any(|key| run.held_up.contains(key));
        let changed: BTreeSet<Key> = self.changed.drain().filter(|key| run.moving.contains_key(key)).collect();
        let is_changed = is_freed || !changed.is_empty();
        run.dirty.extend(changed);
        self.is_working = false;
        self.runs.insert(key, run);
        is_changed
    }
}
