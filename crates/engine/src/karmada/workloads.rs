//! The groups of workload affinity and anti-affinity: their members, and the clusters of each
//! member.
//!
//! Only namespaced bindings are in groups, and a group belongs to one namespace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::cluster_set::ClusterSet;
use super::request::{Request, Target, WorkloadGroups};
use crate::bits::Bits;

/// The groups of all bindings. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Workloads {
    affinity: Arc<Groups>,
    anti_affinity: Arc<Groups>,
}

/// The members of each group by namespace and group name, then by binding name. The value contains
/// the clusters of the member.
type Groups = HashMap<(Box<str>, Box<str>), BTreeMap<Box<str>, Vec<Arc<str>>>>;

impl Workloads {
    /// Records the placement of a binding. `was` contains its groups before the update.
    pub fn upsert(
        &mut self,
        namespace: &str,
        name: &str,
        was: &WorkloadGroups,
        groups: &WorkloadGroups,
        targets: &[Target],
    ) {
        self.remove(namespace, name, was);
        if namespace.is_empty() {
            return;
        }
        let clusters: Vec<Arc<str>> = targets.iter().map(|target| Arc::clone(&target.name)).collect();
        for (all, group) in [(&mut self.affinity, &groups.affinity), (&mut self.anti_affinity, &groups.anti_affinity)] {
            if !group.is_empty() {
                let members = Arc::make_mut(all).entry((namespace.into(), group.clone())).or_default();
                members.insert(name.into(), clusters.clone());
            }
        }
    }

    pub fn remove(&mut self, namespace: &str, name: &str, was: &WorkloadGroups) {
        for (all, group) in [(&mut self.affinity, &was.affinity), (&mut self.anti_affinity, &was.anti_affinity)] {
            let key = (namespace.into(), group.clone());
            if all.get(&key).is_some_and(|members| members.contains_key(name)) {
                let all = Arc::make_mut(all);
                let members = all.get_mut(&key).expect("just seen");
                members.remove(name);
                if members.is_empty() {
                    all.remove(&key);
                }
            }
        }
    }

    pub(super) fn record(&mut self, request: &Request, targets: &[Target]) {
        if !request.groups.affinity.is_empty() || !request.groups.anti_affinity.is_empty() {
            self.upsert(&request.namespace, &request.name, &request.groups, &request.groups, targets);
        }
    }

    /// Keeps only the clusters that every other placed member of the affinity group is on. The
    /// first member may go to any cluster.
    pub(super) fn keep_together(&self, request: &Request, fleet: &ClusterSet, kept: &mut Bits) {
        for clusters in self.affinity_members(request) {
            let there: Bits = clusters.iter().filter_map(|name| fleet.index_of(name)).collect();
            kept.intersect_with(&there);
        }
    }

    pub(super) fn are_together(&self, request: &Request, cluster: &str) -> bool {
        self.affinity_members(request).all(|clusters| clusters.iter().any(|name| **name == *cluster))
    }

    /// Keeps only the clusters that no other member of the anti-affinity group is on.
    pub(super) fn keep_apart(&self, request: &Request, fleet: &ClusterSet, kept: &mut Bits) {
        for clusters in self.anti_affinity_members(request) {
            clusters.iter().filter_map(|name| fleet.index_of(name)).for_each(|index| kept.remove(index));
        }
    }

    pub(super) fn are_apart(&self, request: &Request, cluster: &str) -> bool {
        !self.anti_affinity_members(request).any(|clusters| clusters.iter().any(|name| **name == *cluster))
    }

    fn affinity_members<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Vec<Arc<str>>> {
        others(&self.affinity, request, &request.groups.affinity).filter(|clusters| !clusters.is_empty())
    }

    fn anti_affinity_members<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Vec<Arc<str>>> {
        others(&self.anti_affinity, request, &request.groups.anti_affinity)
    }
}

fn others<'a>(all: &'a Groups, request: &'a Request, group: &'a str) -> impl Iterator<Item = &'a Vec<Arc<str>>> {
    let members = match group {
        "" => None,
        group => all.get(&(request.namespace.clone(), group.into())),
    };
    members.into_iter().flatten().filter(|(name, _)| **name != request.name).map(|(_, clusters)| clusters)
}
