//! Adds up the weights of the preferences that a cluster fulfils.

use super::{Cluster, Cycle, Fault, Rank, Score};

pub(super) fn score(cycle: &Cycle<'_>, cluster: &Cluster) -> Result<Rank, Fault> {
    let mut affinity = 0;
    for preference in &cycle.preferences {
        affinity += preference.score(cluster)?;
    }
    Ok(Rank { score: Score { affinity, ..Score::default() }, ..Rank::default() })
}
