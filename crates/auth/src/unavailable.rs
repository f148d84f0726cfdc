//! The error of a reviewer that gives no decision.

/// A reviewer could not be reached, or its response could not be read. There is no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);
