//! Stores objects as one append-only log of changes. The newest change of a key is its state.
//!
//! ```text
//!   revision  key               operation  previous
//!      1      clusters/m1       create        -
//!      2      bindings/shop/web create        -
//!      3      clusters/m1       update        1      <- the state of clusters/m1
//!      4      bindings/shop/web delete        2      <- no state is left
//!      ▲
//!      │ commit(term, changes): all or none, durable when it returns
//!      │
//!   the leader                   followers: news(after), then changes(after)
//!                                start:     page(at, ..), the states at one revision
//!                                reads:     bounds(), the end of the log
//! ```
//!
//! *Data flow.* The leader numbers changes and appends them with `commit`. Followers wait with
//! `news` and read with `changes`. A starting process reads only the newest state of each key
//! (`page`). `compact` removes changes that no state needs from the old end of the log.
//!
//! *Guarantees.*
//! - Revisions have no gaps after the compacted part.
//! - A damaged row is detected when it is read (`checksum`).
//! - A commit that returned survives `kill -9` and a loss of power.
//! - A lost history is distinguished from the current one (`tip`). Its revisions are not reused
//!   once it is marked (`mark_lost`) or a replica has reported it (`announce`).
//! - A commit names the term of its leader. The database rejects earlier terms, so a leader that
//!   was paused cannot overwrite its successor (the fence).
//! - After `Error::Unavailable`, `settle` reports whether the changes are in the log. If they are
//!   not, they never will be.
//!
//! *Rationale.* A watch needs the changes in order, a list needs the state at one revision, and a
//! restart needs the newest state of each key: one table with an index serves all three. The lease
//! of the leader is in the same database, so a commit can check the term in its own transaction,
//! and no replica's clock matters for safety.
//!
//! *Out of scope.* Kinds, HTTP, and the cache that serves reads (`watch`). Other code uses only
//! `trait Store`; `memory`, `sqlite` and `postgres` implement it, and `tests/suite/store` runs the
//! same tests on all three.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list, and the types of this file.
//!
//! - `sqlstate`: PostgreSQL error codes
//! - `sqlite_codes`: SQLite result codes
//! - `error`: the errors of the store
//! - `settings`: settings of a database connection
//! - `table`: a kind as an SQL view
//! - `lease`: the leader's lease within one process
//! - `replica_list`: the replicas that share a log
//! - `log`: the rules that every commit is checked against
//! - `histories`: detection of a lost history
//! - `checksum`: detection of damaged rows
//! - `rows`: rows of SQL queries as changes
//! - `source_rows`: reads a log in parts, for a copy
//! - `memory`: the back end for tests and trials
//! - `sqlite`: the log in a file
//! - `postgres`: the log in a database that replicas share (`no_postgres`: a stub that refuses it)
//! - `copy`: copies a log into an empty one
//! - `quarantine`: moves damaged rows out of the log
//! - `offline_log`: a log that a command writes while no server runs

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use ballast_k8s::{GroupResource, Key, Revision};

mod checksum;
mod copy;
mod error;
mod histories;
mod history_span;
mod offline_log;
mod lease;
mod log;
mod memory;
#[cfg_attr(not(feature = "postgres"), path = "no_postgres.rs")]
mod postgres;
mod quarantine;
mod replica_list;
mod rows;
mod settings;
mod source_rows;
mod sqlite;
mod sqlite_codes;
// Without PostgreSQL, only the classification of connection errors is used.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod sqlstate;
mod table;

pub use checksum::DamagedRow;
pub use copy::{Copied, copy};
pub use error::Error;
pub use histories::{Losses, Tip, lift_lost};
pub use history_span::{HistoryOf, Replacement, Saved, Span};
pub use memory::{MemoryStore, Standby};
pub use offline_log::OfflineLog;
pub use postgres::{PostgresStore, Scratch};
pub use quarantine::{damaged_rows, quarantine};
pub use replica_list::{KnownReplica, ReplicaReport};
pub use settings::Settings;
pub use sqlite::{Faults, SqliteStore, backup, check, check_header};
pub use table::Table;

/// The effect of a change on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// Returns the name that the database stores.
    fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }

    fn parse(name: &str) -> Option<Operation> {
        [Operation::Create, Operation::Update, Operation::Delete]
            .into_iter()
            .find(|operation| operation.as_str() == name)
    }
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: Revision,
    pub key: Key,
    pub operation: Operation,
    /// The revision of the `Create` of this object. A key that was deleted and created again has a
    /// new one.
    pub created: Revision,
    /// The revision of the change that this one replaces; zero for a `Create`.
    pub previous: Revision,
    /// Milliseconds since 1970, UTC, never less than in the previous change. Used only for
    /// compaction by age and for display.
    pub time_ms: i64,
    /// The object after the change as JSON, with `metadata.resourceVersion` equal to `revision`.
    /// For a `Delete` it is the last state, with the revision of the deletion (WA7).
    pub object: Bytes,
}

/// The revisions that the log contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The revision of the newest change; zero in an empty store.
    pub last: Revision,
    /// Up to this revision, only changes that were the state of a key at this revision are
    /// guaranteed to exist. `changes` from an earlier revision fails with `Error::Compacted`.
    pub compacted: Revision,
}

/// The disk space that a database uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub bytes: u64,
    /// Free bytes within `bytes` that the database will reuse; `None` if not known.
    pub free: Option<u64>,
    /// Bytes within `bytes` that the WAL takes; `None` if there is no separate WAL.
    pub wal: Option<u64>,
}

/// How far the revision of a log is bumped if clients may have seen later revisions than the log
/// has. It exceeds the number of revisions that a server writes between a backup and its restore,
/// or between an import and the switchover.
pub const REVISIONS_SKIPPED: i64 = 1_000_000_000;

/// The warning that is logged before a migration.
const NO_WAY_BACK: &str = "which cannot be undone: an older version does not open it, and going back needs a backup";

/// The latest revision that a log is bumped to. JSON readers represent it exactly, and the
/// revisions after it do not run out.
pub const REVISION_BUMP_MAX: Revision = Revision(1 << 52);

/// Returns the revision to bump a log to that ends with `last`, so that no revision that clients
/// have seen is reused: neither one of this log, nor one of another server up to `seen` or somewhat
/// later. `None` beyond `REVISION_BUMP_MAX`.
pub fn bump_target(last: Revision, seen: Revision) -> Option<Revision> {
    let to = Revision(last.max(seen).0.saturating_add(REVISIONS_SKIPPED));
    (to <= REVISION_BUMP_MAX).then_some(to)
}

/// The number of a leadership, greater than all before it. Zero until the first leader is elected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub i64);

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A process that can become the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Unique among candidates, and new at each start of the process.
    pub name: String,
    /// The address at which other replicas reach it, `host:port`.
    pub address: String,
}

/// The state of the election in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionState {
    pub term: Term,
    /// The name of the leader; empty if there is none.
    pub holder: String,
    pub address: String,
    /// The remaining duration of the lease by the clock of the database. The holder counts from
    /// before its call, so it stops before the lease ends.
    pub remaining: Duration,
}

impl ElectionState {
    pub fn is_held_by(&self, candidate: &Candidate) -> bool {
        self.holder == candidate.name && !self.remaining.is_zero()
    }
}

/// An append-only log that one or many processes share. The leader numbers the changes and commits
/// them; all others follow.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Appends all of `changes` or none, and returns once they are durable.
    ///
    /// Fails with `Error::Deposed` unless `term` is the current one when the changes are stored.
    /// Their revisions must follow the last one without a gap, and each `previous` must be the
    /// newest revision of its key; otherwise the commit fails with `Error::Conflict`. A key may
    /// occur several times.
    ///
    /// After `Unavailable` the changes may or may not be durable; call `settle`.
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error>;

    /// Returns whether the changes of a commit that failed with `Unavailable` are in the log. If
    /// not, they never will be, even if the network delivers them later.
    async fn settle(&self, _term: Term, changes: &[Change]) -> Result<bool, Error> {
        let Some(last) = changes.last() else { return Ok(false) };
        Ok(self.rows(&[last.revision]).await?.first() == Some(last))
    }

    /// Returns the changes that were the states of their keys at the revision `at`, in the order of
    /// their revisions: the first `limit` after the revision `after`. A shorter page is the last
    /// one. All pages reflect the same state regardless of concurrent writes. Fails with
    /// `Error::Compacted` if the log is compacted beyond `at`.
    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error>;

    /// Returns the number of `page` calls that can run at the same time.
    fn readers(&self) -> usize {
        1
    }

    /// Returns the changes after a revision, oldest first, at most `limit`.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error>;

    /// Returns when there may be changes after a revision, or when a leader resigns. It may return
    /// without either, and it may miss a resignation, so a candidate also polls.
    async fn news(&self, after: Revision) -> Result<(), Error>;

    /// Returns the changes of one kind, or of one object, in a part of the log, oldest first, at
    /// most `limit`. Never delays a commit.
    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error>;

    /// Returns the states of one kind at `span.after` that changes in the span have replaced, by
    /// revision: the first `limit` after the revision `after`. The cost is proportional to the
    /// number of changed keys, however often each changed. Never delays a commit.
    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error>;

    /// Returns the changes with these revisions that still exist, oldest first.
    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error>;

    /// Removes changes that were no longer the state of a key at `through`. Returns whether there
    /// is more to do: one call examines at most `limit` changes, so that it never delays a commit
    /// for long. The newest change of a live key always stays. `bounds().compacted` moves first, so
    /// a crash in between leaves superfluous rows and never a gap.
    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error>;

    /// Makes `to` the end of the log, if the log ends before it. Everything up to there is
    /// compacted: only states are left, reads of older changes fail with `Error::Compacted`, and
    /// the next change is `to` plus one. So no revision that a client has seen elsewhere is reused.
    /// Fails with `Error::Deposed` unless `term` is the current one. The bump is atomic, and the
    /// call may be repeated after a crash.
    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error>;

    /// Returns the bounds, which include every commit that any process acknowledged before the
    /// call. So `last` is a read index.
    async fn bounds(&self) -> Result<Bounds, Error>;

    /// Returns the end of the log and the change with the revision `at`, read together.
    async fn tip(&self, at: Revision) -> Result<Tip, Error>;

    /// Marks a history as lost that clients have seen up to `seen`. The next leader bumps the log
    /// beyond it. The current term ends, unless it is `term`, so that no change is numbered before
    /// that. A later mark raises it. Does nothing if every revision up to `seen` is compacted.
    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error>;

    /// Returns the known losses of history. `bump_revision` beyond a mark removes the mark.
    async fn losses(&self) -> Result<Losses, Error>;

    /// Accepts the server as the primary, in the term of the caller. Until then a promoted standby
    /// refuses every commit with `Error::Deposed`.
    async fn accept(&self, term: Term) -> Result<(), Error>;

    /// Takes the lease for the duration `lease` if it is free, or renews it if the candidate holds
    /// it. Returns the leader. A holder keeps its term. A new holder starts a new term, and from
    /// then on no commit of an earlier term is stored.
    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error>;

    /// Takes the lease in a term that another system assigned, if the log has had no such or later
    /// term. Renews it if the candidate holds it in this term. Returns the leader. With term zero
    /// it only returns the leader. An expired lease is not given to another candidate.
    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error>;

    /// Ends a term at once, so that another candidate need not wait for the lease to expire. Does
    /// nothing if the term has ended.
    async fn resign(&self, term: Term) -> Result<(), Error>;

    /// Reports that a replica is alive, and returns all replicas that reported recently, including
    /// this one, ordered by name. A replica without a report for ten minutes is forgotten. At most
    /// the 32 replicas with the latest reports are returned. Never delays a commit.
    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error>;

    /// Forgets a replica that shuts down. Does nothing if there is none with this name.
    async fn depart(&self, name: &str) -> Result<(), Error>;

    /// Returns the keys of quarantined rows. Their objects are not in the log any more.
    async fn set_aside(&self) -> Result<Vec<Key>, Error> {
        Ok(Vec::new())
    }

    /// Returns the bytes that compaction would free: for each of the changes after a revision,
    /// oldest first and at most `limit`, the size of the change that it replaced if that still
    /// exists. A deletion frees its own bytes as well. Never delays a commit.
    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error>;

    /// Compresses the objects that the changes of a part of the log replaced. Reads return them
    /// unchanged. The caller bounds the part so that no commit waits long. Does nothing if objects
    /// take no disk space, or if the database compresses them itself.
    async fn pack(&self, _span: Span) -> Result<Vec<Saved>, Error> {
        Ok(Vec::new())
    }

    /// Probes whether changes can be stored now, by writing a row outside the log.
    async fn probe(&self) -> Result<(), Error>;

    /// Returns the marker that a leader has stored in the database, outside the log. `None` if the
    /// back end has none. Zero if no leader has set it, or if a version without markers has led
    /// since.
    async fn mark(&self) -> Result<Option<i32>, Error> {
        Ok(None)
    }

    /// Sets the marker, in the term of the caller. Does nothing if the term has ended, or if the
    /// back end has no marker.
    async fn set_mark(&self, _term: Term, _mark: i32) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the disk usage; `None` if there is no disk, or the size is not known.
    async fn size(&self) -> Result<Option<Size>, Error> {
        Ok(None)
    }

    /// Cleans up after the last commit: everything is moved into the file that the URL names. Later
    /// calls still work.
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the revision of the newest change that is older than `time_ms` (milliseconds since
    /// 1970); zero if there is none.
    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error>;
}

/// Opens the database with this URL: `memory:`, `sqlite://relative/path`, `sqlite:///absolute/path`
/// or `postgres://user@host/database`. An SQL back end creates a view for each of `tables`.
pub async fn open(url: &str, tables: &[Table]) -> Result<Arc<dyn Store>, Error> {
    open_with(url, tables, &Settings::default()).await
}

/// Opens the database like [`open`], with other settings.
pub async fn open_with(url: &str, tables: &[Table], settings: &Settings) -> Result<Arc<dyn Store>, Error> {
    check_url(url)?;
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new()));
    }
    match url.strip_prefix("sqlite://") {
        Some(path) => Ok(Arc::new(SqliteStore::open_with(Path::new(path), tables, settings).await?)),
        None => Ok(PostgresStore::open(url, tables, settings).await?.shared()),
    }
}

/// Fails if a database server has no log at this URL, where `open` would create one.
pub async fn check_log(url: &str, settings: &Settings) -> Result<(), Error> {
    match is_server(url) {
        true => PostgresStore::check_log(url, settings).await,
        false => Ok(()),
    }
}

/// Checks that `open` supports the URL.
pub fn check_url(url: &str) -> Result<(), Error> {
    if is_server(url) {
        return postgres::check_built();
    }
    if url == "memory:" || url.strip_prefix("sqlite://").is_some_and(|path| !path.is_empty()) {
        return Ok(());
    }
    let advice = format!("{:?} is none of sqlite://PATH, postgres://USER@HOST/DATABASE and memory:", shown(url));
    Err(Error::Misplaced { advice })
}

/// Returns the display name of the URL's back end: `SQLite`, `PostgreSQL` or `memory`.
pub fn back_end(url: &str) -> &'static str {
    match url {
        "memory:" => "memory",
        url if is_server(url) => "PostgreSQL",
        _ => "SQLite",
    }
}

/// Returns whether the URL names a database server, which several processes may share.
pub fn is_server(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

/// The parameters that are allowed in the query of a server's URL, besides `options[NAME]`.
const PARAMETERS: &[&str] = &[
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

fn is_parameter(key: &str) -> bool {
    PARAMETERS.contains(&key) || (key.starts_with("options[") && key.ends_with(']'))
}

/// Returns the URL without its password, for logs and messages. If the URL cannot be parsed, every
/// part that may belong to a password is hidden.
pub fn shown(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.contains(['@', '?']) { "...".to_owned() } else { url.to_owned() };
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    let is_known = |pair: &str| is_parameter(pair.split('=').next().unwrap_or_default());
    if query.contains('@') && !pairs.iter().all(|pair| is_known(pair)) {
        // The `?` may be part of a password that ends at the `@`.
        return format!("{scheme}://...");
    }
    let place = match place.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => place.to_owned(),
    };
    let is_kept = |pair: &&str| is_known(pair) && !pair.starts_with("password=");
    let query = pairs.into_iter().filter(is_kept).collect::<Vec<_>>().join("&");
    match query.is_empty() {
        true => format!("{scheme}://{place}"),
        false => format!("{scheme}://{place}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        for (url, expected) in [
            ("sqlite://a@b:c", "sqlite://a@b:c"),
            ("postgres://ballast:s3cr@t@db:5432/b", "postgres://ballast@db:5432/b"),
            ("postgres://db/b?user=x&password=s3&sslmode=verify-full", "postgres://db/b?user=x&sslmode=verify-full"),
            ("postgresql://db?password=s3", "postgresql://db"),
            ("postgres://u:s3@db/b?password=a@b&user=u", "postgres://u@db/b?user=u"),
            ("postgres://u@db/b?options[search_path]=own&passwrd=s3", "postgres://u@db/b?options[search_path]=own"),
            ("postgress://u:s3@h/db", "postgress://u@h/db"),
            ("Postgres://u:s3@h/db", "Postgres://u@h/db"),
            ("mysql://u:s/3@h/db", "mysql://u@h/db"),
            ("postgres://u:sec?ret@h/db", "postgres://..."),
            ("postgres://u:s@c?r=et@h/db?sslmode=require", "postgres://..."),
            ("postgres:u:s3@h/db", "..."),
            ("memory:", "memory:"),
            ("ballast.db", "ballast.db"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
