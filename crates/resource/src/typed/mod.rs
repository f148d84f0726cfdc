//! Values and their fields, as server-side apply sees them (AP5): the fields of a value, the
//! differences of two values, the result of a merge, and the rest after fields are removed.
//!
//! The schema defines the fields. A scalar is one field, and so is an atomic list or map. A
//! granular map has a field for each member. A list of type `map` or `set` has a field for each
//! item. Where there is no schema (free-form parts), maps are granular and lists are atomic.
//!
//! Live values are accepted unchecked: a duplicate item, or a value that does not have the shape in
//! the schema, is one opaque field. A configuration is checked first (`check`).
//!
//! *Invariants*, which `tests` checks on random values. A comparison of an empty object with a
//! value adds exactly the fields of the value, apart from structs. A value merged into itself stays
//! the same. Removing the added fields restores the old value.

mod added;
mod atomics;
mod check;
mod compare;
mod field_set;
mod comparable;
mod merge;
mod remove;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::{ListType, Node, Object, Schema, Shape};
use ballast_k8s::fields::Element;

pub use compare::Comparison;

type Tree = Map<String, Value>;

/// The type of a value, if it is known.
#[derive(Clone, Copy)]
enum Type<'a> {
    Known(&'a Node),
    /// There is no schema, so the type follows from the value alone.
    Deduced,
}

/// The division of a value of a type into fields.
#[derive(Clone, Copy)]
enum Parts<'a> {
    /// One field, whatever it contains.
    One,
    /// A field for each member.
    Members(Members<'a>),
    /// A field for each item.
    Items(Items<'a>),
}

#[derive(Clone, Copy)]
enum Members<'a> {
    Known(&'a Object),
    Deduced,
}

#[derive(Clone, Copy)]
struct Items<'a> {
    /// `None` for a set.
    keys: Option<&'a [std::sync::Arc<str>]>,
    node: &'a Node,
}

impl Schema {
    fn members(&self) -> Members<'_> {
        match &self.root().shape {
            Shape::Object(object) => Members::Known(object),
            _ => Members::Deduced,
        }
    }
}

impl<'a> Type<'a> {
    fn parts(self, value: &Value) -> Parts<'a> {
        match self {
            Type::Deduced => deduced(value),
            Type::Known(node) => match (&node.shape, value) {
                (Shape::Any, value) => deduced(value),
                (Shape::Object(object), Value::Object(_)) if !object.atomic => Parts::Members(Members::Known(object)),
                (Shape::Array(array), Value::Array(_)) => match &array.list_type {
                    Some(ListType::Set) => Parts::Items(Items { keys: None, node: &array.items }),
                    Some(ListType::Map(keys)) => Parts::Items(Items { keys: Some(keys), node: &array.items }),
                    Some(ListType::Atomic) | None => Parts::One,
                },
                _ => Parts::One,
            },
        }
    }
}

fn deduced(value: &Value) -> Parts<'static> {
    if value.is_object() { Parts::Members(Members::Deduced) } else { Parts::One }
}

impl<'a> Members<'a> {
    /// Returns the type of a member, or `None` if there is no member of this name.
    fn find(self, name: &str) -> Option<Type<'a>> {
        match self {
            Members::Deduced => Some(Type::Deduced),
            Members::Known(object) => match (object.field(name), &object.values) {
                (Some(field), _) => Some(Type::Known(&field.node)),
                (None, Some(values)) => Some(Type::Known(values)),
                (None, None) => object.preserve_unknown.then_some(Type::Deduced),
            },
        }
    }

    /// Like `find`, but returns a deduced type for members that the schema does not declare. A live
    /// value may have such members.
    fn of(self, name: &str) -> Type<'a> {
        self.find(name).unwrap_or(Type::Deduced)
    }

    /// Returns whether the member is a field of a struct rather than an entry of a map.
    fn is_declared(self, name: &str) -> bool {
        matches!(self, Members::Known(object) if object.field(name).is_some())
    }
}

impl<'a> Items<'a> {
    fn node(self) -> Type<'a> {
        Type::Known(self.node)
    }

    /// Returns the path element of an item in its list. The error is the reason why it has none.
    fn element(self, item: &Value) -> Result<Element, String> {
        let Some(keys) = self.keys else {
            return match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("associative list without keys has an element that's a list type".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(Element::value(scalar)),
            };
        };
        let Value::Object(item) = item else {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let default = |key: &str| self.node.field(key).and_then(|field| field.default.as_ref());
        let mut found = Map::new();
        for key in keys {
            let Some(value) = item.get(&**key).or_else(|| default(key)) else {
                return Err(format!(
                    "associative list with keys has an element that omits key field {:?} (and doesn't have default \
                     value)",
                    &**key
                ));
            };
            found.insert((**key).to_owned(), value.clone());
        }
        Ok(Element::keys(found))
    }

    /// Like `element`. A live item without a valid name is identified by its whole value, so that
    /// it is not lost.
    fn name(self, item: &Value) -> Element {
        self.element(item).unwrap_or_else(|_| Element::value(item))
    }

    /// Returns the items by name, in the order in which each name first occurs.
    fn index<'v>(self, list: &'v [Value]) -> Index<'v> {
        let mut index = Index::default();
        for item in list {
            let element = self.name(item);
            let places = index.by_name.entry(element.clone()).or_default();
            if places.is_empty() {
                index.order.push(element);
            }
            places.push(item);
        }
        index
    }
}

/// A list indexed by the names of its items. A name with several items is a duplicate.
#[derive(Default)]
struct Index<'v> {
    order: Vec<Element>,
    by_name: BTreeMap<Element, Vec<&'v Value>>,
}

impl<'v> Index<'v> {
    fn get(&self, element: &Element) -> &[&'v Value] {
        self.by_name.get(element).map_or(&[], Vec::as_slice)
    }

    fn has(&self, element: &Element) -> bool {
        self.by_name.contains_key(element)
    }
}
