//! Filters refuse clusters. They run in a fixed order, and the first refusal is reported.

mod cluster_affinity;
mod cluster_eligibility;
mod namespace_affinity;
mod same_placement_affinity;
mod taint_toleration;
mod topology_spread_constraints;

use std::fmt;

use super::cluster::{Cluster, Ineligible};
use super::cycle::Cycle;
use super::fault::Fault;
use super::topology_spread::SpreadConstraint;
use ballast_k8s::Taint;

pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) check: for<'a> fn(&Cycle<'a>, &'a Cluster) -> Result<Verdict<'a>, Fault>,
}

pub(super) const FILTERS: &[Filter] = &[
    Filter { name: "ClusterAffinity", check: cluster_affinity::check },
    Filter { name: "ClusterEligibility", check: cluster_eligibility::check },
    Filter { name: "NamespaceAffinity", check: namespace_affinity::check },
    Filter { name: "TaintToleration", check: taint_toleration::check },
    Filter { name: "SamePlacementAffinity", check: same_placement_affinity::check },
    Filter { name: "TopologySpreadConstraints", check: topology_spread_constraints::check },
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict<'a> {
    Fits,
    /// The cluster holds a live binding already. It is neither scored nor reported.
    AlreadySelected,
    Refused(Refusal<'a>),
}

/// The reason that a cluster cannot be picked. It is formatted only for the few clusters that are
/// reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Refusal<'a> {
    NoTermMatches,
    Ineligible(Ineligible),
    NamespacesUnavailable,
    NamespaceMissing,
    Untolerated(&'a Taint),
    Skewed(&'a SpreadConstraint),
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoTermMatches => {
                f.write_str("cluster does not match with any of the required cluster affinity terms")
            }
            Refusal::Ineligible(why) => why.fmt(f),
            Refusal::NamespacesUnavailable => f.write_str("cluster has no namespace information available"),
            Refusal::NamespaceMissing => f.write_str("target namespace does not exist on cluster"),
            Refusal::Untolerated(Taint { key, value, effect }) => {
                let effect = effect.as_str();
                write!(f, "taint &{{Key:{key} Value:{value} Effect:{effect}}} cannot be tolerated")
            }
            Refusal::Skewed(SpreadConstraint { topology_key, max_skew, .. }) => {
                write!(f, "violated doNotSchedule topology spread constraint {topology_key:?} (max skew {max_skew})")
            }
        }
    }
}
