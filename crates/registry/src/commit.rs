//! Commits the decision of a verb, and converts a rejected or failed write into a `Status`.

use std::sync::Arc;

use super::core::Core;
use super::metadata::Tree;
use super::stored::{Stored, unstored};
use super::update_outcome::{self, UpdateOutcome};
use ballast_base::metrics;
use ballast_k8s::{Details, Document, Key, Object, Status};
use ballast_watch::{Atomicity, Draft, Expect, Rejected, Write, WriteError};

/// The size to which clients may let an object grow. The body of one request is limited, but
/// patches and the fields that workers write add up (MD13).
const OBJECT_BYTES_MAX: usize = 12 * 1024 * 1024;
/// The growth in bytes that an object is allowed in a full namespace. Otherwise a finalizer could
/// not be removed there, or a rebalance aborted.
const GROWTH_BYTES_FREE: usize = 256;

/// Rejects an object that a client made too large, or that exceeds the bytes of its namespace.
/// `before` is the stored object.
pub(super) fn check_size(core: &Core, key: &Key, before: Option<&Object>, draft: &Draft) -> Result<(), Status> {
    let Draft::Put(document) = draft else { return Ok(()) };
    if document.len() > OBJECT_BYTES_MAX {
        return Err(Status::too_large(OBJECT_BYTES_MAX));
    }
    let Some(&limited) = core.namespace_bytes_max.get().filter(|_| !key.namespace.is_empty()) else { return Ok(()) };
    let requested = document.whole_len().saturating_sub(before.map_or(0, |before| before.text.len()));
    let used = core.cache.view().namespace_bytes(&key.namespace);
    // A small growth is allowed: the lengths of the revision and the times vary.
    if requested <= GROWTH_BYTES_FREE && before.is_some() || used + requested <= limited {
        return Ok(());
    }
    metrics::namespace_bytes_refused();
    let (resource, name) = (key.resource, &*key.name);
    let namespace = &key.namespace;
    let quota = format!("exceeded quota: stored bytes of namespace {namespace:?}");
    let amounts = format!("requested: {requested}, used: {used}, limited: {limited} (--max-namespace-bytes)");
    Err(Status::forbidden(resource, name, &format!("{quota}, {amounts}")))
}

/// Commits the outcome of an update. A dry run only returns the resulting object. The inner error
/// is the reason why the writer rejected the write, for example a concurrent write.
///
/// `stored` is taken by value, because a write waits for the disk. A tree that is freed before
/// that, on the thread that allocated it, leaves cached memory to the next request.
pub(super) async fn commit_update(
    core: &Core,
    stored: Stored,
    outcome: UpdateOutcome,
    dry_run: bool,
) -> Result<Result<Arc<Object>, Rejected>, Status> {
    let Stored { object, tree, managed } = stored;
    drop((tree, managed));
    let Object { key, revision, .. } = &*object;
    let shown = |tree: Tree| -> Result<Arc<Object>, Status> { unstored(key.clone(), Some(*revision), tree) };
    match outcome {
        UpdateOutcome::Unchanged => Ok(Ok(object)),
        UpdateOutcome::Put(tree) if dry_run => match rehearse(core, key, Expect::At(*revision), tree.clone()) {
            Ok(()) => Ok(Ok(shown(tree)?)),
            Err(rejected) => Ok(Err(rejected)),
        },
        UpdateOutcome::Remove(tree) if dry_run => Ok(Ok(shown(tree)?)),
        // The response contains the revision that the caller acted on, not that of the deletion
        // (DE4).
        UpdateOutcome::Remove(tree) => {
            let answer = shown(tree.clone())?;
            store(core, object, UpdateOutcome::Remove(tree)).await.map(|outcome| outcome.map(|_| answer))
        }
        put => store(core, object, put).await,
    }
}

async fn store(
    core: &Core,
    object: Arc<Object>,
    outcome: UpdateOutcome,
) -> Result<Result<Arc<Object>, Rejected>, Status> {
    match update_outcome::write(&object, outcome) {
        Some(write) => {
            check_size(core, &write.key, Some(&object), &write.draft)?;
            commit_one(core, write).await
        }
        None => Ok(Ok(object)),
    }
}

/// Returns the result of the writer for this write, without the write. A dry run is rejected like
/// the write.
pub(super) fn rehearse(core: &Core, key: &Key, expect: Expect, tree: Tree) -> Result<(), Rejected> {
    let write = Write { key: key.clone(), expect, draft: Draft::Put(Document::new(tree)) };
    match core.writer.rehearse(&core.cache.view(), write) {
        Err(rejected @ Rejected::Refused(_)) => Err(rejected),
        // A dry run ignores changes by concurrent writes.
        _ => Ok(()),
    }
}

/// Commits one write. The inner error is the reason why the writer rejected it.
pub(super) async fn commit_one(core: &Core, write: Write) -> Result<Result<Arc<Object>, Rejected>, Status> {
    let outcomes = core.writer.commit(vec![write], Atomicity::Each).await.map_err(failure)?;
    outcomes.into_iter().next().ok_or_else(|| Status::internal("the writer gave no answer"))
}

pub(super) fn refusal(key: &Key, rejected: Rejected) -> Status {
    match rejected {
        Rejected::Exists(there) => exists(&there, false),
        Rejected::Missing => Status::not_found(key.resource, &key.name),
        Rejected::Changed(_) => Status::conflict(key.resource, &key.name),
        Rejected::Refused(status) => *status,
        Rejected::NotTried => not_tried(key),
    }
}

/// Returns the error of a change in an all-or-nothing batch in which another change was rejected.
pub(super) fn not_tried(key: &Key) -> Status {
    Status::conflict_because(key.resource, &key.name, "another change of the same batch was refused")
}

pub(super) fn failure(error: WriteError) -> Status {
    match error {
        WriteError::Busy => Status::too_many_requests(1),
        // The writer has logged the error, once for all the writes that failed together. Nothing
        // was stored, and the database comes back. A full disk stays full for longer.
        WriteError::Unavailable(ref why) if why.is_outage() => try_again(error),
        WriteError::Unavailable(_) | WriteError::InDoubt(_) => Status::unavailable(error.to_string()).already_logged(),
        // The next leader will respond soon.
        WriteError::Following | WriteError::Deposed => try_again(error),
        WriteError::Fenced | WriteError::Closed => Status::unavailable(error.to_string()),
    }
}

/// Returns 503 with a `Retry-After` of one second.
pub(super) fn try_again(why: impl std::fmt::Display) -> Status {
    let details = Details { retry_after_seconds: 1, ..Details::default() };
    Status::unavailable(why.to_string()).with(details).already_logged()
}

/// Returns the error of a create of an object that exists (ER2, ER3, DE5). `generated`: the server
/// generated the name, and found no free one.
pub(super) fn exists(there: &Object, generated: bool) -> Status {
    let Key { resource, name, .. } = &there.key;
    let mut status = Status::already_exists(*resource, name);
    if generated {
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status = status.with(Details { retry_after_seconds: 1, ..Details::of(*resource, name) });
    } else if there.deleting {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}
