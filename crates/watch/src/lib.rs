//! Keeps the state of all kinds in memory with the recent events. Everybody follows the log
//! (`follower`), and one process leads: it numbers the changes and commits them (`leader`). The
//! task that does both in turn is in `replica`. A process that has the log to itself leads from the
//! start.
//!
//! *Invariants.* All kinds share one order of revisions, and a `View` is the exact state at its
//! revision. A write is durable before it is in the view of who leads, and it is in that view
//! before it is acknowledged. Elsewhere it may come a moment later, and `Cache::fresh` waits for
//! it. Nobody waits for a reader: a subscriber is a cursor into the window, and a slow one finds
//! that its place is gone. Who has kept an old view may then ask what has changed since
//! (`Difference`).
//!
//! A subscriber that begins before the window reads the log until it has caught up (`CatchUpRead`).
//! A state from before the windows is put together from the log, too (`Cache::past`).
//! Beside these, only who follows, the barrier of reads and a leader that looks for others read the
//! database after the start.
//!
//! There are no channels per watcher: they would take memory, and a full one would need a rule.
//! This room knows neither kinds nor selectors nor HTTP.

mod catch_up_read;
mod coalesce;
mod notifier;
mod commit_hook;
mod cache;
mod compaction;
mod difference;
mod follower;
mod freshness;
mod leader;
mod limits;
mod load;
mod past;
mod batch;
mod replica;
mod packing;
mod pack_queue;
mod subscriber;
mod log_throttle;
mod view;
mod window;
mod writer;

use std::sync::Arc;

use ballast_base::clock::Clock;
use ballast_store::{self as store, Store};

use follower::Follower;
use freshness::Freshness;
use replica::Replica;

pub use cache::Cache;
pub use catch_up_read::{CatchUpError, CatchUpRead};
pub use commit_hook::{CommitHook, CommitHookFactory};
pub use difference::Difference;
pub use freshness::{Lag, Stale};
pub use limits::Limits;
pub use past::PastError;
pub use replica::{LogClosed, RoleHandle};
pub use subscriber::{Interest, Subscriber};
pub use view::View;
pub use window::{Event, EventKind, Expired};
pub use writer::{Atomicity, Draft, Expect, Fence, Rejected, Write, WriteError, Writer};

/// The task that owns the log. It ends well once the last `Writer` is dropped, all queued writes
/// are stored and the store is closed. An error or a panic in it means that nothing can be written
/// or followed any more, so the process should stop.
pub type Task = tokio::task::JoinHandle<Result<(), store::Error>>;

/// Loads the state and the recent events from a store that no other process writes to. This process
/// leads from the start.
pub async fn open(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: Limits,
) -> Result<(Cache, Writer, Task), store::Error> {
    let (writer, calls) = writer::queue(&limits);
    let (weak, bounds) = (Arc::downgrade(&store), limits.clone());
    let make = |view, start| Cache::new(view, start, weak, Freshness::alone(), bounds);
    let log = Follower::load(store, clock, &limits, make).await?;
    let cache = log.cache.clone();
    Ok((cache, writer, tokio::spawn(Replica::alone(log, calls).run(None))))
}

/// A process that shares its log with others.
pub struct Joined {
    pub cache: Cache,
    pub writer: Writer,
    /// With it, an election makes this process lead.
    pub role: RoleHandle,
    pub task: Task,
}

/// Loads the state and the recent events from a store that several processes share. This process
/// follows until the election makes it lead.
pub async fn join(store: Arc<dyn Store>, clock: Arc<dyn Clock>, limits: Limits) -> Result<Joined, store::Error> {
    let (writer, calls) = writer::queue(&limits);
    let (freshness, asked) = Freshness::shared();
    let (weak, bounds) = (Arc::downgrade(&store), limits.clone());
    let make = |view, start| Cache::new(view, start, weak, freshness, bounds);
    let log = Follower::load(store, clock, &limits, make).await?;
    let cache = log.cache.clone();
    let (replica, role) = Replica::shared(log, calls);
    Ok(Joined { cache, writer, role, task: tokio::spawn(replica.run(Some(asked))) })
}
