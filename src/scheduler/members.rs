//! The fleet that passes decide on, kept in step with the clusters of a view.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{CLUSTERS, lower};
use crate::api::core::Taint;
use crate::api::karmada::cluster::v1alpha1::{Cluster, is_no_execute};
use crate::engine::karmada::{Difference, Fleet};
use crate::k8s::Revision;
use crate::watch::View;

#[derive(Default)]
pub struct Members {
    pub fleet: Fleet,
    /// The clusters with NoExecute taints, and their taints: the fleet does not know since when they are.
    pub hostile: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    /// The revision at which each cluster of the fleet was read.
    known: BTreeMap<Arc<str>, Revision>,
}

/// What became of the fleet since it was last looked at.
#[derive(Default)]
pub struct Moved {
    /// Clusters that came, went, or changed what may go there.
    pub traits: Vec<Arc<str>>,
    /// Some cluster has more or less room, or other traits: what found no place may find one.
    pub any: bool,
}

impl Moved {
    fn note(&mut self, name: &Arc<str>, difference: Difference) {
        self.any |= !difference.is_none();
        if difference.presence || difference.traits {
            self.traits.push(Arc::clone(name));
        }
    }
}

impl Members {
    /// Brings the fleet to the state of a view. Costs little where no cluster has changed.
    pub fn sync(&mut self, view: &View) -> Moved {
        let mut moved = Moved::default();
        let mut there = HashSet::new();
        for object in view.list(CLUSTERS, None) {
            let name = &object.key.name;
            there.insert(name);
            if self.known.get(name) == Some(&object.revision) {
                continue;
            }
            self.known.insert(Arc::clone(name), object.revision);
            match object.typed::<Cluster>() {
                Ok(cluster) => self.take_in(name, &cluster, &mut moved),
                // The last state that could be read stands.
                Err(error) => tracing::warn!(%error, "cannot be read as a Cluster"),
            }
        }
        let gone: Vec<Arc<str>> = self.known.keys().filter(|name| !there.contains(name)).cloned().collect();
        for name in gone {
            self.known.remove(&name);
            self.note_taints(&name, &[]);
            moved.note(&name, self.fleet.remove(&name));
        }
        moved
    }

    fn take_in(&mut self, name: &Arc<str>, cluster: &Cluster, moved: &mut Moved) {
        self.note_taints(name, &cluster.spec.taints);
        let (cluster, faults) = lower::karmada::cluster(cluster);
        for fault in faults {
            tracing::warn!(cluster = %name, %fault, "left out of the cluster");
        }
        moved.note(name, self.fleet.upsert(cluster));
    }

    fn note_taints(&mut self, name: &Arc<str>, taints: &[Taint]) {
        let hostile: Vec<Taint> = taints.iter().filter(|taint| is_no_execute(taint)).cloned().collect();
        if self.hostile.get(name).map_or(&[][..], Vec::as_slice) == hostile {
            return;
        }
        let all = Arc::make_mut(&mut self.hostile);
        match hostile.is_empty() {
            true => all.remove(name),
            false => all.insert(Arc::clone(name), hostile),
        };
    }
}
