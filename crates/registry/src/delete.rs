//! Delete: preconditions and finalizers (DE1-DE3, DE6-DE11). An object with finalizers is only
//! marked; the owners of the finalizers finish the delete.

use std::sync::Arc;

use serde_json::Value;

use super::admission_chain::AdmissionChain;
use super::commit;
use super::core::Registry;
use super::external_admission::{Caller, Operation, RequestOptions};
use super::list::List;
use super::locator::Locator;
use super::metadata::{self, Tree};
use super::newest;
use super::stored::{Stored, unstored};
use super::update_outcome::{self, UpdateOutcome};
use ballast_k8s::{DeleteOptions, Details, Key, ListOptions, Object, Propagation, Status, Time};
use ballast_watch::{Atomicity, Rejected, Write};

/// How often a delete without preconditions is tried again because others wrote first.
const ATTEMPTS_MAX: usize = 5;
/// How many objects a deletecollection deletes in one transaction.
const COLLECTION_CHUNK: usize = 500;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The result of a delete.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object is gone. The status names it (VB5).
    Gone(Status),
    /// The object is marked, and goes when its finalizers are removed.
    Pending(Arc<Object>),
}

impl Registry {
    pub async fn delete(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        self.allow_write(target, "delete")?;
        let key = target.key()?;
        let chain = AdmissionChain::new(self, caller, target, Operation::Delete, RequestOptions::Delete(options));
        delete(&chain, &key, options).await
    }

    /// Deletes the objects that the options select, at most as many as the limit allows, and
    /// returns them as they were (DE11). Not atomic: objects that others delete meanwhile are
    /// skipped.
    pub async fn delete_collection(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        self.allow_write(target, "deletecollection")?;
        let found = self.list_collection(target, list).await?;
        for (number, chunk) in found.items.chunks(COLLECTION_CHUNK).enumerate() {
            let done = if options.dry_run { 0 } else { number * COLLECTION_CHUNK };
            let deleted = self.delete_chunk(caller, target, chunk, options).await;
            deleted.map_err(|status| status.partly_done(done, found.items.len(), "deleted"))?;
            tokio::task::yield_now().await;
        }
        Ok(found)
    }

    async fn delete_chunk(
        &self,
        caller: Caller<'_>,
        target: &Locator,
        chunk: &[Arc<Object>],
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let now = self.core.clock.now();
        let chain = AdmissionChain::new(self, caller, target, Operation::Delete, RequestOptions::Delete(options));
        let mut writes: Vec<Write> = Vec::with_capacity(chunk.len());
        for object in chunk {
            check_preconditions(target.row.kind, object, options)?;
            chain.delete(object).await?;
            let stored = Stored::parse(Arc::clone(object))?;
            writes.extend(update_outcome::write(&stored.object, decide(&stored, options.propagation, now)));
        }
        if options.dry_run {
            return Ok(());
        }
        let keys: Vec<Key> = writes.iter().map(|write| write.key.clone()).collect();
        let outcomes = self.core.writer.commit(writes, Atomicity::Each).await.map_err(commit::failure)?;
        for (key, outcome) in keys.iter().zip(outcomes) {
            if let Err(Rejected::Changed(_)) = outcome {
                let namespace = (!key.namespace.is_empty()).then(|| key.namespace.to_string());
                let one = Locator { namespace, name: Some(key.name.to_string()), ..target.clone() };
                let chain = AdmissionChain::new(self, caller, &one, Operation::Delete, RequestOptions::Delete(options));
                match delete(&chain, key, options).await {
                    Err(status) if status.code != 404 => return Err(status),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

async fn delete(chain: &AdmissionChain<'_>, key: &Key, options: &DeleteOptions) -> Result<Deleted, Status> {
    let AdmissionChain { core, target, .. } = *chain;
    for _ in 0..ATTEMPTS_MAX {
        let stored = newest::stored(core, key).await?;
        check_preconditions(target.row.kind, &stored.object, options)?;
        chain.delete(&stored.object).await?;
        let uid = stored.object.uid.clone();
        let outcome = decide(&stored, options.propagation, core.clock.now());
        let is_gone = matches!(outcome, UpdateOutcome::Remove(_));
        let written = match outcome {
            UpdateOutcome::Put(tree) if options.dry_run => {
                let shown = unstored(key.clone(), Some(stored.object.revision), tree)?;
                return Ok(Deleted::Pending(shown));
            }
            UpdateOutcome::Remove(_) if options.dry_run => Ok(stored.object),
            outcome => match update_outcome::write(&stored.object, outcome) {
                Some(write) => commit::commit_one(core, write).await?,
                None => Ok(stored.object),
            },
        };
        match written {
            Ok(_) if is_gone => return Ok(Deleted::Gone(Status::deleted(key.resource, &key.name, &uid))),
            Ok(object) => return Ok(Deleted::Pending(object)),
            Err(Rejected::Changed(_)) => {}
            Err(rejected) => return Err(commit::refusal(key, rejected)),
        }
    }
    Err(Status::conflict(key.resource, &key.name))
}

/// Decides the outcome of a delete of this object.
pub(super) fn decide(stored: &Stored, propagation: Option<Propagation>, now: Time) -> UpdateOutcome {
    let mut tree = stored.whole();
    let metadata = metadata::of_mut(&mut tree);
    set_finalizers(metadata, propagation);
    if metadata::finalizers(metadata).next().is_none() {
        return UpdateOutcome::Remove(tree);
    }
    if !stored.object.deleting {
        metadata.insert("deletionTimestamp".to_owned(), Value::from(now.to_string()));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
        metadata.insert("generation".to_owned(), Value::from(stored.object.generation + 1));
    }
    if tree == stored.whole() { UpdateOutcome::Unchanged } else { UpdateOutcome::Put(tree) }
}

/// Sets the finalizers of the garbage collector according to `propagation`. `None` leaves them
/// unchanged (DE6).
fn set_finalizers(metadata: &mut Tree, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let wanted = match propagation {
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Background => None,
    };
    let is_other = |finalizer: &&str| !matches!(*finalizer, FOREGROUND | ORPHAN);
    let mut finalizers: Vec<Value> = metadata::finalizers(metadata).filter(is_other).map(Value::from).collect();
    finalizers.extend(wanted.map(Value::from));
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), Value::from(finalizers));
    }
}

/// Checks the uid and resourceVersion that the caller requires. The conflicts name the kind, not
/// the resource (ER5).
pub(super) fn check_preconditions(kind: &str, object: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let Key { resource, name, .. } = &object.key;
    let conflict = |why: String| {
        let message = format!("Operation cannot be fulfilled on {kind}.{} {name:?}: {why}", resource.group());
        let details = Details { kind: kind.to_owned(), ..Details::of(*resource, name) };
        Err(Status::failure(409, "Conflict", message).with(details))
    };
    if let Some(uid) = options.uid.as_deref().filter(|&uid| uid != &*object.uid) {
        let actual = &object.uid;
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({actual}). The object might have \
             been deleted and then recreated"
        ));
    }
    let actual = object.revision.to_string();
    if let Some(version) = options.resource_version.as_deref().filter(|&version| version != actual) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({actual}). The object might have been modified"
        ));
    }
    Ok(())
}
