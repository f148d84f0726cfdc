//! One lock for each object: patches and applies of one object wait for each other. Without the
//! lock, one of many concurrent patches would succeed and all others would have to be tried again.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use ballast_k8s::Key;

/// How often a patch is applied before it is answered with a conflict (PA4).
pub(super) const ATTEMPTS_MAX: usize = 8;
/// The number of locks. Objects that share a lock wait for each other, too, which only costs time.
const LOCKS: usize = 1024;

/// The locks, chosen by the hash of the key.
pub(super) struct KeyedLocks {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl KeyedLocks {
    pub fn new() -> KeyedLocks {
        KeyedLocks { locks: (0..LOCKS).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }

    pub async fn lock(&self, key: &Key) -> MutexGuard<'_, ()> {
        let index = self.hasher.hash_one(key) % LOCKS as u64;
        self.locks[index as usize].lock().await
    }
}
