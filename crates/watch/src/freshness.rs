//! What a replica knows about the age of its view, and the barrier that a consistent read waits
//! for.
//!
//! *Invariant:* a read that has passed the barrier sees every write that was acknowledged by any
//! replica before the read came. The barrier is one question to the database, for the end of the
//! log. All reads that come while one question is on its way share the next.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use ballast_base::telemetry;
use ballast_k8s::Revision;
use ballast_store::Store;

use super::Cache;

/// Reads that may wait for one barrier. A further one is refused.
const WAITING_MAX: usize = 4096;
/// How long a read waits for the database and for the view to catch up.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Why a read gets no answer: this replica does not know the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("too many reads are waiting for the database")]
    Busy,
    #[error("this replica cannot reach the database")]
    Unreachable,
    #[error("this replica has not caught up with the log")]
    Behind,
}

/// A replica that has not heard from the database for this long is cut off from it.
const CUT_OFF_AFTER: Duration = Duration::from_secs(5);
/// The time between two looks at the age of the view.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How much older than the log the view may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Changes that are known to be missing.
    pub revisions: u64,
    /// The time since the view was last known to be the newest state.
    pub time: Duration,
}

/// What is known about the age of a view. A process that has the log to itself never asks the
/// database.
pub(super) struct Freshness {
    /// `None` where no other process writes.
    requests: Option<mpsc::Sender<ReadIndexRequest>>,
    base: Instant,
    /// When the view was last known to be the newest, in milliseconds after `base`.
    confirmed_ms: AtomicU64,
    /// The last revision that the log is known to have.
    last: AtomicI64,
    /// Whether the view is too old to be shown at all.
    outdated: watch::Sender<bool>,
}

/// A read that waits for the end of the log; `None` if the log did not say.
pub(super) struct ReadIndexRequest(oneshot::Sender<Option<Revision>>);

impl Freshness {
    /// Of a process that writes the log alone.
    pub fn alone() -> Freshness {
        Freshness {
            requests: None,
            base: Instant::now(),
            confirmed_ms: AtomicU64::new(0),
            last: AtomicI64::new(0),
            outdated: watch::Sender::new(false),
        }
    }

    /// Of one among several, and what `answer` needs.
    pub fn shared() -> (Freshness, mpsc::Receiver<ReadIndexRequest>) {
        let (requests, requests_in) = mpsc::channel(WAITING_MAX);
        (Freshness { requests: Some(requests), ..Freshness::alone() }, requests_in)
    }

    /// At `sent`, or later, the log ended with `last`, and the view has it.
    pub fn confirm(&self, sent: Instant, last: Revision) {
        let since = sent.saturating_duration_since(self.base).as_millis();
        self.confirmed_ms.fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.last.fetch_max(last.0, Ordering::Relaxed);
    }

    /// The log ended with `last` at `sent` or later, and the view was at `before` then.
    fn told(&self, sent: Instant, before: Revision, last: Revision) {
        match last <= before {
            true => self.confirm(sent, last),
            false => drop(self.last.fetch_max(last.0, Ordering::Relaxed)),
        }
    }

    pub fn lag(&self, view: Revision) -> Lag {
        if self.requests.is_none() {
            return Lag::default();
        }
        let confirmed = Duration::from_millis(self.confirmed_ms.load(Ordering::Relaxed));
        let missing = self.last.load(Ordering::Relaxed).saturating_sub(view.0);
        Lag { revisions: u64::try_from(missing).unwrap_or(0), time: self.base.elapsed().saturating_sub(confirmed) }
    }

    /// The end of the log at some time after this was called; `None` if nobody else writes.
    async fn read_index(&self) -> Result<Option<Revision>, Stale> {
        let Some(requests) = &self.requests else { return Ok(None) };
        let (answer, answered) = oneshot::channel();
        requests.try_send(ReadIndexRequest(answer)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Stale::Busy,
            mpsc::error::TrySendError::Closed(_) => Stale::Unreachable,
        })?;
        match tokio::time::timeout(WAIT_MAX, answered).await {
            Ok(Ok(Some(last))) => Ok(Some(last)),
            _ => Err(Stale::Unreachable),
        }
    }
}

impl Cache {
    /// Waits until the newest view contains every write that was acknowledged before this call, by
    /// whatever replica. It costs nothing where nobody else writes.
    pub async fn fresh(&self) -> Result<(), Stale> {
        let Some(last) = self.freshness().read_index().await? else { return Ok(()) };
        if self.view().revision >= last {
            return Ok(());
        }
        tokio::time::timeout(WAIT_MAX, self.reached(last)).await.map_err(|_| Stale::Behind)
    }

    /// How much older than the log the newest view may be.
    pub fn lag(&self) -> Lag {
        self.freshness().lag(self.view().revision)
    }

    /// Whether this replica has lost the database, so that it does not know what is new.
    pub fn is_cut_off(&self) -> bool {
        self.lag().time > CUT_OFF_AFTER
    }

    /// Whether the view is so old that it should not be shown to anybody.
    pub fn is_outdated(&self) -> bool {
        *self.freshness().outdated.borrow()
    }

    /// Becomes true when the view is so old that running watches should end.
    pub fn outdated(&self) -> watch::Receiver<bool> {
        self.freshness().outdated.subscribe()
    }
}

/// Keeps an eye on the age of the view, for as long as it is polled.
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

/// Answers those who wait at the barrier, for as long as it is polled.
pub(super) async fn serve_read_index(
    mut requests_in: mpsc::Receiver<ReadIndexRequest>,
    store: Arc<dyn Store>,
    cache: Cache,
) -> Infallible {
    let mut waiting = Vec::new();
    let mut is_lost = false;
    loop {
        if requests_in.recv_many(&mut waiting, WAITING_MAX).await == 0 {
            // It does not come to this: the cache holds a sender.
            std::future::pending::<()>().await;
        }
        let (sent, before) = (Instant::now(), cache.view().revision);
        let bounds = tokio::time::timeout(WAIT_MAX, store.bounds()).await;
        let last = match bounds {
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
            cache.freshness().told(sent, before, last);
        }
        for ReadIndexRequest(answer) in waiting.drain(..) {
            // Who has gone needs no answer.
            let _ = answer.send(last);
        }
    }
}
