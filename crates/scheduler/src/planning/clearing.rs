//! Which clusters a plan takes replicas off, whatever else it leaves alone (RM33). Pure.
//!
//! A Steady plan moves what has to leave, and nothing else. A Steady pass of the scheduler spares
//! the clusters that a workload runs on, because evictions take workloads off them. A plan does not
//! wait for evictions: it decides as if the workload had left these clusters, and must not return.

use std::collections::BTreeSet;
use std::sync::Arc;

use ballast_api::ballast::v1alpha1::SelectEntry;
use ballast_engine::karmada::{Cluster, Division, Request};
use ballast_k8s::taint::Effect;

/// The clusters that a plan takes replicas off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clearing {
    /// Those that the selection names in `placedOn`. They are left where a NoSchedule taint is not
    /// tolerated: nothing would be placed there today.
    named: BTreeSet<Arc<str>>,
}

impl Clearing {
    /// What a Steady plan of this selection takes off: clusters whose NoExecute taints are not
    /// tolerated, and those of `placedOn` that are closed by a NoSchedule taint.
    pub fn of(select: &[SelectEntry]) -> Clearing {
        let named = select.iter().flat_map(|entry| &entry.placed_on).map(|name| name.as_str().into());
        Clearing { named: named.collect() }
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
        is_untolerated(Effect::NoExecute) || (is_divided && is_closed())
    }
}
