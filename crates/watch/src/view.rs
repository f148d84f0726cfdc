//! The exact state of all kinds at one revision.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::RangedIter;

use ballast_k8s::{GroupResource, Key, Object, Revision};

use super::window::{Event, EventKind};

/// An immutable snapshot. Views share their unchanged objects, so holding an old one costs only the
/// objects that have changed since.
#[derive(Clone, Debug)]
pub struct View {
    pub revision: Revision,
    kinds: BTreeMap<GroupResource, Objects>,
    /// The size of the stored objects per namespace, in bytes. Cluster-scoped objects count for the
    /// namespace "".
    bytes: OrdMap<Arc<str>, usize>,
}

type Objects = OrdMap<NamespacedName, Arc<Object>>;

/// Namespace and name, ordered as in a list.
type NamespacedName = (Arc<str>, Arc<str>);

/// A borrowed position to search for.
#[derive(Clone, Copy)]
enum SearchKey<'a> {
    At(&'a str, &'a str),
    /// The position after the last object of this namespace, before the next namespace.
    EndOf(&'a str),
}

impl View {
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.kinds.get(&key.resource)?.get(&SearchKey::At(&key.namespace, &key.name))
    }

    /// Returns the objects of a kind in key order. `None` means all namespaces.
    pub fn list(&self, resource: GroupResource, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Object>> {
        let start = Bound::Included(SearchKey::At(namespace.unwrap_or_default(), ""));
        self.range(resource, start, namespace)
    }

    /// Returns the objects after `(namespace, name)` in key order: the next page of a list.
    pub fn list_after<'a>(
        &'a self,
        resource: GroupResource,
        namespace: Option<&str>,
        after: (&str, &str),
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        // A position outside the namespace must not widen the list to other namespaces.
        let start = match namespace {
            Some(namespace) if after.0 < namespace => Bound::Included(SearchKey::At(namespace, "")),
            Some(namespace) if after.0 > namespace => Bound::Excluded(SearchKey::EndOf(namespace)),
            _ => Bound::Excluded(SearchKey::At(after.0, after.1)),
        };
        self.range(resource, start, namespace)
    }

    /// Returns the objects with names that begin with `prefix`, in key order. The namespace is
    /// empty for cluster-scoped kinds.
    pub fn list_prefixed<'a>(
        &'a self,
        resource: GroupResource,
        namespace: &'a str,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let from = Bound::Included(SearchKey::At(namespace, prefix));
        self.range(resource, from, Some(namespace)).take_while(move |object| object.key.name.starts_with(prefix))
    }

    /// Returns the number of objects. Constant time without a namespace; with one, the namespace is
    /// walked.
    pub fn count(&self, resource: GroupResource, namespace: Option<&str>) -> usize {
        match namespace {
            None => self.kinds.get(&resource).map_or(0, OrdMap::len),
            Some(_) => self.list(resource, namespace).count(),
        }
    }

    /// Returns the size of the stored objects of a namespace, of all kinds, in bytes.
    pub fn namespace_bytes(&self, namespace: &str) -> usize {
        self.bytes.get(namespace).copied().unwrap_or_default()
    }

    /// Returns the maximum of `namespace_bytes` over all namespaces.
    pub fn namespace_bytes_max(&self) -> usize {
        let namespaces = self.bytes.iter().filter(|(namespace, _)| !namespace.is_empty());
        namespaces.map(|(_, bytes)| *bytes).max().unwrap_or_default()
    }

    fn range<'a>(
        &'a self,
        resource: GroupResource,
        start: Bound<SearchKey<'_>>,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let end = namespace.map_or(Bound::Unbounded, |namespace| Bound::Excluded(SearchKey::EndOf(namespace)));
        let objects = self.kinds.get(&resource);
        let found: Option<RangedIter<'a, _, _, _>> = objects.map(|objects| objects.range((start, end)));
        found.into_iter().flatten().map(|(_, object)| object)
    }

    /// Creates a view of these objects, for commands that read views without a server.
    pub fn of(objects: impl IntoIterator<Item = Arc<Object>>) -> View {
        let mut view = View::empty_at(Revision(1));
        objects.into_iter().for_each(|object| view.insert(object));
        view
    }

    /// Adds or replaces an object in this copy of a view.
    pub fn put(&mut self, object: Arc<Object>) {
        self.insert(object);
    }

    /// Returns the kinds that have, or had, objects.
    pub(super) fn kinds(&self) -> Vec<GroupResource> {
        self.kinds.keys().copied().collect()
    }

    pub(super) fn empty_at(revision: Revision) -> View {
        View { revision, kinds: BTreeMap::new(), bytes: OrdMap::new() }
    }

    /// Returns the same state at another revision.
    pub(super) fn at(&self, revision: Revision) -> View {
        View { revision, kinds: self.kinds.clone(), bytes: self.bytes.clone() }
    }

    /// Returns whether both views share the objects of a kind. Compares pointers, so `false` does
    /// not mean that the objects differ.
    pub(super) fn shares(&self, other: &View, kind: GroupResource) -> bool {
        match (self.kinds.get(&kind), other.kinds.get(&kind)) {
            (Some(one), Some(other)) => one.ptr_eq(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Returns the same state restricted to some kinds; keeps no objects of other kinds in memory.
    pub fn only(&self, kinds: &[GroupResource]) -> View {
        let wanted = self.kinds.iter().filter(|(kind, _)| kinds.contains(kind));
        let kinds = wanted.map(|(kind, objects)| (*kind, objects.clone())).collect();
        View { revision: self.revision, kinds, bytes: self.bytes.clone() }
    }

    pub(super) fn insert(&mut self, object: Arc<Object>) {
        let key = &object.key;
        let place = (key.namespace.clone(), key.name.clone());
        let (namespace, bytes) = (key.namespace.clone(), object.text.len());
        let before = self.kinds.entry(key.resource).or_default().insert(place, object);
        self.count_bytes(namespace, bytes, before.map_or(0, |before| before.text.len()));
    }

    fn count_bytes(&mut self, namespace: Arc<str>, added: usize, removed: usize) {
        if added == removed {
            return;
        }
        match (self.namespace_bytes(&namespace) + added).saturating_sub(removed) {
            0 => self.bytes.remove(&namespace),
            bytes => self.bytes.insert(namespace, bytes),
        };
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let Some(objects) = self.kinds.get_mut(&key.resource) else { return };
        if let Some(removed) = objects.remove(&SearchKey::At(&key.namespace, &key.name)) {
            self.count_bytes(key.namespace.clone(), 0, removed.text.len());
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &Event) {
        match event.kind {
            EventKind::Created | EventKind::Updated => self.insert(event.object.clone()),
            EventKind::Deleted => self.remove(&event.object.key),
        }
        self.revision = event.revision;
    }

    /// Reverts an event. The caller sets the revision, because an event does not contain the
    /// previous one.
    pub(super) fn undo(&mut self, event: &Event) {
        match &event.previous {
            Some(previous) => self.insert(previous.clone()),
            None => self.remove(&event.object.key),
        }
    }
}

impl equivalent::Comparable<NamespacedName> for SearchKey<'_> {
    fn compare(&self, place: &NamespacedName) -> Ordering {
        match *self {
            SearchKey::At(namespace, name) => compare(namespace, &place.0).then_with(|| name.cmp(&place.1)),
            SearchKey::EndOf(namespace) => compare(namespace, &place.0).then(Ordering::Greater),
        }
    }
}

/// Compares strings. Objects and keys usually share the allocation of their namespace, so addresses
/// are compared first.
fn compare(namespace: &str, other: &str) -> Ordering {
    if std::ptr::eq(namespace, other) { Ordering::Equal } else { namespace.cmp(other) }
}

impl equivalent::Equivalent<NamespacedName> for SearchKey<'_> {
    fn equivalent(&self, place: &NamespacedName) -> bool {
        equivalent::Comparable::compare(self, place) == Ordering::Equal
    }
}
