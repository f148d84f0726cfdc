//! Writes the changes of a plan, and says what is next for its keys.

use serde_json::{Map, Value};

use ballast_k8s::{GroupResource, Key, Status};
use ballast_registry::{Atomicity, Change, Client, Part};
use ballast_worker::{BatchOutcome, Failure, KeyOutcome, Next};

/// Commits a batch of one change.
pub async fn commit_one(client: &Client, change: (GroupResource, Change)) -> Result<(), Status> {
    let outcomes = client.batch(vec![change], Atomicity::Each).await?;
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}

/// Writes each object, in one transaction, and records the outcome of each key. Returns which
/// objects were written.
pub async fn commit_each(
    client: &Client,
    writes: Vec<(Key, Map<String, Value>, Next)>,
    worked: &mut BatchOutcome,
) -> Vec<bool> {
    let mut changes = Vec::with_capacity(writes.len());
    let mut writing = Vec::with_capacity(writes.len());
    for (key, object, next) in writes {
        changes.push((key.resource, Change::Update { part: Part::Main, object }));
        writing.push((key, next));
    }
    let outcomes = match client.batch(changes, Atomicity::Each).await {
        Ok(outcomes) => outcomes,
        Err(status) => {
            tracing::warn!(%status, "a batch was not written");
            let done = vec![false; writing.len()];
            worked.outcomes.extend(writing.into_iter().map(|(key, _)| KeyOutcome::new(key, Next::Retry)));
            return done;
        }
    };
    let mut done = Vec::with_capacity(writing.len());
    for ((key, next), outcome) in writing.into_iter().zip(outcomes) {
        done.push(outcome.is_ok());
        worked.outcomes.push(match outcome {
            Ok(object) => KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(key, next) },
            Err(status) => {
                tracing::debug!(%key, %status, "not written, looking again");
                KeyOutcome::new(key, Failure::of(&status).into())
            }
        });
    }
    done
}

/// Bindings written in one batch.
const BINDINGS_PER_COMMIT_MAX: usize = 1_000;

/// Writes many bindings, a bounded batch at a time. Returns what is next for the keys that caused
/// the changes: if any write must be tried again, all of these keys are.
pub async fn commit_all(client: &Client, changes: Vec<(GroupResource, Change)>) -> Next {
    let mut next = Next::Done;
    let mut changes = changes.into_iter().peekable();
    while changes.peek().is_some() {
        let chunk: Vec<(GroupResource, Change)> = changes.by_ref().take(BINDINGS_PER_COMMIT_MAX).collect();
        let outcomes = client.batch(chunk, Atomicity::Each).await.unwrap_or_else(|status| vec![Err(status)]);
        for status in outcomes.into_iter().filter_map(Result::err) {
            tracing::debug!(%status, "a binding was not written, looking again");
            next = match (next, Failure::of(&status).into()) {
                (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
                (_, other) => other,
            };
        }
    }
    next
}
