//! The base of all background loops: a keyed queue, a run loop over it, and a set of loops that
//! ends together.
//!
//! A loop is level-triggered. Events only say which keys to look at again. The work itself is
//! decided from the newest view, so a repeated or late event does no harm, and a restart begins by
//! looking at everything. A loop that was so late that it missed events is told what has changed in
//! sum (`feed`), and repeats the work that may have read what it was not told of. Time comes from a
//! `Clock`: the same loop runs under `ManualClock` in stories, turn by turn (`Runner::turn`), and
//! by the wall clock in the server (`Runner::run`).
//!
//! Deliberately absent: leader election (who starts the loops leads), and restarting a loop that
//! died. A loop dies only by a fault of ours. `Workers::died` then tells the server, which exits
//! and is started again.

mod apart;
/// Kubernetes events: the recorder, and the events of the server itself.
pub mod events;
mod failure;
mod feed;
mod groups;
/// The objects of a Fleet placement, and their commit, for its scheduler and its controllers.
pub mod placements;
mod queue;
mod roster;
mod runner;
mod workers;

use std::time::Duration;

use futures_util::future::BoxFuture;

use ballast_k8s::{GroupResource, Key, Revision};
use ballast_watch::{Event, View};

pub use apart::apart;
pub use failure::Failure;
pub use groups::Groups;
pub use queue::{BACKOFF_FIRST_MS, BACKOFF_MAX_MS, Next, Queue, UNSCHEDULABLE_MAX_MS};
pub use roster::Roster;
pub use runner::QUESTIONS_MAX;
pub use runner::Runner;
pub use workers::{Died, Workers};

/// The usual `Work::rest`.
const REST: Duration = Duration::from_millis(10);

/// What distinguishes one background loop from another.
pub trait Work: Send + 'static {
    /// The name in logs and metrics: `scheduler`, `rebalancer`.
    fn name(&self) -> &'static str;

    /// The kinds whose changes the loop notices.
    fn interest(&self) -> Vec<GroupResource>;

    /// Marks everything that may need work, at the start. Later, `notice` tells what changes.
    fn list(&mut self, view: &View, queue: &mut Queue);

    /// Marks the keys that this change concerns. It must be quick, because it runs between two
    /// awaits.
    ///
    /// A change begins where the last one of its object ended, but may be several writes in one: a
    /// loop that was late is not told of each. Then the times of events are not known, and they
    /// come in the order of the keys.
    fn notice(&mut self, event: &Event, queue: &mut Queue);

    /// So many keys are due. It is told before the loop waits, and zero when the loop ends.
    fn told_due(&self, _keys: usize) {}

    /// The work on this key may have read versions that were gone again before they were noticed,
    /// and is repeated. Forgets what is remembered from it beyond what `notice` keeps in step.
    fn doubt(&mut self, _key: &Key) {}

    /// Begins work on these keys, at most `batch` of them. Keys that are marked meanwhile go to the
    /// queue.
    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked>;

    /// The least time between two wake-ups by events. Under load a loop is woken once for all that
    /// comes meanwhile; after a pause the first event wakes it at once.
    fn rest(&self) -> Duration {
        REST
    }

    /// The most keys that `begin` is given at once.
    fn batch(&self) -> usize {
        1
    }

    /// How many batches may be in work at once.
    fn concurrency(&self) -> usize {
        1
    }
}

/// The outcome of a batch: for each of its keys an outcome or a question.
#[derive(Default)]
pub struct Worked {
    pub outcomes: Vec<Handled>,
    /// Further keys that the work found, with their priority.
    pub found: Vec<(Key, i32)>,
    /// Keys of the batch without an outcome yet: somebody outside is asked first.
    pub questions: Vec<Question>,
}

/// The work on a key that goes on once somebody outside has answered. It holds up no batch.
pub struct Question {
    pub key: Key,
    /// Waits for the answer, and returns the rest of the work. It is begun when there is room, and
    /// dropped at shutdown, so it must write nothing itself.
    pub answer: BoxFuture<'static, BoxFuture<'static, Worked>>,
}

#[derive(Debug)]
pub struct Handled {
    pub key: Key,
    pub next: Next,
    /// The newest revision of the key's object that the work read or wrote. Events up to it bring
    /// no news.
    pub seen: Option<Revision>,
}

impl Handled {
    pub fn new(key: Key, next: Next) -> Handled {
        Handled { key, next, seen: None }
    }
}

impl From<Handled> for Worked {
    fn from(outcome: Handled) -> Worked {
        Worked { outcomes: vec![outcome], ..Worked::default() }
    }
}
