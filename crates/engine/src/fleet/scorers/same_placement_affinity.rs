//! Prefers clusters that an earlier policy picked among otherwise equal ones, so that fewer
//! bindings move.

use super::{Cluster, Cycle, Fault, Rank};

pub(super) fn score(cycle: &Cycle<'_>, cluster: &Cluster) -> Result<Rank, Fault> {
    Ok(Rank { was_picked_before: i32::from(cycle.obsolete.contains(&*cluster.name)), ..Rank::default() })
}
