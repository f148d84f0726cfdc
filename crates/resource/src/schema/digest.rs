//! Hashes the defaults of a schema. Two versions of Ballast with equal hashes set the same
//! defaults.

use std::hash::{Hash, Hasher};

use super::{Node, Shape};

/// Hashes every default below the node, with its position and the properties that determine whether
/// it is set.
pub(super) fn digest(node: &Node, state: &mut impl Hasher) {
    node.has_defaults.hash(state);
    if !node.has_defaults {
        return;
    }
    match &node.shape {
        Shape::Object(object) => {
            for field in &object.fields {
                field.name.hash(state);
                field.default.as_ref().map(ToString::to_string).hash(state);
                field.node.nullable.hash(state);
                digest(&field.node, state);
            }
            if let Some(values) = &object.values {
                digest(values, state);
            }
        }
        Shape::Array(array) => digest(&array.items, state),
        _ => {}
    }
}
