//! Compares the objects of a source with the states of a log, kind by kind. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Tree, shown_name};
use ballast_k8s::{Document, Key, Revision};
use ballast_registry as registry;
use ballast_resource::ResourceKind;

/// The state of a key in a log. The object itself is not kept, because a log may be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredState {
    pub revision: Revision,
    /// The revision at which the object was created.
    pub created: Revision,
    pub digest: Fingerprint,
}

/// A hash that is equal for equal objects, regardless of their `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(object: &Tree) -> Fingerprint {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        // The members of a tree are sorted, so equal trees have one text.
        let text = serde_json::to_vec(&object).expect("a tree of JSON values always serializes");
        Fingerprint(Sha256::digest(text).into())
    }
}

/// The result of comparing the objects of one kind.
#[derive(Debug, Default)]
pub struct Comparison {
    pub read: usize,
    pub same: usize,
    /// Stored as text, which takes a tenth of the memory of trees.
    pub new: Vec<(Key, Document)>,
    pub changed: Vec<(Key, StoredState, Tree)>,
    /// Sorted by key.
    pub only_here: Vec<(Key, StoredState)>,
    /// The object's name and the reason.
    pub refused: Vec<(String, String)>,
    /// Fields that no schema contains, by path without indexes: the number of objects with the
    /// field, and the name of the first.
    pub unknown: BTreeMap<String, (usize, String)>,
}

/// A comparison of one kind in progress.
pub struct Comparing<'a> {
    row: &'a ResourceKind,
    here: &'a HashMap<Key, StoredState>,
    seen: HashSet<Key>,
    comparison: Comparison,
}

impl<'a> Comparing<'a> {
    /// Starts a comparison. `here` contains the states of this kind, and possibly of others.
    pub fn begin(row: &'a ResourceKind, here: &'a HashMap<Key, StoredState>) -> Comparing<'a> {
        Comparing { row, here, seen: HashSet::new(), comparison: Comparison::default() }
    }

    /// Compares an object of the source.
    pub fn add(&mut self, object: Tree) {
        let (name, comparison) = (shown_name(&object), &mut self.comparison);
        comparison.read += 1;
        let imported = match registry::import(self.row, object) {
            Ok(imported) => imported,
            Err(status) => return comparison.refused.push((name, status.message)),
        };
        if !self.seen.insert(imported.key.clone()) {
            return comparison.refused.push((name, "the source has it twice; the first one counts".to_owned()));
        }
        let paths: HashSet<String> = imported.unknown.iter().map(|path| without_indexes(path)).collect();
        for path in paths {
            comparison.unknown.entry(path).or_insert((0, name.clone())).0 += 1;
        }
        match self.here.get(&imported.key) {
            None => comparison.new.push((imported.key, Document::new(imported.object))),
            Some(state) if state.digest == Fingerprint::of(&imported.object) => comparison.same += 1,
            Some(state) => comparison.changed.push((imported.key, *state, imported.object)),
        }
    }

    /// Ends the comparison after the last object of the source.
    pub fn end(self) -> Comparison {
        let Comparing { row, here, seen, mut comparison } = self;
        let left = here.iter().filter(|(key, _)| key.resource == row.resource && !seen.contains(key));
        comparison.only_here = left.map(|(key, state)| (key.clone(), *state)).collect();
        comparison.only_here.sort_by(|(one, _), (other, _)| one.cmp(other));
        comparison
    }
}

/// Returns the path without indexes: `spec.clusters[*].weight` for `spec.clusters[3].weight`.
fn without_indexes(path: &str) -> String {
    let mut short = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('[') {
        short.push_str(before);
        match after.split_once(']') {
            Some((index, behind)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                short.push_str("[*]");
                rest = behind;
            }
            _ => {
                short.push('[');
                rest = after;
            }
        }
    }
    short + rest
}

/// Returns the members in which two objects differ, sorted: `metadata.labels`, `spec.clusters`,
/// `status.conditions`.
pub fn differing_members(one: &Tree, other: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(one, other) {
        let (left, right) = (one.get(name), other.get(name));
        match (left, right) {
            _ if left == right => {}
            (Some(Value::Object(left)), Some(Value::Object(right))) => {
                let inner = names(left, right).into_iter().filter(|inner| left.get(*inner) != right.get(*inner));
                let is_told = |inner: &&str| (name, *inner) != ("metadata", "resourceVersion");
                found.extend(inner.filter(is_told).map(|inner| format!("{name}.{inner}")));
            }
            _ => found.push(name.to_owned()),
        }
    }
    found
}

fn names<'a>(one: &'a Tree, other: &'a Tree) -> Vec<&'a str> {
    let mut names: Vec<&str> = one.keys().chain(other.keys()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ballast_api as api;

    fn row() -> std::sync::Arc<ResourceKind> {
        api::kinds().find("cluster.karmada.io", "v1alpha1", "clusters").unwrap().clone()
    }

    fn cluster(name: &str, more: Value) -> Tree {
        let mut object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2024-01-01T00:00:00Z",
                "generation": 1, "resourceVersion": "7"},
            "spec": {"syncMode": "Push", "apiEndpoint": "https://10.0.0.1"}});
        json_patch::merge(&mut object, &more);
        let Value::Object(tree) = object else { panic!("not an object") };
        tree
    }

    fn compare(row: &ResourceKind, objects: Vec<Tree>, here: &HashMap<Key, StoredState>) -> Comparison {
        let mut comparing = Comparing::begin(row, here);
        objects.into_iter().for_each(|object| comparing.add(object));
        comparing.end()
    }

    /// Returns the states of a log that contains these objects.
    fn here(objects: Vec<Tree>) -> HashMap<Key, StoredState> {
        let made = compare(&row(), objects, &HashMap::new());
        let state = |(revision, (key, document)): (i64, (Key, Document))| {
            let revision = Revision(revision);
            let object = serde_json::from_slice(&document.at(revision).whole()).unwrap();
            (key, StoredState { revision, created: revision, digest: Fingerprint::of(&object) })
        };
        (1..).zip(made.new).map(state).collect()
    }

    #[test]
    fn what_is_the_same_is_not_written_whatever_its_resource_version() {
        let known = here(vec![cluster("one", json!({})), cluster("two", json!({})), cluster("three", json!({}))]);
        let again = vec![
            cluster("one", json!({"metadata": {"resourceVersion": "1234"}})),
            cluster("two", json!({"spec": {"region": "here"}})),
            cluster("four", json!({})),
        ];
        let compared = compare(&row(), again, &known);
        assert_eq!((compared.read, compared.same), (3, 1));
        assert_eq!(compared.new.iter().map(|(key, _)| &*key.name).collect::<Vec<_>>(), ["four"]);
        assert_eq!(compared.changed.iter().map(|(key, ..)| &*key.name).collect::<Vec<_>>(), ["two"]);
        assert_eq!(compared.only_here.iter().map(|(key, _)| &*key.name).collect::<Vec<_>>(), ["three"]);
    }

    #[test]
    fn fields_of_a_newer_program_and_refusals_are_told_with_the_object() {
        let newer = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "why": 1},
            {"key": "b", "effect": "NoSchedule", "why": 2}]}});
        let objects = vec![
            cluster("one", newer.clone()),
            cluster("two", newer),
            cluster("three", json!({"spec": {"syncMode": "Sideways"}})),
            cluster("one", json!({})),
        ];
        let compared = compare(&row(), objects, &HashMap::new());
        assert_eq!(
            compared.unknown.into_iter().collect::<Vec<_>>(),
            [("spec.taints[*].why".to_owned(), (2, "one".to_owned()))]
        );
        let refused: Vec<&str> = compared.refused.iter().map(|(name, _)| &**name).collect();
        assert_eq!(refused, ["three", "one"]);
        assert!(compared.refused[0].1.contains("spec.syncMode"), "{:?}", compared.refused);
    }

    #[test]
    fn members_that_differ_are_named() {
        let one = cluster("one", json!({"metadata": {"labels": {"a": "b"}}, "status": {"kubernetesVersion": "1"}}));
        let other = cluster("one", json!({"metadata": {"resourceVersion": "9"}, "spec": {"region": "r"}}));
        assert_eq!(differing_members(&one, &other), ["metadata.labels", "spec.region", "status"]);
        assert_eq!(differing_members(&one, &one), [""; 0]);
    }
}
