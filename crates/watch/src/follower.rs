//! Follows the log: every committed change becomes visible in the cache, once and in order.
//!
//! Every process has a follower. The leader commits on top of it (`leader`), and follows again when
//! its term ends. The follower publishes only the writes of other processes.
//!
//! *Invariants.* The view never goes back. A change is published only if it continues from the row
//! at the revision of the view (`history`). If the database has lost that row, the revision is
//! marked in the database, and the view is hidden. Once a leader has bumped the log beyond the
//! mark, the state is reloaded, and watches end with a 410.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use ballast_base::clock::Clock;
use ballast_base::{metrics, telemetry};
use ballast_k8s::Revision;
use ballast_store::{Change, Error, Losses, Store, Term, Tip};

use super::history::{HistoryLoss, Kinship, Origin};
use super::{Cache, Interest, Limits, View, load};

/// Rows per page. Other tasks run between two pages.
const PAGE_ROWS: usize = 256;
/// The maximum time between two reads of the log without a notification.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// The timeout of a store call. After it, the connection is closed.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The pause after a failed read of the log.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Follower {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub cache: Cache,
    /// The time of the newest change.
    pub time_ms: i64,
    /// The log at the revision of the view.
    pub origin: Origin,
    /// The last known timeline of the server.
    timeline: i64,
    /// The part of the view that the database has lost.
    lost: Option<HistoryLoss>,
}

/// The interval in which a new leader checks for reports of other replicas.
const REPORTS_PAUSE: Duration = Duration::from_millis(50);

impl Follower {
    /// Loads the state. `make` creates the cache from a view and the revision after which its
    /// windows start.
    pub async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limits: &Limits,
        make: impl FnOnce(View, Revision) -> Cache,
    ) -> Result<Follower, Error> {
        let sent = Instant::now();
        let load::Loaded { view, events, start, time_ms, tip } = load::load(&*store, limits).await?;
        let cache = make(view, start);
        cache.recall(&events, clock.now_ms());
        cache.freshness().confirm(sent, cache.view().revision);
        let (origin, timeline) = (Origin::of(&tip), tip.timeline);
        Ok(Follower { store, clock, cache, time_ms, origin, timeline, lost: None })
    }

    /// Follows while it is polled. Returns the first error that retrying does not repair.
    pub async fn tail(&mut self) -> Error {
        let mut is_lost = false;
        loop {
            match self.catch_up(Term::default()).await {
                Ok(()) => {
                    if std::mem::take(&mut is_lost) {
                        tracing::info!(revision = self.cache.view().revision.0, "the log can be read again");
                    }
                    let news = self.store.news(self.cache.view().revision);
                    // Regardless of the result, the next read determines the state of the log.
                    let _ = tokio::time::timeout(QUIET_MAX, news).await;
                }
                Err(error @ Error::Unavailable { .. }) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        tracing::warn!(error = telemetry::with_causes(&error), "the log cannot be read; trying on");
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                // The next leader bumps the log.
                Err(Error::TakenBack { .. }) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(fault) => return fault,
            }
        }
    }

    /// Publishes all changes that were in the log at the time of the call. If the log has lost
    /// changes, marks the loss, which ends every term but `term`.
    pub async fn catch_up(&mut self, term: Term) -> Result<(), Error> {
        let sent = Instant::now();
        let tip = self.look().await?;
        let Tip { bounds, .. } = tip;
        self.follow_on(&tip, term).await?;
        while self.cache.view().revision < bounds.last {
            let known = self.cache.view().revision;
            // Includes the row of the view itself, to verify that the following rows continue from
            // it.
            let has_own = known > bounds.compacted;
            let after = if has_own { Revision(known.0 - 1) } else { known };
            match answered("failed to read the log", self.store.changes(after, PAGE_ROWS + 1)).await {
                Ok(mut page) => {
                    let is_own = !has_own || page.first() == self.origin.row.as_ref();
                    page.drain(..usize::from(has_own && !page.is_empty()));
                    if !is_own || page.is_empty() {
                        // The log has changed since the tip was read.
                        let tip = self.look().await?;
                        self.follow_on(&tip, term).await?;
                        return Err(changed_meanwhile());
                    }
                    if let Err(fault) = self.publish(page) {
                        // Rows of two histories are inconsistent.
                        let before = self.timeline;
                        let tip = self.look().await?;
                        let is_other = tip.timeline != before || self.origin.compare(known, &tip) != Kinship::Same;
                        return Err(if is_other { changed_meanwhile() } else { fault });
                    }
                }
                Err(Error::Compacted { .. }) => self.load_anew().await?,
                Err(error) => return Err(error),
            }
            tokio::task::yield_now().await;
        }
        self.cache.freshness().is_taken_back.store(false, Ordering::Relaxed);
        self.cache.freshness().confirm(sent, bounds.last);
        Ok(())
    }

    /// Reads the end of the log, and its row at the revision of the view.
    async fn look(&mut self) -> Result<Tip, Error> {
        let tip = self.store.tip(self.cache.view().revision);
        let tip = answered("failed to ask for the end of the log", tip).await?;
        if tip.marked > Revision::ZERO || tip.timeline != self.timeline {
            // A new leader waits for reports.
            self.cache.freshness().report.notify_one();
        }
        self.timeline = tip.timeline;
        Ok(tip)
    }

    /// Makes sure that the view belongs to the log: reloads it if the log was compacted or bumped
    /// beyond it, and marks a loss.
    async fn follow_on(&mut self, tip: &Tip, term: Term) -> Result<(), Error> {
        let known = self.cache.view().revision;
        match self.origin.compare(known, tip) {
            Kinship::Same => {
                if self.lost.take().is_some() {
                    tracing::info!(revision = known.0, "the changes are there again that the database had lost");
                }
                Ok(())
            }
            Kinship::Superseded => self.load_anew().await,
            Kinship::Other => {
                self.cache.freshness().is_taken_back.store(true, Ordering::Relaxed);
                answered("failed to mark what was lost", self.store.mark_lost(term, known)).await?;
                if self.lost.is_none() {
                    self.tell(known, tip).await?;
                }
                Err(Error::TakenBack { known, last: tip.bounds.last })
            }
        }
    }

    /// Returns whether the log still continues from the view, on the server that the leader has
    /// accepted.
    pub fn goes_on(&self, known: Revision, tip: &Tip) -> bool {
        let is_accepted = tip.timeline == self.timeline && tip.marked == Revision::ZERO;
        is_accepted && self.origin.compare(known, tip) == Kinship::Same
    }

    /// Logs once that the database has lost changes, and which ones.
    async fn tell(&mut self, known: Revision, tip: &Tip) -> Result<(), Error> {
        let (after, events) = {
            let past = self.cache.read();
            let after = past.floor(&Interest::All).min(known);
            (after, past.between(&Interest::All, after, known))
        };
        let loss = HistoryLoss::find(&*self.store, &events, after, known).await?;
        let (from, to) = loss.written.map_or_else(Default::default, |(from, to)| (from.to_string(), to.to_string()));
        tracing::error!(
            revisions = loss.revisions(),
            from,
            to,
            known = known.0,
            last = tip.bounds.last.0,
            "the database has lost changes that this replica has seen; the next leader lifts the log"
        );
        metrics::history_lost(loss.revisions());
        self.lost = Some(loss);
        Ok(())
    }

    /// Prepares to lead in a term: catches up, and bumps the log beyond every lost history. After a
    /// loss or a promotion it first waits for the reports of the other replicas.
    pub async fn prepare(&mut self, term: Term) -> Result<(), Error> {
        let (began, mut has_lifted) = (Instant::now(), false);
        loop {
            let own = match self.catch_up(term).await {
                Ok(()) => Revision::ZERO,
                Err(Error::TakenBack { known, .. }) => known,
                Err(error) => return Err(error),
            };
            let losses = answered("failed to ask what was lost", self.store.losses()).await?;
            let beyond = losses.lift_beyond(own);
            let is_over = has_lifted || began.elapsed() >= self.cache.limits().reports_wait_max;
            let is_awaited = losses.awaited > 0 && (losses.is_promoted || beyond.is_some());
            if is_awaited && !is_over {
                self.cache.freshness().report.notify_one();
                tokio::time::sleep(REPORTS_PAUSE).await;
                continue;
            }
            match beyond {
                Some(beyond) => self.lift(term, &losses, beyond, own).await?,
                // Clients of a replica that does not report may have seen later revisions than the
                // log has.
                None if is_awaited && !has_lifted => {
                    let replicas = losses.awaited;
                    tracing::warn!(replicas, "replicas have not said what they saw before the database failed over");
                    self.lift(term, &losses, losses.last, own).await?;
                }
                None => return answered("failed to begin the term", self.store.accept(term)).await,
            }
            has_lifted = true;
        }
    }

    /// Bumps the log beyond a revision. `own` is the revision up to which this process has seen a
    /// lost history.
    async fn lift(&mut self, term: Term, losses: &Losses, beyond: Revision, own: Revision) -> Result<(), Error> {
        let (to, known) = (losses.lift_to(beyond)?, self.cache.view().revision);
        self.store.bump_revision(term, to).await?;
        tracing::warn!(seen = beyond.0, from = losses.last.0, to = to.0, "the log was lifted: watches list again");
        if losses.lift_beyond(own).is_some() {
            let loss =
                self.lost.unwrap_or(HistoryLoss { after: losses.last.min(beyond), through: beyond, written: None });
            if self.lost.is_none() {
                metrics::history_lost(loss.revisions());
            }
            self.cache.announce_loss(HistoryLoss { through: loss.through.max(beyond), ..loss });
        }
        if own == Revision::ZERO && known == losses.last {
            // Nothing was written in between, so the state is the same.
            self.begin_at(to).await?;
        }
        Ok(())
    }

    /// Continues at the revision that the log was bumped to, with the unchanged state.
    async fn begin_at(&mut self, to: Revision) -> Result<(), Error> {
        let tip = answered("failed to ask for the end of the log", self.store.tip(to)).await?;
        if tip.bounds.last == to && tip.bounds.compacted == to && tip.own.is_none() {
            self.origin = Origin::of(&tip);
            self.cache.begin_anew(self.cache.view().at(to));
        }
        Ok(())
    }

    fn publish(&mut self, page: Vec<Change>) -> Result<(), Error> {
        let mut view = View::clone(&self.cache.view());
        let mut events = Vec::with_capacity(page.len());
        let newest = page.last().cloned();
        for change in page {
            let event = load::next_event(&view, change)?;
            self.time_ms = self.time_ms.max(event.time_ms);
            view.apply(&event);
            events.push(event);
        }
        self.origin.row = newest;
        self.cache.publish(view, events, self.clock.now_ms());
        Ok(())
    }

    /// Reloads the state, because the log has been compacted beyond this follower. Watches end with
    /// a 410, and a list returns the newest state.
    async fn load_anew(&mut self) -> Result<(), Error> {
        let missed = self.cache.view().revision;
        let loaded = load::load(&*self.store, self.cache.limits()).await?;
        if loaded.view.revision <= missed {
            // Changes were lost while the state was read.
            return Err(changed_meanwhile());
        }
        tracing::warn!(missed = missed.0, revision = loaded.view.revision.0, "missed a compacted part of the log");
        self.time_ms = self.time_ms.max(loaded.time_ms);
        (self.origin, self.timeline, self.lost) = (Origin::of(&loaded.tip), loaded.tip.timeline, None);
        self.cache.begin_anew(loaded.view);
        self.cache.freshness().is_taken_back.store(false, Ordering::Relaxed);
        Ok(())
    }
}

/// Bounds the wait for a result of the store.
async fn answered<T>(action: &'static str, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(ANSWER_MAX, answer)
        .await
        .unwrap_or_else(|late| Err(Error::Unavailable { action, source: Arc::new(late) }))
}

/// Returns the error for a log that has changed between two reads. The next read determines its
/// state.
fn changed_meanwhile() -> Error {
    let source = Arc::new(io::Error::other("the database has changed while it was read"));
    Error::Unavailable { action: "failed to read the log", source }
}
