//! Consistent reads: a read waits until the view has reached the read index, which is the end of
//! the log at the arrival of the read.
//!
//! *Invariant:* a read that waited (`Cache::fresh`) sees every write that any replica acknowledged
//! before the read arrived. Finding the read index is one query to the database. All reads that
//! arrive during a query share the next one.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use ballast_base::telemetry;
use ballast_store::Store;

use super::Cache;
use super::freshness::{Lag, ReadIndexRequest, Stale, WAIT_MAX, WAITING_MAX};

/// The time without a response of the database after which a replica counts as cut off.
const CUT_OFF_AFTER: Duration = Duration::from_secs(5);
/// The interval of the checks of the view's age.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Cache {
    /// Waits until the newest view contains every write that any replica acknowledged before this
    /// call. Costs nothing if no other process writes.
    pub async fn fresh(&self) -> Result<(), Stale> {
        if self.is_taken_back() {
            return Err(Stale::TakenBack);
        }
        let Some(last) = self.freshness().read_index().await? else { return Ok(()) };
        if self.is_taken_back() {
            return Err(Stale::TakenBack);
        }
        if self.view().revision >= last {
            return Ok(());
        }
        tokio::time::timeout(WAIT_MAX, self.reached(last)).await.map_err(|_| Stale::Behind)
    }

    /// Returns how far the newest view may be behind the log.
    pub fn lag(&self) -> Lag {
        self.freshness().lag(self.view().revision)
    }

    /// Returns whether this replica has lost its connection to the database.
    pub fn is_cut_off(&self) -> bool {
        self.lag().time > CUT_OFF_AFTER || self.is_taken_back()
    }

    /// Returns whether the view is too old to be returned to clients, or has changes that the log
    /// lacks.
    pub fn is_outdated(&self) -> bool {
        *self.freshness().outdated.borrow() || self.is_taken_back()
    }

    /// Returns whether the view has changes that the database has lost. It is replaced once the log
    /// is bumped.
    pub fn is_taken_back(&self) -> bool {
        self.freshness().is_taken_back.load(Ordering::Relaxed)
    }

    /// Resolves when this replica should report to the other replicas at once.
    pub async fn report_due(&self) {
        self.freshness().report.notified().await;
    }

    /// Returns a channel that becomes true when the view is so old that running watches should end.
    pub fn outdated(&self) -> watch::Receiver<bool> {
        self.freshness().outdated.subscribe()
    }
}

/// Updates `Cache::is_outdated` while it is polled.
pub(super) async fn watch_age(cache: Cache) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let lag = cache.lag();
        let is_outdated = lag.time > cache.limits().outdated_after;
        let changed = |was: &mut bool| std::mem::replace(was, is_outdated) != is_outdated;
        if cache.freshness().outdated.send_if_modified(changed) && is_outdated {
            tracing::error!(seconds = lag.time.as_secs(), "the database is out of reach for too long: watches end");
        }
    }
}

/// Serves the reads that wait for a read index, while it is polled.
pub(super) async fn serve(
    mut requests: mpsc::Receiver<ReadIndexRequest>,
    store: Arc<dyn Store>,
    cache: Cache,
) -> Infallible {
    let mut waiting = Vec::new();
    let mut is_lost = false;
    loop {
        if requests.recv_many(&mut waiting, WAITING_MAX).await == 0 {
            // Unreachable: the cache holds a sender.
            std::future::pending::<()>().await;
        }
        let (sent, before) = (Instant::now(), cache.view().revision);
        let bounds = tokio::time::timeout(WAIT_MAX, store.bounds()).await;
        let last = match bounds {
            // The log has lost changes. The follower determines which, and readers retry.
            Ok(Ok(bounds)) if bounds.last < before => {
                cache.freshness().is_taken_back.store(true, Ordering::Relaxed);
                None
            }
            Ok(Ok(bounds)) => Some(bounds.last),
            Ok(Err(error)) => {
                if !is_lost {
                    tracing::warn!(error = telemetry::with_causes(&error), "reads cannot be answered");
                }
                None
            }
            Err(_) => None,
        };
        is_lost = last.is_none();
        if let Some(last) = last {
            cache.freshness().observe(sent, before, last);
        }
        for ReadIndexRequest(answer) in waiting.drain(..) {
            // The reader may have been dropped.
            let _ = answer.send(last);
        }
    }
}
