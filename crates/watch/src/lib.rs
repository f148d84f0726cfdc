//! All objects in memory, the events that lead to them, and the task that writes the log.
//!
//! ```text
//!   writes                                          the log (store)
//!     │                                                   ▲  │
//!     ▼                 one process leads                 │  │ every process follows
//!   Writer ─ queue ─► leader: number, check, commit ──────┘  │
//!                        │ after the commit                  ▼
//!                        │                               follower: read, apply
//!                        └───────────────┬───────────────────┘
//!                                        ▼
//!                         Cache: newest View + a window of events per kind
//!                          │             │                    │
//!                          ▼             ▼                    ▼
//!                    get and list    Subscriber        CatchUpRead, Cache::past
//!                    of a View       (a cursor)        (read old events from the log)
//! ```
//!
//! *Data flow.* A caller hands writes to `Writer`. The leader collects the waiting calls into a
//! batch, gives each change the next revision, and commits the batch as one transaction. Then it
//! publishes the new view and the events, and responds to the callers. Calls that arrive meanwhile
//! are planned as the next batch. Other processes read the committed changes from the log and
//! publish the same views and events. `replica` is the task that leads or follows according to the
//! election; a process that does not share its log leads from the start.
//!
//! *Guarantees.*
//! - All kinds share one order of revisions, without gaps. A `View` is the exact state at its
//!   revision.
//! - A write is durable before it is in the leader's view, and in that view before it is
//!   acknowledged. In other processes it may appear a moment later; `Cache::fresh` waits for it.
//! - A subscriber receives every event of its kinds once, in order, or the error `Expired` when it
//!   fell behind. It may then read the log (`CatchUpRead`), or compare an old view with the newest
//!   one (`Difference`).
//! - Writes never wait for readers.
//!
//! *Rationale.* A view is a persistent map: a copy costs nothing, and an old view keeps only what
//! has changed since. So readers need no lock, and a list has one consistent state. Subscribers
//! have no channels: thousands of channels would take memory, and full ones would need an overflow
//! policy. A subscriber is a cursor into the window instead, and a slow one finds that its position
//! has expired. After start-up only the follower, the read index, an idle leader, `CatchUpRead` and
//! `Cache::past` read the database.
//!
//! *Out of scope.* Kinds, selectors and HTTP.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Data:
//! - `limits`: the bounds of everything below
//! - `window`: an event, and the recent events of one kind
//! - `history`: detection of a view that belongs to a lost history
//! - `view`: the state of all kinds at one revision
//! - `difference`: the changes between two views, as events
//! - `notifier`: wakes one task
//! - `windows`: the windows of all kinds, and the subscribers to notify
//!
//! Planning writes:
//! - `write`: a write, and the reasons for its rejection
//! - `commit_hook`: adds writes to a transaction
//! - `batch`: plans one transaction
//! - `writer`: the handle that queues writes
//! - `log_throttle`: limits the log lines of a lasting failure
//!
//! The cache:
//! - `pack_queue`: states that can soon be packed
//! - `freshness`: the known age of the view
//! - `cache`: publishes views and events
//! - `read_index`: consistent reads
//! - `subscriber`: a cursor over events
//! - `coalesce`: wakes many subscribers of a kind at once
//! - `packer`: packs objects
//! - `packing`: packs idle objects
//! - `load`: reads the state from the log
//! - `catch_up_read`: reads old events from the log
//! - `past`: reads old states from the log
//!
//! Owning the log:
//! - `follower`: publishes what other processes commit
//! - `history_bytes`: the size of the log's history in bytes
//! - `past_packing`: packs history
//! - `compaction`: removes old changes
//! - `leader`: commits writes
//! - `replica`: the task that follows or leads

mod batch;
mod cache;
mod catch_up_read;
mod coalesce;
mod commit_hook;
mod compaction;
mod difference;
mod follower;
mod freshness;
mod history;
mod history_bytes;
mod leader;
mod limits;
mod load;
mod log_throttle;
mod notifier;
mod pack_queue;
mod packer;
mod packing;
mod past;
mod past_packing;
mod read_index;
mod replica;
mod subscriber;
mod view;
mod window;
mod windows;
mod write;
mod writer;

use std::sync::Arc;

use ballast_base::clock::Clock;
use ballast_store::{self as store, Store};

use follower::Follower;
use freshness::Freshness;
use replica::Replica;

pub use ballast_store::HistoryOf;
pub use cache::Cache;
pub use catch_up_read::{CatchUpError, CatchUpRead};
pub use commit_hook::{CommitHook, CommitHookFactory, CommitHooks};
pub use difference::Difference;
pub use freshness::{Lag, Stale};
pub use history::{HistoryLength, HistoryLoss};
pub use limits::Limits;
pub use past::PastError;
pub use replica::{LogClosed, RoleHandle};
pub use subscriber::Subscriber;
pub use view::View;
pub use window::{Event, EventKind, Expired};
pub use windows::Interest;
pub use write::{Atomicity, Draft, Expect, Rejected, Write};
pub use writer::{Fence, WriteError, Writer};

/// The task that owns the log. It ends with `Ok` once the last `Writer` is dropped, all queued
/// writes are stored and the store is closed. After an error or a panic writing and following are
/// impossible, so the process should stop.
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

/// The handles of a process that shares its log with others.
pub struct Joined {
    pub cache: Cache,
    pub writer: Writer,
    /// The handle with which an election makes this process lead.
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
