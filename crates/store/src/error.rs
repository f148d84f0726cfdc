//! The errors of the store.

use std::sync::Arc;

use super::{Term, sqlite_codes, sqlstate};
use ballast_k8s::{Key, Revision};

/// An error of a store call. Each back end maps the codes of its driver in one function.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `previous` of a change is not the newest revision of its key, or its revision is not the
    /// next one.
    #[error("{key} was changed by another writer")]
    Conflict { key: Key },
    /// The term of the commit is not the current one. Nothing was stored.
    #[error("another replica leads: the term is {current}, and no longer {asked}")]
    Deposed { asked: Term, current: Term },
    /// The log lacks changes that this process has seen, or has others with their revisions.
    #[error("the database has lost changes: revision {known} was there before, and the log is at {last}")]
    TakenBack { known: Revision, last: Revision },
    #[error("revision {asked} is compacted; the log begins after {compacted}")]
    Compacted { asked: Revision, compacted: Revision },
    /// The back end is temporarily unable to serve the call, because of a full disk, an I/O error
    /// or a lock. The same call may succeed later. After a commit, `settle` reports whether its
    /// changes are stored.
    #[error("the database is unavailable: {action}")]
    Unavailable {
        action: &'static str,
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Like `Unavailable`, but nothing of the commit was sent: its changes are not stored.
    #[error("the database is unavailable: {action}")]
    NotSent {
        action: &'static str,
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The URL cannot hold a database; `advice` contains the remedy.
    #[error("the database cannot be opened: {advice}")]
    Misplaced { advice: String },
    /// The content of the database was not written by this program; `advice` contains the remedy.
    #[error("the database cannot be used: {advice}")]
    Corrupt {
        advice: String,
        #[source]
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
}

impl Error {
    /// Returns whether the database is unreachable, unresponsive or read-only, as during a
    /// failover. The same call may succeed once it has a primary.
    pub fn is_outage(&self) -> bool {
        let (Error::Unavailable { source, .. } | Error::NotSent { source, .. }) = self else { return false };
        sqlstate::is_outage(&**source)
    }

    /// Converts to the error of a commit of which nothing was sent.
    pub(super) fn not_sent(self) -> Error {
        match self {
            Error::Unavailable { action, source } => Error::NotSent { action, source },
            other => other,
        }
    }

    /// Returns a short reason that clients may see.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Unavailable { source, .. } | Error::NotSent { source, .. } => {
                sqlstate::reason(&**source).unwrap_or_else(|| sqlite_codes::reason(&**source))
            }
            Error::Conflict { .. } => "another process has written to the database",
            Error::Deposed { .. } => "another replica leads",
            Error::TakenBack { .. } => "the database has lost changes",
            Error::Compacted { .. } => "the log is compacted",
            Error::Misplaced { .. } => "the database cannot be opened",
            Error::Corrupt { .. } => "the database is damaged",
        }
    }
}
