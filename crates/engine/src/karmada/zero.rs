//! Workloads of zero replicas: they keep their clusters, with zero replicas. A workload without
//! targets goes where one replica would. `--enable-empty-workload-propagation` enables upstream's
//! behaviour.

use super::candidate::Candidate;
use super::cluster_set::ClusterSet;
use super::placement::{Division, Placement};
use super::profile::Profile;
use super::request::{Request, Target};

/// The kinds of objects that have replicas, with their API group.
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

/// Returns whether the request is for a divided workload that requests zero replicas, and not for
/// an object without replicas.
pub(super) fn is_asked(request: &Request, placement: &Placement, profile: &Profile) -> bool {
    let is_divided = matches!(placement.division, Division::Static(_) | Division::Dynamic | Division::Aggregated);
    profile.deviates()
        && !profile.empty_workloads
        && request.replicas <= 0
        && request.components.is_empty()
        && is_divided
        && has_replicas(request)
}

/// Adds each selected cluster without replicas as a target, as upstream does for empty workloads.
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

/// Returns whether the object has replicas, according to its kind, its resource requests, or its
/// current replicas.
fn has_replicas(request: &Request) -> bool {
    let group = request.resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    request.requirements.is_some()
        || request.targets.iter().any(|target| target.replicas > 0)
        || KINDS.contains(&(group, &request.resource.kind))
}
