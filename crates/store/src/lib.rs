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
//! *What flows.* The leader numbers changes and appends them with `commit`. Followers wait with
//! `news` and read with `changes`. A process that starts reads only the newest state of each key
//! (`page`). `compact` removes changes that no state needs, from the old end of the log.
//!
//! *Promises.*
//! - Revisions have no gaps after the compacted part.
//! - A row that is not as it was written is noticed when it is read (`checksum`).
//! - A commit that returned survives `kill -9` and a loss of power.
//! - A history that was lost is told from the present one (`tip`), and its revisions are not given
//!   out again once it is marked (`mark_lost`) or a replica has reported it (`announce`).
//! - A commit names the term of its leader. The database stores nothing of an earlier term, so a
//!   leader that was paused cannot write over its successor (the fence).
//! - After `Error::Unavailable`, `settle` says whether the changes are in the log. If they are not,
//!   they never will be.
//!
//! *Why it is so.* A watch needs the changes in order, a list needs the state at one revision, and
//! a restart needs the newest state of each key: one table with an index serves all three. The
//! lease of the leader is in the same database, so a commit can check the term in its own
//! transaction, and no clock of a replica matters for safety.
//!
//! *Left to others.* Kinds, HTTP, and the cache that answers reads (`watch`). Other code sees only
//! `trait Store`; `memory`, `sqlite` and `postgres` implement it, and `tests/suite/store` runs the
//! same tests on all three.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list, and the types of this file.
//!
//! - `sqlstate`: the codes of PostgreSQL
//! - `sqlite_codes`: the codes of SQLite
//! - `error`: why a call failed
//! - `settings`: how a database is used
//! - `table`: a kind as an SQL view
//! - `lease`: the leader's lease within one process
//! - `replica_list`: the replicas that share a log
//! - `log`: the rules that every commit is checked against
//! - `histories`: what tells the log from a history that was lost
//! - `checksum`: tells a row that is not as it was written
//! - `rows`: rows of SQL queries as changes
//! - `source_rows`: reads a log part by part, for a copy
//! - `memory`: the back end for tests and trials
//! - `sqlite`: the log in a file
//! - `postgres`: the log in a database that replicas share (`no_postgres`: a refusal)
//! - `copy`: copies a log into an empty one
//! - `quarantine`: sets damaged rows aside
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
// The faults of any connection are left without PostgreSQL.
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

/// What a change did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// Its name in a table.
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
    /// The revision of the `Create` that this object began with. A key that was deleted and created
    /// again has a new one.
    pub created: Revision,
    /// The revision of the change that this one replaces; zero for a `Create`.
    pub previous: Revision,
    /// Milliseconds since 1970, UTC, never less than in the change before. Compaction by age and
    /// people read it.
    pub time_ms: i64,
    /// The object after the change as JSON, with `metadata.resourceVersion` equal to `revision`.
    /// For a `Delete` it is the last state, with the revision of the deletion (WA7).
    pub object: Bytes,
}

/// Which part of the log exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The revision of the newest change; zero in an empty store.
    pub last: Revision,
    /// Of the changes up to this revision, only those may be left that were the state of a key at
    /// this revision. `changes` from an earlier revision is `Error::Compacted`.
    pub compacted: Revision,
}

/// How much of its disk a database takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub bytes: u64,
    /// The part of it that is free and will be used again; `None` if it is not known.
    pub free: Option<u64>,
    /// The part of it that is the WAL; `None` if it has none beside the file.
    pub wal: Option<u64>,
}

/// How far the revision of a log is bumped if its clients may have seen later revisions than it
/// has. It is more than a server writes between a backup and its use, or between an import and the
/// switch.
pub const REVISIONS_SKIPPED: i64 = 1_000_000_000;

/// The warning of a log line before a migration.
const NO_WAY_BACK: &str = "which cannot be undone: an older version does not open it, and going back needs a backup";

/// The latest revision that a log is bumped to. Up to here JSON readers keep it exact, and the
/// revisions that follow do not run out.
pub const REVISION_BUMP_MAX: Revision = Revision(1 << 52);

/// The revision that a log that ends with `last` is bumped to, so that no revision is given out
/// again that clients have seen: neither one of this log, nor one of another server up to `seen` or
/// somewhat later. `None` beyond `REVISION_BUMP_MAX`.
pub fn bump_target(last: Revision, seen: Revision) -> Option<Revision> {
    let to = Revision(last.max(seen).0.saturating_add(REVISIONS_SKIPPED));
    (to <= REVISION_BUMP_MAX).then_some(to)
}

/// The number of a leader: each is greater than all before it. It is zero until a first leader is
/// elected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub i64);

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A process that can lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Unique among candidates, and new at each start of the process.
    pub name: String,
    /// Where other replicas reach it, `host:port`.
    pub address: String,
}

/// The leader, as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionState {
    pub term: Term,
    /// The name of the leader; empty if there is none.
    pub holder: String,
    pub address: String,
    /// How long the lease still lasts by the clock of the database. The holder counts from before
    /// its call, so that it stops before the lease ends.
    pub remaining: Duration,
}

impl ElectionState {
    pub fn is_held_by(&self, candidate: &Candidate) -> bool {
        self.holder == candidate.name && !self.remaining.is_zero()
    }
}

/// An append-only log, which one or many processes share. One of them leads: it numbers the changes
/// and commits them. All others follow.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Appends all of `changes` or none, and returns once they are durable.
    ///
    /// It is `Error::Deposed` unless `term` is the present one when the changes are stored. Their
    /// revisions must follow the last one without a gap, and each `previous` must be the newest
    /// revision of its key. Otherwise it is `Error::Conflict`. A key may occur several times.
    ///
    /// After `Unavailable` the changes may be durable or not. `settle` knows.
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error>;

    /// After a commit that returned `Unavailable`: whether its changes are in the log. If not, they
    /// never will be, even if the network delivers them later.
    async fn settle(&self, _term: Term, changes: &[Change]) -> Result<bool, Error> {
        let Some(last) = changes.last() else { return Ok(false) };
        Ok(self.rows(&[last.revision]).await?.first() == Some(last))
    }

    /// The changes that were the states of their keys at the revision `at`, in the order of their
    /// revisions: the first `limit` of those after `after`. A page with fewer is the last one. All
    /// pages show the same state, whatever is written meanwhile. If the log is compacted beyond
    /// `at`, it is `Error::Compacted`.
    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error>;

    /// How many calls of `page` can run at the same time.
    fn readers(&self) -> usize {
        1
    }

    /// The changes after a revision, oldest first, at most `limit` of them.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error>;

    /// Returns when there may be changes after a revision, or when a leader resigns. It may return
    /// without either, and it may miss a resignation, so a candidate also polls.
    async fn news(&self, after: Revision) -> Result<(), Error>;

    /// The changes of one kind, or of one object, in a part of the log, oldest first, at most
    /// `limit` of them. It never delays a commit.
    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error>;

    /// The states of one kind at `span.after` that changes of the span have replaced, by revision:
    /// the first `limit` of those after `after`. So it costs in proportion to the keys that have
    /// changed, however often. It never delays a commit.
    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error>;

    /// The changes with these revisions that still exist, oldest first.
    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error>;

    /// Removes changes that were no longer the state of a key at `through`. Returns whether there
    /// is more to do: one call looks at no more than `limit` changes, so it never delays a commit
    /// for long. The newest change of a live key always stays. `bounds().compacted` moves first, so
    /// a crash in between leaves superfluous rows and never a gap.
    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error>;

    /// Makes `to` the end of the log, if the log ends before it. Everything up to there is
    /// compacted: only states are left, reads of older changes are `Error::Compacted`, and the next
    /// change is `to` plus one. So no revision that a client has seen elsewhere is given out again.
    /// It is `Error::Deposed` unless `term` is the present one. After a crash the log is bumped or
    /// is not, and the same call may be repeated.
    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error>;

    /// The bounds include every commit that any process acknowledged before the call. So `last` is
    /// a read index.
    async fn bounds(&self) -> Result<Bounds, Error>;

    /// The end of the log, and its change with the revision `at`, as of one moment.
    async fn tip(&self, at: Revision) -> Result<Tip, Error>;

    /// Marks a history that was lost, and that clients have seen up to `seen`. The next leader
    /// lifts the log beyond it. The present term ends, unless it is `term`, so nothing is numbered
    /// before that. A later mark raises it. Does nothing if every revision up to `seen` is
    /// compacted.
    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error>;

    /// What is known of histories that were lost. `bump_revision` beyond a mark removes the mark.
    async fn losses(&self) -> Result<Losses, Error>;

    /// Accepts the server as it is, in the term of the caller. Until then a standby that was
    /// promoted refuses every commit as `Error::Deposed`.
    async fn accept(&self, term: Term) -> Result<(), Error>;

    /// Takes the lease for the duration `lease` if it is free, or renews it if the candidate holds
    /// it. Returns the leader. A holder keeps its term. A new holder begins a new term, and from
    /// then on no commit of an earlier term is stored.
    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error>;

    /// Takes the lease in a term that another system gave out, if the log has had no such or later
    /// term. Renews it if the candidate holds it in this term. Returns the leader. With the term
    /// zero it only returns the leader. A lease that has ended is not given to another candidate.
    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error>;

    /// Ends a term at once, so that another candidate need not wait for the lease to end. Does
    /// nothing if the term has ended.
    async fn resign(&self, term: Term) -> Result<(), Error>;

    /// Reports that a replica is alive, and returns all replicas that did so lately, with this one,
    /// ordered by name. A replica without a report for ten minutes is forgotten. Of more than 32
    /// replicas, those with the latest reports are returned. It never delays a commit.
    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error>;

    /// Forgets a replica that ends. Does nothing if there is none with this name.
    async fn depart(&self, name: &str) -> Result<(), Error>;

    /// The keys of damaged rows that were set aside and are not in the log any more.
    async fn set_aside(&self) -> Result<Vec<Key>, Error> {
        Ok(Vec::new())
    }

    /// What compaction frees: for each of the changes after a revision, oldest first and at most
    /// `limit` of them, the bytes of the change that it replaced, as far as it is still there. A
    /// deletion frees its own bytes as well. It never delays a commit.
    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error>;

    /// Packs the texts that the changes of a part of the log made history, so that they take less
    /// space. They read as before. The caller bounds the part, so that no commit waits long. Does
    /// nothing where texts take no space, or where the database packs them by itself.
    async fn pack(&self, _span: Span) -> Result<Vec<Saved>, Error> {
        Ok(Vec::new())
    }

    /// Probes whether changes could be stored now, by writing a row outside the log.
    async fn probe(&self) -> Result<(), Error>;

    /// A marker that a leader has stored in the database, beside the log. `None` if the back end
    /// has none. Zero if no leader has set it, or if a version without markers has led since.
    async fn mark(&self) -> Result<Option<i32>, Error> {
        Ok(None)
    }

    /// Sets the marker, in the term of the caller. Does nothing if the term has ended, or if the
    /// back end has no marker.
    async fn set_mark(&self, _term: Term, _mark: i32) -> Result<(), Error> {
        Ok(())
    }

    /// `None` if there is no disk, or the size is not known.
    async fn size(&self) -> Result<Option<Size>, Error> {
        Ok(None)
    }

    /// Tidies up after the last commit: everything is in the file that the URL names. Later calls
    /// still work.
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The newest revision whose change is older than `time_ms` (milliseconds since 1970); zero if
    /// there is none.
    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error>;
}

/// Opens the database with this URL: `memory:`, `sqlite://relative/path`, `sqlite:///absolute/path`
/// or `postgres://user@host/database`. A back end with SQL makes each of `tables` readable as a
/// view.
pub async fn open(url: &str, tables: &[Table]) -> Result<Arc<dyn Store>, Error> {
    open_with(url, tables, &Settings::default()).await
}

/// As `open`, with other settings.
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

/// Refuses a database server without a log at this URL, where `open` would create one.
pub async fn check_log(url: &str, settings: &Settings) -> Result<(), Error> {
    match is_server(url) {
        true => PostgresStore::check_log(url, settings).await,
        false => Ok(()),
    }
}

/// Whether the URL is of a kind that `open` knows.
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

/// What keeps the log that a URL names, for people: `SQLite`, `PostgreSQL` or `memory`.
pub fn back_end(url: &str) -> &'static str {
    match url {
        "memory:" => "memory",
        url if is_server(url) => "PostgreSQL",
        _ => "SQLite",
    }
}

/// Whether the URL names a database server, which several processes may share.
pub fn is_server(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

/// What may stand in the query of a server's URL. There is `options[NAME]`, too.
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

/// The URL without its password, for logs and messages. If the URL cannot be parsed, everything
/// that may be a part of a password is hidden.
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
        // The `?` may be one of a password that ends at the `@`.
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
