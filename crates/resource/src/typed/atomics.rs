//! Finds the atomic lists and maps in a configuration. A configuration that sets one member of such
//! a value removes all others.

use serde_json::Value;

use super::super::schema::Schema;
use super::{Members, Parts, Tree, Type};

impl Schema {
    /// Returns the paths of the atomic lists and maps in a configuration that has been checked
    /// (`check_config`), in upstream's notation.
    pub fn atomics_in(&self, config: &Tree) -> Vec<String> {
        let mut found = Vec::new();
        members(self.members(), config, "", &mut found);
        found
    }
}

fn members(types: Members<'_>, config: &Tree, path: &str, found: &mut Vec<String>) {
    for (name, value) in config {
        below(types.of(name), value, format!("{path}.{name}"), found);
    }
}

fn below(of: Type<'_>, value: &Value, path: String, found: &mut Vec<String>) {
    match (of.parts(value), value) {
        (Parts::Members(types), Value::Object(object)) => members(types, object, &path, found),
        (Parts::Items(types), Value::Array(list)) => {
            for (index, item) in list.iter().enumerate() {
                below(types.node(), item, format!("{path}[{index}]"), found);
            }
        }
        (Parts::One, Value::Object(_) | Value::Array(_)) => found.push(path),
        _ => {}
    }
}
