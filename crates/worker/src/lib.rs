//! The base of all background loops: a keyed queue, a run loop over it, and a set of loops that are
//! stopped together.
//!
//! ```text
//!   watch::Cache ─ events ─► feed ─► Work::on_event ─ marks keys ─► queue
//!                              │                                      │ keys that are ready
//!                              │ (or a Difference, if the             ▼
//!                              │  loop fell behind)       Work::begin: reads the newest view,
//!                              │                          decides, commits
//!                              │                                      │ BatchOutcome, for each key
//!                              │                                      │ done, again, after, retry
//!                              └── runner ◄───────────────────────────┘
//! ```
//!
//! *Data flow.* A loop is level-triggered: an event only determines which key to process. The work
//! decides from the newest view, so a repeated or late event does no harm, and a restart begins by
//! listing everything. `Runner` delivers events while batches are in progress, and starts a batch
//! only when all available events were delivered.
//!
//! *Guarantees.*
//! - A key has one entry in the queue, and is never processed twice at the same time.
//! - A loop receives each change of an object relative to the state that it saw last, even if it
//!   missed events: the feed then returns the difference between two views. Work that may have read
//!   states that the difference skips is repeated.
//! - Shutdown waits for the batches in progress, and starts no new ones.
//!
//! *Rationale.* Listing again after each overflow of the window would cost a million objects, so
//! the feed keeps a base to compare with. Work that waits for another server (webhooks) is
//! `DeferredWork` and does not block batches. Time comes from a `Clock`, so the same loop runs
//! under `ManualClock` in tests, turn by turn (`Runner::turn`), and by the wall clock in the server
//! (`Runner::run`).
//!
//! *Out of scope.* Leader election: the caller starts the loops when this process leads.
//! Restarting: a loop ends early only because of a bug; `Workers::died` reports that to the server,
//! which exits and is restarted.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `run_blocking`: long computations on other threads
//! - `key_index`: small numbers for keys
//! - `number_sets`: sets of such numbers, by name
//! - `queue`: the keyed queue
//! - `failure`: classification of failed writes
//! - `commit`: transactions that are retried, smaller or with fewer changes, and their outcomes
//! - `feed`: the input of a loop: events, or a difference
//! - `runner`: the run loop
//! - `workers`: a set of loops
//! - `events`: Kubernetes events, and which object requested which Fresh pass
//! - `placements`: the objects of a Fleet placement, and their commit

mod commit;
mod run_blocking;
/// Kubernetes events: the recorder, and the events of the server itself.
pub mod events;
mod failure;
mod feed;
mod number_sets;
/// The objects of a Fleet placement, and their commit, for its scheduler and its controllers.
pub mod placements;
mod queue;
mod key_index;
mod runner;
mod workers;

use std::time::Duration;

use futures_util::future::BoxFuture;

use ballast_k8s::{GroupResource, Key, Revision};
use ballast_watch::{Event, View};

pub use commit::{Attempts, Changes, CommitFailure, commit_each, commit_one, commit_together, edited};
pub use failure::Failure;
pub use key_index::KeyIndex;
pub use number_sets::NumberSets;
pub use queue::{BACKOFF_FIRST_MS, BACKOFF_MAX_MS, Next, Queue, UNSCHEDULABLE_MAX_MS};
pub use run_blocking::run_blocking;
pub use runner::DEFERRED_MAX;
pub use runner::Runner;
pub use workers::{Died, Workers};

/// The default of `Work::debounce`.
const DEBOUNCE: Duration = Duration::from_millis(10);

/// The logic of a background loop.
pub trait Work: Send + 'static {
    /// Returns the name in logs and metrics: `scheduler`, `rebalancer`.
    fn name(&self) -> &'static str;

    /// Returns the kinds of events that the loop receives.
    fn interest(&self) -> Vec<GroupResource>;

    /// Marks every key that may need work, at the start. Later, `on_event` receives the changes.
    fn list(&mut self, view: &View, queue: &mut Queue);

    /// Marks the keys that this change affects. Must be fast, because it runs between two awaits.
    ///
    /// The previous state of an event is the last state that the loop saw. If the loop fell behind,
    /// an event may stand for several writes; then it has no time, and events come in the order of
    /// keys.
    fn on_event(&mut self, event: &Event, queue: &mut Queue);

    /// Marks the keys that become due by the clock alone, without an event. Returns the
    /// milliseconds until further keys become due; the loop calls again by then, and after each
    /// event. `None` if there are none.
    ///
    /// Must be fast, like `on_event`.
    fn on_time(&mut self, _queue: &mut Queue) -> Option<i64> {
        None
    }

    /// Receives the number of due keys before the loop waits, and zero when the loop ends.
    fn on_due_count(&self, _keys: usize) {}

    /// Handles the end of the loop, which waits for the batches in progress. A long batch should
    /// then end early if its result is not needed.
    fn end(&mut self) {}

    /// Drops the remembered state of a key, except for state that `on_event` maintains. The work on
    /// the key may have read versions for which the loop got no event, and is repeated.
    fn invalidate(&mut self, _key: &Key) {}

    /// Starts work on these keys, at most `batch` of them. A key that is marked meanwhile is
    /// processed again.
    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome>;

    /// Returns the minimum time between two wake-ups by events. Under load a loop wakes once for
    /// all events of that time; after a quiet time the first event wakes it at once.
    fn debounce(&self) -> Duration {
        DEBOUNCE
    }

    /// Returns the maximum number of keys per call of `begin`. With weights: keys are added until
    /// their weights reach this number.
    fn batch(&self) -> usize {
        1
    }

    /// Returns the relative cost of a key. At least one.
    fn weight(&self, _key: &Key) -> usize {
        1
    }

    /// Returns whether the namespaces share the work fairly, regardless of the number and priority
    /// of their keys.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Returns the maximum number of batches in progress.
    fn concurrency(&self) -> usize {
        1
    }
}

/// The result of a batch: for each of its keys an outcome, or work that waits for another server.
#[derive(Default)]
pub struct BatchOutcome {
    pub outcomes: Vec<KeyOutcome>,
    /// Further keys that the work found, with their priority.
    pub found: Vec<(Key, i32)>,
    /// Work on keys of the batch without an outcome yet, because another server is queried first.
    pub deferred: Vec<DeferredWork>,
}

/// Work on a key that continues after the response of another server. It does not block batches.
pub struct DeferredWork {
    pub key: Key,
    /// Waits for the response, and returns the rest of the work. Started when there is a free slot,
    /// and dropped at shutdown, so it must not write.
    pub answer: BoxFuture<'static, BoxFuture<'static, BatchOutcome>>,
}

#[derive(Debug)]
pub struct KeyOutcome {
    pub key: Key,
    pub next: Next,
    /// The newest revision of the key's object that the work read or wrote. Events up to it are
    /// ignored.
    pub seen: Option<Revision>,
}

impl KeyOutcome {
    pub fn new(key: Key, next: Next) -> KeyOutcome {
        KeyOutcome { key, next, seen: None }
    }
}

impl BatchOutcome {
    /// Processes the keys one after another.
    pub async fn one_by_one<F>(keys: Vec<Key>, mut work: impl FnMut(Key) -> F) -> BatchOutcome
    where
        F: Future<Output = KeyOutcome>,
    {
        let mut worked = BatchOutcome::default();
        for key in keys {
            worked.outcomes.push(work(key).await);
        }
        worked
    }
}

impl From<KeyOutcome> for BatchOutcome {
    fn from(outcome: KeyOutcome) -> BatchOutcome {
        BatchOutcome { outcomes: vec![outcome], ..BatchOutcome::default() }
    }
}
