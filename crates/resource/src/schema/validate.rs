//! Validates an object, with the error messages of kube-apiserver for custom resources (ER7).
//!
//! This runs on every write. The path of a value is a chain on the stack, and is formatted only for
//! an error.

use std::collections::HashSet;
use std::{fmt, mem};

use serde_json::{Map, Value};

use ballast_k8s::{FieldErrors, FieldPath, Time, shown_name};

use super::{Array, Bounds, Field, Format, Integer, ListType, Node, Object, Shape, Text, Width};

/// The path of the value that is being checked.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(&shown_name(name)),
            Path::Field(parent, name) => write!(f, "{parent}.{}", shown_name(name)),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl From<&Path<'_>> for FieldPath {
    fn from(path: &Path<'_>) -> FieldPath {
        FieldPath::new(&path.to_string())
    }
}

pub(super) fn validate(root: &Node, object: &Map<String, Value>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Shape::Object(shape) = &root.shape {
        fields(shape, object, &Path::Root, &mut errors);
    }
    errors
}

pub(super) fn validate_member(root: &Node, member: &[&str], value: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    self::member(root, member, value, &Path::Root, &mut errors);
    errors
}

fn member(node: &Node, way: &[&str], wanted: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some((name, rest)) = way.split_first() else {
        return wanted.into_iter().for_each(|wanted| value(node, wanted, path, errors));
    };
    let Shape::Object(shape) = &node.shape else { return };
    let (path, field) = (Path::Field(path, name), shape.field(name));
    match (field, &shape.values) {
        (Some(field), _) if rest.is_empty() && wanted.is_none() && field.required => {
            errors.required(&(&path).into(), "")
        }
        (Some(Field { node, .. }), _) | (None, Some(node)) => member(node, rest, wanted, &path, errors),
        (None, None) if shape.preserve_unknown => {}
        (None, None) => errors.forbidden(&(&path).into(), "unknown field"),
    }
}

fn value(node: &Node, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if value.is_null() && node.nullable {
        return;
    }
    match (&node.shape, value) {
        (Shape::Any, _) | (Shape::Boolean, Value::Bool(_)) => {}
        (Shape::Object(shape), Value::Object(object)) => fields(shape, object, path, errors),
        (Shape::Array(shape), Value::Array(list)) => items(shape, list, path, errors),
        (Shape::Text(shape) | Shape::IntOrString(shape), Value::String(string)) => text(shape, string, path, errors),
        (Shape::Integer(shape), Value::Number(number)) if !number.is_f64() => integer(shape, number, path, errors),
        (Shape::Number(shape), Value::Number(number)) => {
            bounds(shape, number.as_f64().unwrap_or_default(), value, path, errors);
        }
        (Shape::IntOrString(_), Value::Number(number)) if !number.is_f64() => {}
        (shape, _) => {
            let (expected, found) = type_names(shape, value);
            wrong_type(expected, found, path, errors);
        }
    }
    if !node.one_of.is_empty() && !node.one_of.contains(value) {
        let supported: Vec<String> = node.one_of.iter().map(plain).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        errors.not_supported(&path.into(), value, &supported);
    }
}

/// Visits the members of the object, which are fewer than the declared fields. Faults are reported
/// in the order of declaration, followed by those of undeclared members.
fn fields(shape: &Object, object: &Map<String, Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut faults: Vec<(usize, FieldErrors)> = Vec::new();
    let mut found = FieldErrors::default();
    for (name, child) in object {
        let (place, node) = match (shape.place(name), &shape.values) {
            (Some(place), _) => (place, &shape.fields[place].node),
            (None, Some(values)) => (shape.fields.len(), values),
            (None, None) => continue,
        };
        value(node, child, &Path::Field(path, name), &mut found);
        if !found.is_empty() {
            faults.push((place, mem::take(&mut found)));
        }
    }
    for place in shape.required.iter().copied().map(usize::from) {
        let name = &shape.fields[place].name;
        if !object.contains_key(&**name) {
            found.required(&(&Path::Field(path, name)).into(), "");
            faults.push((place, mem::take(&mut found)));
        }
    }
    faults.sort_by_key(|(place, _)| *place);
    faults.into_iter().for_each(|(_, faults)| errors.append(faults));
}

fn items(shape: &Array, list: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (index, item) in list.iter().enumerate() {
        value(&shape.items, item, &Path::Index(path, index), errors);
    }
    if let Some(min) = shape.min_items.filter(|&min| list.len() < min) {
        let detail = format!("{path} in body should have at least {min} items");
        errors.invalid(&path.into(), list.len(), detail);
    }
    if let Some(max) = shape.max_items.filter(|&max| list.len() > max) {
        errors.too_many(&path.into(), list.len(), max);
    }
    match &shape.list_type {
        _ if shape.duplicates_pass => {}
        Some(ListType::Set) => duplicates(list, path, errors, Value::clone),
        Some(ListType::Map(keys)) => {
            let key = |item: &Value| keys.iter().map(|key| ((**key).to_owned(), item[&**key].clone())).collect();
            duplicates(list, path, errors, key);
        }
        _ if shape.unique_items => duplicates(list, path, errors, Value::clone),
        _ => {}
    }
}

/// Reports every item that has the same key as an earlier item (AD7).
fn duplicates(list: &[Value], path: &Path<'_>, errors: &mut FieldErrors, key: impl Fn(&Value) -> Value) {
    if list.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        let key = key(item);
        // JSON texts with sorted keys are equal exactly when the values are.
        if !seen.insert(key.to_string()) {
            errors.duplicate(&(&Path::Index(path, index)).into(), key);
        }
    }
}

fn text(shape: &Text, string: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    // Upstream reports only the first violation of length and pattern.
    if let Some(max) = shape.max_length.filter(|&max| string.len() > max && string.chars().count() > max) {
        errors.too_long(&path.into(), max);
    } else if let Some(min) = shape.min_length.filter(|&min| string.chars().count() < min) {
        errors.invalid(&path.into(), string, format!("{path} in body should be at least {min} chars long"));
    } else if let Some(pattern) = shape.pattern.as_ref().filter(|pattern| !pattern.is_match(string)) {
        errors.invalid(&path.into(), string, format!("{path} in body should match '{pattern}'"));
    }
    if shape.format == Some(Format::DateTime) && date_time(string).is_none() {
        wrong_type("date-time", string, path, errors);
    }
}

/// Parses an RFC 3339 time. The time library accepts more.
pub(super) fn date_time(text: &str) -> Option<Time> {
    let has_t = matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    text.parse().ok().filter(|_| has_t && !text.contains('['))
}

fn integer(shape: &Integer, number: &serde_json::Number, path: &Path<'_>, errors: &mut FieldErrors) {
    let fits = number.as_i64().is_some_and(|number| shape.width != Width::Int32 || i32::try_from(number).is_ok());
    if !fits {
        let format = if shape.width == Width::Int32 { "int32" } else { "int64" };
        let detail = format!("Checked value must be of type integer with format {format} in {path}");
        errors.invalid(&path.into(), number, detail);
    }
    bounds(&shape.bounds, number.as_f64().unwrap_or_default(), number, path, errors);
}

fn bounds(shape: &Bounds, number: f64, shown: impl serde::Serialize, path: &Path<'_>, errors: &mut FieldErrors) {
    let above = shape.maximum.filter(|&max| number > max || (shape.exclusive_maximum && number == max));
    let below = shape.minimum.filter(|&min| number < min || (shape.exclusive_minimum && number == min));
    let detail = match (above, below) {
        (Some(max), _) if shape.exclusive_maximum => format!("{path} in body should be less than {max}"),
        (Some(max), _) => format!("{path} in body should be less than or equal to {max}"),
        (None, Some(min)) if shape.exclusive_minimum => format!("{path} in body should be greater than {min}"),
        (None, Some(min)) => format!("{path} in body should be greater than or equal to {min}"),
        (None, None) => return,
    };
    errors.invalid(&path.into(), shown, detail);
}

fn wrong_type(expected: &str, found: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let body = format!("Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}");
    errors.push(&path.into(), "FieldValueTypeInvalid", body);
}

/// Returns the names of the expected type and of the type of the value. Where a format is expected
/// and the value could have one, upstream names the format.
fn type_names(shape: &Shape, value: &Value) -> (&'static str, &'static str) {
    let format = match shape {
        Shape::Integer(Integer { width: Width::Int32, .. }) => "int32",
        Shape::Integer(Integer { width: Width::Int64, .. }) => "int64",
        Shape::Text(Text { format: Some(Format::DateTime), .. }) => "date-time",
        _ => return (shape.type_name(), type_of(value)),
    };
    match value {
        Value::Null | Value::String(_) | Value::Array(_) => (shape.type_name(), type_of(value)),
        Value::Number(number) if number.is_f64() => (format, "float64"),
        Value::Number(_) => (format, "int64"),
        Value::Bool(_) | Value::Object(_) => (format, ""),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Formats text without quotes, and anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Shape {
    fn type_name(&self) -> &'static str {
        match self {
            Shape::Any => "any",
            Shape::Object(_) => "object",
            Shape::Array(_) => "array",
            Shape::Text(_) => "string",
            Shape::Integer(_) => "integer",
            Shape::Number(_) => "number",
            Shape::Boolean => "boolean",
            Shape::IntOrString(_) => "integer,string",
        }
    }
}
