//! Which workloads want no replicas: they stay where they are, with nothing. Without a place, one
//! goes where one replica would. `--enable-empty-workload-propagation` gives upstream's way.

use super::candidate::Candidate;
use super::cluster_set::ClusterSet;
use super::placement::{Division, Placement};
use super::profile::Profile;
use super::request::{Request, Target};

/// Kinds of objects that have replicas, with their API group.
const KINDS: &[(&str, &str)] = &[
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
    ("", "ReplicationController"),
    ("apps.kruise.io", "CloneSet"),
    ("apps.kruise.io", "StatefulSet"),
    ("argoproj.io", "Rollout"),
];

/// Whether the request is for a divided workload that wants no replicas, and not for an object that
/// has none.
pub(super) fn is_asked(request: &Request, placement: &Placement, profile: &Profile) -> bool {
    let is_divided = matches!(placement.division, Division::Static(_) | Division::Dynamic | Division::Aggregated);
    profile.deviates()
        && !profile.empty_workloads
        && request.replicas <= 0
        && request.components.is_empty()
        && is_divided
        && has_replicas(request)
}

/// Upstream's way with empty workloads: each selected cluster without replicas is a target, too.
pub(super) fn attach(targets: &mut Vec<Target>, selected: &[Candidate], fleet: &ClusterSet) {
    let known = targets.len();
    for candidate in selected {
        let name = &fleet.cluster(candidate.index()).name;
        if targets[..known].iter().all(|target| target.name != *name) {
            targets.push(Target { name: name.clone(), replicas: 0, components: Vec::new() });
        }
    }
    targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
}

/// Whether the object is of a kind that has replicas: by its kind, its requests, or the replicas
/// that it had.
fn has_replicas(request: &Request) -> bool {
    let group = request.resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    request.requirements.is_some()
        || request.targets.iter().any(|target| target.replicas > 0)
        || KINDS.contains(&(group, &request.resource.kind))
}
