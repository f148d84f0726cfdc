//! Stores objects as one append-only log of changes. The newest change of a key is its state.
//!
//! The store knows neither kinds nor HTTP.

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

/// A change and the object that it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub change: Change,
    /// The object before the change; `None` for a `Create`.
    pub before: Option<Bytes>,
}

/// A part of the log: the revisions greater than `after`, up to and including `through`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub after: Revision,
    pub through: Revision,
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

/// Why a call of the store failed. Each back end maps the codes of its driver in one place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `previous` of a change is not the newest revision of its key, or its revision is not the
    /// next one.
    #[error("{key} was changed by another writer")]
    Conflict { key: Key },
    #[error("revision {asked} is compacted; the log begins after {compacted}")]
    Compacted { asked: Revision, compacted: Revision },
    /// The back end cannot do it now, as with a full disk, an I/O error or a lock. The same call
    /// may succeed later. Nothing of the call was stored.
    #[error("the database is unavailable: {action}")]
    Unavailable {
        action: &'static str,
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The place that was named cannot hold a database; `advice` says what to do about it.
    #[error("the database cannot be opened: {advice}")]
    Misplaced { advice: String },
    /// The database holds what this program did not write; `advice` says what to do about it.
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

/// An append-only log. Only one process writes to it, through one `watch::Writer` that numbers the
/// changes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest change of a key, unless it is a `Delete`.
    async fn get(&self, key: &Key) -> Result<Option<Change>, Error>;

    /// The newest change of each live key in key order. `None` means all kinds.
    async fn list(&self, resource: Option<GroupResource>) -> Result<Vec<Change>, Error>;

    /// Appends all of `changes` or none, and returns once they are durable. Their revisions must
    /// follow the last one without a gap, and each `previous` must be the newest revision of its
    /// key. Otherwise it is `Error::Conflict`, and nothing is stored. A key may occur several
    /// times.
    async fn commit(&self, changes: &[Change]) -> Result<(), Error>;

    /// The changes after a revision, oldest first, at most `limit` of them.
    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error>;

    /// The changes of one kind in a part of the log, oldest first, at most `limit` of them. It
    /// never delays a commit.
    async fn history(&self, resource: GroupResource, span: Span, limit: usize) -> Result<Vec<Replacement>, Error>;

    /// The changes with these revisions that still exist, oldest first.
    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error>;

    /// Removes changes that were no longer the state of a key at `through`. Returns whether there
    /// is more to do: one call looks at no more than `limit` changes, so it never delays a commit
    /// for long. The newest change of a live key always stays. `bounds().compacted` moves first, so
    /// a crash in between leaves superfluous rows and never a gap.
    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error>;

    async fn bounds(&self) -> Result<Bounds, Error>;

    /// Finds out whether changes could be stored now. It makes something durable that is no change,
    /// and uses as much space for a moment as many changes need.
    async fn probe(&self) -> Result<(), Error>;

    /// Tidies up after the last commit: everything is in the file that the URL names. Later calls
    /// still work.
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The newest revision whose change is older than `time_ms` (milliseconds since 1970); zero if
    /// there is none.
    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error>;
}

/// Opens the database with this URL: `memory:`, `sqlite://relative/path` or
/// `sqlite:///absolute/path`. A back end with SQL makes each of `tables` readable as a view.
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
