//! A set of paths, stored as a tree of their elements, and its wire format `fieldsV1`.
//!
//! On the wire, a path of the set ends in an empty object. If longer paths extend it, the object
//! has the member `"."`: `{"f:spec":{".":{},"f:replicas":{}}}` contains `.spec` and
//! `.spec.replicas`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::Element;

/// Marks a path that is in the set in addition to longer ones.
const SELF: &str = ".";

/// A set of field paths.
///
/// *Invariant:* every node is a member of the set or an ancestor of one, so equal sets are equal
/// trees.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<Element, Node>,
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

/// A path from the root of an object. Displays as `.spec.workloads[name="web"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Element>);

/// The error for a text that is not `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a set of fields: {0}")]
pub struct Malformed(String);

impl Malformed {
    pub(super) fn new(why: &str) -> Malformed {
        Malformed(why.to_owned())
    }
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds the path of this element (if `member`), and all paths of `below` with this element as
    /// prefix.
    pub fn put(&mut self, element: Element, member: bool, below: FieldSet) {
        if !member && below.is_empty() {
            return;
        }
        let node = self.nodes.entry(element).or_default();
        node.member |= member;
        node.below.add(below);
    }

    /// Adds one path. An empty path is ignored.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.put(last.clone(), true, FieldSet::default()),
            [first, rest @ ..] => {
                let mut below = FieldSet::default();
                below.insert(rest);
                self.put(first.clone(), false, below);
            }
        }
    }

    /// Returns whether this path is in the set. The empty path never is.
    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// Returns whether the path of this element is in the set.
    pub fn has(&self, element: &Element) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// Returns the paths below this element, without it.
    pub fn below(&self, element: &Element) -> Option<&FieldSet> {
        self.nodes.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// Returns whether the path of this field is in the set, and the paths below it. For small
    /// sets: the search is linear.
    pub fn find(&self, name: &str) -> Option<(bool, &FieldSet)> {
        let found = self.nodes.iter().find(|(element, _)| element.is_field(name));
        found.map(|(_, node)| (node.member, &node.below))
    }

    /// Iterates over the first elements, with whether each is in the set itself, and the paths
    /// below it.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, bool, &FieldSet)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.below))
    }

    /// Adds all paths of the other set.
    pub fn add(&mut self, other: FieldSet) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (element, node) in other.nodes {
            self.put(element, node.member, node.below);
        }
    }

    /// Returns the paths that are in at least one of the sets.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut union = self.clone();
        union.add(other.clone());
        union
    }

    /// Returns the paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut common = FieldSet::default();
        for (element, node) in &self.nodes {
            if let Some(theirs) = other.nodes.get(element) {
                let below = node.below.intersection(&theirs.below);
                common.put(element.clone(), node.member && theirs.member, below);
            }
        }
        common
    }

    /// Returns the paths of this set that are not in the other. A path of the other set does not
    /// remove the paths below it.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut left = self.clone();
        left.remove(other);
        left
    }

    /// Removes the paths of the other set, as `difference` does.
    pub fn remove(&mut self, other: &FieldSet) {
        for (element, theirs) in &other.nodes {
            let Some(node) = self.nodes.get_mut(element) else { continue };
            node.member &= !theirs.member;
            node.below.remove(&theirs.below);
            if !node.member && node.below.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// Returns the paths whose first element satisfies `keep`.
    #[must_use]
    pub fn filtered(mut self, keep: impl Fn(&Element) -> bool) -> FieldSet {
        self.nodes.retain(|element, _| keep(element));
        self
    }

    /// Returns every path of the set, ordered by element.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, so_far: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for (element, node) in &self.nodes {
            so_far.push(element.clone());
            if node.member {
                paths.push(Path(so_far.clone()));
            }
            node.below.collect(so_far, paths);
            so_far.pop();
        }
    }

    /// Returns whether the set in `fields_v1` has a path in common with this one. It is not parsed,
    /// because most writes change no fields of other managers.
    pub fn meets(&self, fields_v1: &Map<String, Value>) -> bool {
        let meet = |node: &Node, theirs: &Value| match theirs {
            Value::Object(theirs) => {
                (node.member && (theirs.is_empty() || theirs.contains_key(SELF))) || node.below.meets(theirs)
            }
            _ => false,
        };
        // The smaller set is looked up in the larger one: an object may have many managers, and a
        // write may change many fields.
        if fields_v1.len() < self.nodes.len() {
            let known = |text: &str| Element::parse(text).and_then(|element| self.nodes.get(&element));
            return fields_v1.iter().any(|(text, theirs)| known(text).is_some_and(|node| meet(node, theirs)));
        }
        let theirs = |element: &Element| fields_v1.get(element.as_str());
        self.nodes.iter().any(|(element, node)| theirs(element).is_some_and(|theirs| meet(node, theirs)))
    }

    /// Returns whether the set in `fields_v1` contains all paths of this one. It is not parsed,
    /// because most managers write the same fields repeatedly.
    pub fn is_within(&self, fields_v1: &Map<String, Value>) -> bool {
        self.nodes.iter().all(|(element, node)| match fields_v1.get(element.as_str()) {
            Some(Value::Object(theirs)) => {
                (!node.member || theirs.is_empty() || theirs.contains_key(SELF)) && node.below.is_within(theirs)
            }
            _ => false,
        })
    }

    /// Returns the wire format.
    pub fn to_fields_v1(&self) -> Map<String, Value> {
        let mut wire = Map::new();
        for (element, node) in &self.nodes {
            let mut below = node.below.to_fields_v1();
            if node.member && !below.is_empty() {
                below.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            wire.insert(element.as_str().to_owned(), Value::Object(below));
        }
        wire
    }

    /// Parses the wire format. Its nesting is bounded by that of the JSON around it.
    pub fn from_fields_v1(wire: &Map<String, Value>) -> Result<FieldSet, Malformed> {
        let mut set = FieldSet::default();
        for (key, below) in wire {
            if key == SELF {
                // The mark that the parent path is in the set. The caller has handled it.
                continue;
            }
            let (Some(element), Value::Object(below)) = (Element::parse(key), below) else {
                return Err(Malformed(format!("{key:?}")));
            };
            let member = below.is_empty() || below.contains_key(SELF);
            set.put(element, member, FieldSet::from_fields_v1(below)?);
        }
        Ok(set)
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths().iter().map(ToString::to_string)).finish()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}
