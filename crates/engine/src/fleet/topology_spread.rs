//! Topology spread constraints: limits on how unevenly the bindings of a placement are spread over
//! the values of a label, such as regions or zones.
//!
//! Each value that some cluster has is a domain, even if none of its clusters is eligible. The skew
//! of a constraint is the difference between its fullest and its emptiest domain.

use std::collections::BTreeMap;

use super::cluster::{Cluster, MemberClusters};

/// A limit on how unevenly bindings are spread over the values of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadConstraint {
    pub max_skew: i32,
    /// The key of the label that divides the clusters into domains.
    pub topology_key: Box<str>,
    pub when_unsatisfiable: WhenUnsatisfiable,
}

/// The treatment of a cluster that would exceed the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Score of a cluster that violates a ScheduleAnyway constraint.
const VIOLATION_SCORE: i32 = -1000;

/// A constraint with the counts of bindings in its domains.
pub(super) struct CountedConstraint<'a> {
    pub(super) constraint: &'a SpreadConstraint,
    bindings_by_domain: BTreeMap<&'a str, i32>,
    smallest: i32,
    largest: i32,
    /// Number of domains with the smallest number of bindings.
    smallest_domains: usize,
}

/// The effect of one more binding on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SkewEffect {
    /// -1 evens out the spread, +1 adds to the skew.
    change: i32,
    violates: bool,
}

impl<'a> CountedConstraint<'a> {
    /// Counts the clusters with a live binding of the current snapshot.
    pub(super) fn count(
        constraint: &'a SpreadConstraint,
        fleet: &'a MemberClusters,
        is_live: impl Fn(&Cluster) -> bool,
    ) -> CountedConstraint<'a> {
        let mut bindings_by_domain: BTreeMap<&str, i32> = BTreeMap::new();
        for cluster in fleet.iter() {
            let Some(domain) = cluster.label(&constraint.topology_key) else { continue };
            *bindings_by_domain.entry(domain).or_default() += i32::from(is_live(cluster));
        }
        let smallest = bindings_by_domain.values().copied().min().unwrap_or_default();
        let largest = bindings_by_domain.values().copied().max().unwrap_or_default();
        let smallest_domains = bindings_by_domain.values().filter(|&&count| count == smallest).count();
        CountedConstraint { constraint, bindings_by_domain, smallest, largest, smallest_domains }
    }

    /// Returns the effect of one more binding. None: the cluster is in no domain.
    fn effect(&self, cluster: &Cluster) -> Option<SkewEffect> {
        let count = *self.bindings_by_domain.get(cluster.label(&self.constraint.topology_key)?)?;
        let change = if count == self.largest {
            1
        } else if count == self.smallest && self.smallest_domains == 1 {
            -1
        } else {
            0
        };
        let violates = self.largest - self.smallest + change > self.constraint.max_skew;
        Some(SkewEffect { change, violates })
    }

    pub(super) fn forbids(&self, cluster: &Cluster) -> bool {
        self.constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
            && self.effect(cluster).is_some_and(|effect| effect.violates)
    }

    pub(super) fn score(&self, cluster: &Cluster) -> i32 {
        match self.effect(cluster) {
            None => 0,
            Some(effect) if effect.violates => VIOLATION_SCORE,
            Some(effect) => -effect.change,
        }
    }
}
