//! The group `multicluster.x-k8s.io`: the inventory of clusters and the placement decisions, as
//! SIG-Multicluster defines them (IV1). They serve programs that know neither Karmada nor
//! KubeFleet.

pub mod v1alpha1;

use ballast_resource::ResourceKind;

/// Returns the kinds of this group, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![ResourceKind::of::<v1alpha1::ClusterProfile>(), ResourceKind::of::<v1alpha1::PlacementDecision>()]
}
