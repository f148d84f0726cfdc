//! Refuses clusters that match none of the required terms, if there are any.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    let terms = &cycle.requirements.terms;
    for term in terms {
        // Terms after a match are not evaluated, so their faults do not matter.
        if term.matches(cluster)? {
            return Ok(Verdict::Fits);
        }
    }
    Ok(if terms.is_empty() { Verdict::Fits } else { Verdict::Refused(Refusal::NoTermMatches) })
}
