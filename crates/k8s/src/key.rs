//! The key of an object: the resource, a namespace and a name.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// A resource as the store identifies it, `<plural>.<group>` (`resourcebindings.work.karmada.io`).
/// All served versions of a kind share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource(&'static str);

static INTERNED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl GroupResource {
    /// Creates the resource of this name: `resourcebindings.work.karmada.io`, or `events` in the
    /// core group.
    pub const fn new(name: &'static str) -> GroupResource {
        GroupResource(name)
    }

    /// Returns the resource of this name, for names from a database. Each distinct name stays
    /// allocated for the life of the process, so call this only with names from a row or from the
    /// log.
    pub fn intern(name: &str) -> GroupResource {
        let mut interned = INTERNED.lock().expect("no holder of this lock can panic");
        if let Some(known) = interned.get(name) {
            return GroupResource(known);
        }
        let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
        interned.insert(kept);
        GroupResource(kept)
    }

    /// Returns the full name: `resourcebindings.work.karmada.io`.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// Returns the plural: `resourcebindings` of `resourcebindings.work.karmada.io`.
    pub fn resource(self) -> &'static str {
        self.0.split_once('.').map_or(self.0, |(resource, _)| resource)
    }

    /// Returns the API group: `work.karmada.io` of `resourcebindings.work.karmada.io`, and empty
    /// for the core group.
    pub fn group(self) -> &'static str {
        self.0.split_once('.').map_or("", |(_, group)| group)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The key of an object. Keys are ordered by kind, then namespace, then name, bytewise, which is
/// the order of a LIST (CH10).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub resource: GroupResource,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    /// Creates the key of an object in a namespace.
    pub fn namespaced(resource: GroupResource, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Key {
        Key { resource, namespace: namespace.into(), name: name.into() }
    }

    /// Creates the key of a cluster-scoped object.
    pub fn cluster(resource: GroupResource, name: impl Into<Arc<str>>) -> Key {
        Key { resource, namespace: Arc::from(""), name: name.into() }
    }
}

impl Hash for Key {
    /// Hashes only the length of the resource name; equality compares the name itself. Tables of a
    /// million keys hash keys very often, and objects of different kinds rarely share their
    /// namespace and name.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.resource.as_str().len());
        self.namespace.hash(state);
        self.name.hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{}/{}", self.resource, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.resource, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_is_interned_once() {
        let first = GroupResource::intern("clusters.cluster.karmada.io");
        let second = GroupResource::intern(&String::from("clusters.cluster.karmada.io"));
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
        assert_eq!((first.resource(), first.group()), ("clusters", "cluster.karmada.io"));
    }

    #[test]
    fn keys_sort_by_namespace_before_name() {
        let kind = GroupResource::new("resourcebindings.work.karmada.io");
        let early = Key::namespaced(kind, "a", "z");
        let late = Key::namespaced(kind, "b", "a");
        assert!(early < late);
    }
}
