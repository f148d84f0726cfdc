//! Refuses clusters with a taint that the policy does not tolerate.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    let tolerations = &cycle.requirements.tolerations;
    let untolerated = cluster.taints.iter().find(|taint| !tolerations.iter().any(|t| t.tolerates(taint)));
    Ok(untolerated.map_or(Verdict::Fits, |taint| Verdict::Refused(Refusal::Untolerated(taint))))
}
