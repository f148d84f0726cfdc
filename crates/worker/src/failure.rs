//! Classification of failed writes.

use super::Next;
use ballast_k8s::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The plan was made from an outdated state and must be made again.
    Changed,
    /// The store or the server cannot write now. The same write may succeed later.
    Unavailable,
    /// The write violates a rule. It may succeed once the object, or the rule, has changed.
    Refused,
}

impl Failure {
    pub fn of(status: &Status) -> Failure {
        match status.code {
            404 | 409 | 410 => Failure::Changed,
            429 | 500..=599 => Failure::Unavailable,
            _ => Failure::Refused,
        }
    }
}

impl From<Failure> for Next {
    fn from(failure: Failure) -> Next {
        match failure {
            Failure::Changed => Next::Again,
            Failure::Unavailable | Failure::Refused => Next::Retry,
        }
    }
}
