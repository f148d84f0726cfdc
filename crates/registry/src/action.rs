//! Kinds that act when they are created and are never stored (C1, VB24).

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::time::Instant;

use ballast_k8s::{Status, User};

tokio::task_local! {
    static ANSWER_DUE: Option<Instant>;
}

/// Runs a request with a deadline, which its actions can read (`answer_due`).
pub async fn due_at<T>(due: Option<Instant>, request: impl Future<Output = T>) -> T {
    ANSWER_DUE.scope(due, request).await
}

/// Returns the deadline of the response to the running request. `None` outside of `due_at`, and in
/// tasks and threads that the request has started.
pub fn answer_due() -> Option<Instant> {
    ANSWER_DUE.try_with(|due| *due).ok().flatten()
}

/// The work that runs when an object of such a kind is created, after its admission.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// Does the work. On success the object, with the fields that the action sets, is the response
    /// to the caller, together with the returned warnings. A dry run must change nothing.
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        dry_run: bool,
    ) -> Result<Vec<String>, Status>;
}
