//! Decides on the write for a new version of a stored object (OC1-OC4, MD2, MD6-MD8, ST1-ST8, DE4).
//! PUT, patch, apply and batches share it. Pure functions.

use serde_json::Value;

use super::admit::Admission;
use super::metadata::{self, Tree};
use super::ownership::{Record, Writing};
use super::part::Part;
use super::stored::Stored;
use ballast_k8s::fields::ManagedFields;
use ballast_k8s::{Document, FieldErrors, FieldPath, Key, Object, Status};
use ballast_watch::{Draft, Expect, Write};

/// The write of an update.
pub(super) enum UpdateOutcome {
    /// The new version is equal to the stored one, so nothing is written (OC3).
    Unchanged,
    Put(Tree),
    /// The last finalizer of a deleted object was removed, so the object is deleted (DE4).
    Remove(Tree),
}

/// Checks the name and namespace of a body against the URL (VB17), and fills in missing ones.
pub(super) fn check_name_and_namespace(key: &Key, metadata: &mut Tree) -> Result<(), Status> {
    match metadata::text(metadata, "name") {
        "" => {
            let url = &key.name;
            let why = format!("the name of the object ({url} based on URL) was undeterminable: name must be provided");
            return Err(Status::bad_request(why));
        }
        name if name != &*key.name => {
            let url = &key.name;
            let message = format!("the name of the object ({name}) does not match the name on the URL ({url})");
            return Err(Status::bad_request(message));
        }
        _ => {}
    }
    if key.namespace.is_empty() {
        metadata.remove("namespace");
        return Ok(());
    }
    match metadata::text(metadata, "namespace") {
        "" => {
            metadata.insert("namespace".to_owned(), Value::from(&*key.namespace));
            Ok(())
        }
        namespace if namespace == &*key.namespace => Ok(()),
        namespace => Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            key.namespace
        ))),
    }
}

/// Checks optimistic concurrency: the new version must be based on the stored one (OC1, OC2).
pub(super) fn check_version(stored: &Stored, metadata: &Tree) -> Result<(), Status> {
    let Key { resource, name, .. } = &stored.object.key;
    let text = metadata::text(metadata, "resourceVersion");
    match ballast_k8s::list_options::parse_revision(text) {
        _ if matches!(text, "" | "0") => {
            let mut errors = FieldErrors::default();
            errors.invalid(&FieldPath::new("metadata.resourceVersion"), 0, "must be specified for an update");
            Err(Status::invalid(resource.group(), resource.resource(), name, &errors))
        }
        Err(unreadable) => Err(unreadable),
        Ok(revision) if revision == stored.object.revision => Ok(()),
        Ok(_) => Err(Status::conflict(*resource, name)),
    }
}

/// Rejects a body with another uid (OC4).
pub(super) fn check_uid(stored: &Stored, metadata: &Tree) -> Result<(), Status> {
    let Object { key, uid, .. } = &*stored.object;
    match metadata::text(metadata, "uid") {
        "" => Ok(()),
        own if own == &**uid => Ok(()),
        own => {
            let why = format!("Precondition failed: UID in precondition: {own}, UID in object meta: {uid}");
            Err(Status::conflict_because(key.resource, &key.name, &why))
        }
    }
}

/// The origin of a new version of an object, which determines the managed fields.
pub(super) enum Origin<'a> {
    Update {
        manager: &'a str,
        record: Record,
    },
    /// An apply, which decided on the managed fields when it merged its configuration.
    Apply(ManagedFields),
}

/// Decides on the write for `object`. The caller has checked its name, namespace and version.
pub(super) fn decide(
    admission: &Admission<'_>,
    part: Part,
    stored: &mut Stored,
    mut object: Tree,
    origin: Origin<'_>,
    warnings: &mut Vec<String>,
) -> Result<UpdateOutcome, Status> {
    let has_status = admission.row.status_subresource;
    let old = &stored.tree;
    let mut errors = FieldErrors::default();
    match part {
        Part::Status => object = with_status(old.clone(), object.remove("status")),
        Part::Main if has_status => object = with_status(object, old.get("status").cloned()),
        Part::Main | Part::Whole => {}
    }
    if part != Part::Status {
        let old_metadata = metadata::of(old);
        let metadata = metadata::of_mut(&mut object);
        metadata::inherit(metadata, old_metadata, &mut errors);
        metadata::merge_owners(metadata, warnings);
        metadata::warn_of_finalizers(metadata, Some(old_metadata), warnings);
        metadata.insert("resourceVersion".to_owned(), old_metadata["resourceVersion"].clone());
    }
    admission.finish(&mut object, Some(old), errors)?;
    if part != Part::Status {
        warnings.extend((admission.row.advise)(&object));
    }
    if part == Part::Status && (differs(&object, old, has_status) || object.get("metadata") != old.get("metadata")) {
        // A newer Ballast may have added defaults to the rest of the object. A status write must
        // not change the rest.
        object = with_status(old.clone(), object.remove("status"));
    }
    let is_same = object == *old;
    let managed = managed(admission, part, stored, &object, is_same, origin)?;
    let old = &stored.tree;
    let Some(managed) = managed else { return Ok(UpdateOutcome::Unchanged) };
    if let Some(list) = managed {
        metadata::of_mut(&mut object).insert("managedFields".to_owned(), list);
    }
    if part != Part::Status && differs(&object, old, has_status) {
        let generation = stored.object.generation + 1;
        metadata::of_mut(&mut object).insert("generation".to_owned(), Value::from(generation));
    }
    let is_done = stored.object.deleting && metadata::finalizers(metadata::of(&object)).next().is_none();
    Ok(if is_done { UpdateOutcome::Remove(object) } else { UpdateOutcome::Put(object) })
}

/// Returns the managed fields to write. The outer `None` means that neither they nor the object
/// change; the inner one that the object has none. Takes the list out of `stored`, which is not
/// used afterwards.
fn managed(
    admission: &Admission<'_>,
    part: Part,
    stored: &mut Stored,
    object: &Tree,
    is_same: bool,
    origin: Origin<'_>,
) -> Result<Option<Option<Value>>, Status> {
    let api_version = || admission.row.stored_api_version();
    let decode = |list: Vec<Value>| ManagedFields::decode(list, &api_version()).map_err(Status::internal);
    let managed = match origin {
        Origin::Apply(managed) => managed,
        Origin::Update { manager, record } => {
            // A status write does not change the managers of the rest, so it cannot replace them
            // either.
            let record = if part == Part::Status { Record::default() } else { record };
            let replaced = record.replacing(&stored.managed, api_version);
            if replaced.is_none() && is_same {
                return Ok(None);
            }
            if replaced.is_none() && stored.managed.is_empty() {
                return Ok(Some(None));
            }
            let is_replaced = replaced.is_some();
            let mut managed = match replaced {
                Some(managed) => managed,
                None => decode(std::mem::take(&mut stored.managed))?,
            };
            let writing = Writing { row: admission.row, part, manager, now: admission.now };
            writing.track(Some(&stored.tree), object, &mut managed).map_err(Status::internal)?;
            if !is_replaced {
                return Ok(Some(managed.encode()));
            }
            managed
        }
    };
    let is_known = is_same && managed.differs_only_in_times(&decode(std::mem::take(&mut stored.managed))?);
    Ok((!is_known).then(|| managed.encode()))
}

fn with_status(mut object: Tree, status: Option<Value>) -> Tree {
    match status {
        Some(status) => object.insert("status".to_owned(), status),
        None => object.remove("status"),
    };
    object
}

/// Returns whether a part changed that affects the generation (MD2, ST8).
fn differs(object: &Tree, old: &Tree, has_status: bool) -> bool {
    let counts = |name: &str| name != "metadata" && !(has_status && name == "status");
    let counted = |tree: &Tree| tree.keys().filter(|name| counts(name)).count();
    counted(object) != counted(old) || object.iter().any(|(name, value)| counts(name) && old.get(name) != Some(value))
}

/// Returns the write of an outcome. `None` if there is nothing to write.
pub(super) fn write(object: &Object, outcome: UpdateOutcome) -> Option<Write> {
    let draft = match outcome {
        UpdateOutcome::Unchanged => return None,
        UpdateOutcome::Put(tree) => Draft::Put(Document::new(tree)),
        UpdateOutcome::Remove(tree) => Draft::Delete(Document::new(tree)),
    };
    Some(Write { key: object.key.clone(), expect: Expect::At(object.revision), draft })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::admit::Author;
    use crate::test_kinds::Garden;
    use ballast_k8s::{FieldValidation, GroupResource, Revision, Time};
    use ballast_resource::ResourceKind;

    #[test]
    fn st2_a_status_write_does_not_carry_new_defaults_into_the_rest() {
        // Stored before beds had a default.
        let stored = json!({"apiVersion": "garden.example.com/v1", "kind": "Garden",
            "metadata": {"name": "g", "namespace": "n", "generation": 1, "resourceVersion": "3"},
            "spec": {"plants": [{"name": "rose"}]}});
        let key = Key::namespaced(GroupResource::new("gardens.garden.example.com"), "n", "g");
        let object = Object::decode(key, Revision(3), stored.to_string().into()).unwrap();
        let object = Arc::new(object);
        let tree = Stored::parse(Arc::clone(&object)).unwrap().tree;
        let row = ResourceKind::of::<Garden>();
        let admission = Admission {
            row: &row,
            author: Author::Client,
            field_validation: FieldValidation::Strict,
            now: Time::from_seconds(0),
        };
        let update = |part, status: Value| {
            let mut stored = Stored::parse(Arc::clone(&object)).unwrap();
            let mut object = tree.clone();
            object.insert("status".to_owned(), status);
            let origin = Origin::Update { manager: "m", record: Record::default() };
            decide(&admission, part, &mut stored, object, origin, &mut Vec::new()).unwrap()
        };
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let UpdateOutcome::Put(written) = update(Part::Status, ready.clone()) else { panic!("nothing to write") };
        assert_eq!((&written["spec"], &written["status"]), (&tree["spec"], &ready));
        let UpdateOutcome::Put(written) = update(Part::Main, ready) else { panic!("nothing to write") };
        assert_eq!((&written["spec"]["beds"], &written["metadata"]["generation"]), (&json!(2), &json!(2)));
    }

    #[test]
    fn md2_a_field_that_is_gone_differs_like_one_that_has_changed() {
        let tree = |value: Value| value.as_object().unwrap().clone();
        let old = tree(json!({"metadata": {"name": "g"}, "spec": 1, "data": 2, "status": 3}));
        let differs = |object: Value, has_status| differs(&tree(object), &old, has_status);
        assert!(!differs(json!({"metadata": {}, "spec": 1, "data": 2, "status": 3}), false));
        assert!(!differs(json!({"metadata": {}, "spec": 1, "data": 2}), true), "ST8");
        assert!(differs(json!({"metadata": {}, "spec": 1, "data": 2}), false));
        assert!(differs(json!({"metadata": {}, "spec": 1}), true));
        assert!(differs(json!({"metadata": {}, "spec": 2, "data": 2}), true));
    }
}
