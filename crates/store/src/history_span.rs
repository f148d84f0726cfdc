//! The types of reading a part of the log: which part, whose changes, and what is found.

use bytes::Bytes;

use super::Change;
use ballast_k8s::{GroupResource, Key, Revision};

/// A change and the object that it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub change: Change,
    /// The object before the change; `None` for a `Create`.
    pub before: Option<Bytes>,
}

/// Whose changes a part of the log is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryOf {
    Kind(GroupResource),
    /// All objects that have had this key, one after the other.
    Key(Key),
}

impl HistoryOf {
    pub fn resource(&self) -> GroupResource {
        match self {
            HistoryOf::Kind(resource) => *resource,
            HistoryOf::Key(key) => key.resource,
        }
    }

    /// The key, where only its changes are asked for.
    pub fn key(&self) -> Option<&Key> {
        match self {
            HistoryOf::Kind(_) => None,
            HistoryOf::Key(key) => Some(key),
        }
    }
}

/// What packing one text of history has saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The change that made the text history.
    pub replaced_at: Revision,
    pub bytes: u64,
}

/// A part of the log: the revisions greater than `after`, up to and including `through`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub after: Revision,
    pub through: Revision,
}
