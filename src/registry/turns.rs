//! Patches and applies of one object take turns. Each would otherwise overtake all the others but
//! one, and a crowd of them would spend its time on being overtaken.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use crate::k8s::Key;

/// How often a patch is applied before the caller is told that others are quicker (PA4).
pub(super) const ATTEMPTS_MAX: usize = 8;
/// Objects whose keys meet in one of these take turns together: a little waiting, and no harm.
const TURNS: usize = 1024;

/// Who may patch which object now.
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
