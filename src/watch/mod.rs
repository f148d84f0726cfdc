//! Keeps the state of all kinds in memory with the recent events, and runs the only writer.
//!
//! *Invariants.* All kinds share one order of revisions, and a `View` is the exact state at its
//! revision. A write is durable before it is in the view, and it is in the view before it is
//! acknowledged. So the newest view contains every acknowledged write. The writer never waits for a
//! reader: a subscriber is a cursor into the window, and a slow one finds that its place is gone.
//!
//! A subscriber that begins before the window reads the log until it has caught up (`Backlog`).
//! A state from before the windows is put together from the log, too (`Cache::past`).
//! Nothing else reads the database after the start.
//!
//! There are no channels per watcher: they would take memory, and a full one would need a rule.
//! This room knows neither kinds nor selectors nor HTTP.

mod backlog;
mod beat;
mod book;
mod cache;
mod compaction;
mod limits;
mod load;
mod past;
mod plan;
mod subscriber;
mod view;
mod window;
mod writer;

use std::sync::Arc;

use crate::clock::Clock;
use crate::store::{self, Store};
use crate::telemetry;

pub use backlog::{Backlog, Lost};
pub use book::{Book, Bookkeeper};
pub use cache::Cache;
pub use limits::Limits;
pub use past::NoPast;
pub use subscriber::{Interest, Subscriber};
pub use view::View;
pub use window::{Event, EventKind, Expired};
pub use writer::{Atomicity, Draft, Expect, Fence, Rejected, Write, WriteError, Writer};

/// The writer's loop. It ends well once the last `Writer` is dropped, all queued writes are stored
/// and the store is closed. An error or a panic in it means that nothing can be written any more,
/// so the process should stop.
pub type Task = tokio::task::JoinHandle<Result<(), store::Error>>;

/// Loads the state and the recent events from `store`, and starts the writer.
pub async fn open(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: Limits,
) -> Result<(Cache, Writer, Task), store::Error> {
    let load::Loaded { cache, time_ms } = load::load(&store, &*clock, &limits).await?;
    let (writer, run) = writer::start(Arc::clone(&store), clock, cache.clone(), time_ms, limits);
    let task = async move {
        run.await?;
        if let Err(error) = store.close().await {
            // Everything is stored, but not all of it in the main file.
            tracing::warn!(error = telemetry::with_causes(&error), "failed to tidy up the database at the end");
        }
        Ok(())
    };
    Ok((cache, writer, tokio::spawn(task)))
}
