//! Follows the log: what any process has committed becomes visible in the cache, once and in order.
//!
//! Every process has a follower. The leader commits on top of it (`leader`), and follows again when
//! its term is over. The follower publishes only what other processes wrote.
//!
//! *Invariant:* the view never goes back. If the log ends before the view, the database was
//! replaced by an older one, and the process ends with an error.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use ballast_base::clock::Clock;
use ballast_base::telemetry;
use ballast_k8s::Revision;
use ballast_store::{Change, Error, Store};

use super::{Cache, Limits, View, load};

/// Rows of a page. Other tasks run between two pages.
const PAGE_ROWS: usize = 256;
/// The log is read after this time even without a notification.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// The longest wait for one answer of the store. After it, the connection is closed.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The pause after a failed read of the log.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Follower {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub cache: Cache,
    /// The time of the newest change.
    pub time_ms: i64,
}

impl Follower {
    /// Loads the state. `make` makes the cache of a view whose windows begin after a revision.
    pub async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limits: &Limits,
        make: impl FnOnce(View, Revision) -> Cache,
    ) -> Result<Follower, Error> {
        let sent = Instant::now();
        let load::Loaded { view, events, start, time_ms } = load::load(&*store, limits).await?;
        let cache = make(view, start);
        cache.recall(&events, clock.now_ms());
        cache.freshness().confirm(sent, cache.view().revision);
        Ok(Follower { store, clock, cache, time_ms })
    }

    /// Follows for as long as it is polled. It ends with a fault that waiting does not repair.
    pub async fn tail(&mut self) -> Error {
        let mut is_lost = false;
        loop {
            match self.catch_up().await {
                Ok(()) => {
                    if std::mem::take(&mut is_lost) {
                        tracing::info!(revision = self.cache.view().revision.0, "the log can be read again");
                    }
                    let news = self.store.news(self.cache.view().revision);
                    // News, time-out or failure: the next read finds out.
                    let _ = tokio::time::timeout(QUIET_MAX, news).await;
                }
                Err(error @ Error::Unavailable { .. }) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        tracing::warn!(error = telemetry::with_causes(&error), "the log cannot be read; trying on");
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(fault) => return fault,
            }
        }
    }

    /// Publishes everything that was in the log when this was called.
    pub async fn catch_up(&mut self) -> Result<(), Error> {
        let sent = Instant::now();
        let last = answered("failed to ask for the end of the log", self.store.bounds()).await?.last;
        if last < self.cache.view().revision {
            return Err(taken_back(last, self.cache.view().revision));
        }
        while self.cache.view().revision < last {
            let after = self.cache.view().revision;
            match answered("failed to read the log", self.store.changes(after, PAGE_ROWS)).await {
                Ok(page) if page.is_empty() => return Err(taken_back(after, last)),
                Ok(page) => self.publish(page)?,
                Err(Error::Compacted { .. }) => self.load_anew().await?,
                Err(error) => return Err(error),
            }
            tokio::task::yield_now().await;
        }
        self.cache.freshness().confirm(sent, last);
        Ok(())
    }

    fn publish(&mut self, page: Vec<Change>) -> Result<(), Error> {
        let mut view = View::clone(&self.cache.view());
        let mut events = Vec::with_capacity(page.len());
        for change in page {
            let event = load::next_event(&view, change)?;
            self.time_ms = self.time_ms.max(event.time_ms);
            view.apply(&event);
            events.push(event);
        }
        self.cache.publish(view, events, self.clock.now_ms());
        Ok(())
    }

    /// The log has been compacted beyond this follower. Watches end with a 410, and a list returns
    /// the newest state.
    async fn load_anew(&mut self) -> Result<(), Error> {
        let missed = self.cache.view().revision;
        let loaded = load::load(&*self.store, self.cache.limits()).await?;
        tracing::warn!(missed = missed.0, revision = loaded.view.revision.0, "missed a compacted part of the log");
        self.time_ms = self.time_ms.max(loaded.time_ms);
        self.cache.begin_anew(loaded.view);
        Ok(())
    }
}

/// Bounds the wait for an answer of the store.
async fn answered<T>(action: &'static str, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(ANSWER_MAX, answer)
        .await
        .unwrap_or_else(|late| Err(Error::Unavailable { action, source: Arc::new(late) }))
}

/// The error for a log that has lost changes.
fn taken_back(last: Revision, known: Revision) -> Error {
    let advice = format!(
        "it is at revision {last}, and revision {known} was there before: the database was replaced by an older one; \
         stop all replicas, `ballast lift` it, and start them"
    );
    Error::Corrupt { advice, source: None }
}
