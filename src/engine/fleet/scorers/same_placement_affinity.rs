//! Among equals the cluster that an earlier policy had picked comes first, so that less moves.

use super::{Cluster, Cycle, Fault, Rank};

pub(super) fn score(cycle: &Cycle<'_>, cluster: &Cluster) -> Result<Rank, Fault> {
    Ok(Rank { was_picked_before: i32::from(cycle.obsolete.contains(&*cluster.name)), ..Rank::default() })
}
