//! Merges a configuration into a live object. Values of the configuration take precedence; all
//! others stay.

use serde_json::Value;

use super::super::schema::Schema;
use super::{Items, Members, Parts, Tree, Type};
use ballast_k8s::fields::Element;

impl Schema {
    /// Returns the live object with the values of the configuration, which must have been checked
    /// (`check_config`).
    pub fn merge(&self, live: Tree, config: &Tree) -> Tree {
        members(self.members(), live, config)
    }
}

fn members(types: Members<'_>, mut live: Tree, config: &Tree) -> Tree {
    for (name, wanted) in config {
        let merged = match live.remove(name) {
            Some(there) => merge(types.of(name), there, wanted),
            None => wanted.clone(),
        };
        live.insert(name.clone(), merged);
    }
    live
}

fn merge(of: Type<'_>, live: Value, config: &Value) -> Value {
    match (of.parts(&live), of.parts(config), live, config) {
        (Parts::Members(types), Parts::Members(_), Value::Object(live), Value::Object(config)) => {
            Value::Object(members(types, live, config))
        }
        (Parts::Items(types), Parts::Items(_), Value::Array(live), Value::Array(config)) => {
            Value::Array(items(types, &live, config))
        }
        // A null does not change the content of a map or a list.
        (Parts::Members(_) | Parts::Items(_), _, live, Value::Null) => live,
        (_, _, _, config) => config.clone(),
    }
}

/// Merges the items of two lists. Items of the configuration keep its order. Each other item stays
/// in front of the item that followed it.
fn items(types: Items<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let (there, wanted) = (types.index(live), types.index(config));
    let mut merged: Vec<Value> = Vec::with_capacity(there.order.len().max(wanted.order.len()));
    let take = |element: &Element| -> Vec<Value> {
        match (there.get(element), wanted.get(element)) {
            ([live], [config]) => vec![merge(types.node(), (*live).clone(), config)],
            // Duplicates are one field, so they are kept or replaced together.
            (live, []) => live.iter().map(|item| (*item).clone()).collect(),
            (_, config) => config.iter().map(|item| (*item).clone()).collect(),
        }
    };
    let mut shared = wanted.order.iter().filter(|element| there.has(element)).peekable();
    let (mut left, mut right) = (there.order.iter().peekable(), wanted.order.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => return merged,
            (Some(live), _) if !wanted.has(live) => {
                merged.extend(take(live));
                left.next();
            }
            (Some(live), Some(config)) if live == config => {
                merged.extend(take(config));
                left.next();
                right.next();
                shared.next();
            }
            // The item is emitted later, in the order of the configuration.
            (Some(live), _) if shared.peek() != Some(live) => {
                left.next();
            }
            (_, Some(config)) => {
                merged.extend(take(config));
                if shared.peek() == Some(config) {
                    shared.next();
                }
                right.next();
            }
            (Some(_), None) => {
                left.next();
            }
        }
    }
}
