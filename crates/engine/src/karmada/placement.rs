//! A placement as the engine reads it: parsed, defaulted and comparable. Bindings with equal
//! placements share work.

use std::fmt;

use super::affinity::Affinity;
use super::cluster::Cluster;
use ballast_k8s::Toleration;

/// The rules by which clusters are chosen and replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// `None` makes every cluster a candidate (R106).
    pub affinity: Option<Affinity>,
    /// The affinity groups, tried one at a time in this order (R101). If empty, only `affinity`
    /// applies.
    pub terms: Vec<AffinityTerm>,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<SpreadConstraint>,
    /// Constraints that are kept only if that moves no replica and rejects no affinity group.
    /// Earlier ones take precedence.
    pub wishes: Vec<SpreadConstraint>,
    pub division: Division,
    /// Bounds on the replicas of each cluster that gets any (S7).
    pub bounds: Vec<ClusterBound>,
    /// Whether a part of the replicas is placed if not all of them fit.
    pub what_fits: bool,
}

/// One affinity group, with the overflow tiers for the replicas that it has no capacity for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    pub name: Box<str>,
    pub affinity: Affinity,
    /// The tiers, in the order in which they fill.
    pub overflow: Vec<Affinity>,
}

/// Bounds on the number of groups that the chosen clusters belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    pub by: SpreadBy,
    pub min: i64,
    /// 0 means no maximum.
    pub max: i64,
}

/// Bounds on the replicas of each cluster that `target` selects. A cluster without replicas is
/// exempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterBound {
    pub target: Affinity,
    pub min: i64,
    pub max: i64,
}

/// The attribute that clusters are grouped by.
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

/// The strategy that divides replicas among the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Division {
    /// Each cluster gets all replicas.
    #[default]
    Duplicated,
    /// By weight, regardless of capacity. `None` means that no weights are specified: all clusters
    /// have the same weight.
    Static(Option<Vec<Weight>>),
    /// In proportion to the free capacity.
    Dynamic,
    /// On as few clusters as possible.
    Aggregated,
    /// By the numbers that the user specifies (R130). `None` means that there are no numbers: all
    /// clusters have the same weight (R142).
    Specified(Option<Vec<Share>>),
    /// All replicas of the workload on the clusters that any of the affinities selects. A
    /// difference is shared evenly over these clusters (R136, R137). An empty list selects all
    /// candidates.
    Together(Vec<Affinity>),
    /// A strategy that this scheduler does not support, as the placement spells it.
    Unsupported { scheduling_type: Box<str>, preference: Box<str> },
}

/// The weight of each cluster that `target` selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weight {
    pub target: Affinity,
    pub weight: i64,
}

/// The total number of replicas on the clusters that `target` selects (R145).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    pub target: Affinity,
    pub replicas: i64,
}

impl Placement {
    /// Returns every affinity that a pass may select clusters by, or `None` if it may select any
    /// cluster (R106).
    pub(super) fn affinities(&self) -> Option<impl Iterator<Item = &Affinity>> {
        // The affinity takes precedence over the groups.
        let terms = if self.affinity.is_some() { &[][..] } else { &self.terms[..] };
        let of_terms = terms.iter().flat_map(|term| std::iter::once(&term.affinity).chain(&term.overflow));
        (self.affinity.is_some() || !terms.is_empty()).then(|| self.affinity.iter().chain(of_terms))
    }

    /// Returns whether the affinities allow a pass to select the cluster.
    pub fn can_choose(&self, cluster: &Cluster) -> bool {
        self.affinities().is_none_or(|mut affinities| affinities.any(|affinity| affinity.matches(cluster)))
    }

    /// Returns whether the division ignores spread constraints. Divisions by static weight and by
    /// specified replicas do, unless the list of weights is present but empty.
    pub(super) fn ignores_spread(&self) -> bool {
        match &self.division {
            Division::Static(None) => true,
            Division::Static(Some(weights)) => !weights.is_empty(),
            Division::Specified(_) | Division::Together(_) => true,
            _ => false,
        }
    }

    /// Returns whether there are spread constraints that the division does not ignore.
    pub fn keeps_spread(&self) -> bool {
        !self.spread.is_empty() && !self.ignores_spread()
    }

    /// Returns whether replicas are divided by the free capacity of clusters. Only then do bounds
    /// apply, and only then can a part of the replicas be placed.
    pub(super) fn divides_by_room(&self) -> bool {
        matches!(self.division, Division::Dynamic | Division::Aggregated)
    }

    /// Returns the constraints that apply: the last one for each attribute.
    pub(super) fn spread_in_force(&self) -> impl Iterator<Item = &SpreadConstraint> {
        let spread = &self.spread;
        let applies = |(at, one): &(usize, &SpreadConstraint)| !spread[at + 1..].iter().any(|later| later.by == one.by);
        spread.iter().enumerate().filter(applies).map(|(_, one)| one)
    }

    /// Returns the constraint by `by` that applies: the last one.
    pub(super) fn spread_by(&self, by: &SpreadBy) -> Option<&SpreadConstraint> {
        self.spread.iter().rev().find(|spread| spread.by == *by)
    }
}
