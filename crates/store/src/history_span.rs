//! Parameters and results of reading a part of the log.

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

/// The selection of changes to read.
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

    /// Returns the key, if only its changes are requested.
    pub fn key(&self) -> Option<&Key> {
        match self {
            HistoryOf::Kind(_) => None,
            HistoryOf::Key(key) => Some(key),
        }
    }
}

/// The bytes saved by compressing one object of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The change that replaced the object.
    pub replaced_at: Revision,
    pub bytes: u64,
}

/// A part of the log: the revisions greater than `after`, up to and including `through`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub after: Revision,
    pub through: Revision,
}
