//! Access to untyped JSON objects, for code that changes an object before it is decoded.

use serde::Deserialize;
use serde_json::{Map, Value};

use ballast_k8s::Status;

/// A JSON object.
pub type Object = Map<String, Value>;

/// Returns the object under `path`, or `None` if a step is missing or is not an object.
pub fn object<'a>(tree: &'a mut Object, path: &[&str]) -> Option<&'a mut Object> {
    path.iter().try_fold(tree, |tree, step| tree.get_mut(*step)?.as_object_mut())
}

/// Returns the object under `path`, and creates missing steps. Returns `None` if a step is not an
/// object. Such a step stays unchanged, and schema validation reports it.
pub fn object_or_new<'a>(tree: &'a mut Object, path: &[&str]) -> Option<&'a mut Object> {
    path.iter().try_fold(tree, |tree, step| {
        let child = tree.entry(*step).or_insert(Value::Null);
        if child.is_null() {
            *child = Value::Object(Map::new());
        }
        child.as_object_mut()
    })
}

/// Returns the objects in the list under `name`, with their indexes.
pub fn items<'a>(tree: &'a mut Object, name: &str) -> impl Iterator<Item = (usize, &'a mut Object)> {
    let list = tree.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().enumerate().filter_map(|(index, item)| Some((index, item.as_object_mut()?)))
}

/// Returns the text under `name`. Absent and empty text mean the same.
pub fn text<'a>(tree: &'a Object, name: &str) -> &'a str {
    tree.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Decodes a part of an object that has been admitted. The error is a 400 for the client.
pub fn decoded<'de, T: Deserialize<'de>>(part: Option<&'de Value>) -> Result<T, Status> {
    T::deserialize(part.unwrap_or(&Value::Null)).map_err(|error| Status::bad_request(error.to_string()))
}
