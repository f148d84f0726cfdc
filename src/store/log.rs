//! The rules that every back end checks a commit against.

use std::collections::HashMap;

use super::{Change, Error, Operation};
use crate::k8s::{Key, Revision};

/// The end of the log: enough to say whether changes continue it.
#[derive(Debug, Default)]
pub(super) struct Heads {
    pub last: Revision,
    /// The newest revision of each live key.
    pub newest: HashMap<Key, Revision>,
}

impl Heads {
    pub fn of(last: Revision, states: &[Change]) -> Heads {
        Heads { last, newest: states.iter().map(|state| (state.key.clone(), state.revision)).collect() }
    }

    /// Each revision must be the next one, and each change must replace the newest state of its
    /// key.
    pub fn check(&self, changes: &[Change]) -> Result<(), Error> {
        let mut last = self.last;
        let mut pending: HashMap<&Key, Revision> = HashMap::new();
        for change in changes {
            let state = pending.get(&change.key).or_else(|| self.newest.get(&change.key));
            let previous = state.copied().unwrap_or(Revision::ZERO);
            let creates = change.operation == Operation::Create;
            let follows = change.revision == last.next() && change.previous == previous;
            if !follows || creates != (previous == Revision::ZERO) {
                return Err(Error::Conflict { key: change.key.clone() });
            }
            let gone = change.operation == Operation::Delete;
            pending.insert(&change.key, if gone { Revision::ZERO } else { change.revision });
            last = change.revision;
        }
        Ok(())
    }

    pub fn follow(&mut self, changes: &[Change]) {
        for change in changes {
            match change.operation {
                Operation::Create => drop(self.newest.insert(change.key.clone(), change.revision)),
                // Keeps the old key, which shares its text with the object in the cache.
                Operation::Update => drop(self.newest.get_mut(&change.key).map(|newest| *newest = change.revision)),
                Operation::Delete => drop(self.newest.remove(&change.key)),
            }
            self.last = change.revision;
        }
    }
}
