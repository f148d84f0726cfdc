//! Moves the pages of the WAL into the database file, beside the commits.
//!
//! A passive checkpoint waits for no reader or writer. While commits go on, it never quite catches
//! up, and the WAL starts again from its beginning only after it was moved completely. So once the
//! WAL is long, a second checkpoint runs while the writer waits. That is short, because little is
//! left to move.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::statements::Checkpointed;
use super::{Connections, statements};
use ballast_base::log_limit::LogLimit;
use ballast_base::telemetry;

/// A checkpoint is due once this many bytes were written.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// A checkpoint is due after this time, however little was written.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// With a longer WAL, the writer waits for a moment.
pub(super) const WAL_BYTES_MAX: i64 = 64 << 20;
/// So much stays in the WAL only if a transaction reads from an older moment all the time. Those of
/// this process are short.
const HELD_BYTES_MIN: i64 = 2 * WAL_BYTES_MAX;
/// The size of a row beside its object: its small columns, and its place in the index.
const BYTES_BESIDE_THE_OBJECT: usize = 256;
/// What a commit writes beside its rows: the rest of a page, and pages of the index.
const BYTES_BESIDE_THE_ROWS: usize = 32 << 10;

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
    pub fn start(connections: Arc<Connections>) -> Checkpointer {
        let pending = Arc::new(Pending::default());
        // A process that was killed may have left a long WAL.
        pending.bytes.store(1, Ordering::Relaxed);
        pending.is_due.notify_one();
        let task = tokio::spawn(run(connections, pending.clone()));
        Checkpointer { pending, task }
    }

    /// No checkpoint begins after this.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Counts so many rows, whose texts have so many bytes.
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

async fn run(connections: Arc<Connections>, pending: Arc<Pending>) {
    let held = LogLimit::new();
    loop {
        // Both are reasons: the time has passed, or enough was written.
        let _ = tokio::time::timeout(CHECKPOINT_EVERY, pending.is_due.notified()).await;
        if pending.bytes.swap(0, Ordering::Relaxed) == 0 {
            continue;
        }
        match checkpoint(&connections).await {
            Ok(left) if left.not_moved >= HELD_BYTES_MIN => {
                if held.pass().is_some() {
                    tracing::warn!(
                        wal_bytes = left.wal,
                        "the WAL grows, because another program has read the database file in one transaction for a \
                         while: end that transaction or that program (`lsof` shows what has the file open)"
                    );
                }
            }
            Ok(_) => {}
            // Nothing is lost, because the WAL holds everything. The next round tries again.
            Err(error) => {
                tracing::warn!(error = telemetry::with_causes(&error), "failed to checkpoint the database");
            }
        }
    }
}

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
