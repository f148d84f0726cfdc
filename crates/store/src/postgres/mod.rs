//! Stores the log in PostgreSQL, or in a database with its protocol. Any number of processes share
//! it.
//!
//! *Invariants.* A commit is one statement with its own fence: the leader's term, the session of
//! its connection, and the previous revision. So a leader of an earlier term stores nothing. A
//! statement in flight on a lost connection stores nothing either once a new session has started.
//! Only then does `settle` read whether the commit was stored.
//!
//! One connection commits, one listens for notifications, and a pool does the rest. Every wait is
//! bounded.

mod connector;
mod errors;
mod histories;
mod history;
mod hosts;
mod revision_bump;
mod news;
mod open;
mod probes;
mod quarantine;
mod replaced;
mod replicas;
mod scratch;
mod statements;
mod tables;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use sqlx::{Connection, Postgres};

use super::checksum::Examined;
use super::source_rows::{self, SourceRows};
use super::sqlstate;
use super::{
    Bounds, Candidate, Change, ElectionState, Error, HistoryOf, KnownReplica, Losses, Replacement, ReplicaReport,
    Settings, Size, Span, Store, Table, Term, Tip,
};
use ballast_k8s::{GroupResource, Key, Revision};

use connector::{Asked, Connector, within};
use errors::classify;
use news::Listener;
pub use scratch::Scratch;
use statements::Dialect;
use writer::{Outcome, Writer};

/// Maximum attempts of a commit after contention or a lost connection.
const COMMIT_TRIES: usize = 4;
/// The minimum timeout of `lead`, however short the lease.
const LEAD_MIN: Duration = Duration::from_secs(1);
/// The timeout of a replica's report. The next one follows soon.
const ANNOUNCE_MAX: Duration = Duration::from_secs(2);
/// Changes that one step of compaction examines before a revision bump.
const BUMP_ROWS: usize = 10_000;
/// The pause before a commit or a read is retried.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the pool may take to connect before another host is searched.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Pool connections that read the objects at a start. Each keeps a process of the server busy.
const READERS_MAX: usize = 3;
/// Revisions that one statement examines. The server compares all of them.
const SPAN_MAX: usize = 64 * 1024;

pub struct PostgresStore {
    connector: Arc<Connector>,
    pool: PgPool,
    /// Maximum attempts of a read, each on another connection, because all connections of the pool
    /// may be lost at once.
    read_tries: u32,
    writer: Writer,
    listener: Listener,
    dialect: Dialect,
    knows_sizes: bool,
    /// Whether a commit failed, and none has succeeded since.
    fails: AtomicBool,
}

/// Runs an idempotent statement on a connection of the pool, with a timeout.
macro_rules! on_pool {
    ($store:expr, $bound:expr, $action:literal, $statement:ident($($argument:expr),*)) => {{
        let mut tries = 0;
        loop {
            tries += 1;
            let outcome = match $store.acquire().await {
                Ok(connection) => {
                    let mut asked = Asked::over(connection);
                    let statement = statements::$statement(asked.connection() $(, $argument)*);
                    let outcome = $store.connector.asked($bound, statement).await;
                    let is_answer = |error| sqlstate::is_certain(error) && !sqlstate::is_lost(error);
                    if outcome.as_ref().err().is_none_or(is_answer) {
                        asked.give_back();
                    }
                    outcome
                }
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if tries < $store.read_tries && $store.may_repeat(&error) => {
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => break outcome.map_err(|error| classify($action, error)),
            }
        }
    }};
}

/// Checks that this binary contains the back end; `no_postgres` fails instead.
///
/// # Errors
///
/// Never.
pub fn check_built() -> Result<(), Error> {
    Ok(())
}

impl PostgresStore {
    /// Opens the database of a server, and migrates its tables.
    pub async fn open(url: &str, tables: &[Table], settings: &Settings) -> Result<PostgresStore, Error> {
        let connector = Arc::new(Connector::new(url, settings));
        let opened = open::open(&connector, tables, settings).await?;
        let dialect = Dialect { notifies: opened.notifies, has_timelines: opened.has_timelines };
        Ok(PostgresStore {
            pool: opened.pool,
            read_tries: settings.connections_max.saturating_add(2),
            writer: Writer::new(Arc::clone(&connector), dialect),
            listener: Listener::new(Arc::clone(&connector), opened.notifies),
            dialect,
            // Both are missing in CockroachDB.
            knows_sizes: opened.notifies,
            fails: AtomicBool::new(false),
            connector,
        })
    }

    /// Returns a connection of the pool. If the URL names several hosts and none connects soon,
    /// searches for the primary.
    async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        if !self.connector.has_hosts() {
            return self.pool.acquire().await;
        }
        let looking = async {
            loop {
                tokio::time::sleep(LOOK_AFTER).await;
                if let Ok(found) = self.connector.connect().await
                    && let Ok(options) = self.connector.options()
                {
                    self.pool.set_connect_options(options);
                    connector::close(found).await;
                }
            }
        };
        tokio::select! {
            acquired = self.pool.acquire() => acquired,
            never = looking => never,
        }
    }

    /// Gives up all connections and the commit in flight if a lease could not be renewed. The
    /// outcome of the commit is determined over a new connection.
    fn renewed<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        if matches!(&outcome, Err(error) if error.is_outage()) {
            self.connector.give_up();
            self.listener.pause();
        }
        outcome
    }

    /// Returns whether the statement may succeed on another connection. New connections use the
    /// latest password.
    fn may_repeat(&self, error: &sqlx::Error) -> bool {
        let is_lost = sqlstate::is_lost(error) || sqlstate::is_refused_user(error);
        if is_lost {
            // If the password file cannot be read now, the last password is tried again.
            if let Ok(options) = self.connector.options() {
                self.pool.set_connect_options(options);
            }
        }
        is_lost || sqlstate::is_contention(error)
    }

    async fn try_to_commit(&self, term: Term, changes: &[Change]) -> Result<(), Error> {
        let Some(first) = changes.first() else { return Ok(()) };
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.writer.commit(term, changes).await? {
                Outcome::Stored => {
                    self.listener.pause();
                    return Ok(());
                }
                Outcome::NotStored(error) if sqlstate::is_contention(&error) || sqlstate::is_lost(&error) => error,
                Outcome::NotStored(error) if sqlstate::code(&error) == Some(sqlstate::UNIQUE_VIOLATION) => {
                    return Err(Error::Conflict { key: first.key.clone() });
                }
                Outcome::NotStored(error) => return Err(classify("failed to commit", error)),
                Outcome::Unknown(error) => match self.settle(term, changes).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => error,
                    // The caller settles it later.
                    Err(_) => return Err(classify("failed to commit", error)),
                },
            };
            if tries == COMMIT_TRIES {
                return Err(classify("failed to commit", error));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(crate) fn as_store(&self) -> &dyn Store {
        self
    }

    pub(crate) fn shared(self) -> Arc<dyn Store> {
        Arc::new(self)
    }

    /// Copies all rows into this empty log, in one transaction. The caller leads.
    pub(crate) async fn fill(&self, term: Term, rows: &mut SourceRows<'_>) -> Result<(), Error> {
        let failed = |error| classify("failed to write the copy", error);
        source_rows::check_empty(self.bounds().await?)?;
        let mut connection = self.connector.connect().await?;
        let mut transaction = within(self.connector.answer_max, connection.begin()).await.map_err(failed)?;
        loop {
            let page = rows.next().await?;
            if page.is_empty() {
                break;
            }
            within(self.connector.answer_max, statements::insert(&mut transaction, &page)).await.map_err(failed)?;
        }
        let filled = statements::end_copy(&mut transaction, term, rows.bounds());
        if !within(self.connector.answer_max, filled).await.map_err(failed)? {
            let advice = "somebody else has written to it meanwhile; stop all replicas first".to_owned();
            return Err(Error::Misplaced { advice });
        }
        within(self.connector.answer_max, transaction.commit()).await.map_err(failed)
    }

    /// Examines the rows after a revision, at most `limit`.
    pub(crate) async fn examine(&self, after: Revision, limit: usize) -> Result<Examined, Error> {
        on_pool!(self, self.connector.answer_max, "failed to read the log", examine(after, limit, true))
    }

    /// Fails if the log is compacted beyond `asked`. To be called after a query without rows, to
    /// distinguish an empty result from a compacted one.
    async fn still_there(&self, asked: Revision) -> Result<(), Error> {
        match self.bounds().await?.compacted {
            compacted if asked < compacted => Err(Error::Compacted { asked, compacted }),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error> {
        let committed = self.try_to_commit(term, changes).await;
        if matches!(committed, Err(Error::Unavailable { .. } | Error::NotSent { .. } | Error::Misplaced { .. })) {
            self.fails.store(true, Ordering::Relaxed);
        }
        committed
    }

    async fn settle(&self, term: Term, changes: &[Change]) -> Result<bool, Error> {
        let Some(last) = changes.last() else { return Ok(false) };
        self.writer.fence_off(term).await?;
        Ok(self.rows(&[last.revision]).await?.first() == Some(last))
    }

    /// Reads a page with one or more statements. Each returns nothing once the log is compacted
    /// beyond `at`. So a page from several statements is either complete, or its last part is short
    /// and the bounds are checked.
    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let at = at.min(self.bounds().await?.last);
        let (mut page, mut after, mut length) = (Vec::new(), after, limit.clamp(1, SPAN_MAX));
        while page.len() < limit && after < at {
            let span = Span { after, through: at.min(Revision(after.0.saturating_add(length as i64))) };
            let wanted = limit - page.len();
            let states =
                on_pool!(self, self.connector.answer_max, "failed to read the objects", states(at, span, wanted))?;
            after = span.through;
            if states.is_empty() {
                // A revision bump leaves a gap that is too long to walk.
                match on_pool!(self, self.connector.answer_max, "failed to read the objects", row_after(after))? {
                    Some(next) => after = Revision(next.0 - 1),
                    None => break,
                }
            }
            let found = states.len();
            page.extend(states);
            // The span that contains the remaining rows at the current density. A long stretch of
            // history is crossed in a few steps.
            length = match found {
                0 => length * 4,
                found => length.saturating_mul(limit.saturating_sub(page.len())) / found,
            };
            length = length.clamp(limit.clamp(1, SPAN_MAX), SPAN_MAX);
        }
        if page.len() < limit {
            self.still_there(at).await?;
        }
        Ok(page)
    }

    fn readers(&self) -> usize {
        READERS_MAX.min(self.pool.options().get_max_connections() as usize)
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let changes = on_pool!(self, self.connector.answer_max, "failed to read the log", changes(after, limit))?;
        if changes.is_empty() {
            self.still_there(after).await?;
        }
        Ok(changes)
    }

    async fn news(&self, after: Revision) -> Result<(), Error> {
        self.listener.news(after).await;
        Ok(())
    }

    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error> {
        let changes = on_pool!(self, self.connector.answer_max, "failed to read the log", history(of, span, limit))?;
        if changes.is_empty() {
            self.still_there(span.after).await?;
        }
        Ok(changes)
    }

    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        let answer_max = self.connector.answer_max;
        let states = on_pool!(self, answer_max, "failed to read the log", replaced(resource, span, after, limit))?;
        if states.is_empty() {
            self.still_there(span.after).await?;
        }
        Ok(states)
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        on_pool!(self, self.connector.answer_max, "failed to read the log", rows(revisions))
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        let (bounds, swept) = on_pool!(self, self.connector.answer_max, "failed to compact the log", bounds())?;
        let compacted = bounds.compacted.max(through.min(bounds.last));
        if compacted > bounds.compacted {
            on_pool!(self, self.connector.answer_max, "failed to compact the log", set_compacted(compacted))?;
        }
        let end = compacted.min(Revision(swept.0.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX))));
        if end > swept {
            on_pool!(self, self.connector.answer_max, "failed to compact the log", sweep(swept, end))?;
        }
        Ok(end < compacted)
    }

    /// Compacts first, in slices. No other process commits in this term, so only states are left
    /// when the revision is bumped.
    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error> {
        let last = self.bounds().await?.last;
        let current = on_pool!(self, self.connector.answer_max, "failed to lift the log", term())?;
        if last < to && current == term {
            while self.compact(last, BUMP_ROWS).await? {}
        }
        let current = on_pool!(
            self,
            self.connector.answer_max,
            "failed to lift the log",
            bump_revision(term, to, self.dialect.notifies)
        )?;
        match current {
            current if current == term => Ok(()),
            current => Err(Error::Deposed { asked: term, current }),
        }
    }

    async fn bounds(&self) -> Result<Bounds, Error> {
        let (bounds, _) = on_pool!(self, self.connector.answer_max, "failed to read the log", bounds())?;
        Ok(bounds)
    }

    async fn tip(&self, at: Revision) -> Result<Tip, Error> {
        let has_timelines = self.dialect.has_timelines;
        on_pool!(self, self.connector.answer_max, "failed to read the log", tip(at, has_timelines))
    }

    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error> {
        let notifies = self.dialect.notifies;
        on_pool!(self, self.connector.answer_max, "failed to mark the log", mark_lost(term, seen, notifies))
    }

    async fn losses(&self) -> Result<Losses, Error> {
        let has_timelines = self.dialect.has_timelines;
        on_pool!(self, self.connector.answer_max, "failed to ask what was lost", losses(has_timelines))
    }

    async fn accept(&self, term: Term) -> Result<(), Error> {
        let has_timelines = self.dialect.has_timelines;
        if on_pool!(self, self.connector.answer_max, "failed to begin the term", accept(term, has_timelines))? {
            return Ok(());
        }
        let current = on_pool!(self, self.connector.answer_max, "failed to begin the term", term())?;
        Err(Error::Deposed { asked: term, current })
    }

    /// Returns or fails while a lease of usual duration still lasts.
    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error> {
        let bound = (lease / 2).max(LEAD_MIN).min(self.connector.answer_max);
        self.renewed(on_pool!(self, bound, "failed to ask who leads", lead(candidate, lease)))
    }

    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error> {
        let bound = (lease / 2).max(LEAD_MIN).min(self.connector.answer_max);
        self.renewed(on_pool!(self, bound, "failed to ask who leads", lead_in(candidate, term, lease)))
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        on_pool!(self, self.connector.answer_max, "failed to resign", resign(term, self.dialect.notifies))
    }

    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error> {
        on_pool!(
            self,
            ANNOUNCE_MAX,
            "failed to say that this replica is there",
            announce(announcement, self.dialect.has_timelines)
        )
    }

    async fn depart(&self, name: &str) -> Result<(), Error> {
        on_pool!(self, ANNOUNCE_MAX, "failed to say that this replica has gone", depart(name))
    }

    async fn probe(&self) -> Result<(), Error> {
        if self.fails.load(Ordering::Relaxed) {
            // The probe's row already exists on the disk, and the pool has its connections. So the
            // rest of the steps of a commit are tried, too.
            self.writer.try_out().await?;
            self.fails.store(false, Ordering::Relaxed);
        }
        on_pool!(self, self.connector.answer_max, "failed to write", probe())
    }

    async fn mark(&self) -> Result<Option<i32>, Error> {
        on_pool!(self, self.connector.answer_max, "failed to read the mark", mark()).map(Some)
    }

    async fn set_mark(&self, term: Term, mark: i32) -> Result<(), Error> {
        on_pool!(self, self.connector.answer_max, "failed to write the mark", set_mark(term, mark))
    }

    async fn size(&self) -> Result<Option<Size>, Error> {
        if !self.knows_sizes {
            return Ok(None);
        }
        on_pool!(self, self.connector.answer_max, "failed to read the size", size()).map(Some)
    }

    async fn close(&self) -> Result<(), Error> {
        self.writer.close().await;
        self.listener.close().await;
        // The pool itself stays open for later calls.
        while let Some(idle) = self.pool.try_acquire() {
            connector::close(idle.detach()).await;
        }
        Ok(())
    }

    async fn set_aside(&self) -> Result<Vec<Key>, Error> {
        on_pool!(self, self.connector.answer_max, "failed to read what was set aside", quarantined())
    }

    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error> {
        on_pool!(self, self.connector.answer_max, "failed to read the log", replaced_bytes(after, limit))
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error> {
        on_pool!(self, self.connector.answer_max, "failed to read the log", revision_before(time_ms))
    }
}
