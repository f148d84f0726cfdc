//! Edits: updates by Ballast components that name the members they change. The rest of the object
//! was admitted when it was stored; it is neither parsed nor validated again, and its text is
//! copied.
//!
//! *Invariant:* an edit has the result of an update of the whole object. Debug builds, and
//! therefore all tests, do both and compare.
//!
//! If the object has managers, the edit is recorded in them. Managers change only where fields
//! change, which the edited members show.
//!
//! In a batch, most objects have the same record of managers and the same shape of change, and so
//! the same new record (`Known`).
//!
//! Not supported: deletes and finalizers. A write that removes the last finalizer must be an
//! update.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::admit::{Admission, Read};
use super::metadata::{self, Tree};
use super::ownership::{Record, Writing};
use super::part::Part;
use super::stored::Stored;
use super::update_outcome::{self, Origin, UpdateOutcome};
use ballast_k8s::fields::ManagedFields;
use ballast_k8s::{
    Body, Document, Edit, EditValue, FieldErrors, GroupResource, Managers, Object, Outline, Parts, RecordShape,
    ShapePatch, Status,
};
use ballast_resource::Comparison;

/// Objects longer than this are admitted as a whole when their metadata is edited, because the
/// total size of annotations is limited. Shorter objects cannot exceed the limit.
const WITHIN_ALL_BOUNDS_BYTES: usize = 128 * 1024;

/// The number of record changes that a batch caches.
const KNOWN_MAX: usize = 8;

/// Cached changes of manager records by the edits of one batch, which share a manager and a time.
#[derive(Default)]
pub(super) struct Known(VecDeque<(GroupResource, RecordShape, Shape, ShapePatch)>);

/// The input that determines a comparison. Two changes of the same shape add, modify and remove the
/// same fields, so most need not be compared.
#[derive(PartialEq, Eq)]
struct Shape {
    members: Vec<&'static [&'static str]>,
    /// Whether the edit of each member changed it.
    changed: Vec<bool>,
    before: Outline,
    after: Outline,
}

/// Returns the stored object with the edits applied. `None` if they change nothing.
pub(super) fn document(
    admission: &Admission<'_>,
    manager: &str,
    stored: &Arc<Object>,
    edits: &[Edit],
    known: &mut Known,
) -> Result<Option<Document>, Status> {
    let content = stored.text.content();
    let members: Vec<_> = edits.iter().map(|edit| edit.member).collect();
    let mut parts = Parts::read_for(&content, &members).map_err(Status::internal)?;
    let touches_metadata = edits.iter().any(|edit| edit.member.first() == Some(&"metadata"));
    let may_exceed = touches_metadata && stored.text.len() > WITHIN_ALL_BOUNDS_BYTES;
    if may_exceed {
        return Ok(updated(admission, manager, stored, edits)?.map(Document::new));
    }
    let mut errors = FieldErrors::default();
    for Edit { member, value } in edits {
        match value {
            Some(EditValue::Tree(tree)) => errors.append(admission.row.schema.validate_member(member, Some(tree))),
            None => errors.append(admission.row.schema.validate_member(member, None)),
            Some(EditValue::Text(_)) => {}
        }
    }
    if !errors.is_empty() {
        return Err(Status::invalid(admission.row.group, admission.row.kind, &stored.key.name, &errors));
    }
    let mut managers = stored.text.managers().cloned();
    let schema = &admission.row.schema;
    let is_one = |member: &[&str], text: &str| schema.is_one_field(member, text);
    let before = managers.is_some().then(|| parts.outline(&members, &is_one));
    let mut changed = Vec::with_capacity(edits.len());
    let mut generation = stored.generation;
    for edit in edits {
        let is_change = parts.edit(edit);
        changed.push(is_change);
        if is_change && counts(admission, edit) {
            generation = stored.generation + 1;
        }
    }
    if !changed.contains(&true) {
        return Ok(None);
    }
    if let (Some(before), Some(record)) = (before, &managers) {
        let after = parts.outline(&members, &is_one);
        let compare = || {
            let read = |member: &[&str], text: &str| schema.comparable(member, text);
            let before = Parts::read(&content)?.sketch(&members, &read);
            Ok(schema.compare(&before, &parts.sketch(&members, &read)))
        };
        let shape = are_apart(&members).then(|| Shape { members: members.clone(), changed, before, after });
        let writing = Writing { row: admission.row, part: Part::Whole, manager, now: admission.now };
        managers = known.patch(&writing, record, shape, compare)?;
    }
    Ok(Some(Document::edited(stored, parts, managers, generation)))
}

/// Returns whether no member is named twice, or within another one. Then each edit can be checked
/// for changes separately.
fn are_apart(members: &[&[&str]]) -> bool {
    let is_apart = |one: &[&str], other: &[&str]| !one.starts_with(other) && !other.starts_with(one);
    members.iter().enumerate().all(|(index, one)| members[..index].iter().all(|other| is_apart(one, other)))
}

impl Known {
    /// Returns the record after the writer was made the manager of the changed fields. Without a
    /// shape, the change is not cached.
    fn patch(
        &mut self,
        writing: &Writing<'_>,
        record: &Managers,
        shape: Option<Shape>,
        compare: impl FnOnce() -> Result<Comparison, serde_json::Error>,
    ) -> Result<Option<Managers>, Status> {
        let Writing { row, now, .. } = *writing;
        let alike = shape.and_then(|shape| Some((RecordShape::of(record, now)?, shape)));
        if let Some((record_shape, shape)) = &alike
            && let Some((.., patch)) = self
                .0
                .iter()
                .find(|(resource, known, same, _)| (*resource, known, same) == (row.resource, record_shape, shape))
            && let Some(made) = patch.of(record, now)
        {
            return Ok(made);
        }
        let comparison = compare().map_err(Status::internal)?;
        let decoded = ManagedFields::decode(record.values(), &row.stored_api_version());
        let mut managed = decoded.map_err(Status::internal)?;
        writing.credit(comparison, &mut managed).map_err(Status::internal)?;
        let made = managed.encode().as_ref().and_then(Value::as_array).map(|list| Managers::of(list));
        if let (Some((record_shape, shape)), Some(patch)) = (alike, ShapePatch::between(record, made.as_ref(), now)) {
            self.0.truncate(KNOWN_MAX - 1);
            self.0.push_front((row.resource, record_shape, shape, patch));
        }
        Ok(made)
    }
}

/// Returns whether the edit increments the generation (MD2, ST8).
fn counts(admission: &Admission<'_>, edit: &Edit) -> bool {
    match edit.member.first() {
        Some(&"status") => !admission.row.status_subresource,
        first => first != Some(&"metadata"),
    }
}

/// Returns the result of the same edits by an update of the whole object.
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
    Ok(match update_outcome::decide(admission, Part::Whole, &mut stored, object, origin, &mut unheard)? {
        UpdateOutcome::Unchanged => None,
        UpdateOutcome::Put(tree) | UpdateOutcome::Remove(tree) => Some(tree),
    })
}

/// Returns whether an update of the whole object has the same result. Additional changes by the
/// update do not count: an object stored by an older Ballast may lack a default.
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
