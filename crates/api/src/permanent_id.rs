//! The label with the permanent id of an object. Karmada's controllers use it to find the objects
//! of a policy or a binding, and reject objects without it.
//!
//! Upstream generates a random id when an object is created, and keeps an id that the client chose.
//! Here the id is the uid of the object, and clients cannot choose it: a client that chose the id
//! of another policy would reference that policy's bindings (WH6).

use serde_json::Value;

use super::tree::{self, Object};
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::Given;

use super::meta::ObjectMeta;

/// The treatment of a client's change of the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Leave the change in the object, so that `check` rejects it.
    Refuse,
    /// Restore the previous label.
    Undo,
}

/// Sets the label of a new object and restores it if an update removed it. Components of Ballast
/// may create objects with the id that the object has elsewhere.
pub fn keep(object: &mut Object, label: &str, given: &Given<'_>, on_change: OnChange) {
    let old = given.old.and_then(|old| old.get("metadata"));
    let known = old.and_then(|metadata| metadata.get("labels")?.get(label)).filter(|known| is_id(known)).cloned();
    let brought = || object.get("metadata")?.get("labels")?.get(label).filter(|id| is_id(id));
    let is_left = match &known {
        Some(_) => on_change == OnChange::Refuse,
        None => !given.is_by_client,
    };
    if is_left && brought().is_some() {
        return;
    }
    let id = known.or_else(|| object.get("metadata")?.get("uid").cloned());
    let Some(id) = id.filter(is_id) else { return };
    if let Some(labels) = tree::object_or_new(object, &["metadata", "labels"]) {
        labels.insert(label.to_owned(), id);
    }
}

fn is_id(id: &Value) -> bool {
    id.as_str().is_some_and(|id| !id.is_empty())
}

/// Rejects a change of the label.
pub fn check(label: &str, new: &ObjectMeta, old: Option<&ObjectMeta>, errors: &mut FieldErrors) {
    let Some(before) = old.and_then(|old| old.labels.get(label)).filter(|before| !before.is_empty()) else { return };
    let after = new.labels.get(label).map_or("", String::as_str);
    if after != before {
        let path = FieldPath::new("metadata.labels").key(label);
        let detail = format!("label {label} is immutable, it can only be set by the system during creation");
        errors.invalid(&path, after, detail);
    }
}
