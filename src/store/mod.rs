//! Objects by key, changes by revision: one append-only log, of which the newest row of a key is
//! its state (design.md §3). The store knows no kind and no HTTP.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::k8s::{GroupResource, Key, Revision};

mod log;
mod memory;
mod sqlite;
mod table;

pub use memory::MemoryStore;
pub use sqlite::{SqliteStore, backup};
pub use table::Table;

/// What a change did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: Revision,
    pub key: Key,
    pub operation: Operation,
    /// Revision of the `Create` that this object began with; a key that is deleted and created
    /// again begins anew.
    pub created: Revision,
    /// Revision of the row that this one replaces; zero for a `Create`.
    pub previous: Revision,
    /// Milliseconds since 1970, UTC, and never less than in the change before. For compaction by
    /// age and for people; nothing decides by it.
    pub time_ms: i64,
    /// The object after the change, with `metadata.resourceVersion` equal to `revision`. For a
    /// `Delete` its last state, with the revision of the deletion (WA7).
    pub object: Bytes,
}

/// A change, and what it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub change: Change,
    /// The object before; none for a `Create`.
    pub before: Option<Bytes>,
}

/// A stretch of the log: after one revision, up to and with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub after: Revision,
    pub through: Revision,
}

/// What part of the log is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of the newest change; zero in an empty store.
    pub last: Revision,
    /// Of the changes up to here only those may be left that were the state of a key at this
    /// revision: what it takes to tell the state then and at every later revision. `changes` from
    /// an earlier revision is `Error::Compacted`.
    pub compacted: Revision,
}

/// Why the store did not do it. Closed: driver codes are read in one place per back end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A row's `previous` is not the newest revision of its key, or its revision is not the next
    /// one.
    #[error("{key} was changed by another writer")]
    Conflict { key: Key },
    #[error("revision {asked} is compacted; the log begins after {compacted}")]
    Compacted { asked: Revision, compacted: Revision },
    /// The back end cannot do it now (disk full, I/O error, lock); the same call may succeed later.
    /// Nothing of the call was stored.
    #[error("the database is unavailable: {action}")]
    Unavailable {
        action: &'static str,
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The place that was named cannot hold a database; `advice` says what to do about it.
    #[error("the database cannot be opened: {advice}")]
    Misplaced { advice: String },
    /// What is stored is not what this program wrote; `advice` says what to do about it.
    #[error("the database cannot be used: {advice}")]
    Corrupt {
        advice: String,
        #[source]
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
}

impl Error {
    /// What is wrong, in the few words that a client may be told.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Unavailable { source, .. } => sqlite::reason(&**source),
            Error::Conflict { .. } => "another process has written to the database",
            Error::Compacted { .. } => "the log is compacted",
            Error::Misplaced { .. } => "the database cannot be opened",
            Error::Corrupt { .. } => "the database is damaged",
        }
    }
}

/// A log. One process writes to it, through one writer (`watch::Writer`), which numbers the
/// changes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest row of a key, unless that is a `Delete`.
    async fn get(&self, key: &Key) -> Result<Option<Change>, Error>;

    /// The newest row of each live key, in key order; of all kinds where `resource` is `None`.
    async fn list(&self, resource: Option<GroupResource>) -> Result<Vec<Change>, Error>;

    /// Appends all of `changes` or none, and returns when they are durable. Their revisions must
    /// follow the last one without a gap, and each `previous` must be the newest revision of its
    /// key, else `Error::Conflict` and nothing is stored. A key may occur several times.
    async fn commit(&self, changes: &[Change]) -> Result<(), Error>;

    /// The changes after a revision, oldest first, at most `limit` of them.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error>;

    /// The changes of one kind in a stretch of the log, oldest first, at most `limit` of them: the
    /// past as its watchers would have seen it. Never holds up a commit.
    async fn history(&self, resource: GroupResource, span: Span, limit: usize) -> Result<Vec<Replacement>, Error>;

    /// The rows of these revisions as far as they are still there, oldest first.
    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error>;

    /// Forgets what was no longer the state of a key at `through`, and returns whether there is
    /// more to do: one call looks at no more than `limit` changes, so that it never holds up a
    /// commit for long. The newest row of a live key always stays. `bounds().compacted` moves
    /// first, so a crash in between leaves rows, never a silent gap.
    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error>;

    async fn bounds(&self) -> Result<Bounds, Error>;

    /// Whether changes could be stored now: found out by making something durable that is no
    /// change, and by using as much space as many changes need.
    async fn probe(&self) -> Result<(), Error>;

    /// Leaves everything in the place that the database is named by, and lets go of it. To be
    /// called after the last commit; the store can be used again all the same.
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The newest revision whose change is older than `time_ms`; zero if there is none.
    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error>;
}

/// Opens what a database URL names: `memory:`, or a file as `sqlite://relative/path` or
/// `sqlite:///absolute/path`. Where the back end speaks SQL, each of `tables` can be read with it.
pub async fn open(url: &str, tables: &[Table]) -> Result<Arc<dyn Store>, Error> {
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new()));
    }
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() => Ok(Arc::new(SqliteStore::open(Path::new(path), tables).await?)),
        _ => {
            let advice = format!("{url:?} names no database; use sqlite://PATH or memory:");
            Err(Error::Misplaced { advice })
        }
    }
}
