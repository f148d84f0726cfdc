//! Import: validates an object of another server against the kinds here, and changes as little as
//! possible.
//!
//! The uid, the times, the generation, the status and the managed fields stay. The kind's `prepare`
//! does not run, because the object is not new. Schema defaults are filled in, as at start-up, so
//! that the start after an import has nothing to write.

use serde_json::Value;

use super::admit::{Admission, Author};
use super::create::key_of;
use super::metadata::{self, Tree};
use ballast_k8s::{FieldErrors, FieldPath, FieldValidation, Key, Status, Time};
use ballast_resource::ResourceKind;

/// Members of `metadata` that an object must have: references to it depend on them.
const NEEDED: [&str; 3] = ["name", "uid", "creationTimestamp"];
/// Members of `metadata` that are specific to the other server.
const DROPPED: [&str; 2] = ["resourceVersion", "selfLink"];

/// An object that can be stored here.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub key: Key,
    /// Without `metadata.resourceVersion`.
    pub object: Tree,
    /// The sorted paths of fields that the schema here does not have. They were removed.
    pub unknown: Vec<String>,
}

/// Converts an object of this kind, in any served version, for the log. The `Status` is the reason
/// why it cannot be stored here.
pub fn import(row: &ResourceKind, mut object: Tree) -> Result<Imported, Status> {
    let (author, field_validation, now) = (Author::Worker, FieldValidation::Ignore, Time::default());
    let admission = Admission { row, author, field_validation, now };
    object.insert("apiVersion".to_owned(), row.stored_api_version().into());
    object.insert("kind".to_owned(), row.kind.into());
    let managed = admission.check_metadata(&mut object)?;
    let unknown = row.schema.prune(&mut object);
    row.schema.default(&mut object);
    let metadata = metadata::of_mut(&mut object);
    DROPPED.iter().for_each(|name| drop(metadata.remove(*name)));
    if !row.is_namespaced() {
        metadata.remove("namespace");
    }
    let mut errors = FieldErrors::default();
    for name in NEEDED.into_iter().filter(|name| metadata::text(metadata, name).is_empty()) {
        errors.required(&FieldPath::new("metadata").child(name), "an imported object has its own");
    }
    metadata::validate(metadata, row.is_namespaced(), &mut errors);
    // Validated like an update that changes nothing: immutable fields are unchanged, and rules for
    // new objects do not apply.
    errors.append(admission.faults(&object, Some(&object)));
    if !errors.is_empty() {
        return Err(admission.invalid(&object, &errors));
    }
    if let Some(Value::Array(list)) = managed.filter(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
        metadata::of_mut(&mut object).insert("managedFields".to_owned(), list.into());
    }
    Ok(Imported { key: key_of(row, metadata::of(&object)), object, unknown: unknown.told() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_kinds::Garden;
    use super::*;

    fn garden(metadata: Value, spec: Value) -> Tree {
        let object = json!({"apiVersion": "garden.example.com/v1", "kind": "Garden", "metadata": metadata,
            "spec": spec, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let Value::Object(tree) = object else { panic!("not an object") };
        tree
    }

    fn known() -> Value {
        json!({"name": "g", "namespace": "n", "uid": "u-1", "creationTimestamp": "2024-01-01T00:00:00Z",
            "generation": 7, "resourceVersion": "99", "finalizers": ["a.example.com/b"],
            "deletionTimestamp": "2024-02-01T00:00:00Z",
            "managedFields": [{"manager": "me", "operation": "Update", "apiVersion": "garden.example.com/v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}, "time": "2024-01-01T00:00:00Z"}]})
    }

    #[test]
    fn an_imported_object_keeps_what_a_server_gave_it() {
        let row = ResourceKind::of::<Garden>();
        let taken = import(&row, garden(known(), json!({"plants": [{"name": "rose"}], "gnomes": 3}))).unwrap();
        let mut expected = known();
        expected.as_object_mut().unwrap().remove("resourceVersion");
        assert_eq!(taken.object["metadata"], expected);
        assert_eq!(taken.key, Key::namespaced(row.resource, "n", "g"));
        assert_eq!(taken.unknown, ["spec.gnomes"], "a field that is lost is named");
        assert_eq!(taken.object["spec"]["beds"], 2, "the defaults of here are filled in");
        assert_eq!(import(&row, taken.object.clone()).unwrap().object, taken.object, "nothing is left to do");
    }

    #[test]
    fn what_has_no_identity_or_does_not_fit_is_refused_with_the_path() {
        let row = ResourceKind::of::<Garden>();
        let paths = |status: Status| -> Vec<String> {
            status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect()
        };
        let bare = import(&row, garden(json!({"name": "g", "namespace": "n"}), json!({"plants": [{"name": "rose"}]})));
        assert_eq!(paths(bare.unwrap_err()), ["metadata.uid", "metadata.creationTimestamp"]);
        let wrong = import(&row, garden(known(), json!({"plants": []})));
        assert_eq!(paths(wrong.unwrap_err()), ["spec.plants"]);
    }
}
