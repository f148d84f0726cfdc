//! The small set of bindings that a controller works on. It is updated by events, so any other
//! binding only costs a check of its flags when its spec changes.

use std::collections::BTreeSet;

use ballast_api::karmada::work::v1alpha2::{BINDINGS, differ_in_trigger};
use ballast_k8s::{Flag, Key, Object};
use ballast_watch::{Event, EventKind, View};

pub struct TrackedBindings {
    /// A tracked binding has at least one of these flags.
    flags: &'static [&'static Flag],
    keys: BTreeSet<Key>,
}

impl TrackedBindings {
    pub fn by(flags: &'static [&'static Flag]) -> TrackedBindings {
        TrackedBindings { flags, keys: BTreeSet::new() }
    }

    fn has_any(&self, object: &Object) -> bool {
        self.flags.iter().any(|flag| object.has(flag))
    }

    pub fn list(&mut self, view: &View) {
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        let tracked = bindings.filter(|object| self.has_any(object));
        self.keys = tracked.map(|object| object.key.clone()).collect();
    }

    /// Updates the set. Returns whether the binding is or was tracked.
    pub fn note(&mut self, event: &Event) -> bool {
        let object = &event.object;
        if event.kind == EventKind::Deleted {
            return self.keys.remove(&object.key);
        }
        let known = self.keys.contains(&object.key);
        let is_spec_kept = event.previous.as_ref().is_some_and(|previous| previous.generation == object.generation);
        if is_spec_kept || event.is_alike(differ_in_trigger) {
            return known;
        }
        match self.has_any(object) {
            true => self.keys.insert(object.key.clone()),
            false => self.keys.remove(&object.key),
        };
        known || self.keys.contains(&object.key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }
}
