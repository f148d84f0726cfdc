//! Create: names, identity, admission and the write (GN1-GN3, MD1, OC5, ST1, VB17, DE5). For a kind
//! that is not stored, its action runs instead of the write (VB24).

use serde_json::Value;

use super::admission_chain::AdmissionChain;
use super::admit::{Admission, Author, Read, has_more_values};
use super::commit;
use super::core::{Core, Registry, Written};
use super::external_admission::{Caller, Operation, RequestOptions};
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::newest;
use super::ownership::Writing;
use super::part::Part;
use super::stored::unstored;
use ballast_k8s::fields::ManagedFields;
use ballast_k8s::{Body, Document, FieldErrors, FieldPath, Key, Managers, Status, WriteOptions};
use ballast_resource::{Lifetime, ResourceKind};
use ballast_watch::{Draft, Expect, Rejected, Write};

/// The maximum number of generated names that are tried (GN1).
const GENERATED_NAMES_MAX: usize = 8;

impl Registry {
    pub async fn create(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.allow_write(target, "create")?;
        let (row, now) = (&*target.row, self.core.clock.now());
        let admission = Admission { row, author: Author::Client, field_validation: options.field_validation, now };
        let read = admission.read_strictly(body)?;
        let said = read.warnings.clone();
        let written = self.create_read(caller, target, &admission, read, options).await;
        written.inspect_err(|_| said.iter().for_each(|warning| caller.warnings.warn(warning)))
    }

    /// Creates a parsed object. The caller gets the warnings about the body even if the object is
    /// rejected.
    async fn create_read(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        admission: &Admission<'_>,
        Read { mut object, record, mut warnings, .. }: Read,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let Admission { row, now, .. } = *admission;
        set_name_and_namespace(target, &mut object)?;
        let operation = Operation::Create;
        let chain = AdmissionChain::new(self, caller, target, operation, RequestOptions::Write(options));
        let writing = Writing { row, part: Part::Main, manager: options.manager(), now };
        let managed = record.replacing(&[], || row.stored_api_version()).unwrap_or_default();
        let track = |object: &mut Tree, mut managed: ManagedFields| {
            writing.track(None, object, &mut managed).map_err(Status::internal)?;
            set_managed(object, managed);
            Ok(())
        };
        let set_managed = |object: &mut Tree| match row.lifetime {
            Lifetime::Action => Ok(()),
            _ => track(object, managed.clone()),
        };
        chain.mutate(&mut object, None, set_managed).await?;
        if row.lifetime == Lifetime::Action {
            return self.run_action(&chain, admission, object, warnings).await;
        }
        let generated = prepare(&self.core, admission, &mut object, &mut warnings)?;
        // External admission sees the managed fields in the object.
        let managers = match managed.is_empty() && !options.dry_run && !chain.is_admitted(&object) {
            true => writing.begin(&object),
            false => {
                track(&mut object, managed)?;
                None
            }
        };
        chain.validate_external(&object, None).await?;
        chain.validate_builtin(&mut object, None).await?;
        self.insert(row, object, managers, generated, warnings, options.dry_run).await
    }

    /// Writes an object that is ready. If its name was generated and is taken, others are tried.
    /// `managers`: its record, if the object does not have it.
    pub(super) async fn insert(
        &self,
        row: &ResourceKind,
        mut object: Tree,
        managers: Option<Managers>,
        generated: bool,
        warnings: Vec<String>,
        dry_run: bool,
    ) -> Result<Written, Status> {
        for attempt in 1.. {
            let key = key_of(row, metadata::of(&object));
            let stored = match newest::taken(&self.core, &key).await? {
                Some(there) => Err(Rejected::Exists(there)),
                None if dry_run => match commit::rehearse(&self.core, &key, Expect::Absent, object.clone()) {
                    Ok(()) => return not_stored(key, object, warnings),
                    Err(rejected) => Err(rejected),
                },
                None => {
                    // The tree is needed again only to try another generated name.
                    let tree = if generated { object.clone() } else { std::mem::take(&mut object) };
                    let draft = Draft::Put(Document::managed(tree, managers.clone()));
                    commit::check_size(&self.core, &key, None, &draft)?;
                    let write = Write { key: key.clone(), expect: Expect::Absent, draft };
                    commit::commit_one(&self.core, write).await?
                }
            };
            match stored {
                Ok(object) => return Ok(Written { object, created: true, warnings }),
                Err(Rejected::Refused(status)) => return Err(*status),
                Err(_) if generated && attempt < GENERATED_NAMES_MAX => generate_another_name(&self.core, &mut object),
                Err(Rejected::Exists(there)) => return Err(commit::exists(&there, generated)),
                Err(rejected) => return Err(commit::refusal(&key, rejected)),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Creates an object of a kind that is not stored. The response has no uid and no
    /// resourceVersion (RV20).
    async fn run_action(
        &self,
        chain: &AdmissionChain<'_>,
        admission: &Admission<'_>,
        mut object: Tree,
        mut warnings: Vec<String>,
    ) -> Result<Written, Status> {
        let row = admission.row;
        let Some(action) = self.actions.get(&row.resource) else {
            return Err(Status::unavailable(format!("nothing here acts on {}", row.resource)));
        };
        metadata::wipe(metadata::of_mut(&mut object));
        admission.finish(&mut object, None, FieldErrors::default())?;
        chain.validate_external(&object, None).await?;
        chain.validate_builtin(&mut object, None).await?;
        warnings.extend(action.create(chain.caller.user, &mut object, chain.dry_run()).await?);
        let key = key_of(row, metadata::of(&object));
        let made = match has_more_values(&object, INLINE_VALUES_MAX) {
            true => tokio::task::spawn_blocking(move || unstored(key, None, object))
                .await
                .map_err(|_| Status::internal("failed to write an answer"))??,
            false => unstored(key, None, object)?,
        };
        Ok(Written { object: made, created: true, warnings })
    }
}

/// Results of actions with more values are serialized and dropped on a blocking thread: the result
/// of a review has up to 16 MiB.
const INLINE_VALUES_MAX: usize = 2_000;

pub(super) fn set_managed(object: &mut Tree, managed: ManagedFields) {
    if let Some(list) = managed.encode() {
        metadata::of_mut(object).insert("managedFields".to_owned(), list);
    }
}

/// Makes a new object ready to be stored. Returns true if its name was generated.
pub(super) fn prepare(
    core: &Core,
    admission: &Admission<'_>,
    object: &mut Tree,
    warnings: &mut Vec<String>,
) -> Result<bool, Status> {
    let metadata = metadata::of_mut(object);
    if !metadata::text(metadata, "resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let mut errors = FieldErrors::default();
    let is_generated = metadata::text(metadata, "name").is_empty();
    if is_generated {
        match metadata::text(metadata, "generateName") {
            "" => errors.required(&FieldPath::new("metadata.name"), "name or generateName is required"),
            base => {
                let name = metadata::generate_name(base, core.clock.random());
                metadata.insert("name".to_owned(), Value::from(name));
            }
        }
    }
    metadata::begin(metadata, core.clock.uuid(), admission.now);
    metadata::merge_owners(metadata, warnings);
    metadata::warn_of_finalizers(metadata, None, warnings);
    if admission.row.status_subresource {
        object.remove("status");
    }
    admission.finish(object, None, errors)?;
    warnings.extend((admission.row.advise)(object));
    Ok(is_generated)
}

/// Sets the namespace and name of the URL in the object, and rejects an object with different ones
/// (VB17, MD15).
fn set_name_and_namespace(target: &Locator, object: &mut Tree) -> Result<(), Status> {
    let metadata = metadata::of_mut(object);
    match (&target.namespace, target.row.is_namespaced()) {
        (Some(namespace), true) => match metadata::text(metadata, "namespace") {
            own if own == namespace => {}
            "" => {
                metadata.insert("namespace".to_owned(), Value::from(namespace.as_str()));
            }
            _ => {
                let message = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(Status::bad_request(message));
            }
        },
        (None, true) => return Err(Status::bad_request("an empty namespace may not be set during creation")),
        (Some(_), false) => return Err(Status::not_found(target.row.resource, "")),
        (None, false) => {
            metadata.remove("namespace");
        }
    }
    if let Some(name) = &target.name {
        match metadata::text(metadata, "name") {
            own if own == name => {}
            "" => {
                metadata.insert("name".to_owned(), Value::from(name.as_str()));
            }
            own => {
                let message = format!("the name of the object ({own}) does not match the name on the URL ({name})");
                return Err(Status::bad_request(message));
            }
        }
    }
    Ok(())
}

fn generate_another_name(core: &Core, object: &mut Tree) {
    let metadata = metadata::of_mut(object);
    let name = metadata::generate_name(metadata::text(metadata, "generateName"), core.clock.random());
    metadata.insert("name".to_owned(), Value::from(name));
}

pub(super) fn key_of(row: &ResourceKind, metadata: &Tree) -> Key {
    let name = metadata::text(metadata, "name");
    match row.is_namespaced() {
        true => Key::namespaced(row.resource, metadata::text(metadata, "namespace"), name),
        false => Key::cluster(row.resource, name),
    }
}

fn not_stored(key: Key, object: Tree, warnings: Vec<String>) -> Result<Written, Status> {
    Ok(Written { object: unstored(key, None, object)?, created: true, warnings })
}
