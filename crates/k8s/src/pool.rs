//! Shares equal values of many objects: the name of their namespace, their labels, and their record
//! of managers. The objects of a rebalance or of a fleet were created in the same seconds by the
//! same programs, so these values take a large part of the memory of the objects in addition to
//! their texts.
//!
//! A value is compared with only one recent value, so the pool may miss an equal one. The number of
//! values that it keeps is bounded.

use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use foldhash::fast::RandomState;

/// Number of slots of a pool. The hash of a value selects its slot.
const PLACES: usize = 1_024;

/// The recent values of one type. For statics.
pub(super) struct Pool<T: ?Sized + 'static>(LazyLock<Places<T>>);

struct Places<T: ?Sized> {
    /// Values come from users, so the hasher has a random seed.
    hasher: RandomState,
    known: Box<[Mutex<Option<Arc<T>>>]>,
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    pub const fn new() -> Pool<T> {
        Pool(LazyLock::new(|| Places {
            hasher: RandomState::default(),
            known: (0..PLACES).map(|_| Mutex::default()).collect(),
        }))
    }

    /// Returns the equal value in the pool. If there is none, adds and returns this one.
    pub fn share(&self, value: Arc<T>) -> Arc<T> {
        let place = &self.0.known[self.0.hasher.hash_one(&value) as usize % PLACES];
        // After a panic the slot still holds a value or none.
        let mut known = place.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(same) if *same == value => Arc::clone(same),
            _ => Arc::clone(known.insert(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_memory_and_others_stay_as_they_are() {
        static NAMES: Pool<str> = Pool::new();
        let first = NAMES.share("shop".into());
        assert!(Arc::ptr_eq(&first, &NAMES.share("shop".into())));
        for number in 0..10 * PLACES {
            let name = format!("shop-{number}");
            assert_eq!(*NAMES.share(name.as_str().into()), *name);
        }
        let known = NAMES.0.known.iter().filter_map(|place| place.lock().unwrap().clone()).count();
        assert!(known > PLACES / 2 && known <= PLACES, "{known}");
    }
}
