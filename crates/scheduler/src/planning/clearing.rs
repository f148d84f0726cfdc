//! The clusters that a plan removes replicas from, even if it moves nothing else (RM33). Pure.
//!
//! A Steady plan moves only the replicas that must leave their clusters. A Steady pass of the
//! scheduler keeps targets on the clusters that a workload runs on, because evictions remove
//! workloads from clusters. A plan does not wait for evictions: it decides as if the workload had
//! left these clusters and could not return.

use std::collections::BTreeSet;
use std::sync::Arc;

use ballast_api::ballast::v1alpha1::{Drain, Mode, RebalanceSpec, SelectEntry};
use ballast_engine::karmada::{Cluster, Division, Request};
use ballast_k8s::taint::Effect;

/// The clusters that a plan removes replicas from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// Whether workloads leave clusters with NoExecute taints that they do not tolerate.
    dead: bool,
    /// The drained clusters.
    drained: BTreeSet<Arc<str>>,
    /// Whether copies leave drained clusters, too.
    with_copies: bool,
    /// The clusters that the selection names in `placedOn`. Workloads leave them if they do not
    /// tolerate a NoSchedule taint, because nothing would be placed there today.
    named: BTreeSet<Arc<str>>,
}

impl Clearing {
    /// Returns the clearing for the plan of a rebalance. `None`: the plan decides as the scheduler
    /// does.
    pub fn of_rebalance(spec: &RebalanceSpec) -> Option<Clearing> {
        match (&spec.drain, &spec.undo, spec.mode) {
            (Some(drain), ..) => Some(Clearing::draining(drain)),
            (None, None, Mode::Steady) => Some(Clearing::of(&spec.select)),
            _ => None,
        }
    }

    /// Returns the clearing for a drain.
    pub fn draining(drain: &Drain) -> Clearing {
        let drained = drain.clusters.iter().map(|name| name.as_str().into()).collect();
        Clearing { dead: false, drained, with_copies: drain.include_duplicated, named: BTreeSet::new() }
    }

    /// Returns the clearing for clusters that workloads must leave in any case.
    pub fn dead() -> Clearing {
        Clearing::of(&[])
    }

    /// Returns the drained clusters: nothing may arrive there.
    pub(super) fn drained(&self) -> &BTreeSet<Arc<str>> {
        &self.drained
    }

    /// Returns the clearing for a Steady plan of this selection: clusters with untolerated
    /// NoExecute taints, and clusters of `placedOn` with an untolerated NoSchedule taint.
    pub fn of(select: &[SelectEntry]) -> Clearing {
        let named = select.iter().flat_map(|entry| &entry.placed_on).map(|name| name.as_str().into());
        Clearing { dead: true, drained: BTreeSet::new(), with_copies: false, named: named.collect() }
    }

    /// Returns whether the workload must leave the cluster. A copy of a workload that runs on every
    /// cluster has no alternative, so a cluster with a NoSchedule taint keeps it.
    pub(super) fn clears(&self, cluster: &Cluster, request: &Request) -> bool {
        let Some(placement) = &request.placement else { return false };
        let is_untolerated = |effect: Effect| {
            cluster.taints.iter().any(|taint| {
                taint.effect == effect && !placement.tolerations.iter().any(|toleration| toleration.tolerates(taint))
            })
        };
        let is_divided = request.is_divisible() && placement.division != Division::Duplicated;
        let is_closed = || self.named.contains(&cluster.name) && is_untolerated(Effect::NoSchedule);
        let is_drained = || self.drained.contains(&cluster.name);
        (self.dead && is_untolerated(Effect::NoExecute))
            || (is_divided && is_closed())
            || ((is_divided || self.with_copies) && is_drained())
    }
}
