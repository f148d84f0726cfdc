//! Moves the pages of the WAL into the database file, outside of commits.
//!
//! A passive checkpoint waits for no reader or writer. During continuous commits it never quite
//! catches up, but the WAL restarts from its beginning only after it was moved completely. So once
//! the WAL is long, a second checkpoint runs while the writer waits. That is short, because few
//! pages are left to move.
//!
//! A long-running transaction of another program prevents the pages that it may still read from
//! being moved, so the WAL grows with each write. To protect the disk, commits are refused once the
//! WAL has reached a bound, until that transaction ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::statements::Checkpointed;
use super::{Connections, statements};
use ballast_base::log_limit::LogLimit;
use ballast_base::telemetry;

/// Written bytes after which a checkpoint is due.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// The maximum time between two checkpoints, however little was written.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// The WAL size above which the writer waits for a checkpoint.
pub(super) const WAL_BYTES_MAX: i64 = 64 << 20;
/// WAL size that indicates a long-running transaction of another program. Those of this process are
/// short.
const HELD_BYTES_MIN: i64 = 2 * WAL_BYTES_MAX;
/// The checkpoint interval while commits are refused.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// The size of a row without its object: its small columns, and its index entry.
const BYTES_BESIDE_THE_OBJECT: usize = 256;
/// The overhead of a commit: the rest of a page, and index pages.
const BYTES_BESIDE_THE_ROWS: usize = 32 << 10;

pub(super) struct Checkpointer {
    pending: Arc<Pending>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Pending {
    bytes: AtomicUsize,
    is_due: Notify,
    /// Whether the WAL has reached its bound.
    is_full: AtomicBool,
}

impl Checkpointer {
    /// Starts the checkpoints. Commits are refused while more than `held_max` bytes of the WAL
    /// cannot be moved.
    pub fn start(connections: Arc<Connections>, held_max: u64) -> Checkpointer {
        let pending = Arc::new(Pending::default());
        // A process that was killed may have left a long WAL.
        pending.bytes.store(1, Ordering::Relaxed);
        pending.is_due.notify_one();
        let task = tokio::spawn(run(connections, pending.clone(), i64::try_from(held_max).unwrap_or(i64::MAX)));
        Checkpointer { pending, task }
    }

    /// Stops the checkpoints; none starts after this call.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Fails if the WAL has reached its bound.
    pub fn has_room(&self) -> io::Result<()> {
        match self.pending.is_full.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(io::Error::new(io::ErrorKind::ResourceBusy, HELD)),
        }
    }

    /// Counts a commit of `rows` rows with `bytes` bytes of objects.
    pub fn wrote(&self, rows: usize, bytes: usize) {
        self.wrote_bytes(BYTES_BESIDE_THE_ROWS + rows * BYTES_BESIDE_THE_OBJECT + bytes);
    }

    /// Counts a small write outside the log.
    pub fn wrote_beside(&self) {
        self.wrote_bytes(BYTES_BESIDE_THE_ROWS);
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

async fn run(connections: Arc<Connections>, pending: Arc<Pending>, held_max: i64) {
    let held = LogLimit::new();
    let mut was_held = false;
    loop {
        let is_full = pending.is_full.load(Ordering::Relaxed);
        let pause = if is_full { RETRY_EVERY } else { CHECKPOINT_EVERY };
        // Either the time has passed, or enough was written.
        let _ = tokio::time::timeout(pause, pending.is_due.notified()).await;
        if pending.bytes.swap(0, Ordering::Relaxed) == 0 && !was_held {
            continue;
        }
        let left = match checkpoint(&connections).await {
            Ok(left) => left,
            // Nothing is lost, because the WAL contains everything. The next round tries again.
            Err(error) => {
                tracing::warn!(error = telemetry::with_causes(&error), "failed to checkpoint the database");
                continue;
            }
        };
        let is_held = left.not_moved >= HELD_BYTES_MIN.min(held_max / 2);
        pending.is_full.store(left.not_moved >= held_max, Ordering::Relaxed);
        match (left.not_moved >= held_max, is_held) {
            (true, _) if !is_full => {
                tracing::error!(wal_bytes = left.wal, held_max, "writes are refused, because {HELD}: {ADVICE}");
            }
            (false, true) if held.pass().is_some() => {
                tracing::warn!(wal_bytes = left.wal, held_max, "the WAL grows, because {HELD}: {ADVICE}");
            }
            (false, false) if was_held => {
                tracing::info!("the WAL can be moved into the database again, because no other program holds it");
            }
            _ => {}
        }
        was_held = is_held;
    }
}

/// The reason of a growing WAL.
const HELD: &str = "another program has read the database file in one transaction for a while";
/// The remedy for a growing WAL.
const ADVICE: &str = "end that transaction or that program (`lsof` shows what has the file open)";

async fn checkpoint(connections: &Connections) -> Result<Checkpointed, sqlx::Error> {
    let left = passive(connections).await?;
    if left.wal <= WAL_BYTES_MAX {
        return Ok(left);
    }
    let writer = connections.writer.acquire().await?;
    let outcome = passive(connections).await;
    writer.end(Ok(())).await?;
    outcome
}

async fn passive(connections: &Connections) -> Result<Checkpointed, sqlx::Error> {
    let mut lease = connections.reader.acquire().await?;
    let outcome = statements::checkpoint(&mut lease.connection).await;
    lease.end(outcome).await
}
