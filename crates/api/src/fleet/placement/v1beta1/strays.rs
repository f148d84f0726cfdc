//! Finds strays: objects that belong to a placement by their label, but are not named after it.
//! Pure.
//!
//! The scheduler and the controllers name everything after its placement. So they find it without
//! reading all objects of the kind. Only users create strays, but strays count as much: for
//! example, a second binding of a cluster counts under any name.

use std::collections::BTreeMap;

use super::any::placement_of;
use super::names::binding_prefix;
use ballast_k8s::{Key, Object};

/// The strays of all placements. Events keep it up to date.
#[derive(Debug, Default)]
pub struct Strays {
    placements: BTreeMap<Key, Key>,
}

impl Strays {
    /// Replaces everything by the strays among these objects.
    pub fn list<'a>(&mut self, objects: impl Iterator<Item = &'a Object>) {
        self.placements.clear();
        objects.for_each(|object| self.note(object));
    }

    /// Records an object that was created or changed.
    pub fn note(&mut self, object: &Object) {
        let is_stray = |placement: &Key| !object.key.name.starts_with(binding_prefix(&placement.name));
        match placement_of(object).filter(is_stray) {
            Some(placement) => self.placements.insert(object.key.clone(), placement),
            None => self.placements.remove(&object.key),
        };
    }

    /// Records that an object was deleted.
    pub fn forget(&mut self, object: &Object) {
        self.placements.remove(&object.key);
    }

    /// The strays of a placement. Usually there are none.
    pub fn of(&self, placement: &Key) -> Vec<Key> {
        let strays = self.placements.iter().filter(|(_, of)| *of == placement);
        strays.map(|(stray, _)| stray.clone()).collect()
    }
}
