//! Checks that the members of `metadata` have the types of `ObjectMeta` (MD12, TL9), with the words
//! of upstream's decoder.

use serde_json::{Map, Value};

use ballast_k8s::{Time, type_of};

type Tree = Map<String, Value>;

/// Returns `metadata` as an object. The error contains its actual type.
pub(super) fn expect_object(metadata: &mut Value) -> Result<&mut Tree, String> {
    let found = type_of(metadata);
    metadata
        .as_object_mut()
        .ok_or_else(|| format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"))
}

/// Checks the type of each known member (MD12). Removes nulls and empty maps and lists, because
/// Go's `ObjectMeta` does not distinguish them from absent ones.
pub(super) fn check_types(metadata: &mut Tree) -> Result<(), String> {
    check_all_types(metadata)?;
    metadata.retain(|_, value| match value {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    Ok(())
}

fn check_all_types(metadata: &mut Tree) -> Result<(), String> {
    metadata.retain(|_, value| !value.is_null());
    for (name, value) in metadata {
        let member = &format!("ObjectMeta.{name}");
        match name.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "selfLink" => {
                check(value.is_string(), value, "string", member)?;
            }
            "creationTimestamp" | "deletionTimestamp" => check_time(value, member)?,
            "generation" | "deletionGracePeriodSeconds" => {
                if let Some(whole) = whole(value) {
                    *value = whole.into();
                }
                check(value.is_i64(), value, "int64", member)?;
            }
            "managedFields" => check_managed_fields_types(value)?,
            "labels" | "annotations" => {
                let Value::Object(entries) = value else {
                    return Err(mismatch(value, "map[string]string", member));
                };
                entries.retain(|_, value| !value.is_null());
                for value in entries.values() {
                    check(value.is_string(), value, "string", member)?;
                }
            }
            "finalizers" => {
                let Value::Array(items) = value else {
                    return Err(mismatch(value, "[]string", member));
                };
                for item in items {
                    check(item.is_string(), item, "string", member)?;
                }
            }
            "ownerReferences" => {
                let Value::Array(items) = value else {
                    return Err(mismatch(value, "[]v1.OwnerReference", member));
                };
                items.iter_mut().try_for_each(check_owner_types)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_owner_types(owner: &mut Value) -> Result<(), String> {
    let Value::Object(owner) = owner else {
        return Err(mismatch(owner, "v1.OwnerReference", "ObjectMeta.ownerReferences"));
    };
    owner.retain(|_, value| !value.is_null());
    for (name, value) in owner {
        let path = &format!("OwnerReference.ownerReferences.{name}");
        match name.as_str() {
            "apiVersion" | "kind" | "name" | "uid" => check(value.is_string(), value, "string", path)?,
            "controller" | "blockOwnerDeletion" => check(value.is_boolean(), value, "bool", path)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks `metadata.managedFields` (AP20): a list of entries with typed members.
pub(super) fn check_managed_fields_types(list: &Value) -> Result<(), String> {
    let entries = match list {
        Value::Array(entries) => entries.as_slice(),
        Value::Null => &[],
        other => return Err(mismatch(other, "[]v1.ManagedFieldsEntry", "ObjectMeta.managedFields")),
    };
    for entry in entries.iter().filter(|entry| !entry.is_null()) {
        let Value::Object(entry) = entry else {
            return Err(mismatch(entry, "v1.ManagedFieldsEntry", "ObjectMeta.managedFields"));
        };
        for (name, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
            let path = &format!("ManagedFieldsEntry.managedFields.{name}");
            match name.as_str() {
                "manager" | "operation" | "apiVersion" | "fieldsType" | "subresource" => {
                    check(value.is_string(), value, "string", path)?;
                }
                "time" => check_time(value, path)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn check_time(value: &Value, path: &str) -> Result<(), String> {
    check(value.is_string(), value, "string", path)?;
    let text = value.as_str().unwrap_or_default();
    match text.parse::<Time>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let form = "2006-01-02T15:04:05Z07:00";
            Err(format!("parsing time {text:?} as {form:?}: cannot parse {text:?} as \"2006\""))
        }
    }
}

/// Converts a number such as `1e2` to an integer, as upstream does for metadata of custom
/// resources.
fn whole(value: &Value) -> Option<i64> {
    /// The first float beyond all integers of 64 bits.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let float = value.as_f64().filter(|_| value.is_f64())?;
    (float.fract() == 0.0 && float.abs() < BEYOND).then_some(float as i64)
}

fn check(holds: bool, value: &Value, expected: &str, path: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(mismatch(value, expected, path)) }
}

fn mismatch(value: &Value, expected: &str, path: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {path} of type {expected}", type_of(value))
}
