//! A placement as the engine reads it: parsed, defaulted and comparable. Bindings with equal
//! placements share work.

use std::fmt;

use super::affinity::Affinity;
use super::cluster::Cluster;
use ballast_k8s::Toleration;

/// The rules by which clusters are chosen and replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// None: every cluster is a candidate (R106).
    pub affinity: Option<Affinity>,
    /// The affinity groups, tried in this order, one at a time (R101). Empty: `affinity` alone.
    pub terms: Vec<AffinityTerm>,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<SpreadConstraint>,
    /// Constraints that are kept where that costs no move and no affinity group, the first ones
    /// before the others.
    pub wishes: Vec<SpreadConstraint>,
    pub division: Division,
    /// How many replicas each cluster has that gets any (S7).
    pub bounds: Vec<ClusterBound>,
    /// Whether a part of the replicas is placed where not all of them fit.
    pub what_fits: bool,
}

/// One affinity group, with the overflow tiers that take what it has no capacity for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    pub name: Box<str>,
    pub affinity: Affinity,
    /// The tiers, in the order in which they fill.
    pub overflow: Vec<Affinity>,
}

/// Bounds the number of groups that the chosen clusters fall into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    pub by: SpreadBy,
    pub min: i64,
    /// 0: no maximum.
    pub max: i64,
}

/// Bounds the replicas of each cluster that `target` selects and that gets any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterBound {
    pub target: Affinity,
    pub min: i64,
    pub max: i64,
}

/// What clusters are grouped by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpreadBy {
    Cluster,
    Region,
    Zone,
    Provider,
    Label(Box<str>),
}

impl fmt::Display for SpreadBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpreadBy::Cluster => "cluster",
            SpreadBy::Region => "region",
            SpreadBy::Zone => "zone",
            SpreadBy::Provider => "provider",
            SpreadBy::Label(key) => key,
        })
    }
}

/// How replicas are divided among the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Division {
    /// Each cluster gets all replicas.
    #[default]
    Duplicated,
    /// By weight, without regard to capacity. None: no weights are given, so all clusters weigh the
    /// same.
    Static(Option<Vec<Weight>>),
    /// In proportion to the free capacity.
    Dynamic,
    /// On as few clusters as possible.
    Aggregated,
    /// By the numbers that the user gives (R130). None: no numbers are given, so all clusters weigh
    /// the same (R142).
    Specified(Option<Vec<Share>>),
    /// All replicas of the workload on the clusters that any of the affinities selects. A
    /// difference is shared evenly over these clusters (R136, R137). Empty: on all candidates.
    Together(Vec<Affinity>),
    /// A strategy that this scheduler does not know, in the words of the placement.
    Unsupported { scheduling_type: Box<str>, preference: Box<str> },
}

/// The weight of each cluster that `target` selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weight {
    pub target: Affinity,
    pub weight: i64,
}

/// The total of replicas on the clusters that `target` selects (R145).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    pub target: Affinity,
    pub replicas: i64,
}

impl Placement {
    /// Every affinity that a pass may choose clusters by. None: it may choose any cluster (R106).
    pub(super) fn affinities(&self) -> Option<impl Iterator<Item = &Affinity>> {
        // If both are given, the affinity counts, not the groups.
        let terms = if self.affinity.is_some() { &[][..] } else { &self.terms[..] };
        let of_terms = terms.iter().flat_map(|term| std::iter::once(&term.affinity).chain(&term.overflow));
        (self.affinity.is_some() || !terms.is_empty()).then(|| self.affinity.iter().chain(of_terms))
    }

    /// Whether some pass may choose the cluster, as far as affinities decide.
    pub fn can_choose(&self, cluster: &Cluster) -> bool {
        self.affinities().is_none_or(|mut affinities| affinities.any(|affinity| affinity.matches(cluster)))
    }

    /// Whether spread constraints do not apply. They do not for a division by static weight or by
    /// specified replicas. They do if the weight preference is there but empty.
    pub(super) fn ignores_spread(&self) -> bool {
        match &self.division {
            Division::Static(None) => true,
            Division::Static(Some(weights)) => !weights.is_empty(),
            Division::Specified(_) | Division::Together(_) => true,
            _ => false,
        }
    }

    /// Whether there are spread constraints, and the division does not ignore them.
    pub fn keeps_spread(&self) -> bool {
        !self.spread.is_empty() && !self.ignores_spread()
    }

    /// Whether replicas are divided by the room that clusters have. Only then do bounds hold, and
    /// only then can a part of the replicas fit.
    pub(super) fn divides_by_room(&self) -> bool {
        matches!(self.division, Division::Dynamic | Division::Aggregated)
    }

    /// The constraints that apply: of several by the same field, the last one.
    pub(super) fn spread_in_force(&self) -> impl Iterator<Item = &SpreadConstraint> {
        let spread = &self.spread;
        let applies = |(at, one): &(usize, &SpreadConstraint)| !spread[at + 1..].iter().any(|later| later.by == one.by);
        spread.iter().enumerate().filter(applies).map(|(_, one)| one)
    }

    /// The last constraint by `by`. If there are several, only the last counts.
    pub(super) fn spread_by(&self, by: &SpreadBy) -> Option<&SpreadConstraint> {
        self.spread.iter().rev().find(|spread| spread.by == *by)
    }
}
