//! Ownership of fields: the fields that a write makes its manager own, the fields that an apply
//! sets, and conflicts between managers (AP6-AP9, AP13, AP14, AP21, AP23). Pure functions of trees,
//! sets and a time.
//!
//! An object without managers is not tracked, and an update of it records nothing. Tracking starts
//! with a create by a client, or with the first apply, which records `before-first-apply` as the
//! manager of all existing fields. Objects created by Ballast's workers start untracked, so
//! thousands of objects that are never applied need no memory for managers.

use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::Value;

use super::metadata::{self, Tree};
use super::part::Part;
use ballast_k8s::fields::{Element, Entry, FieldSet, Malformed, ManagedFields, Manager, Operation, Path};
use ballast_k8s::{Cause, Details, Managers, Status, Time};
use ballast_resource::{Comparison, ResourceKind};

const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The only manager with recognized client-side applies (AP23).
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `metadata.managedFields` of a body, unparsed (AP20). It is parsed only if it differs from the
/// stored list.
#[derive(Default)]
pub(super) struct Record(Option<Value>);

impl Record {
    pub fn of(managed_fields: Option<Value>) -> Record {
        Record(managed_fields)
    }

    /// Returns the managed fields with which the body replaces the stored ones. `None` if it has
    /// none, or none that can be parsed. `[{}]` resets them. An empty list counts as none, because
    /// clients that do not support managed fields send it.
    pub fn replacing(self, stored: &[Value], api_version: impl FnOnce() -> String) -> Option<ManagedFields> {
        let Some(Value::Array(list)) = self.0 else { return None };
        if list == stored {
            return None;
        }
        if let [Value::Object(only)] = list.as_slice()
            && only.is_empty()
        {
            return Some(ManagedFields::default());
        }
        ManagedFields::decode_strictly(list, &api_version()).ok().filter(|managed| !managed.is_empty())
    }
}

/// The properties of a write that ownership depends on.
#[derive(Clone, Copy)]
pub(super) struct Writing<'a> {
    pub row: &'a ResourceKind,
    pub part: Part,
    pub manager: &'a str,
    pub now: Time,
}

/// The reason why a configuration was not applied.
#[derive(Debug)]
pub(super) enum Refused {
    Conflicts(Vec<Conflict>),
    /// The stored managed fields cannot be parsed. Ballast did not write them.
    Malformed(Malformed),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Refused {
        Refused::Malformed(malformed)
    }
}

/// A field that another manager has set to another value.
#[derive(Debug)]
pub(super) struct Conflict {
    /// The other manager, formatted as upstream does.
    manager: String,
    path: Path,
}

impl Writing<'_> {
    fn by(&self, operation: Operation, name: &str) -> Manager {
        let subresource = if self.part == Part::Status { "status" } else { "" };
        Manager { operation, name: name.to_owned(), subresource: subresource.to_owned() }
    }

    /// Returns whether a write of this part can change the field at all (AP21).
    fn reaches(&self, element: &Element) -> bool {
        element.as_field().is_none_or(|name| self.reaches_field(name))
    }

    fn reaches_field(&self, name: &str) -> bool {
        match self.part {
            Part::Status => name == "status",
            Part::Main if self.row.status_subresource => name != "status",
            Part::Main | Part::Whole => true,
        }
    }

    /// Returns the encoded managers of a new object that brings none, for a create of the main
    /// part: the same record that `track` makes. `None` if the writer would manage no field.
    ///
    /// Building a set, then a tree and then a text took a fifth of the CPU time of a create.
    pub fn begin(&self, object: &Tree) -> Option<Managers> {
        let fields = self.row.schema.added_text(object, stripped(), |name| self.reaches_field(name))?;
        let entry = Entry::text_of_update(self.manager, &self.row.stored_api_version(), &fields, self.now);
        Some(Managers::of_text(&entry))
    }

    /// Makes the writer the manager of the fields that an update changed (AP10). An untracked
    /// object stays untracked, unless it is new.
    pub fn track(&self, old: Option<&Tree>, new: &Tree, managed: &mut ManagedFields) -> Result<(), Malformed> {
        if managed.is_empty() && old.is_some() {
            return Ok(());
        }
        let comparison = match old {
            Some(old) => self.row.schema.compare(old, new),
            None => self.row.schema.compare(&Tree::new(), new),
        };
        self.record(comparison, managed, self.manager)
    }

    /// Like `track`, for an update with known differences.
    pub fn credit(&self, differences: Comparison, managed: &mut ManagedFields) -> Result<(), Malformed> {
        match managed.is_empty() {
            true => Ok(()),
            false => self.record(differences, managed, self.manager),
        }
    }

    /// Records a comparison. A write of all parts is recorded as two writes, one of the status and
    /// one of the rest.
    fn record(&self, comparison: Comparison, managed: &mut ManagedFields, name: &str) -> Result<(), Malformed> {
        if self.part == Part::Whole && self.row.status_subresource {
            Writing { part: Part::Status, ..*self }.record(comparison.clone(), managed, name)?;
            return Writing { part: Part::Main, ..*self }.record(comparison, managed, name);
        }
        let comparison = comparison.filtered(|element| self.reaches(element));
        if comparison.is_empty() {
            return Ok(());
        }
        let api_version = self.row.stored_api_version();
        let me = self.by(Operation::Update, name);
        let Comparison { added: mut written, modified, removed } = comparison;
        written.add(modified);
        if managed.iter().any(|entry| entry.manager != me) {
            managed.take_from_others(&me, &written.union(&removed))?;
        }
        if !written.is_empty() && managed.renew(&me, &written, &removed, self.now) {
            return Ok(());
        }
        let (mut mine, time) = match managed.find(&me) {
            Some(entry) => (entry.fields()?, entry.time),
            None => (FieldSet::default(), None),
        };
        // A manager that only removed fields has set nothing, so its time stays.
        let time = if written.is_empty() { time.unwrap_or(self.now) } else { self.now };
        mine.remove(&removed);
        mine.add(written);
        mine.remove(stripped());
        managed.set(&me, &api_version, mine, time);
        Ok(())
    }

    /// Merges the configuration into the live object, and brings `managed` up to date.
    pub(super) fn apply(
        &self,
        live: Option<&Tree>,
        config: &Tree,
        managed: &mut ManagedFields,
        force: bool,
    ) -> Result<Tree, Refused> {
        let Some(live) = live else {
            let mine = self.wanted(config).difference(stripped());
            let me = self.by(Operation::Apply, self.manager);
            managed.set(&me, &self.row.stored_api_version(), mine, self.now);
            return Ok(config.clone());
        };
        if managed.is_empty() {
            let everything = self.row.schema.compare(&Tree::new(), live);
            self.record(everything, managed, BEFORE_FIRST_APPLY)?;
        }
        let mut applied = self.merge(live, config, managed, force)?;
        self.sync_last_applied(config, &mut applied);
        Ok(applied)
    }

    fn wanted(&self, config: &Tree) -> FieldSet {
        self.row.schema.fields_of(config).filtered(|element| self.reaches(element))
    }

    fn merge(&self, live: &Tree, config: &Tree, managed: &mut ManagedFields, force: bool) -> Result<Tree, Refused> {
        let schema = &self.row.schema;
        let me = self.by(Operation::Apply, self.manager);
        let (before, time) = match managed.find(&me) {
            Some(entry) => (Some(entry.fields()?), entry.time),
            None => (None, None),
        };
        let wanted = self.wanted(config);
        let merged = schema.merge(live.clone(), config);
        let merged = match &before {
            Some(before) if !before.difference(&wanted).is_empty() => {
                self.without_unowned(merged, before, &wanted, managed, &me)?
            }
            _ => merged,
        };
        let comparison = schema.compare(live, &merged).filtered(|element| self.reaches(element));
        let written = comparison.written();
        if !force {
            let conflicts = conflicts(managed, &me, &written, &self.row.stored_api_version())?;
            let conflicts = match self.manager == KUBECTL && !conflicts.is_empty() {
                true => self.without_own_history(live, conflicts),
                false => conflicts,
            };
            if !conflicts.is_empty() {
                return Err(Refused::Conflicts(conflicts));
            }
        }
        managed.take_from_others(&me, &written.union(&comparison.removed))?;
        let mine = wanted.difference(stripped());
        let is_as_before = before.as_ref() == Some(&mine) && comparison.is_empty();
        let time = if is_as_before { time.unwrap_or(self.now) } else { self.now };
        managed.set(&me, &self.row.stored_api_version(), mine, time);
        Ok(merged)
    }

    /// Removes the fields that this manager applied before and no longer applies, if no other
    /// manager owns them (AP9).
    fn without_unowned(
        &self,
        merged: Tree,
        before: &FieldSet,
        wanted: &FieldSet,
        managed: &ManagedFields,
        me: &Manager,
    ) -> Result<Tree, Malformed> {
        let schema = &self.row.schema;
        let all = |object: &Tree| schema.with_structs(&schema.fields_of(object));
        let mut owned = wanted.clone();
        for entry in managed.iter().filter(|entry| entry.manager != *me) {
            owned.add(entry.fields()?);
        }
        let (owned, before) = (schema.with_structs(&owned), schema.with_structs(before));
        let everything = all(&merged);
        // First removes all fields of this manager, with everything below them; then adds the owned
        // ones again.
        let bare = schema.without(merged.clone(), &before);
        let unowned = everything.difference(&all(&bare).union(&owned));
        let kept = schema.without(merged.clone(), &unowned);
        // Fields below them that no manager owns stay.
        let gone = everything.difference(&all(&kept)).intersection(&before);
        Ok(schema.without(merged, &gone))
    }

    /// Drops conflicts of kubectl with its own client-side applies. The annotation contains the
    /// configuration that kubectl applied last; kubectl may take over live fields that still have
    /// those values (AP23).
    fn without_own_history(&self, live: &Tree, conflicts: Vec<Conflict>) -> Vec<Conflict> {
        let Some(last) = last_applied(live).and_then(|text| serde_json::from_str::<Tree>(text).ok()) else {
            return conflicts;
        };
        let known = [self.row.api_version(), self.row.stored_api_version()];
        if !known.iter().any(|version| metadata::text(&last, "apiVersion") == version) {
            return conflicts;
        }
        let schema = &self.row.schema;
        let Comparison { added, modified, removed } = schema.compare(&last, live);
        let own = schema.fields_of(&last).difference(&modified).difference(&added).difference(&removed);
        conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path.0)).collect()
    }

    /// Keeps kubectl's annotation up to date, for users that return to client-side apply.
    fn sync_last_applied(&self, config: &Tree, applied: &mut Tree) {
        if self.manager != KUBECTL || self.part == Part::Status || last_applied(applied).is_none() {
            return;
        }
        let mut config = config.clone();
        if let Some(annotations) = metadata::of_mut(&mut config).get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
        let text = Value::Object(config).to_string() + "\n";
        if let Some(annotations) = metadata::of_mut(applied).get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.insert(LAST_APPLIED.to_owned(), Value::from(text));
        }
    }
}

fn last_applied(object: &Tree) -> Option<&str> {
    let annotations = metadata::of(object).get("annotations")?.as_object()?;
    annotations.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

fn conflicts(
    managed: &ManagedFields,
    me: &Manager,
    written: &FieldSet,
    api_version: &str,
) -> Result<Vec<Conflict>, Malformed> {
    let mut conflicts = Vec::new();
    for entry in managed.iter().filter(|entry| entry.manager != *me) {
        let manager = described(&entry.manager, api_version);
        let paths = entry.fields()?.intersection(written).paths();
        conflicts.extend(paths.into_iter().map(|path| Conflict { manager: manager.clone(), path }));
    }
    conflicts.sort_by(|a, b| a.manager.cmp(&b.manager).then_with(|| a.path.cmp(&b.path)));
    Ok(conflicts)
}

fn described(manager: &Manager, api_version: &str) -> String {
    let mut text = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        text += &format!(" with subresource {:?}", manager.subresource);
    }
    if manager.operation == Operation::Update {
        text += &format!(" using {api_version}");
    }
    text
}

/// Returns the `Status` for conflicts (AP6).
pub(super) fn refusal(conflicts: &[Conflict]) -> Status {
    let message = match conflicts {
        [Conflict { manager, path }] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
        many => {
            let mut lines: Vec<String> = Vec::new();
            let mut last: Option<&str> = None;
            for Conflict { manager, path } in many {
                if last != Some(manager) {
                    lines.push(format!("conflicts with {manager}:"));
                    last = Some(manager);
                }
                lines.push(format!("- {path}"));
            }
            let mut text = format!("Apply failed with {} conflicts: ", many.len());
            write!(text, "{}", lines.join("\n")).expect("writing to memory cannot fail");
            text
        }
    };
    let cause = |Conflict { manager, path }: &Conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {manager}"),
        field: path.to_string(),
    };
    let causes = conflicts.iter().map(cause).collect();
    Status::failure(409, "Conflict", message).with(Details { causes, ..Details::default() })
}

/// Returns the fields without an owner: the identity of the object, and fields that only the server
/// sets (AP14).
fn stripped() -> &'static FieldSet {
    static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
        const OF_METADATA: [&str; 9] = [
            "clusterName",
            "creationTimestamp",
            "generation",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
            "uid",
        ];
        let mut set = FieldSet::default();
        for name in ["apiVersion", "kind", "metadata"] {
            set.insert(&[Element::field(name)]);
        }
        for name in OF_METADATA {
            set.insert(&[Element::field("metadata"), Element::field(name)]);
        }
        set
    });
    &STRIPPED
}

#[cfg(test)]
mod tests;
