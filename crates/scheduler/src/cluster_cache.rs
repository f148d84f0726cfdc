//! The set of clusters that passes decide on, kept in step with the Cluster objects of a view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use super::convert;
use ballast_api::core::Taint;
use ballast_api::karmada::cluster::v1alpha1::{Cluster, is_no_execute};
use ballast_engine::karmada::ClusterSet;
use ballast_k8s::{GroupResource, Object, Quantity, Revision};
use ballast_watch::View;

pub const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

#[derive(Default)]
pub struct ClusterCache {
    pub fleet: ClusterSet,
    /// The taints of the clusters that have NoExecute taints. `ClusterSet` does not contain the
    /// time at which a taint was added.
    pub no_execute: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    /// The clusters with a false Ready condition. A cluster without the condition is not included.
    pub unready: Arc<BTreeSet<Arc<str>>>,
    pub summaries: OrdMap<Arc<str>, Summary>,
    known: SeenRevisions,
}

/// Amounts that a cluster's summary counts as allocated, sorted by resource name.
pub type Allocated = Arc<[(Box<str>, Quantity)]>;

/// The resource summary of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub allocated: Allocated,
    /// The version of the Cluster object. Later versions of bindings may contain newer reports than
    /// the summary.
    pub revision: Revision,
}

impl Summary {
    /// Returns the number of allocated pods.
    pub fn pods(&self) -> i64 {
        let pods = self.allocated.iter().find(|(name, _)| **name == *"pods");
        pods.map_or(0, |(_, amount)| amount.units()).max(0)
    }
}

/// The revision at which each cluster of one API family was read.
#[derive(Default)]
pub struct SeenRevisions(BTreeMap<Arc<str>, Revision>);

impl SeenRevisions {
    /// Updates this to the state of a view. Returns the clusters that changed, and the names of the
    /// deleted ones.
    pub fn sync<'a>(&mut self, view: &'a View, clusters: GroupResource) -> (Vec<&'a Arc<Object>>, Vec<Arc<str>>) {
        let mut changed = Vec::new();
        let mut gone = Vec::new();
        // Both are sorted by name.
        let mut known = self.0.iter().peekable();
        for object in view.list(clusters, None) {
            let name = &object.key.name;
            while let Some((other, _)) = known.next_if(|(other, _)| *other < name) {
                gone.push(Arc::clone(other));
            }
            match known.next_if(|(other, _)| *other == name) {
                Some((_, revision)) if *revision == object.revision => {}
                _ => changed.push(object),
            }
        }
        gone.extend(known.map(|(name, _)| Arc::clone(name)));
        self.0.extend(changed.iter().map(|object| (Arc::clone(&object.key.name), object.revision)));
        for name in &gone {
            self.0.remove(name);
        }
        (changed, gone)
    }
}

impl ClusterCache {
    /// Updates the set to the state of a view, and returns the names of the changed clusters. Cheap
    /// if no cluster has changed.
    pub fn sync(&mut self, view: &View) -> BTreeSet<Arc<str>> {
        let (changed, gone) = self.known.sync(view, CLUSTERS);
        let names = changed.iter().map(|object| &object.key.name).chain(&gone).cloned().collect();
        for object in changed {
            match object.typed::<Cluster>() {
                Ok(cluster) => self.take_in(&object.key.name, &cluster, object.revision),
                // The last valid state stays in use.
                Err(error) => tracing::warn!(%error, "cannot be read as a Cluster"),
            }
        }
        for name in gone {
            self.note_taints(&name, &[]);
            self.note_ready(&name, true);
            self.summaries.remove(&name);
            self.fleet.remove(&name);
        }
        names
    }

    fn take_in(&mut self, name: &Arc<str>, cluster: &Cluster, revision: Revision) {
        self.note_taints(name, &cluster.spec.taints);
        let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        self.note_ready(name, ready.is_none_or(|ready| ready.status == "True"));
        let allocated = convert::karmada::allocated(cluster).into();
        self.summaries.insert(Arc::clone(name), Summary { allocated, revision });
        let (cluster, faults) = convert::karmada::cluster(cluster);
        for fault in faults {
            tracing::warn!(cluster = %name, %fault, "left out of the cluster");
        }
        self.fleet.upsert(cluster);
    }

    fn note_ready(&mut self, name: &Arc<str>, ready: bool) {
        if self.unready.contains(name) != ready {
            return;
        }
        let unready = Arc::make_mut(&mut self.unready);
        if ready {
            unready.remove(name)
        } else {
            unready.insert(Arc::clone(name))
        };
    }

    fn note_taints(&mut self, name: &Arc<str>, taints: &[Taint]) {
        let no_execute: Vec<Taint> = taints.iter().filter(|taint| is_no_execute(taint)).cloned().collect();
        if self.no_execute.get(name).map_or(&[][..], Vec::as_slice) == no_execute {
            return;
        }
        let all = Arc::make_mut(&mut self.no_execute);
        match no_execute.is_empty() {
            true => all.remove(name),
            false => all.insert(Arc::clone(name), no_execute),
        };
    }
}
