//! The few bindings that a controller works on, out of very many. They are kept in step with the
//! events, so any other binding only costs a search in its text when its spec changes.

use std::collections::BTreeSet;

use memchr::memmem::Finder;

use ballast_api::karmada::work::v1alpha2::{BINDINGS, differ_in_trigger};
use ballast_k8s::{Key, Object};
use ballast_watch::{Event, EventKind, View};

pub struct TrackedBindings {
    /// A field that only these bindings have. If the text appears elsewhere in an object, the
    /// controller reads that object in vain.
    field: Finder<'static>,
    keys: BTreeSet<Key>,
}

impl TrackedBindings {
    pub fn by(field: &'static str) -> TrackedBindings {
        TrackedBindings { field: Finder::new(field), keys: BTreeSet::new() }
    }

    pub fn list(&mut self, view: &View) {
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        self.keys = bindings.filter(|object| self.has_field(object)).map(|object| object.key.clone()).collect();
    }

    /// Whether the binding is one of these, or was until now.
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
        match self.has_field(object) {
            true => self.keys.insert(object.key.clone()),
            false => self.keys.remove(&object.key),
        };
        known || self.keys.contains(&object.key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    fn has_field(&self, object: &Object) -> bool {
        self.field.find(&object.text.content()).is_some()
    }
}
