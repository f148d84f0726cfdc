//! Committing what verbs decided on, and what a refused or failed write means to whoever asked.

use std::sync::Arc;

use super::Core;
use super::create::exists;
use crate::k8s::{Key, Object, Status};
use crate::watch::{Atomicity, Draft, Rejected, Write, WriteError};

/// What an object may grow to by the requests of clients: a body is bounded, but patches and the
/// parts that workers write add up (MD13).
const OBJECT_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Refuses what a client has made too large to be handed around.
pub(super) fn check_size(write: &Write) -> Result<(), Status> {
    match &write.draft {
        Draft::Put(document) if document.len() > OBJECT_BYTES_MAX => Err(Status::too_large(OBJECT_BYTES_MAX)),
        Draft::Put(_) | Draft::Delete(_) => Ok(()),
    }
}

/// Commits one write. The inner error says what stood in its way.
pub(super) async fn commit_one(core: &Core, write: Write) -> Result<Result<Arc<Object>, Rejected>, Status> {
    let outcomes = core.writer.commit(vec![write], Atomicity::Each).await.map_err(failure)?;
    outcomes.into_iter().next().ok_or_else(|| Status::internal("the writer gave no answer"))
}

pub(super) fn refusal(key: &Key, rejected: Rejected) -> Status {
    match rejected {
        Rejected::Exists(there) => exists(&there, false),
        Rejected::Missing => Status::not_found(key.resource, &key.name),
        Rejected::Changed(_) => Status::conflict(key.resource, &key.name),
        Rejected::NotTried => not_tried(key),
    }
}

/// Another change of the same batch was refused, and the batch was all or nothing.
pub(super) fn not_tried(key: &Key) -> Status {
    Status::conflict_because(key.resource, &key.name, "another change of the same batch was refused")
}

pub(super) fn failure(error: WriteError) -> Status {
    match error {
        WriteError::Busy => Status::too_many_requests(1),
        WriteError::Unavailable(_) | WriteError::Fenced | WriteError::Closed => Status::unavailable(error.to_string()),
    }
}
