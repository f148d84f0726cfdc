//! Commits the changes of a plan and returns the next step for its keys.

use serde_json::{Map, Value};

use std::sync::Arc;

use ballast_k8s::{Edit, Key, Object};
use ballast_registry::{Change, Client, Part};
use ballast_worker::{self as worker, BatchOutcome, Changes, Failure, KeyOutcome, Next};

/// Writes one object. Returns `next` on success, otherwise the retry that the failure requires.
pub async fn commit_one(client: &Client, key: &Key, change: Change, next: Next) -> Next {
    let written = worker::commit_one(client, (key.resource, change)).await;
    KeyOutcome::of_write(key.clone(), next, written).next
}

/// Writes the objects without their status in one transaction, and records the outcome of each key.
/// Returns for each object whether it was written.
pub async fn commit_each(
    client: &Client,
    writes: Vec<(Key, Map<String, Value>, Next)>,
    worked: &mut BatchOutcome,
) -> Vec<bool> {
    commit_parts(client, Part::Main, writes, worked).await
}

/// Commits changes like `commit_each`, including the status.
pub async fn commit_each_whole(
    client: &Client,
    writes: Vec<(Key, Map<String, Value>, Next)>,
    worked: &mut BatchOutcome,
) -> Vec<bool> {
    commit_parts(client, Part::Whole, writes, worked).await
}

async fn commit_parts(
    client: &Client,
    part: Part,
    writes: Vec<(Key, Map<String, Value>, Next)>,
    worked: &mut BatchOutcome,
) -> Vec<bool> {
    let change = |(key, object, next): (Key, _, Next)| {
        let change = (key.resource, Change::Update { part, object });
        ((key, next), change)
    };
    let outcomes = worker::commit_each(client, writes.into_iter().map(change).collect()).await;
    let done = outcomes.iter().map(|(_, outcome)| outcome.is_ok()).collect();
    worked.outcomes.extend(outcomes.into_iter().map(|((key, next), outcome)| KeyOutcome::of_write(key, next, outcome)));
    done
}

/// Writes the edits of each object in one transaction, and records the outcome of each key.
pub async fn commit_edits(client: &Client, edits: Vec<(Arc<Object>, Vec<Edit>, Next)>, worked: &mut BatchOutcome) {
    let change = |(base, edits, next): (Arc<Object>, Vec<Edit>, Next)| {
        let key = base.key.clone();
        ((key.clone(), next), (key.resource, Change::Edit { base, edits }))
    };
    let outcomes = worker::commit_each(client, edits.into_iter().map(change).collect()).await;
    worked.outcomes.extend(outcomes.into_iter().map(|((key, next), outcome)| KeyOutcome::of_write(key, next, outcome)));
}

/// Maximum number of bindings written in one batch.
const BINDINGS_PER_COMMIT_MAX: usize = 1_000;

/// Writes many bindings in bounded batches. Returns the next step for the keys that caused the
/// changes: if any write must be retried, all of these keys are.
pub async fn commit_all(client: &Client, changes: Changes) -> Next {
    let mut next = Next::Done;
    let mut changes = changes.into_iter().map(|change| ((), change)).peekable();
    while changes.peek().is_some() {
        let chunk = changes.by_ref().take(BINDINGS_PER_COMMIT_MAX).collect();
        for status in worker::commit_each(client, chunk).await.into_iter().filter_map(|(_, outcome)| outcome.err()) {
            tracing::debug!(%status, "a binding was not written, looking again");
            next = match (next, Failure::of(&status).into()) {
                (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
                (_, other) => other,
            };
        }
    }
    next
}
