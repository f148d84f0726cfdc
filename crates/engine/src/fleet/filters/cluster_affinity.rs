//! Refuses clusters that match none of the required terms. A policy without terms requires nothing.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    let terms = &cycle.requirements.terms;
    for term in terms {
        // The terms after a match are not read, so their faults do not matter.
        if term.matches(cluster)? {
            return Ok(Verdict::Fits);
        }
    }
    Ok(if terms.is_empty() { Verdict::Fits } else { Verdict::Refused(Refusal::NoTermMatches) })
}
