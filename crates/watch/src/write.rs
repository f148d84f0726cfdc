//! A write as the caller states it, and why it may be rejected.

use std::sync::Arc;

use ballast_k8s::{Document, Key, Object, Revision, Status};

/// What happens to the other writes of a call when one is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// A rejected write does not stop the others.
    Each,
    /// If one write is rejected, none of the call is stored.
    All,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub expect: Expect,
    pub draft: Draft,
}

/// The state that a write expects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    At(Revision),
}

#[derive(Clone, Debug)]
pub enum Draft {
    Put(Document),
    /// Carries the last state, which watchers see.
    Delete(Document),
}

impl Draft {
    pub(super) fn document(&self) -> &Document {
        match self {
            Draft::Put(document) | Draft::Delete(document) => document,
        }
    }
}

/// Why a write was rejected, with the state that was in its way.
#[derive(Debug)]
pub enum Rejected {
    Exists(Arc<Object>),
    Missing,
    Changed(Arc<Object>),
    /// A commit hook refused it.
    Refused(Box<Status>),
    /// Another write of the call was rejected, and the call was `Atomicity::All`.
    NotTried,
}
