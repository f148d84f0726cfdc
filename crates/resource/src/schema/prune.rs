//! Pruning and defaulting: the two passes that change an object before it is validated. Pruning
//! also brings values into their stored form: whole numbers as integers, times in whole seconds UTC
//! (R52).

use serde_json::{Map, Value};

use ballast_k8s::{TOLD_MAX, and_more};

use super::validate::{self, Path};
use super::{Format, Node, Object, Shape, Text};

/// The fields that the schema does not declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The paths that are reported, sorted.
    pub paths: Vec<String>,
    /// The number of further fields, which are not reported.
    pub more: usize,
}

impl Unknown {
    /// Returns the reported paths, and a last entry with the number of the omitted ones.
    pub fn told(self) -> Vec<String> {
        let more = Some(self.more).filter(|more| *more > 0).map(and_more);
        self.paths.into_iter().chain(more).collect()
    }

    fn note(&mut self, path: &Path<'_>) {
        match self.paths.len() < TOLD_MAX {
            true => self.paths.push(path.to_string()),
            false => self.more += 1,
        }
    }
}

pub(super) fn prune(root: &Node, object: &mut Map<String, Value>) -> Unknown {
    let mut unknown = Unknown::default();
    if let Shape::Object(shape) = &root.shape {
        fields(shape, object, &Path::Root, &mut unknown);
    }
    unknown.paths.sort_unstable();
    unknown
}

fn value(node: &Node, value: &mut Value, path: &Path<'_>, unknown: &mut Unknown) {
    match (&node.shape, value) {
        (Shape::Object(shape), Value::Object(object)) => fields(shape, object, path, unknown),
        (Shape::Array(array), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                self::value(&array.items, item, &Path::Index(path, index), unknown);
            }
        }
        (Shape::Integer(_) | Shape::IntOrString(_), number @ Value::Number(_)) => {
            if let Some(whole) = whole(number) {
                *number = Value::from(whole);
            }
        }
        (Shape::Text(Text { format: Some(Format::DateTime), .. }), Value::String(time)) if !is_canonical(time) => {
            // A text that is not a time is kept; validation refuses it.
            if let Some(parsed) = validate::date_time(time) {
                *time = parsed.to_string();
            }
        }
        _ => {}
    }
}

fn fields(shape: &Object, object: &mut Map<String, Value>, path: &Path<'_>, unknown: &mut Unknown) {
    object.retain(|name, child| {
        let (node, default) = match (shape.field(name), &shape.values) {
            (Some(field), _) => (&field.node, field.default.is_some()),
            (None, Some(values)) => (values, false),
            (None, None) => {
                if !shape.preserve_unknown {
                    unknown.note(&Path::Field(path, name));
                }
                return shape.preserve_unknown;
            }
        };
        if child.is_null() {
            // A null with a default is kept until `default` replaces it.
            return default || !node.drops_null();
        }
        value(node, child, &Path::Field(path, name), unknown);
        true
    });
}

/// Returns whether the text has the form `2006-01-02T15:04:05Z`. Nearly every time has this form
/// and needs no parsing.
fn is_canonical(time: &str) -> bool {
    let bytes = time.as_bytes();
    bytes.len() == 20 && bytes[19] == b'Z' && bytes[10] == b'T'
}

/// Converts 3.0 to 3. Go writes it back as 3, and a Rust integer cannot be read from 3.0.
fn whole(number: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}

pub(super) fn default(node: &Node, object: &mut Map<String, Value>) {
    let Shape::Object(shape) = &node.shape else { return };
    for field in &shape.fields {
        if let Some(default) = &field.default {
            let replaces_null = !field.node.nullable;
            match object.get_mut(&*field.name) {
                None => {
                    object.insert((*field.name).to_owned(), default.clone());
                }
                Some(null @ Value::Null) if replaces_null => *null = default.clone(),
                Some(_) => {}
            }
        }
        if field.node.has_defaults
            && let Some(child) = object.get_mut(&*field.name)
        {
            default_value(&field.node, child);
        }
    }
    if let Some(values) = shape.values.as_deref().filter(|values| values.has_defaults) {
        for (_, child) in object.iter_mut().filter(|(name, _)| shape.field(name).is_none()) {
            default_value(values, child);
        }
    }
}

fn default_value(node: &Node, value: &mut Value) {
    match (&node.shape, value) {
        (Shape::Object(_), Value::Object(object)) => default(node, object),
        (Shape::Array(array), Value::Array(items)) => {
            for item in items {
                default_value(&array.items, item);
            }
        }
        _ => {}
    }
}
