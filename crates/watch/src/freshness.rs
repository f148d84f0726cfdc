//! The known age of a replica's view. `read_index` uses it to serve consistent reads.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use ballast_k8s::Revision;

/// Maximum number of reads that wait for one read index. A further one is refused.
pub(super) const WAITING_MAX: usize = 4096;
/// How long a read waits for the database and for the view to catch up.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(3);

/// The reason for refusing a read: this replica does not know the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("too many reads are waiting for the database")]
    Busy,
    #[error("this replica cannot reach the database")]
    Unreachable,
    #[error("this replica has not caught up with the log")]
    Behind,
    /// The view has changes that the log does not have. It will be replaced soon.
    #[error("the database has lost changes that this replica shows")]
    TakenBack,
}

/// How far the view may be behind the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of changes that are known to be missing.
    pub revisions: u64,
    /// The time since the view was last known to be the newest state.
    pub time: Duration,
}

/// The known age of a view. A process that does not share the log never queries the database.
pub(super) struct Freshness {
    /// `None` if no other process writes.
    requests: Option<mpsc::Sender<ReadIndexRequest>>,
    base: Instant,
    /// When the view was last known to be the newest, in milliseconds after `base`.
    confirmed_ms: AtomicU64,
    /// The last revision that the log is known to have.
    last: AtomicI64,
    /// Whether the view is too old to be returned at all.
    pub outdated: watch::Sender<bool>,
    /// Whether the view has changes that the log lacks.
    pub is_taken_back: AtomicBool,
    /// Triggers a report to the other replicas.
    pub report: Notify,
}

/// A read that waits for the end of the log, which is `None` if the log did not respond.
pub(super) struct ReadIndexRequest(pub oneshot::Sender<Option<Revision>>);

impl Freshness {
    /// Creates the state of a process that does not share the log.
    pub fn alone() -> Freshness {
        Freshness {
            requests: None,
            base: Instant::now(),
            confirmed_ms: AtomicU64::new(0),
            last: AtomicI64::new(0),
            outdated: watch::Sender::new(false),
            is_taken_back: AtomicBool::new(false),
            report: Notify::new(),
        }
    }

    /// Creates the state of one process among several, and the requests that `read_index::serve`
    /// handles.
    pub fn shared() -> (Freshness, mpsc::Receiver<ReadIndexRequest>) {
        let (requests, requests_in) = mpsc::channel(WAITING_MAX);
        (Freshness { requests: Some(requests), ..Freshness::alone() }, requests_in)
    }

    /// Records that at `sent`, or later, the log ended with `last`, and that the view includes it.
    pub fn confirm(&self, sent: Instant, last: Revision) {
        let since = sent.saturating_duration_since(self.base).as_millis();
        self.confirmed_ms.fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.last.fetch_max(last.0, Ordering::Relaxed);
    }

    /// Records that at `sent`, or later, the log ended with `last`, while the view was at `before`.
    pub fn observe(&self, sent: Instant, before: Revision, last: Revision) {
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

    /// Returns the end of the log at some time after this call; `None` if no other process writes.
    pub async fn read_index(&self) -> Result<Option<Revision>, Stale> {
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
