//! Sets of numbers by name, for example the bindings on each cluster, by their numbers in a
//! `KeyIndex`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Names with their numbers. A name is stored once, and only while it has a number.
#[derive(Default)]
pub struct NumberSets(HashMap<Arc<str>, BTreeSet<u32>>);

impl NumberSets {
    /// Adds a number to a set, and returns the shared copy of the set's name.
    pub fn insert(&mut self, name: &str, number: u32) -> Arc<str> {
        if let Some((known, _)) = self.0.get_key_value(name) {
            let known = Arc::clone(known);
            self.0.entry(Arc::clone(&known)).or_default().insert(number);
            return known;
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name), BTreeSet::from([number]));
        name
    }

    pub fn remove(&mut self, name: &str, number: u32) {
        let Some(there) = self.0.get_mut(name) else { return };
        there.remove(&number);
        if there.is_empty() {
            self.0.remove(name);
        }
    }

    pub fn get(&self, name: &str) -> Option<&BTreeSet<u32>> {
        self.0.get(name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
