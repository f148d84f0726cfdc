//! Refuses clusters where one more binding would violate a DoNotSchedule constraint.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    let violated = cycle.spreads.iter().find(|spread| spread.forbids(cluster));
    Ok(violated.map_or(Verdict::Fits, |spread| Verdict::Refused(Refusal::Skewed(spread.constraint))))
}
