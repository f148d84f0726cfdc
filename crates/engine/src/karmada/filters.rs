//! Filters: the reasons why a cluster is not a candidate, in the order in which they are reported.
//!
//! Each filter has two functions. `keep` narrows a whole set of clusters, and `reason` says why one
//! cluster is out. They agree: `keep` keeps a cluster exactly if `reason` has no objection.

use super::affinity::Affinity;
use super::cluster::Cluster;
use super::cluster_set::{ClusterSet, Slot};
use super::placement::{By, Placement, Term};
use super::profile::Profile;
use super::request::{Mode, Request};
use super::workloads::Workloads;
use crate::bits::Bits;
use ballast_k8s::taint::Effect;

/// One attempt to place one binding.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub fleet: &'a ClusterSet,
    pub workloads: &'a Workloads,
    pub profile: &'a Profile,
    pub request: &'a Request,
    pub placement: &'a Placement,
    /// The affinity group that is tried.
    pub term: Option<&'a Term>,
    pub mode: Mode,
}

pub(super) struct Filter {
    pub name: &'static str,
    /// Whether the filter reads only the placement and the kind of the resource. Then bindings can
    /// share its answer.
    pub shared: bool,
    /// Whether the filter keeps clusters that the workload runs on already.
    pub spares_targets: bool,
    pub keep: fn(&Case<'_>, &mut Bits),
    pub reason: fn(&Case<'_>, &Cluster) -> Option<String>,
}

pub(super) const FILTERS: &[Filter] = &[
    Filter {
        name: "APIEnablement",
        shared: true,
        spares_targets: true,
        keep: keep_enabled,
        reason: |case, cluster| {
            let resource = &case.request.resource;
            let serves = |api: &(Box<str>, Box<str>)| api.0 == resource.api_version && api.1 == resource.kind;
            (!cluster.apis.iter().any(serves)).then(|| "cluster(s) did not have the API resource".into())
        },
    },
    Filter {
        name: "TaintToleration",
        shared: true,
        spares_targets: true,
        keep: keep_tolerated,
        reason: |case, cluster| {
            let taint = untolerated(case.placement, cluster)?;
            Some(format!("cluster(s) had untolerated taint {{{taint}}}"))
        },
    },
    Filter {
        name: "ClusterAffinity",
        shared: true,
        spares_targets: false,
        keep: keep_selected,
        reason: |case, cluster| {
            let (affinity, overflow) = case.affinity()?;
            let selected = affinity.matches(cluster) || overflow.iter().any(|tier| tier.matches(cluster));
            (!selected).then(|| "cluster(s) did not match the placement cluster affinity constraint".into())
        },
    },
    Filter {
        name: "SpreadConstraint",
        shared: true,
        spares_targets: false,
        keep: keep_spreadable,
        reason: |case, cluster| {
            let missing = |by: &By| match by {
                By::Provider if cluster.provider.is_empty() => Some("provider property".to_owned()),
                By::Region if cluster.region.is_empty() => Some("region property".to_owned()),
                By::Zone if cluster.zones.iter().all(|zone| zone.is_empty()) => Some("zones property".to_owned()),
                By::Label(key) if case.profile.deviates() && cluster.label(key).is_none() => {
                    Some(format!("label {key}"))
                }
                _ => None,
            };
            let places = PLACES.iter().filter(|by| case.placement.spread_by(by).is_some());
            let labels = case.placement.spread.iter().map(|spread| &spread.by);
            let missing = places.chain(labels).find_map(missing);
            missing.map(|what| format!("cluster(s) did not have {what}"))
        },
    },
    Filter {
        name: "ClusterEviction",
        shared: false,
        spares_targets: false,
        keep: |case, kept| {
            case.request.evicting.iter().filter_map(|name| case.fleet.slot(name)).for_each(|slot| kept.remove(slot));
        },
        reason: |case, cluster| {
            let evicting = case.request.evicting.iter().any(|name| **name == *cluster.name);
            evicting.then(|| "cluster(s) is in the process of eviction".into())
        },
    },
    Filter {
        name: "WorkloadAffinity",
        shared: false,
        spares_targets: true,
        keep: |case, kept| {
            if case.profile.workload_affinity {
                case.workloads.keep_together(case.request, case.fleet, kept);
            }
        },
        reason: |case, cluster| {
            let apart = case.profile.workload_affinity && !case.workloads.are_together(case.request, &cluster.name);
            apart.then(|| "ResourceBinding with the same affinity group does not target this cluster".into())
        },
    },
    Filter {
        name: "WorkloadAntiAffinity",
        shared: false,
        spares_targets: true,
        keep: |case, kept| {
            if case.profile.workload_affinity {
                case.workloads.keep_apart(case.request, case.fleet, kept);
            }
        },
        reason: |case, cluster| {
            let together = case.profile.workload_affinity && !case.workloads.are_apart(case.request, &cluster.name);
            together.then(|| "cluster already has workload with the same anti-affinity group".into())
        },
    },
];

impl<'a> Case<'a> {
    /// The affinity of this attempt and its overflow tiers. If the placement has both an affinity
    /// and groups, the affinity counts.
    pub fn affinity(&self) -> Option<(&'a Affinity, &'a [Affinity])> {
        let (affinity, overflow): (_, &[Affinity]) = match (&self.placement.affinity, self.term) {
            (Some(affinity), _) => (affinity, &[]),
            (None, Some(term)) => (&term.affinity, &term.overflow),
            (None, None) => return None,
        };
        Some((affinity, if self.request.is_workload() { overflow } else { &[] }))
    }

    /// Whether filters may spare the clusters that the workload runs on.
    ///
    /// Differs from Karmada (D1): a Fresh pass ignores where the workload runs, so it spares no
    /// cluster.
    pub fn remembers_targets(&self) -> bool {
        self.mode == Mode::Steady || !self.profile.deviates()
    }

    /// The first filter that objects to the cluster, and its reason.
    pub fn reason(&self, cluster: &Cluster) -> Option<(&'static str, String)> {
        let is_target = || self.request.targets.iter().any(|target| target.name == cluster.name);
        FILTERS.iter().find_map(|filter| {
            let reason = (filter.reason)(self, cluster)?;
            let spared = filter.spares_targets && self.remembers_targets() && is_target();
            (!spared).then_some((filter.name, reason))
        })
    }
}

fn keep_enabled(case: &Case<'_>, kept: &mut Bits) {
    let resource = &case.request.resource;
    let kinds = case.fleet.traits().apis.get(&resource.api_version);
    match kinds.and_then(|kinds| kinds.get(&resource.kind)) {
        Some(slots) => kept.intersect_with(slots),
        None => kept.clear(),
    }
}

fn keep_tolerated(case: &Case<'_>, kept: &mut Bits) {
    let refuses = |slot: &Slot| untolerated(case.placement, case.fleet.cluster(*slot)).is_some();
    let mut tainted = case.fleet.traits().tainted.clone();
    tainted.intersect_with(kept);
    tainted.iter().filter(refuses).for_each(|slot| kept.remove(slot));
}

fn untolerated<'c>(placement: &Placement, cluster: &'c Cluster) -> Option<&'c ballast_k8s::Taint> {
    cluster.taints.iter().find(|taint| {
        matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute)
            && !placement.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

fn keep_selected(case: &Case<'_>, kept: &mut Bits) {
    let Some((affinity, overflow)) = case.affinity() else { return };
    let mut selected = affinity.select(case.fleet);
    overflow.iter().for_each(|tier| selected.union_with(&tier.select(case.fleet)));
    kept.intersect_with(&selected);
}

fn keep_spreadable(case: &Case<'_>, kept: &mut Bits) {
    let traits = case.fleet.traits();
    for spread in &case.placement.spread {
        match &spread.by {
            By::Provider => kept.intersect_with(&traits.providers.any),
            By::Region => kept.intersect_with(&traits.regions.any),
            By::Zone => kept.intersect_with(&traits.zones.any),
            // Differs from Karmada (D10), which does not spread by label.
            By::Label(key) if case.profile.deviates() => match traits.labels.get(key) {
                Some(values) => kept.intersect_with(&values.any),
                None => kept.clear(),
            },
            By::Cluster | By::Label(_) => {}
        }
    }
}

/// The fields that clusters are spread by, in reporting order.
const PLACES: &[By] = &[By::Provider, By::Region, By::Zone];
