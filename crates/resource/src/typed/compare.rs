//! The differences between two versions of an object, field by field.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::schema::Schema;
use super::{Items, Members, Parts, Tree, Type};
use ballast_k8s::fields::{Element, FieldSet};

/// The differences between two versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// Returns whether there are no differences.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Returns the fields that are new or changed.
    pub fn written(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    /// Keeps the paths that begin with an element that `keep` accepts.
    #[must_use]
    pub fn filtered(self, keep: impl Fn(&Element) -> bool) -> Comparison {
        Comparison {
            added: self.added.filtered(&keep),
            modified: self.modified.filtered(&keep),
            removed: self.removed.filtered(&keep),
        }
    }

    fn put(&mut self, element: &Element, found: Found) {
        let Found { side, below: Comparison { added, modified, removed } } = found;
        let sets = [
            (&mut self.added, Side::Added, added),
            (&mut self.modified, Side::Modified, modified),
            (&mut self.removed, Side::Removed, removed),
        ];
        for (set, its_side, below) in sets {
            let is_member = side == Some(its_side);
            // Most fields are in one set, and a clone is an allocation.
            if is_member || !below.is_empty() {
                set.put(element.clone(), is_member, below);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Added,
    Modified,
    Removed,
}

/// The change of one field, and of the fields below it.
#[derive(Default)]
struct Found {
    side: Option<Side>,
    below: Comparison,
}

impl Schema {
    /// Returns the differences between two versions. Equal subtrees are not visited.
    pub fn compare(&self, old: &Tree, new: &Tree) -> Comparison {
        members(self.members(), old, new)
    }
}

fn members(types: Members<'_>, old: &Tree, new: &Tree) -> Comparison {
    let mut comparison = Comparison::default();
    for (name, before) in old {
        let after = new.get(name);
        if after != Some(before) {
            comparison.put(&Element::field(name), compare(types.of(name), Some(before), after));
        }
    }
    for (name, after) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        comparison.put(&Element::field(name), compare(types.of(name), None, Some(after)));
    }
    comparison
}

/// Compares two values. One of them may be absent.
fn compare(of: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Found {
    let side = match (old, new) {
        (None, None) => return Found::default(),
        (Some(old), Some(new)) if old == new => return Found::default(),
        (None, Some(_)) => Side::Added,
        (Some(_), None) => Side::Removed,
        (Some(_), Some(_)) => Side::Modified,
    };
    // Null counts as an empty value of any type.
    let parts = |value: Option<&Value>| value.filter(|value| !value.is_null()).map(|value| of.parts(value));
    let (before, after) = (parts(old), parts(new));
    // A value that appears or disappears is a field itself, in addition to the fields below it. A
    // value that is present in both versions is not.
    let itself = (side != Side::Modified).then_some(side);
    match (before.or(after), after.or(before)) {
        _ if is_empty(old) && is_empty(new) => Found { side: Some(side), below: Comparison::default() },
        (Some(Parts::Members(types)), Some(Parts::Members(_))) => {
            Found { side: itself, below: members(types, members_of(old), members_of(new)) }
        }
        (Some(Parts::Items(items)), Some(Parts::Items(_))) => {
            Found { side: itself, below: self::items(items, items_of(old), items_of(new)) }
        }
        _ => Found { side: Some(side), below: Comparison::default() },
    }
}

/// Returns whether the value has no parts. A change then shows only at the value itself.
fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn members_of(value: Option<&Value>) -> &Tree {
    static NONE: LazyLock<Tree> = LazyLock::new(Tree::new);
    value.and_then(Value::as_object).unwrap_or(&NONE)
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn items(types: Items<'_>, old: &[Value], new: &[Value]) -> Comparison {
    let (before, after) = (types.index(old), types.index(new));
    let mut comparison = Comparison::default();
    let all = before.order.iter().chain(after.order.iter().filter(|element| !before.has(element)));
    for element in all {
        let found = match (before.get(element), after.get(element)) {
            ([], [only]) => compare(types.node(), None, Some(only)),
            ([only], []) => compare(types.node(), Some(only), None),
            ([old], [new]) => compare(types.node(), Some(old), Some(new)),
            // Duplicates form one field.
            (old, new) if old == new => Found::default(),
            ([], _) => Found { side: Some(Side::Added), ..Found::default() },
            (_, []) => Found { side: Some(Side::Removed), ..Found::default() },
            _ => Found { side: Some(Side::Modified), ..Found::default() },
        };
        comparison.put(element, found);
    }
    comparison
}
