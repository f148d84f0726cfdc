//! The base of all background loops: a keyed queue, a run loop over it, and a set of loops that
//! ends together.
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
//! *What flows.* A loop is level-triggered: an event only says which key to look at again. The work
//! decides from the newest view, so a repeated or late event does no harm, and a restart begins by
//! listing everything. `Runner` delivers events while batches are in work, and begins a batch only
//! when all events that are there were delivered.
//!
//! *Promises.*
//! - A key has one entry in the queue, and is never in work twice at the same time.
//! - A loop learns each change of an object from the state that it knew before, even if it missed
//!   events: the feed then gives the difference between two views. Work that may have read what the
//!   difference leaves out is repeated.
//! - Shutdown waits for the batches in work, and begins no other.
//!
//! *Why it is so.* Listing again after each overflow of the window would cost a million objects, so
//! the feed keeps a base to compare with. Work that waits for another server (webhooks) is
//! `DeferredWork` and holds up no batch. Time comes from a `Clock`, so the same loop runs under
//! `ManualClock` in tests, turn by turn (`Runner::turn`), and by the wall clock in the server
//! (`Runner::run`).
//!
//! *Left to others.* Leader election: the caller starts the loops when this process leads.
//! Restarting: a loop dies only by a fault of ours; `Workers::died` tells the server, which exits
//! and is started again.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `run_blocking`: a long computation on a thread of its own
//! - `key_index`: small numbers for keys
//! - `number_sets`: sets of such numbers, by name
//! - `queue`: the keyed queue
//! - `failure`: what a failed write means for the key
//! - `commit`: transactions that are tried again, smaller or with less, and their outcomes
//! - `feed`: what a loop is told: events, or a difference
//! - `runner`: the run loop
//! - `workers`: a set of loops
//! - `events`: Kubernetes events, and which object asked for which Fresh pass
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

/// The usual `Work::debounce`.
const DEBOUNCE: Duration = Duration::from_millis(10);

/// What distinguishes one background loop from another.
pub trait Work: Send + 'static {
    /// The name in logs and metrics: `scheduler`, `rebalancer`.
    fn name(&self) -> &'static str;

    /// The kinds whose events the loop receives.
    fn interest(&self) -> Vec<GroupResource>;

    /// Marks everything that may need work, at the start. Later, `on_event` receives the changes.
    fn list(&mut self, view: &View, queue: &mut Queue);

    /// Marks the keys that this change concerns. It must be quick, because it runs between two
    /// awaits.
    ///
    /// The previous state of an event is the one that the loop saw last. If the loop fell behind,
    /// an event may stand for several writes; then its time is not known, and events come in the
    /// order of keys.
    fn on_event(&mut self, event: &Event, queue: &mut Queue);

    /// Marks what becomes due by the clock alone, without an event. Returns in how many
    /// milliseconds there is more of it; the loop calls again by then, and after each event.
    /// `None`: there is nothing.
    ///
    /// It must be quick, as `on_event`.
    fn on_time(&mut self, _queue: &mut Queue) -> Option<i64> {
        None
    }

    /// Receives the number of keys that are due, before the loop waits, and zero when the loop
    /// ends.
    fn on_due_count(&self, _keys: usize) {}

    /// The loop ends, and waits for the batches in work. A long one whose result nobody needs then
    /// should end early.
    fn end(&mut self) {}

    /// The work on this key may have read versions that the loop got no event for, and is repeated.
    /// Forget what is remembered of it, apart from what `on_event` maintains.
    fn invalidate(&mut self, _key: &Key) {}

    /// Begins work on these keys, at most `batch` of them. A key that is marked meanwhile is worked
    /// on again.
    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome>;

    /// The least time between two wake-ups by events. Under load a loop wakes once for all events
    /// of that time; after a quiet time the first event wakes it at once.
    fn debounce(&self) -> Duration {
        DEBOUNCE
    }

    /// The most keys that `begin` is given at once. With weights: keys until their weights reach
    /// this number.
    fn batch(&self) -> usize {
        1
    }

    /// How much work a key is, compared with others. At least one.
    fn weight(&self, _key: &Key) -> usize {
        1
    }

    /// Whether the namespaces share the work fairly, whatever the number and priority of their
    /// keys.
    fn takes_turns(&self) -> bool {
        false
    }

    /// How many batches may be in work at once.
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
    /// Keys of the batch without an outcome yet: another server is asked first.
    pub deferred: Vec<DeferredWork>,
}

/// Work on a key that continues once another server has answered. It holds up no batch.
pub struct DeferredWork {
    pub key: Key,
    /// Waits for the answer, and returns the rest of the work. It is begun when there is room, and
    /// dropped at shutdown, so it must write nothing itself.
    pub answer: BoxFuture<'static, BoxFuture<'static, BatchOutcome>>,
}

#[derive(Debug)]
pub struct KeyOutcome {
    pub key: Key,
    pub next: Next,
    /// The newest revision of the key's object that the work read or wrote. Events up to it bring
    /// no news.
    pub seen: Option<Revision>,
}

impl KeyOutcome {
    pub fn new(key: Key, next: Next) -> KeyOutcome {
        KeyOutcome { key, next, seen: None }
    }
}

impl BatchOutcome {
    /// Works on one key after the other.
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
