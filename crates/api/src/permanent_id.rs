//! The label with the permanent id of an object. Karmada's controllers use it to find what belongs
//! to a policy or a binding, and refuse objects without it.
//!
//! Upstream makes a random id when an object is created. Here the id is the uid of the object.

use serde_json::Value;

use super::tree::{self, Object};
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::Given;

use super::meta::ObjectMeta;

/// Sets the label if it is missing. An update without the label does not remove it.
pub fn keep(object: &mut Object, label: &str, given: &Given<'_>) {
    let old = given.old.and_then(|old| old.get("metadata"));
    let known = old.and_then(|metadata| metadata.get("labels")?.get(label)).cloned();
    let id = known.or_else(|| object.get("metadata")?.get("uid").cloned());
    let Some(id) = id.filter(|id| id.as_str().is_some_and(|id| !id.is_empty())) else { return };
    if let Some(labels) = tree::object_or_new(object, &["metadata", "labels"]) {
        let current = labels.entry(label).or_insert(Value::Null);
        if current.as_str().is_none_or(str::is_empty) {
            *current = id;
        }
    }
}

/// Refuses a change of the label.
pub fn check(label: &str, new: &ObjectMeta, old: Option<&ObjectMeta>, errors: &mut FieldErrors) {
    let Some(before) = old.and_then(|old| old.labels.get(label)) else { return };
    let after = new.labels.get(label).map_or("", String::as_str);
    if after != before {
        let path = FieldPath::new("metadata.labels").key(label);
        let detail = format!("label {label} is immutable, it can only be set by the system during creation");
        errors.invalid(&path, after, detail);
    }
}
