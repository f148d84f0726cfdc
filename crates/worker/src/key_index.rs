//! Numbers for keys. A set of numbers takes a tenth of the memory of a set of keys, and each key is
//! stored once.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use ballast_k8s::Key;

/// Keys with their numbers, starting from zero. The number of a removed key is reused.
#[derive(Default)]
pub struct KeyIndex {
    /// The numbers, hashed by their keys.
    numbers: HashTable<u32>,
    hasher: RandomState,
    keys: Vec<Option<Key>>,
    vacant: Vec<u32>,
}

impl KeyIndex {
    /// Returns the number of a key; assigns one if it has none.
    pub fn insert(&mut self, key: &Key) -> u32 {
        if let Some(known) = self.number(key) {
            return known;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.keys.push(None);
            self.keys.len() as u32 - 1
        });
        self.keys[number as usize] = Some(key.clone());
        let KeyIndex { numbers, hasher, keys, .. } = self;
        numbers.insert_unique(hasher.hash_one(key), number, |number| hasher.hash_one(key_of(keys, *number)));
        number
    }

    /// Removes a key, and returns its number.
    pub fn remove(&mut self, key: &Key) -> Option<u32> {
        let KeyIndex { numbers, hasher, keys, .. } = self;
        let entry = numbers.find_entry(hasher.hash_one(key), |number| key_of(keys, *number) == key).ok()?;
        let (number, _) = entry.remove();
        self.keys[number as usize] = None;
        self.vacant.push(number);
        Some(number)
    }

    pub fn number(&self, key: &Key) -> Option<u32> {
        let is_it = |number: &u32| key_of(&self.keys, *number) == key;
        self.numbers.find(self.hasher.hash_one(key), is_it).copied()
    }

    /// Returns the key with a number; `None` if there is none.
    pub fn key(&self, number: u32) -> Option<&Key> {
        self.keys.get(number as usize)?.as_ref()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

fn key_of(keys: &[Option<Key>], number: u32) -> &Key {
    keys[number as usize].as_ref().expect("numbers in use have a key")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use ballast_k8s::GroupResource;

    fn key(name: usize) -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", format!("web-{name}"))
    }

    proptest! {
        /// A key keeps its number until it is removed, numbers are unique, and they are reused.
        #[test]
        fn a_roster_is_a_map_from_keys_to_small_numbers(steps in prop::collection::vec((0_usize..12, any::<bool>()), 0..80)) {
            let (mut index, mut expected) = (KeyIndex::default(), BTreeMap::new());
            let mut most = 0_usize;
            for (name, goes) in steps {
                if goes {
                    prop_assert_eq!(index.remove(&key(name)), expected.remove(&name));
                } else {
                    let number = index.insert(&key(name));
                    prop_assert_eq!(*expected.entry(name).or_insert(number), number);
                }
                most = most.max(expected.len());
                for (name, number) in &expected {
                    prop_assert_eq!(index.number(&key(*name)), Some(*number));
                    prop_assert_eq!(index.key(*number), Some(&key(*name)));
                    prop_assert!((*number as usize) < most);
                }
                prop_assert_eq!(index.is_empty(), expected.is_empty());
            }
        }
    }
}
