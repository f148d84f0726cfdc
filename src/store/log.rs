//! What every back end holds a commit to.

use std::collections::HashMap;

use super::{Change, Error, Operation};
use crate::k8s::{Key, Revision};

/// Checks that `changes` continue a log that ends at `last`. `newest` tells the newest revision of a live
/// key, and zero of any other.
pub(super) fn check(changes: &[Change], last: Revision, newest: impl Fn(&Key) -> Revision) -> Result<(), Error> {
    let mut last = last;
    let mut pending: HashMap<&Key, Revision> = HashMap::new();
    for change in changes {
        let previous = pending.get(&change.key).copied().unwrap_or_else(|| newest(&change.key));
        let creates = change.operation == Operation::Create;
        let follows = change.revision == last.next() && change.previous == previous;
        if !follows || creates != (previous == Revision::ZERO) {
            return Err(Error::Conflict { key: change.key.clone() });
        }
        let gone = change.operation == Operation::Delete;
        pending.insert(&change.key, if gone { Revision::ZERO } else { change.revision });
        last = change.revision;
    }
    Ok(())
}
