//! One of the required terms must match; a policy without terms requires nothing.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    let terms = &cycle.requirements.terms;
    for term in terms {
        // The terms behind one that matches are not read, nor are their faults met.
        if term.matches(cluster)? {
            return Ok(Verdict::Fits);
        }
    }
    Ok(if terms.is_empty() { Verdict::Fits } else { Verdict::Refused(Refusal::NoTermMatches) })
}
