//! Server-side apply: merges a configuration into the object, where each field has the managers
//! that set it (AP1-AP23). `ownership` decides; this file parses, merges and commits.
//!
//! `read` checks that the body is a configuration of this kind. The configuration is merged, and
//! conflicts are rejected. The result is processed like every update (`update_outcome::decide`),
//! with the new managed fields. A configuration without a resource version is applied again after a
//! concurrent write.
//!
//! A null in a configuration means absence, as everywhere else: it owns nothing and removes
//! nothing.

use super::admission_chain::AdmissionChain;
use super::admit::{Admission, Author, strict_sentence};
use super::core::{Registry, Written};
use super::external_admission::{Caller, Operation, RequestOptions};
use super::keyed_locks::ATTEMPTS_MAX;
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::ownership::{Refused, Writing, refusal};
use super::part::Part;
use super::stored::Stored;
use super::update_outcome::{self, Origin};
use super::{commit, create, newest};
use ballast_k8s::fields::ManagedFields;
use ballast_k8s::{Body, FieldErrors, FieldPath, FieldValidation, Key, Status, WriteOptions};
use ballast_resource::{Inspection, ResourceKind};
use ballast_watch::Rejected;

/// Whether the caller is known to be allowed to create objects. It matters only if the object does
/// not exist (PA14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayCreate {
    Yes,
    Unknown,
}

impl Registry {
    /// Applies the configuration in `body`. Returns `None`, without writing, if the object does not
    /// exist and `may_create` is `Unknown`.
    pub async fn apply(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        body: Body,
        options: &WriteOptions,
        may_create: MayCreate,
    ) -> Result<Option<Written>, Status> {
        self.allow_write(target, "patch")?;
        let key = target.key()?;
        let row = &*target.row;
        let part = if target.status { Part::Status } else { Part::Main };
        let admission = |now| {
            let field_validation = options.field_validation;
            Admission { row, author: Author::Client, field_validation, now }
        };
        let chain = |operation| AdmissionChain::new(self, caller, target, operation, RequestOptions::Write(options));
        let (creating, updating) = (chain(Operation::Create), chain(Operation::Update));
        let _lock = self.locks.lock(&key).await;
        let is_there = self.core.cache.view().get(&key).is_some();
        let Config { config, mended, duplicates } = read(&admission(self.core.clock.now()), (&key, is_there), body)?;
        for _ in 0..ATTEMPTS_MAX {
            let admission = admission(self.core.clock.now());
            let writing = Writing { row, part, manager: options.manager(), now: admission.now };
            let mut warnings = mended.clone();
            let object = match target.status {
                // If the view lacks an existing object, the create below finds it.
                false => self.core.cache.view().get(&key).cloned(),
                true => newest::object(&self.core, &key).await?,
            };
            let Some(object) = object else {
                if target.status {
                    return Err(Status::not_found(key.resource, &key.name));
                }
                check_no_uid(&key, &config)?;
                if may_create == MayCreate::Unknown {
                    return Ok(None);
                }
                refuse_duplicates(&admission, &duplicates, &mut warnings)?;
                match self.create_applied(&creating, &admission, &writing, &config, &mut warnings).await {
                    // Another write has created the object meanwhile: apply to it.
                    Err(status) if status.reason == "AlreadyExists" => continue,
                    outcome => return outcome.map(|written| Some(Written { warnings, ..written })),
                }
            };
            let mut stored = Stored::parse(object)?;
            if !metadata::text(metadata::of(&config), "resourceVersion").is_empty() {
                update_outcome::check_version(&stored, metadata::of(&config))?;
            }
            check_same_uid(row, &stored, metadata::of(&config))?;
            let mut managed =
                ManagedFields::decode(stored.managed.clone(), &row.stored_api_version()).map_err(Status::internal)?;
            let mut applied = match writing.apply(Some(&stored.tree), &config, &mut managed, options.force) {
                Ok(applied) => applied,
                Err(Refused::Conflicts(conflicts)) => return Err(refusal(&conflicts)),
                Err(Refused::Malformed(malformed)) => return Err(Status::internal(malformed)),
            };
            refuse_duplicates(&admission, &duplicates, &mut warnings)?;
            updating.mutate(&mut applied, Some(&stored.tree), |_| Ok(())).await?;
            let mut outcome =
                update_outcome::decide(&admission, part, &mut stored, applied, Origin::Apply(managed), &mut warnings)?;
            updating.validate_update(&mut outcome, &stored).await?;
            match commit::commit_update(&self.core, stored, outcome, options.dry_run).await? {
                Ok(object) => return Ok(Some(Written { object, created: false, warnings })),
                Err(Rejected::Changed(_) | Rejected::Missing) => {}
                Err(rejected) => return Err(commit::refusal(&key, rejected)),
            }
        }
        Err(Status::conflict(key.resource, &key.name))
    }

    async fn create_applied(
        &self,
        chain: &AdmissionChain<'_>,
        admission: &Admission<'_>,
        writing: &Writing<'_>,
        config: &Tree,
        warnings: &mut Vec<String>,
    ) -> Result<Written, Status> {
        let mut managed = ManagedFields::default();
        let mut object = match writing.apply(None, config, &mut managed, false) {
            Ok(object) => object,
            Err(Refused::Conflicts(conflicts)) => return Err(refusal(&conflicts)),
            Err(Refused::Malformed(malformed)) => return Err(Status::internal(malformed)),
        };
        if let Some(namespace) = chain.target.namespace.as_deref() {
            metadata::of_mut(&mut object).insert("namespace".to_owned(), namespace.into());
        }
        let set_managed = |object: &mut Tree| {
            create::set_managed(object, managed.clone());
            Ok(())
        };
        chain.mutate(&mut object, None, set_managed).await?;
        create::prepare(&self.core, admission, &mut object, warnings)?;
        create::set_managed(&mut object, managed);
        chain.validate_external(&object, None).await?;
        chain.validate_builtin(&mut object, None).await?;
        self.insert(admission.row, object, None, false, Vec::new(), chain.dry_run()).await
    }
}

/// A validated configuration of this kind.
struct Config {
    config: Tree,
    mended: Vec<String>,
    /// Duplicate keys in the text. They are reported after conflicts, as upstream does (AP18).
    duplicates: Vec<String>,
}

/// Checks that the body is a configuration of this kind, name and namespace (AP15, AP17, AP18).
fn read(admission: &Admission<'_>, (key, is_there): (&Key, bool), body: Body) -> Result<Config, Status> {
    let row = admission.row;
    let duplicates = match admission.field_validation {
        FieldValidation::Strict => body.strict_faults(),
        _ => body.duplicate_warnings(),
    };
    let mut config = body.value;
    let (api_version, kind) = (metadata::text(&config, "apiVersion"), metadata::text(&config, "kind"));
    if (api_version, kind) != (&row.api_version(), row.kind) {
        // A version of the core group has no slash. Upstream shows one.
        let slash = if api_version.contains('/') { "" } else { "/" };
        return Err(Status::bad_request(format!("invalid object type: {slash}{api_version}, Kind={kind}")));
    }
    if admission.check_metadata(&mut config)?.is_some_and(|managed| !managed.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let metadata = metadata::of_mut(&mut config);
    if is_there && metadata::text(metadata, "name").is_empty() {
        // An existing object already has a name.
        metadata.insert("name".to_owned(), (&*key.name).into());
    }
    let names_its_namespace = metadata.contains_key("namespace");
    update_outcome::check_name_and_namespace(key, metadata)?;
    if !names_its_namespace {
        // The configuration is recorded as sent.
        metadata.remove("namespace");
    }
    let mended = (row.mend)(&mut config);
    if admission.field_validation == FieldValidation::Strict && !mended.is_empty() {
        return Err(admission.undecodable(&strict_sentence(&mended)));
    }
    let Inspection { errors, warnings } = (row.inspect)(&row.schema, &config);
    if !errors.is_empty() {
        return Err(admission.invalid(&config, &errors));
    }
    let mended = mended.into_iter().chain(warnings).collect();
    let faults = row.schema.check_config(&config);
    if !faults.is_empty() {
        let place = match key.namespace.is_empty() {
            true => format!("/{}", key.name),
            false => format!("{}/{}", key.namespace, key.name),
        };
        let faults = match faults.as_slice() {
            [only] => only.clone(),
            many => format!("errors:\n  {}", many.join("\n  ")),
        };
        return Err(Status::bad_request(format!(
            "failed to create typed patch object ({place}; {}, Kind={}): {faults}",
            row.api_version(),
            row.kind
        )));
    }
    // All fields are known here, so `prune` only converts values to their stored form.
    row.schema.prune(&mut config);
    // Versions differ only in their name, so managers are recorded under the stored version.
    config.insert("apiVersion".to_owned(), row.stored_api_version().into());
    Ok(Config { config, mended, duplicates })
}

/// Rejects or warns about duplicate keys, according to the field validation (FV9).
fn refuse_duplicates(
    admission: &Admission<'_>,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    match admission.field_validation {
        FieldValidation::Strict if !duplicates.is_empty() => {
            let duplicates = duplicates.join(", ");
            Err(Status::bad_request(format!("error strict decoding YAML: error converting YAML to JSON: {duplicates}")))
        }
        FieldValidation::Warn => {
            warnings.extend_from_slice(duplicates);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Rejects a configuration with the uid of another object.
fn check_same_uid(row: &ResourceKind, stored: &Stored, metadata: &Tree) -> Result<(), Status> {
    let uid = metadata::text(metadata, "uid");
    if uid.is_empty() || uid == metadata::text(metadata::of(&stored.tree), "uid") {
        return Ok(());
    }
    let mut errors = FieldErrors::default();
    errors.invalid(&FieldPath::new("metadata.uid"), uid, "field is immutable");
    Err(Status::invalid(row.group, row.kind, &stored.object.key.name, &errors))
}

/// Rejects a configuration with a uid if no object exists (AP16).
fn check_no_uid(key: &Key, config: &Tree) -> Result<(), Status> {
    match metadata::text(metadata::of(config), "uid") {
        "" => Ok(()),
        uid => Err(Status::conflict_because(
            key.resource,
            &key.name,
            &format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found"),
        )),
    }
}
