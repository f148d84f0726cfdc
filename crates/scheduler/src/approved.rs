//! Placements that admission checks have approved, waiting to be written.
//!
//! All placements that are approved before a commit begins are written in one transaction. No
//! commit waits for a check that is still running.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{MutexGuard, oneshot};

use super::pass::PassResult;
use ballast_k8s::Time;
use ballast_worker::BatchOutcome;

/// The approved placements, shared by all tasks that write them. The worker bounds the number of
/// tasks.
#[derive(Default)]
pub struct ApprovedBatch {
    waiting: Mutex<Vec<ApprovedPlacement>>,
    /// The task that holds this lock commits for all tasks.
    committing: tokio::sync::Mutex<()>,
}

/// A placement that may be written, and the channel to the task that waits for its outcome.
pub struct ApprovedPlacement {
    pub result: PassResult,
    /// The time of the decision.
    pub decided: Time,
    pub outcome: oneshot::Sender<BatchOutcome>,
}

impl ApprovedBatch {
    /// Adds a placement. The channel receives its outcome when a task has written it.
    pub fn push(&self, result: PassResult, decided: Time) -> oneshot::Receiver<BatchOutcome> {
        let (outcome, receiver) = oneshot::channel();
        self.waiting().push(ApprovedPlacement { result, decided, outcome });
        receiver
    }

    /// Waits until the previous commit is over.
    pub async fn lock_commit(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().await
    }

    /// Takes all waiting placements.
    pub fn take(&self) -> Vec<ApprovedPlacement> {
        std::mem::take(&mut *self.waiting())
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<ApprovedPlacement>> {
        // A panic in another task leaves the list consistent: each push and each take is one step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
