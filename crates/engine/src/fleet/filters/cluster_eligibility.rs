//! Refuses clusters that are leaving or unhealthy, or that have not reported for too long.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    Ok(match cluster.eligibility(cycle.request.now) {
        Ok(()) => Verdict::Fits,
        Err(why) => Verdict::Refused(Refusal::Ineligible(why)),
    })
}
