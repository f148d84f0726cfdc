//! Unknown fields as faults, for parts of an object where a dropped field would change the meaning
//! of the others.

use serde_json::{Map, Value};

use ballast_k8s::FieldErrors;
use ballast_k8s::suggestion::{Hints, closest_name};

use super::validate::Path;
use super::{Node, Object, Shape};

/// Returns the unknown fields below a member.
pub(super) fn unknown_fields(root: &Node, object: &Map<String, Value>, member: &[&str]) -> FieldErrors {
    let mut walk = Walk::default();
    walk.enter(root, object, member, &Path::Root);
    walk.errors
}

#[derive(Default)]
struct Walk {
    errors: FieldErrors,
    hints: Hints,
}

impl Walk {
    fn enter(&mut self, node: &Node, object: &Map<String, Value>, member: &[&str], path: &Path<'_>) {
        let Some((name, rest)) = member.split_first() else {
            if let Shape::Object(shape) = &node.shape {
                self.fields(shape, object, path);
            }
            return;
        };
        if let (Some(field), Some(Value::Object(object))) = (node.field(name), object.get(*name)) {
            self.enter(&field.node, object, rest, &Path::Field(path, name));
        }
    }

    fn value(&mut self, node: &Node, value: &Value, path: &Path<'_>) {
        match (&node.shape, value) {
            (Shape::Object(shape), Value::Object(object)) => self.fields(shape, object, path),
            (Shape::Array(array), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(&array.items, item, &Path::Index(path, index));
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, shape: &Object, object: &Map<String, Value>, path: &Path<'_>) {
        for (name, value) in object {
            let path = Path::Field(path, name);
            match (shape.field(name), &shape.values) {
                (Some(field), _) => self.value(&field.node, value, &path),
                (None, Some(values)) => self.value(values, value, &path),
                (None, None) if shape.preserve_unknown => {}
                (None, None) => {
                    let known = shape.fields.iter().map(|field| &*field.name);
                    let near = if self.hints.take() { closest_name(name, known) } else { None };
                    let near = near.map_or_else(String::new, |near| format!("; the nearest known field is {near:?}"));
                    let fault = format!("unknown field{near}");
                    self.errors.forbidden(&(&path).into(), fault);
                }
            }
        }
    }
}
