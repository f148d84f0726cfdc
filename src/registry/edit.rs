//! Edits: updates by parts of Ballast that name the members they change. The rest of the object was
//! admitted when it was stored, so it is neither parsed nor validated again; its text is copied.
//!
//! *Invariant:* an edit has the result of an update of the whole object. Debug builds, and with
//! them all tests, do both and compare.
//!
//! Where the object has managers, the edit is recorded among them. Managers change only where
//! fields change, so it is enough to compare the edited members before and after.
//!
//! Left out: deletes and finalizers. A write that removes the last finalizer has to be an update.

use std::sync::Arc;

use serde_json::Value;

use super::admit::{Admission, Read};
use super::metadata::{self, Tree};
use super::ownership::{Record, Writing};
use super::part::Part;
use super::plan::{self, Origin, Plan};
use super::stored::Stored;
use crate::k8s::fields::{Malformed, ManagedFields};
use crate::k8s::{Body, Document, Edit, FieldErrors, Managers, Object, Parts, Status};

/// Objects longer than this are admitted as a whole when their metadata is edited, because all
/// annotations together have a bound. Shorter objects cannot exceed it.
const WITHIN_ALL_BOUNDS_BYTES: usize = 128 * 1024;

/// The stored object with its edits. `None` if they change nothing.
pub(super) fn document(
    admission: &Admission<'_>,
    manager: &str,
    stored: &Arc<Object>,
    edits: &[Edit],
) -> Result<Option<Document>, Status> {
    let content = stored.text.content();
    let mut parts = Parts::read(&content).map_err(Status::internal)?;
    let touches_metadata = edits.iter().any(|edit| edit.member.first() == Some(&"metadata"));
    let may_exceed = touches_metadata && stored.text.len() > WITHIN_ALL_BOUNDS_BYTES;
    if may_exceed {
        return Ok(updated(admission, manager, stored, edits)?.map(Document::new));
    }
    let mut errors = FieldErrors::default();
    for Edit { member, value } in edits {
        errors.append(admission.row.schema.validate_member(member, value.as_ref()));
    }
    if !errors.is_empty() {
        return Err(Status::invalid(admission.row.group, admission.row.kind, &stored.key.name, &errors));
    }
    let members: Vec<_> = edits.iter().map(|edit| edit.member).collect();
    let mut managers = stored.text.managers().cloned();
    let before = managers.is_some().then(|| parts.sketch(&members));
    let (mut changes, mut generation) = (false, stored.generation);
    for edit in edits {
        let is_change = parts.edit(edit);
        changes |= is_change;
        if is_change && counts(admission, edit) {
            generation = stored.generation + 1;
        }
    }
    if !changes {
        return Ok(None);
    }
    if let (Some(before), Some(known)) = (before, &managers) {
        let after = parts.sketch(&members);
        let writing = Writing { row: admission.row, part: Part::Whole, manager, now: admission.now };
        managers = record(&writing, known, &before, &after).map_err(Status::internal)?;
    }
    Ok(Some(Document::edited(stored, parts, managers, generation)))
}

/// Makes the writer the manager of what changed.
fn record(
    writing: &Writing<'_>,
    managers: &Managers,
    before: &Tree,
    after: &Tree,
) -> Result<Option<Managers>, Malformed> {
    let mut managed = ManagedFields::decode(managers.values(), &writing.row.stored_api_version())?;
    writing.track(Some(before), after, &mut managed)?;
    Ok(managed.encode().as_ref().and_then(Value::as_array).map(|list| Managers::of(list)))
}

/// Whether the edit raises the generation (MD2, ST8).
fn counts(admission: &Admission<'_>, edit: &Edit) -> bool {
    match edit.member.first() {
        Some(&"status") => !admission.row.status_subresource,
        first => first != Some(&"metadata"),
    }
}

/// The result of the same edits by an update of the whole object.
fn updated(
    admission: &Admission<'_>,
    manager: &str,
    stored: &Arc<Object>,
    edits: &[Edit],
) -> Result<Option<Tree>, Status> {
    let mut stored = Stored::parse(Arc::clone(stored))?;
    let mut tree = stored.tree.clone();
    edits.iter().for_each(|edit| edit.apply(&mut tree));
    let Read { object, warnings: mut unheard, .. } = admission.read_strictly(Body::of(tree))?;
    let origin = Origin::Update { manager, record: Record::default() };
    Ok(match plan::plan(admission, Part::Whole, &mut stored, object, origin, &mut unheard)? {
        Plan::Nothing => None,
        Plan::Put(tree) | Plan::Remove(tree) => Some(tree),
    })
}

/// Whether an update of the whole object has the same result. Where an update changes more than the
/// edits do, the edits are not to blame: an object that an older Ballast stored may lack a default.
pub(super) fn is_what_an_update_does(
    admission: &Admission<'_>,
    manager: &str,
    stored: &Arc<Object>,
    edits: &[Edit],
    document: Option<&Document>,
) -> bool {
    let text = document.map(|document| document.at(stored.revision));
    let edited: Option<Tree> = text.map(|text| serde_json::from_slice(&text.whole()).expect("made of JSON"));
    let same = |mut tree: Tree| {
        metadata::of_mut(&mut tree).insert("resourceVersion".to_owned(), stored.revision.to_string().into());
        tree
    };
    let is_same = updated(admission, manager, stored, edits).is_ok_and(|updated| updated.map(same) == edited);
    is_same || !matches!(updated(admission, manager, stored, &[]), Ok(None))
}
