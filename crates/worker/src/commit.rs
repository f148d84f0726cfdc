//! Commits changes that were planned from a view, and reads the outcomes: the driver of optimistic
//! writes.
//!
//! A plan names the revisions that it was made from, so a write conflicts if an object changed
//! meanwhile. A conflict on one object fails the whole transaction. Each further attempt takes half
//! as many objects, down to one, so work makes progress even if objects change all the time. An
//! object with a refused write is left out, and the others are written.
//!
//! *Out of scope.* The caller plans each attempt again from the newest view, and decides what to
//! record for objects that are left out.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Failure, KeyOutcome, Next};
use ballast_k8s::{GroupResource, Key, Object, Status};
use ballast_registry::{Atomicity, Change, Client};

/// Maximum attempts before a key yields to others: enough to halve 2,000 objects down to one, and
/// to leave out refused ones a few times.
const ATTEMPTS_MAX: usize = 14;

/// The changes of one batch.
pub type Changes = Vec<(GroupResource, Change)>;

/// The attempts at one transaction, with the adaptations from earlier attempts.
#[derive(Clone)]
pub struct Attempts<R = Status> {
    left: usize,
    size: usize,
    left_out: HashMap<Key, R>,
}

impl<R> Attempts<R> {
    /// Creates the attempts. `size` is the maximum number of objects of the first attempt.
    pub fn new(size: usize) -> Attempts<R> {
        Attempts { left: ATTEMPTS_MAX, size, left_out: HashMap::new() }
    }

    /// Starts an attempt. Returns false if there were enough, and the key is retried after a
    /// backoff.
    pub fn begin(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }

    /// Returns the maximum number of objects of this attempt.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the objects that are left out because their writes were refused, with the reasons.
    pub fn left_out(&self) -> &HashMap<Key, R> {
        &self.left_out
    }

    /// Adapts the next attempt to a failure. `refused` are the objects with refused writes. Returns
    /// whether another attempt may succeed now.
    pub fn adapt(&mut self, failure: Failure, refused: impl IntoIterator<Item = (Key, R)>) -> bool {
        let known = self.left_out.len();
        self.left_out.extend(refused);
        match failure {
            _ if self.left_out.len() > known => true,
            Failure::Changed => {
                self.size = (self.size / 2).max(1);
                true
            }
            Failure::Unavailable | Failure::Refused => false,
        }
    }
}

/// The reason for a failed transaction.
#[derive(Debug)]
pub struct CommitFailure {
    /// The cause. A conflict is the cause only if there is no other error, because all other
    /// changes of a failed transaction report a conflict.
    pub status: Box<Status>,
    /// The objects with refused edits that can be left out.
    pub refused: Vec<(Key, Status)>,
    /// The objects that were edited nevertheless. Only objects that are stored upstream can be,
    /// because each of them is written separately.
    pub written: Vec<Key>,
}

impl From<Status> for CommitFailure {
    fn from(status: Status) -> CommitFailure {
        CommitFailure { status: Box::new(status), refused: Vec::new(), written: Vec::new() }
    }
}

/// Commits all changes or none, and returns the objects in the order of the changes.
/// `can_leave_out` returns whether the rest can be committed without an edited object.
pub async fn commit_together(
    client: &Client,
    changes: Changes,
    can_leave_out: impl Fn(&Key) -> bool,
) -> Result<Vec<Arc<Object>>, CommitFailure> {
    let edited: Vec<Option<Key>> = changes.iter().map(|(_, change)| edited(change)).collect();
    let outcomes = client.batch(changes, Atomicity::All).await?;
    read_together(edited, outcomes, can_leave_out)
}

fn read_together(
    edited: Vec<Option<Key>>,
    outcomes: Vec<Result<Arc<Object>, Status>>,
    can_leave_out: impl Fn(&Key) -> bool,
) -> Result<Vec<Arc<Object>>, CommitFailure> {
    if outcomes.iter().all(Result::is_ok) {
        return Ok(outcomes.into_iter().flatten().collect());
    }
    let (mut cause, mut refused, mut written) = (None, Vec::new(), Vec::new());
    for (key, outcome) in edited.into_iter().zip(outcomes) {
        let Err(status) = outcome else {
            written.extend(key);
            continue;
        };
        if Failure::of(&status) == Failure::Refused {
            refused.extend(key.filter(&can_leave_out).map(|key| (key, status.clone())));
        }
        if cause.as_ref().is_none_or(|known| Failure::of(known) == Failure::Changed) {
            cause = Some(status);
        }
    }
    let status = cause.unwrap_or_else(|| Status::internal("a batch failed without a failed change"));
    Err(CommitFailure { status: Box::new(status), refused, written })
}

/// Returns the key of the object that a change edits.
pub fn edited(change: &Change) -> Option<Key> {
    match change {
        Change::Edit { base, .. } => Some(base.key.clone()),
        _ => None,
    }
}

/// Commits the changes in one transaction, but independently of each other. Returns each outcome
/// with the caller's value of the change.
pub async fn commit_each<T>(
    client: &Client,
    changes: Vec<(T, (GroupResource, Change))>,
) -> Vec<(T, Result<Arc<Object>, Status>)> {
    let (kept, changes): (Vec<T>, Changes) = changes.into_iter().unzip();
    let outcomes = client.batch(changes, Atomicity::Each).await.unwrap_or_else(|status| {
        tracing::warn!(%status, "a batch was not written");
        vec![Err(status); kept.len()]
    });
    kept.into_iter().zip(outcomes).collect()
}

/// Commits one change.
pub async fn commit_one(client: &Client, change: (GroupResource, Change)) -> Result<Arc<Object>, Status> {
    let mut outcomes = client.batch(vec![change], Atomicity::Each).await?;
    outcomes.pop().unwrap_or_else(|| Err(Status::internal("a change got no answer")))
}

impl KeyOutcome {
    /// Returns the outcome of a key after a write of its object: `next`, or the retry that the
    /// failure requires.
    pub fn of_write(key: Key, next: Next, outcome: Result<Arc<Object>, Status>) -> KeyOutcome {
        match outcome {
            Ok(object) => KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(key, next) },
            Err(status) => {
                tracing::debug!(%key, %status, "not written, looking again");
                KeyOutcome::new(key, Failure::of(&status).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ballast_k8s::Revision;

    const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
    const OWNERS: GroupResource = GroupResource::new("owners.test");

    fn key(name: &str) -> Key {
        Key::namespaced(BINDINGS, "shop", name)
    }

    /// Returns the sizes of the attempts after failures of this kind.
    fn sizes_after(failure: Failure, first: usize) -> Vec<usize> {
        let mut attempts: Attempts = Attempts::new(first);
        let mut sizes = Vec::new();
        while attempts.begin() {
            sizes.push(attempts.size());
            if !attempts.adapt(failure, []) {
                break;
            }
        }
        sizes
    }

    #[test]
    fn each_conflict_halves_the_next_attempt_down_to_one_object() {
        let sizes = sizes_after(Failure::Changed, 2_000);
        assert_eq!(sizes, [2_000, 1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1, 1]);
        assert_eq!(sizes.len(), ATTEMPTS_MAX);
    }

    #[test]
    fn an_unavailable_store_and_a_refusal_of_nothing_that_can_be_left_out_end_the_attempts() {
        assert_eq!(sizes_after(Failure::Unavailable, 8), [8]);
        assert_eq!(sizes_after(Failure::Refused, 8), [8]);
    }

    #[test]
    fn what_is_refused_is_left_out_of_an_attempt_of_the_same_size() {
        let mut attempts = Attempts::new(8);
        assert!(attempts.begin() && attempts.adapt(Failure::Refused, [(key("a"), "no")]));
        assert!(attempts.begin() && attempts.adapt(Failure::Unavailable, [(key("b"), "never")]));
        assert_eq!(attempts.size(), 8);
        assert_eq!(attempts.left_out(), &HashMap::from([(key("a"), "no"), (key("b"), "never")]));
        // The object was left out already, so leaving it out again does not help.
        assert!(!attempts.adapt(Failure::Refused, [(key("a"), "still no")]));
    }

    fn refused(why: &str) -> Status {
        Status::failure(403, "Forbidden", why)
    }

    fn conflict() -> Status {
        Status::conflict(BINDINGS, "other")
    }

    fn written(name: &str) -> Result<Arc<Object>, Status> {
        let object = json!({"metadata": {"namespace": "shop", "name": name}});
        Ok(Arc::new(Object::decode(key(name), Revision(7), object.to_string().into()).unwrap()))
    }

    /// Returns the failure of edits of `a`, `b` and their owner with these outcomes.
    fn failure_of(outcomes: [Result<Arc<Object>, Status>; 3]) -> CommitFailure {
        let owner = Key::cluster(OWNERS, "owner");
        let edited = vec![Some(key("a")), Some(key("b")), Some(owner)];
        read_together(edited, outcomes.into(), |key| key.resource == BINDINGS).unwrap_err()
    }

    #[test]
    fn the_cause_of_a_failed_transaction_is_what_is_no_conflict() {
        let failed = failure_of([Err(conflict()), Err(refused("b")), Err(conflict())]);
        assert_eq!((*failed.status, failed.refused), (refused("b"), vec![(key("b"), refused("b"))]));
        let failed = failure_of([Err(conflict()), Err(conflict()), Err(Status::unavailable("down"))]);
        assert_eq!((Failure::of(&failed.status), failed.refused), (Failure::Unavailable, vec![]));
        let failed = failure_of([Err(conflict()), Err(conflict()), Err(conflict())]);
        assert_eq!((Failure::of(&failed.status), failed.refused), (Failure::Changed, vec![]));
    }

    #[test]
    fn an_object_that_the_rest_needs_is_not_left_out() {
        let failed = failure_of([Err(conflict()), Err(conflict()), Err(refused("owner"))]);
        assert_eq!((*failed.status, failed.refused), (refused("owner"), vec![]));
    }

    #[test]
    fn a_failure_names_what_was_written_nevertheless() {
        let failed = failure_of([written("a"), Err(refused("b")), Err(conflict())]);
        assert_eq!(failed.written, [key("a")]);
    }
}
