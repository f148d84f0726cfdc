//! An index of misnamed objects: objects that belong to a placement by their label, but are not
//! named after it. Pure.
//!
//! The scheduler and the controllers name every object after its placement, and so find it without
//! reading all objects of the kind. Only users create misnamed objects, but these are equally
//! valid: for example, a second binding of a cluster counts, whatever its name is.

use std::collections::BTreeMap;

use super::any::placement_of;
use super::names::binding_prefix;
use ballast_k8s::{Key, Object};

/// The misnamed objects of all placements. Events keep the index up to date.
#[derive(Debug, Default)]
pub struct Strays {
    placements: BTreeMap<Key, Key>,
}

impl Strays {
    /// Rebuilds the index from these objects.
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

    /// Returns the misnamed objects of a placement. Usually there are none.
    pub fn of(&self, placement: &Key) -> Vec<Key> {
        let strays = self.placements.iter().filter(|(_, of)| *of == placement);
        strays.map(|(stray, _)| stray.clone()).collect()
    }
}
