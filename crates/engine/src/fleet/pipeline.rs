//! Runs filters and scorers over all clusters, and sorts the result.

use super::cluster::Cluster;
use super::cycle::Cycle;
use super::fault::Fault;
use super::filters::{FILTERS, Refusal, Verdict};
use super::scorers::{Rank, SCORERS};

/// The clusters after the filters. Both lists are sorted by name. Clusters that are already
/// selected are in neither.
pub(super) struct Filtered<'a> {
    pub(super) fitting: Vec<&'a Cluster>,
    pub(super) refused: Vec<(&'a Cluster, Refusal<'a>)>,
}

pub(super) fn filter<'a>(cycle: &Cycle<'a>) -> Result<Filtered<'a>, Fault> {
    let mut filtered = Filtered { fitting: Vec::new(), refused: Vec::new() };
    for cluster in cycle.request.fleet.iter() {
        match judge(cycle, cluster)? {
            Verdict::Fits => filtered.fitting.push(cluster),
            Verdict::AlreadySelected => {}
            Verdict::Refused(refusal) => filtered.refused.push((cluster, refusal)),
        }
    }
    Ok(filtered)
}

fn judge<'a>(cycle: &Cycle<'a>, cluster: &'a Cluster) -> Result<Verdict<'a>, Fault> {
    for filter in FILTERS {
        let verdict = (filter.check)(cycle, cluster).map_err(|fault| fault.in_plugin(filter.name))?;
        if verdict != Verdict::Fits {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Fits)
}

#[derive(Clone, Copy)]
pub(super) struct Ranked<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) rank: Rank,
}

/// Scores the clusters and sorts them, the best first. Of clusters with equal scores, the name that
/// sorts last comes first, as in upstream's reversed sort.
pub(super) fn rank<'a>(cycle: &mut Cycle<'a>, clusters: &[&'a Cluster]) -> Result<Vec<Ranked<'a>>, Fault> {
    cycle.rank_preferences()?;
    let mut ranked = Vec::with_capacity(clusters.len());
    for &cluster in clusters {
        let mut rank = Rank::default();
        for scorer in SCORERS {
            rank += (scorer.score)(cycle, cluster).map_err(|fault| fault.in_plugin(scorer.name))?;
        }
        ranked.push(Ranked { cluster, rank });
    }
    ranked.sort_unstable_by(|a, b| (b.rank, &b.cluster.name).cmp(&(a.rank, &a.cluster.name)));
    Ok(ranked)
}
