//! Turns: patches and applies of one object wait for each other. Without turns each would overtake
//! all the others but one, and a crowd of them would spend its time on retries.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use ballast_k8s::Key;

/// How often a patch is applied before it is answered with a conflict (PA4).
pub(super) const ATTEMPTS_MAX: usize = 8;
/// The number of locks. Objects whose keys share a lock wait for each other, which costs a little
/// time and nothing else.
const TURNS: usize = 1024;

/// The locks, chosen by the hash of the key.
pub(super) struct Turns {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Turns {
    pub fn new() -> Turns {
        Turns { locks: (0..TURNS).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }

    pub async fn take(&self, key: &Key) -> MutexGuard<'_, ()> {
        let place = self.hasher.hash_one(key) % TURNS as u64;
        self.locks[place as usize].lock().await
    }
}
