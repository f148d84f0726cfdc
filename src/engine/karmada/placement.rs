//! A placement as the engine reads it: parsed, defaulted, comparable. Bindings with equal
//! placements share work.

use std::fmt;

use super::affinity::Affinity;
use super::cluster::Cluster;
use crate::k8s::Toleration;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// None: every cluster is a candidate (R106).
    pub affinity: Option<Affinity>,
    /// Groups tried in this order, one at a time (R101). Empty: `affinity` alone.
    pub terms: Vec<Term>,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<Spread>,
    pub division: Division,
}

/// One group of clusters, with those that take what it has no room for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub name: Box<str>,
    pub affinity: Affinity,
    /// Tier after tier.
    pub overflow: Vec<Affinity>,
}

/// How many groups of clusters must and may be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    pub by: By,
    pub min: i64,
    /// 0: not said.
    pub max: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    Cluster,
    Region,
    Zone,
    Provider,
    Label(Box<str>),
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Cluster => "cluster",
            By::Region => "region",
            By::Zone => "zone",
            By::Provider => "provider",
            By::Label(key) => key,
        })
    }
}

/// How replicas are divided among the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Division {
    /// All of them on each cluster.
    #[default]
    Duplicated,
    /// By weight, whatever fits. None: nothing was said about weights at all, so all weigh the
    /// same.
    Static(Option<Vec<Weight>>),
    /// By what is free.
    Dynamic,
    /// On as few clusters as possible.
    Aggregated,
    /// As the user says (R130). None: as with `Static(None)` (R142).
    Specified(Option<Vec<Share>>),
    /// Nothing anybody knows; in the words it was asked for.
    Unsupported { scheduling_type: Box<str>, preference: Box<str> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Weight {
    pub target: Affinity,
    pub weight: i64,
}

/// This many replicas in total on the clusters that `target` selects (R145).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    pub target: Affinity,
    pub replicas: i64,
}

impl Placement {
    /// Every affinity that a pass may choose clusters by. None: it may choose any cluster (R106).
    pub(super) fn affinities(&self) -> Option<impl Iterator<Item = &Affinity>> {
        // An affinity beside groups wins.
        let terms = if self.affinity.is_some() { &[][..] } else { &self.terms[..] };
        let of_terms = terms.iter().flat_map(|term| std::iter::once(&term.affinity).chain(&term.overflow));
        (self.affinity.is_some() || !terms.is_empty()).then(|| self.affinity.iter().chain(of_terms))
    }

    /// Whether some pass may choose the cluster, as far as affinities go.
    pub fn can_choose(&self, cluster: &Cluster) -> bool {
        self.affinities().is_none_or(|mut affinities| affinities.any(|affinity| affinity.matches(cluster)))
    }

    /// Spread constraints do not apply to division by static weight, unless a weight preference is
    /// there with nothing in it.
    pub(super) fn ignores_spread(&self) -> bool {
        match &self.division {
            Division::Static(None) => true,
            Division::Static(Some(weights)) => !weights.is_empty(),
            Division::Specified(_) => true,
            _ => false,
        }
    }

    /// The last constraint by `by`, which is the one that counts.
    pub(super) fn spread_by(&self, by: &By) -> Option<&Spread> {
        self.spread.iter().rev().find(|spread| spread.by == *by)
    }
}
