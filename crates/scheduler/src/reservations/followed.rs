//! The clusters with accounts: those in the view, and those added since the accounts were built.
//!
//! A client may write a binding that names tens of thousands of clusters that do not exist. For
//! such names only hashes are kept. They detect that a new cluster is already named by bindings, in
//! which case the accounts have to be rebuilt.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::RandomState;
use imbl::{OrdMap, OrdSet};

/// The followed clusters. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// `None`: all clusters, whether they exist or not.
    names: Option<OrdSet<Arc<str>>>,
    /// The number of bindings that name another cluster, by the hash of its name.
    others: OrdMap<u64, u32>,
    hasher: RandomState,
}

impl Followed {
    pub fn of(names: impl IntoIterator<Item = Arc<str>>) -> Followed {
        Followed { names: Some(names.into_iter().collect()), ..Followed::default() }
    }

    pub fn has(&self, cluster: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(cluster))
    }

    pub fn hash_of(&self, cluster: &str) -> u64 {
        self.hasher.hash_one(cluster)
    }

    /// Returns whether the account of this cluster covers all bindings that name it.
    pub fn is_complete_for(&self, cluster: &str) -> bool {
        self.has(cluster) || !self.others.contains_key(&self.hash_of(cluster))
    }

    /// Follows another cluster. Its account lacks earlier bindings, so callers must check
    /// `is_complete_for` first.
    pub fn add(&mut self, cluster: &Arc<str>) {
        if let Some(names) = &mut self.names {
            names.insert(Arc::clone(cluster));
        }
    }

    /// Counts the names of other clusters in a binding.
    pub fn count_others(&mut self, hashes: &[u64]) {
        for hash in hashes {
            match self.others.get_mut(hash) {
                Some(count) => *count += 1,
                None => drop(self.others.insert(*hash, 1)),
            }
        }
    }

    /// Reverts `count_others`.
    pub fn forget_others(&mut self, hashes: &[u64]) {
        for hash in hashes {
            if let Some(count) = self.others.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    self.others.remove(hash);
                }
            }
        }
    }
}
