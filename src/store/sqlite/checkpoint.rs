//! Moves the WAL's pages into the database file, beside the commits and not inside one.
//!
//! A passive checkpoint waits for nobody, but while commits go on it never quite catches up, and
//! only a WAL that is caught up starts again from its beginning. So when the file has grown long,
//! one more checkpoint runs while the writer stands still: nearly all is moved by then, so that is
//! short.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Lines, statements};
use crate::store::Change;

/// Written bytes after which a checkpoint is due.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// How long a little may wait for one.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Pages in the WAL after which the writer stands still for a moment.
const WAL_PAGES_MAX: i64 = 16_384;
/// What a row costs beside its object: its own small columns and a page of the index.
const BYTES_BESIDE_THE_OBJECT: usize = 4096;

pub(super) struct Checkpointer {
    pending: Arc<Pending>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Pending {
    bytes: AtomicUsize,
    is_due: Notify,
}

impl Checkpointer {
    pub fn start(lines: Arc<Lines>) -> Checkpointer {
        let pending = Arc::new(Pending::default());
        // A process that was killed may have left a long WAL behind.
        pending.bytes.store(1, Ordering::Relaxed);
        pending.is_due.notify_one();
        let task = tokio::spawn(run(lines, pending.clone()));
        Checkpointer { pending, task }
    }

    /// No checkpoint begins after this.
    pub fn stop(&self) {
        self.task.abort();
    }

    pub fn wrote(&self, changes: &[Change]) {
        self.wrote_bytes(changes.iter().map(|change| change.object.len() + BYTES_BESIDE_THE_OBJECT).sum());
    }

    /// Something small that is no change.
    pub fn wrote_beside(&self) {
        self.wrote_bytes(BYTES_BESIDE_THE_OBJECT);
    }

    fn wrote_bytes(&self, bytes: usize) {
        if self.pending.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= CHECKPOINT_BYTES {
            self.pending.is_due.notify_one();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(lines: Arc<Lines>, pending: Arc<Pending>) {
    loop {
        // In time or because it is due: both are reasons.
        let _ = tokio::time::timeout(CHECKPOINT_EVERY, pending.is_due.notified()).await;
        if pending.bytes.swap(0, Ordering::Relaxed) == 0 {
            continue;
        }
        if let Err(error) = checkpoint(&lines).await {
            // The WAL holds everything; the next round tries again.
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to checkpoint the database");
        }
    }
}

async fn checkpoint(lines: &Lines) -> Result<(), sqlx::Error> {
    let pages = passive(lines).await?;
    if pages > WAL_PAGES_MAX {
        let writer = lines.writer.lease().await?;
        let outcome = passive(lines).await;
        writer.end(Ok(())).await?;
        outcome?;
    }
    Ok(())
}

/// Returns how many pages the WAL has.
async fn passive(lines: &Lines) -> Result<i64, sqlx::Error> {
    let mut lease = lines.reader.lease().await?;
    let outcome = statements::checkpoint(&mut lease.connection).await;
    lease.end(outcome).await
}
