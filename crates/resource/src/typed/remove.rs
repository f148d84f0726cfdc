//! Removes fields from an object.

use serde_json::Value;

use super::super::schema::Schema;
use super::{Members, Parts, Tree, Type};
use ballast_k8s::fields::{Element, FieldSet};

impl Schema {
    /// Removes the fields. Maps and lists that become empty are removed as well, because no client
    /// set them to an empty value.
    #[must_use]
    pub fn without(&self, object: Tree, gone: &FieldSet) -> Tree {
        members(self.members(), object, gone)
    }
}

fn members(types: Members<'_>, object: Tree, gone: &FieldSet) -> Tree {
    let keep = |(name, value): (String, Value)| {
        let element = Element::field(&name);
        if gone.has(&element) {
            return None;
        }
        let value = match gone.below(&element) {
            Some(below) => remove(types.of(&name), value, below)?,
            None => value,
        };
        Some((name, value))
    };
    object.into_iter().filter_map(keep).collect()
}

/// Returns `None` if nothing is left.
fn remove(of: Type<'_>, value: Value, gone: &FieldSet) -> Option<Value> {
    match (of.parts(&value), value) {
        (Parts::Members(types), Value::Object(object)) if !object.is_empty() => {
            let left = members(types, object, gone);
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (Parts::Items(types), Value::Array(list)) if !list.is_empty() => {
            let keep = |item: Value| {
                let element = types.name(&item);
                match gone.below(&element) {
                    _ if gone.has(&element) => None,
                    // The item itself was not removed, so it stays even if it becomes empty.
                    Some(below) => Some(remove(types.node(), item, below).unwrap_or(Value::Object(Tree::new()))),
                    None => Some(item),
                }
            };
            let left: Vec<Value> = list.into_iter().filter_map(keep).collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        // A single field has no parts to remove.
        (_, value) => Some(value),
    }
}
