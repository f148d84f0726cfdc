//! Filters: the reasons why a cluster is not a candidate, in the order in which they are reported.
//!
//! Each filter has two functions. `keep` narrows a whole set of clusters, and `reason` returns why
//! one cluster is rejected. They agree: `keep` keeps a cluster exactly if `reason` has no
//! objection.

use super::affinity::Affinity;
use super::cluster::Cluster;
use super::cluster_set::{ClusterIndex, ClusterSet};
use super::placement::{AffinityTerm, Placement, SpreadBy};
use super::profile::Profile;
use super::request::{Mode, Request};
use super::workloads::Workloads;
use crate::bits::Bits;
use ballast_k8s::taint::Effect;

/// The inputs of one attempt to schedule one binding.
#[derive(Clone, Copy)]
pub(super) struct AttemptContext<'a> {
    pub fleet: &'a ClusterSet,
    pub workloads: &'a Workloads,
    pub profile: &'a Profile,
    pub request: &'a Request,
    pub placement: &'a Placement,
    /// The affinity group that is tried.
    pub term: Option<&'a AffinityTerm>,
    pub mode: Mode,
}

pub(super) struct Filter {
    pub name: &'static str,
    /// Whether the filter reads only the placement and the kind of the resource. Then bindings can
    /// share its result.
    pub shared: bool,
    /// Whether the filter keeps clusters that the workload runs on already. They get no more
    /// replicas.
    pub spares_targets: bool,
    pub keep: fn(&AttemptContext<'_>, &mut Bits),
    pub reason: fn(&AttemptContext<'_>, &Cluster) -> Option<String>,
}

pub(super) const FILTERS: &[Filter] = &[
    Filter {
        name: "APIEnablement",
        shared: true,
        spares_targets: true,
        keep: keep_enabled,
        reason: |context, cluster| {
            let resource = &context.request.resource;
            let serves = |api: &(Box<str>, Box<str>)| api.0 == resource.api_version && api.1 == resource.kind;
            (!cluster.apis.iter().any(serves)).then(|| "cluster(s) did not have the API resource".into())
        },
    },
    Filter {
        name: "TaintToleration",
        shared: true,
        spares_targets: true,
        keep: keep_tolerated,
        reason: |context, cluster| {
            let taint = untolerated(context.placement, cluster)?;
            Some(format!("cluster(s) had untolerated taint {{{taint}}}"))
        },
    },
    Filter {
        name: "ClusterAffinity",
        shared: true,
        spares_targets: false,
        keep: keep_selected,
        reason: |context, cluster| {
            let (affinity, overflow) = context.affinity()?;
            let selected = affinity.matches(cluster) || overflow.iter().any(|tier| tier.matches(cluster));
            (!selected).then(|| "cluster(s) did not match the placement cluster affinity constraint".into())
        },
    },
    Filter {
        name: "SpreadConstraint",
        shared: true,
        spares_targets: false,
        keep: keep_spreadable,
        reason: |context, cluster| {
            let missing = |by: &SpreadBy| match by {
                SpreadBy::Provider if cluster.provider.is_empty() => Some("provider property".to_owned()),
                SpreadBy::Region if cluster.region.is_empty() => Some("region property".to_owned()),
                SpreadBy::Zone if cluster.zones.iter().all(|zone| zone.is_empty()) => Some("zones property".to_owned()),
                SpreadBy::Label(key) if context.profile.deviates() && cluster.label(key).is_none() => {
                    Some(format!("label {key}"))
                }
                _ => None,
            };
            let places = PLACES.iter().filter(|by| context.placement.spread_by(by).is_some());
            let labels = context.placement.spread.iter().map(|spread| &spread.by);
            let missing = places.chain(labels).find_map(missing);
            missing.map(|what| format!("cluster(s) did not have {what}"))
        },
    },
    Filter {
        name: "ClusterEviction",
        shared: false,
        spares_targets: false,
        keep: |context, kept| {
            context
                .request
                .evicting
                .iter()
                .filter_map(|name| context.fleet.index_of(name))
                .for_each(|index| kept.remove(index));
        },
        reason: |context, cluster| {
            let evicting = context.request.evicting.iter().any(|name| **name == *cluster.name);
            evicting.then(|| "cluster(s) is in the process of eviction".into())
        },
    },
    Filter {
        name: "TolerationSeconds",
        shared: false,
        spares_targets: true,
        keep: |context, kept| {
            let outstayed = &context.request.outstayed;
            outstayed.iter().filter_map(|name| context.fleet.index_of(name)).for_each(|index| kept.remove(index));
        },
        reason: |context, cluster| {
            let is_over = context.request.outstayed.iter().any(|name| **name == *cluster.name);
            is_over.then(|| "cluster(s) had a taint whose toleration has run out".into())
        },
    },
    Filter {
        name: "WorkloadAffinity",
        shared: false,
        spares_targets: true,
        keep: |context, kept| {
            if context.profile.workload_affinity {
                context.workloads.keep_together(context.request, context.fleet, kept);
            }
        },
        reason: |context, cluster| {
            let apart =
                context.profile.workload_affinity && !context.workloads.are_together(context.request, &cluster.name);
            apart.then(|| "ResourceBinding with the same affinity group does not target this cluster".into())
        },
    },
    Filter {
        name: "WorkloadAntiAffinity",
        shared: false,
        spares_targets: true,
        keep: |context, kept| {
            if context.profile.workload_affinity {
                context.workloads.keep_apart(context.request, context.fleet, kept);
            }
        },
        reason: |context, cluster| {
            let together =
                context.profile.workload_affinity && !context.workloads.are_apart(context.request, &cluster.name);
            together.then(|| "cluster already has workload with the same anti-affinity group".into())
        },
    },
];

impl<'a> AttemptContext<'a> {
    /// Returns the affinity of this attempt and its overflow tiers. If the placement has both an
    /// affinity and groups, the affinity applies.
    pub fn affinity(&self) -> Option<(&'a Affinity, &'a [Affinity])> {
        let (affinity, overflow): (_, &[Affinity]) = match (&self.placement.affinity, self.term) {
            (Some(affinity), _) => (affinity, &[]),
            (None, Some(term)) => (&term.affinity, &term.overflow),
            (None, None) => return None,
        };
        Some((affinity, if self.request.is_workload() { overflow } else { &[] }))
    }

    /// Returns whether filters may spare the clusters that the workload runs on.
    ///
    /// Differs from Karmada (D1): a Fresh pass ignores the current clusters, so it spares none.
    pub fn remembers_targets(&self) -> bool {
        self.mode == Mode::Steady || !self.profile.deviates()
    }

    /// Returns the first filter that rejects the cluster for the workload, and its reason.
    pub fn reason(&self, cluster: &Cluster) -> Option<(&'static str, String)> {
        let is_target = || self.request.targets.iter().any(|target| target.name == cluster.name);
        let counts = |filter: &Filter| !filter.spares_targets || !self.remembers_targets() || !is_target();
        self.first_objection(cluster, counts)
    }

    /// Returns the first filter that objects to the cluster, whether or not the workload runs
    /// there.
    pub fn objection(&self, cluster: &Cluster) -> Option<(&'static str, String)> {
        self.first_objection(cluster, |_| true)
    }

    fn first_objection(&self, cluster: &Cluster, counts: impl Fn(&Filter) -> bool) -> Option<(&'static str, String)> {
        let objection = |filter: &Filter| Some((filter.name, (filter.reason)(self, cluster)?));
        FILTERS.iter().find_map(|filter| objection(filter).filter(|_| counts(filter)))
    }
}

fn keep_enabled(context: &AttemptContext<'_>, kept: &mut Bits) {
    let resource = &context.request.resource;
    let kinds = context.fleet.attributes().apis.get(&resource.api_version);
    match kinds.and_then(|kinds| kinds.get(&resource.kind)) {
        Some(indexes) => kept.intersect_with(indexes),
        None => kept.clear(),
    }
}

fn keep_tolerated(context: &AttemptContext<'_>, kept: &mut Bits) {
    let refuses = |index: &ClusterIndex| untolerated(context.placement, context.fleet.cluster(*index)).is_some();
    let mut tainted = context.fleet.attributes().tainted.clone();
    tainted.intersect_with(kept);
    tainted.iter().filter(refuses).for_each(|index| kept.remove(index));
}

fn untolerated<'c>(placement: &Placement, cluster: &'c Cluster) -> Option<&'c ballast_k8s::Taint> {
    cluster.taints.iter().find(|taint| {
        matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute)
            && !placement.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

fn keep_selected(context: &AttemptContext<'_>, kept: &mut Bits) {
    let Some((affinity, overflow)) = context.affinity() else { return };
    let mut selected = affinity.select(context.fleet);
    overflow.iter().for_each(|tier| selected.union_with(&tier.select(context.fleet)));
    kept.intersect_with(&selected);
}

fn keep_spreadable(context: &AttemptContext<'_>, kept: &mut Bits) {
    let attributes = context.fleet.attributes();
    for spread in &context.placement.spread {
        match &spread.by {
            SpreadBy::Provider => kept.intersect_with(&attributes.providers.any),
            SpreadBy::Region => kept.intersect_with(&attributes.regions.any),
            SpreadBy::Zone => kept.intersect_with(&attributes.zones.any),
            // Differs from Karmada (D10), which does not spread by label.
            SpreadBy::Label(key) if context.profile.deviates() => match attributes.labels.get(key) {
                Some(values) => kept.intersect_with(&values.any),
                None => kept.clear(),
            },
            SpreadBy::Cluster | SpreadBy::Label(_) => {}
        }
    }
}

/// The fields that clusters are spread by, in reporting order.
const PLACES: &[SpreadBy] = &[SpreadBy::Provider, SpreadBy::Region, SpreadBy::Zone];
