//! A write as the caller specifies it, and the reasons for its rejection.

use std::sync::Arc;

use ballast_k8s::{Document, Key, Object, Revision, Status};

/// The effect of a rejected write on the other writes of its call.
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
    /// Contains the last state, which watchers receive.
    Delete(Document),
}

impl Draft {
    pub(super) fn document(&self) -> &Document {
        match self {
            Draft::Put(document) | Draft::Delete(document) => document,
        }
    }
}

/// The reason for the rejection of a write, with the conflicting state.
#[derive(Debug)]
pub enum Rejected {
    Exists(Arc<Object>),
    Missing,
    Changed(Arc<Object>),
    /// A commit hook refused the write.
    Refused(Box<Status>),
    /// Another write of the call was rejected, and the call was `Atomicity::All`.
    NotTried,
}
