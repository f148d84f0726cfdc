//! Excludes clusters that have a live binding of this snapshot, so that each cluster is picked
//! once.

use super::{Cluster, Cycle, Fault, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    Ok(if cycle.live.contains(&*cluster.name) { Verdict::AlreadySelected } else { Verdict::Fits })
}
