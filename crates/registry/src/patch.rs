//! Patch: the patch is applied to the stored object, and the result goes the way of an update (PA3,
//! PA4, PA7, PA9-PA11). A patch that names no version is applied again when another write came
//! first.

use super::admission_chain::AdmissionChain;
use super::admit::{Admission, Author, Read, strict_sentence};
use super::commit;
use super::core::{Registry, Written};
use super::external_admission::{Caller, Operation, RequestOptions};
use super::keyed_locks::ATTEMPTS_MAX;
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::metadata_types::{check_types, expect_object};
use super::newest;
use super::ownership::Record;
use super::part::Part;
use super::stored::Stored;
use super::update_outcome::{self, Origin};
use ballast_k8s::{FieldErrors, FieldPath, FieldValidation, Key, Patch, Status, WriteOptions};
use ballast_watch::Rejected;

impl Registry {
    pub async fn patch(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        patch: Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.allow_write(target, "patch")?;
        let key = target.key()?;
        let part = if target.status { Part::Status } else { Part::Main };
        let operation = Operation::Update;
        let chain = AdmissionChain::new(self, caller, target, operation, RequestOptions::Write(options));
        let _lock = self.locks.lock(&key).await;
        for _ in 0..ATTEMPTS_MAX {
            let mut stored = newest::stored(&self.core, &key).await?;
            let admission = Admission {
                row: &target.row,
                author: Author::Client,
                field_validation: options.field_validation,
                now: self.core.clock.now(),
            };
            let Patched { mut object, record, mut warnings } = patched(&admission, &key, &stored, &patch)?;
            chain.mutate(&mut object, Some(&stored.tree), |_| Ok(())).await?;
            let origin = Origin::Update { manager: options.manager(), record };
            let mut outcome = update_outcome::decide(&admission, part, &mut stored, object, origin, &mut warnings)?;
            chain.validate_update(&mut outcome, &stored).await?;
            match commit::commit_update(&self.core, stored, outcome, options.dry_run).await? {
                Ok(object) => return Ok(Written { object, created: false, warnings }),
                // A patch that names a version is rejected above on the next attempt.
                Err(Rejected::Changed(_)) => {}
                Err(rejected) => return Err(commit::refusal(&key, rejected)),
            }
        }
        Err(Status::conflict(key.resource, &key.name))
    }
}

/// The object that a patch makes of the stored one.
struct Patched {
    object: Tree,
    /// The managed fields that the patched object has.
    record: Record,
    warnings: Vec<String>,
}

fn patched(admission: &Admission<'_>, key: &Key, stored: &Stored, patch: &Patch) -> Result<Patched, Status> {
    // The managed fields are as long as many an object, and few patches are about them.
    let is_about_managers = patch.touches(&["metadata", "managedFields"]);
    let mut value = match is_about_managers || patch.touches(&["apiVersion"]) {
        true => apply(admission, if is_about_managers { stored.whole() } else { stored.tree.clone() }, patch)?,
        false => {
            let mut value = patch.applied_to(&stored.tree)?;
            value.insert("apiVersion".to_owned(), admission.row.api_version().into());
            value
        }
    };
    admission.row.fill_type_meta(&mut value);
    let read = admission.read(patch.body(value));
    let mut read = read.map_err(|refused| unreadable(admission, stored, patch, refused))?;
    admission.check_inspection(&mut read, Some(&stored.tree))?;
    match admission.field_validation {
        FieldValidation::Strict => read.strict_faults.splice(..0, patch.faulty_members()).for_each(drop),
        FieldValidation::Warn => read.warnings.splice(..0, patch.faulty_members()).for_each(drop),
        FieldValidation::Ignore => {}
    }
    if !read.strict_faults.is_empty() {
        // The refusal shows the whole object.
        let shown = apply(admission, stored.whole(), patch)?;
        return Err(invalid_result(&shown, &strict_sentence(&read.strict_faults)));
    }
    let Read { mut object, record, warnings, .. } = read;
    update_outcome::check_name_and_namespace(key, metadata::of_mut(&mut object))?;
    update_outcome::check_version(stored, metadata::of(&object))?;
    Ok(Patched { object, record, warnings })
}

/// Applies a patch to an object in the requested version.
fn apply(admission: &Admission<'_>, mut tree: Tree, patch: &Patch) -> Result<Tree, Status> {
    tree.insert("apiVersion".to_owned(), admission.row.api_version().into());
    patch.apply(tree)
}

/// Returns the error of a patch with an invalid result, which it contains.
fn invalid_result(shown: &impl serde::Serialize, why: &str) -> Status {
    let mut errors = FieldErrors::default();
    errors.invalid(&FieldPath::new("patch"), serde_json::to_string(shown).unwrap_or_default(), why);
    Status::invalid("", "", "", &errors)
}

/// Returns the error with the message for patches (PA7), because `refused` describes a body. The
/// patch is applied again, so that successful patches need not keep their result.
fn unreadable(admission: &Admission<'_>, stored: &Stored, patch: &Patch, refused: Status) -> Status {
    let Ok(mut value) = apply(admission, stored.whole(), patch) else { return refused };
    let kind = metadata::text(&value, "kind").to_owned();
    if kind.is_empty() {
        let shown = serde_json::to_string(&value).unwrap_or_default();
        return invalid_result(&value, &format!("Object 'Kind' is missing in '{shown}'"));
    }
    let (api_version, wanted) = (metadata::text(&value, "apiVersion"), admission.row.api_version());
    if !api_version.is_empty() && api_version != wanted {
        let mut errors = FieldErrors::default();
        errors.invalid(&FieldPath::new("apiVersion"), api_version, format!("must be {wanted}"));
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        return Status::invalid(group, &kind, &stored.object.key.name, &errors);
    }
    let shown = value.clone();
    let fault = value.get_mut("metadata").map(|metadata| expect_object(metadata).and_then(check_types));
    match fault {
        Some(Err(why)) => invalid_result(&shown, &why),
        _ => refused,
    }
}
