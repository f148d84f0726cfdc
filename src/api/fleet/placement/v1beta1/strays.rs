//! What belongs to a placement by its label, and is not named after it. Pure.
//!
//! The scheduler and the controllers name all they make after its placement, and so find it without
//! a walk over the whole kind. Only hands make anything else, which counts as much: a second
//! binding on a cluster is one under any name.

use std::collections::BTreeMap;

use super::any::placement_of;
use super::names::binding_prefix;
use crate::k8s::{Key, Object};

/// The strays of all placements, kept in step with the events.
#[derive(Debug, Default)]
pub struct Strays {
    placements: BTreeMap<Key, Key>,
}

impl Strays {
    pub fn list<'a>(&mut self, objects: impl Iterator<Item = &'a Object>) {
        self.placements.clear();
        objects.for_each(|object| self.note(object));
    }

    /// An object that was made or changed.
    pub fn note(&mut self, object: &Object) {
        let is_stray = |placement: &Key| !object.key.name.starts_with(binding_prefix(&placement.name));
        match placement_of(object).filter(is_stray) {
            Some(placement) => self.placements.insert(object.key.clone(), placement),
            None => self.placements.remove(&object.key),
        };
    }

    /// An object that is gone.
    pub fn forget(&mut self, object: &Object) {
        self.placements.remove(&object.key);
    }

    /// There are few of them, if any.
    pub fn of(&self, placement: &Key) -> Vec<Key> {
        let strays = self.placements.iter().filter(|(_, of)| *of == placement);
        strays.map(|(stray, _)| stray.clone()).collect()
    }
}
