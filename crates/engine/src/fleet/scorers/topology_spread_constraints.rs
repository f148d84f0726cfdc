//! Prefers clusters that even out the spread, and ranks clusters that violate a ScheduleAnyway
//! constraint last.

use super::{Cluster, Cycle, Fault, Rank, Score};

pub(super) fn score(cycle: &Cycle<'_>, cluster: &Cluster) -> Result<Rank, Fault> {
    let topology_spread = cycle.spreads.iter().map(|spread| spread.score(cluster)).sum();
    Ok(Rank { score: Score { topology_spread, ..Score::default() }, ..Rank::default() })
}
