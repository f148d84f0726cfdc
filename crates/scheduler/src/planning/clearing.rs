//! Which clusters a plan takes replicas off, whatever else it leaves alone (RM33). Pure.
//!
//! A Steady plan moves what has to leave, and nothing else. A Steady pass of the scheduler spares
//! the clusters that a workload runs on, because evictions take workloads off them. A plan does not
//! wait for evictions: it decides as if the workload had left these clusters, and must not return.

use std::collections::BTreeSet;
use std::sync::Arc;

use ballast_api::ballast::v1alpha1::{Drain, Mode, RebalanceSpec, SelectEntry};
use ballast_engine::karmada::{Cluster, Division, Request};
use ballast_k8s::taint::Effect;

/// The clusters that a plan takes replicas off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// Whether clusters are left whose NoExecute taints are not tolerated.
    dead: bool,
    /// Those that are drained.
    drained: BTreeSet<Arc<str>>,
    /// Whether copies leave drained clusters, too.
    with_copies: bool,
    /// Those that the selection names in `placedOn`. They are left where a NoSchedule taint is not
    /// tolerated: nothing would be placed there today.
    named: BTreeSet<Arc<str>>,
}

impl Clearing {
    /// What the plan of a rebalance takes off clusters. `None`: it decides as the scheduler does.
    pub fn of_rebalance(spec: &RebalanceSpec) -> Option<Clearing> {
        match (&spec.drain, &spec.undo, spec.mode) {
            (Some(drain), ..) => Some(Clearing::draining(drain)),
            (None, None, Mode::Steady) => Some(Clearing::of(&spec.select)),
            _ => None,
        }
    }

    /// What a drain takes off its clusters.
    pub fn draining(drain: &Drain) -> Clearing {
        let drained = drain.clusters.iter().map(|name| name.as_str().into()).collect();
        Clearing { dead: false, drained, with_copies: drain.include_duplicated, named: BTreeSet::new() }
    }

    /// What has to leave in any case.
    pub fn dead() -> Clearing {
        Clearing::of(&[])
    }

    /// The clusters that are drained: nothing may arrive there.
    pub(super) fn drained(&self) -> &BTreeSet<Arc<str>> {
        &self.drained
    }

    /// What a Steady plan of this selection takes off: clusters whose NoExecute taints are not
    /// tolerated, and those of `placedOn` that are closed by a NoSchedule taint.
    pub fn of(select: &[SelectEntry]) -> Clearing {
        let named = select.iter().flat_map(|entry| &entry.placed_on).map(|name| name.as_str().into());
        Clearing { dead: true, drained: BTreeSet::new(), with_copies: false, named: named.collect() }
    }

    /// Whether the workload has to leave the cluster. A copy of a workload that every cluster runs
    /// has no other place, so a closed cluster keeps it.
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
