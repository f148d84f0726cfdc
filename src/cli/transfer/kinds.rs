//! The imported and exported kinds: all that are stored, except events.

use std::sync::Arc;

use ballast_api as api;
use ballast_api::multicluster::v1alpha1::ClusterProfile;
use ballast_k8s::GroupResource;
use ballast_resource::{Kinds, Lifetime, ResourceKind};

/// Clusters come first, so a partially written log has no binding on a missing cluster.
const FIRST: &str = "cluster.karmada.io";

/// A kind with all served versions, the stored one first.
pub struct Versions(Vec<Arc<ResourceKind>>);

impl Versions {
    pub fn stored(&self) -> &ResourceKind {
        &self.0[0]
    }

    pub fn all(&self) -> &[Arc<ResourceKind>] {
        &self.0
    }

    pub fn resource(&self) -> GroupResource {
        self.stored().resource
    }
}

/// Returns the kinds in the order in which they are read and written. Events are excluded, because
/// they only record the past, and the core group of a source contains unrelated events.
pub fn transferred(kinds: &Kinds) -> Vec<Versions> {
    let is_transferred = |row: &&Arc<ResourceKind>| row.lifetime == Lifetime::Stored && !row.group.is_empty();
    let stored = kinds.rows().iter().filter(is_transferred).filter(|row| row.is_stored_version());
    let mut all: Vec<Versions> = stored
        .map(|row| {
            let others = kinds.rows().iter().filter(|it| it.resource == row.resource && !it.is_stored_version());
            Versions(std::iter::once(row).chain(others).cloned().collect())
        })
        .collect();
    all.sort_by_key(|kind| kind.stored().group != FIRST);
    all
}

/// Returns ClusterProfiles, from which an import can create Clusters.
pub fn profiles() -> Versions {
    Versions(vec![Arc::new(ResourceKind::of::<ClusterProfile>())])
}

/// Returns the kinds of a standalone server. A log that serves behind a host cluster has no others.
pub fn all() -> (Kinds, Vec<Versions>) {
    let kinds = api::standalone_kinds();
    let transferred = transferred(&kinds);
    (kinds, transferred)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_goes_along_once_and_clusters_go_first() {
        let (_, kinds) = all();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.resource().resource()).collect();
        assert_eq!(names[0], "clusters");
        for name in ["resourcebindings", "federatedresourcequotas", "workloadrebalancers", "memberclusters"] {
            assert!(names.contains(&name), "{name} is not among {names:?}");
        }
        assert!(!names.contains(&"events") && !names.contains(&"rescheduletasks"), "{names:?}");
        let mut distinct: Vec<GroupResource> = kinds.iter().map(Versions::resource).collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), kinds.len());
        let placements = kinds.iter().find(|kind| kind.stored().kind == "ClusterResourcePlacement").unwrap();
        let versions: Vec<&str> = placements.all().iter().map(|row| row.version).collect();
        assert_eq!(versions, ["v1beta1", "v1"]);
    }
}
