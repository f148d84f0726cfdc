//! The rules that every back end checks a commit against, and the end of the log that followers
//! wait for.

use std::collections::HashMap;
#[cfg(feature = "postgres")]
use std::collections::HashSet;

use foldhash::fast::RandomState;
use tokio::sync::watch;

use super::{Change, Error, Operation};
use ballast_k8s::{Key, Revision};

/// The end of the log: the state needed to check whether changes continue it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    pub last: Revision,
    /// The newest revision of each live key.
    pub newest: NewestOf,
}

/// A map from each live key to its newest revision. Keys come from users, so the hasher is seeded
/// randomly; it is several times faster than the default one.
pub(super) type NewestOf = HashMap<Key, Revision, RandomState>;

impl Heads {
    /// Returns the heads that `changes` assume, and which changes are the first of their key: the
    /// first change of each key is taken to replace the state that it names. The rest of the check
    /// needs only the changes.
    #[cfg(feature = "postgres")]
    pub fn supposed(changes: &[Change]) -> (Heads, Vec<bool>) {
        let last = changes.first().map_or(0, |first| first.revision.0 - 1);
        let mut heads = Heads { last: Revision(last), newest: NewestOf::default() };
        let mut seen: HashSet<&Key, RandomState> = HashSet::default();
        let is_first = changes.iter().map(|change| {
            let is_first = seen.insert(&change.key);
            if is_first && change.previous > Revision::ZERO {
                heads.newest.insert(change.key.clone(), change.previous);
            }
            is_first
        });
        let is_first = is_first.collect();
        (heads, is_first)
    }

    /// Checks that each revision is the next one, and that each change replaces the newest state of
    /// its key.
    pub fn check(&self, changes: &[Change]) -> Result<(), Error> {
        let mut last = self.last;
        let mut pending: HashMap<&Key, Revision, RandomState> =
            HashMap::with_capacity_and_hasher(changes.len(), RandomState::default());
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
                // Keeps the old key, which shares its allocation with the object in the cache.
                Operation::Update => drop(self.newest.get_mut(&change.key).map(|newest| *newest = change.revision)),
                Operation::Delete => drop(self.newest.remove(&change.key)),
            }
            self.last = change.revision;
        }
    }
}

/// The end of a log that only this process writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub last: Revision,
    /// The number of resignations.
    pub resigned: u64,
}

impl Newest {
    /// Waits until there is a change after a revision, or a leader resigns.
    pub async fn wait(newest: &watch::Sender<Newest>, after: Revision) {
        let mut heard = newest.subscribe();
        let resigned = heard.borrow().resigned;
        // The borrow keeps the sender alive.
        let _ = heard.wait_for(|newest| newest.last > after || newest.resigned != resigned).await;
    }
}
