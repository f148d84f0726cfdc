//! A set of loops that are stopped together, and that reports a loop that ends early.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::Work;
use super::runner::UnlistedRunner;
use ballast_base::clock::Clock;
use ballast_watch::Cache;

/// How long shutdown waits for the batches in progress. Batches are bounded. Work that is cancelled
/// here was not acknowledged, and the next start repeats it.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Loops that list at the same time. With a million objects, a start leaves a processor to the
/// threads that serve.
const LISTS_MAX: usize = 1;

/// A loop ended before shutdown.
#[derive(Debug, thiserror::Error)]
#[error("a background worker died")]
pub struct Died {
    #[source]
    pub source: Option<tokio::task::JoinError>,
}

pub struct Workers {
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
    lists: Arc<Semaphore>,
}

impl Workers {
    /// Creates a set of loops that end when `shutdown` is cancelled.
    pub fn new(shutdown: CancellationToken) -> Workers {
        Workers { tasks: JoinSet::new(), shutdown, lists: Arc::new(Semaphore::new(LISTS_MAX)) }
    }

    /// Starts a loop. It receives all events from now on. It lists on a blocking thread, after the
    /// loops that were started before it.
    pub fn spawn(&mut self, work: Box<dyn Work>, cache: &Cache, clock: &Arc<dyn Clock>) {
        let unlisted = UnlistedRunner::new(work, cache.clone(), Arc::clone(clock));
        let (shutdown, turn) = (self.shutdown.clone(), Arc::clone(&self.lists));
        self.tasks.spawn(async move {
            let permit = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                permit = turn.acquire_owned() => permit,
            };
            let runner = match spawn_blocking(move || unlisted.list()).await.map_err(JoinError::try_into_panic) {
                Ok(runner) => runner,
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(Err(_)) => return,
            };
            drop(permit);
            runner.run(shutdown).await;
        });
    }

    /// Resolves when a loop has ended before shutdown, which is a bug. The caller should then end
    /// the process, rather than serve an API without its controllers. Never resolves otherwise.
    pub async fn died(&mut self) -> Died {
        loop {
            match self.tasks.join_next().await {
                Some(ended) if !self.shutdown.is_cancelled() => return Died { source: ended.err() },
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until all loops have ended after `shutdown` was cancelled.
    pub async fn drain(mut self) {
        let ended = tokio::time::timeout(DRAIN_MAX, async { while self.tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!("background workers did not end in time; their unfinished work is redone at the next start");
        }
    }
}
