//! Refuses clusters that lack the namespace of a namespaced placement, as far as their namespaces
//! are known.

use super::{Cluster, Cycle, Fault, Refusal, Verdict};
use crate::fleet::cluster::Namespaces;

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    let Some(namespace) = &cycle.requirements.namespace else { return Ok(Verdict::Fits) };
    Ok(match &cluster.namespaces {
        Namespaces::NotCollected => Verdict::Fits,
        Namespaces::Unavailable => Verdict::Refused(Refusal::NamespacesUnavailable),
        Namespaces::Known(names) if names.binary_search(namespace).is_ok() => Verdict::Fits,
        Namespaces::Known(_) => Verdict::Refused(Refusal::NamespaceMissing),
    })
}
