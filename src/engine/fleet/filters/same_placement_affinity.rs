//! A cluster is picked once: one that holds a live binding of this snapshot is set aside.

use super::{Cluster, Cycle, Fault, Verdict};

pub(super) fn check<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    Ok(if cycle.live.contains(&*cluster.name) { Verdict::AlreadySelected } else { Verdict::Fits })
}
