//! The group `multicluster.x-k8s.io`: the inventory of clusters and the decisions about them, as
//! SIG-Multicluster defines them (IV1). Programs that know neither Karmada nor Fleet read them.

pub mod v1alpha1;

use ballast_resource::ResourceKind;

/// The kinds of this group, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![ResourceKind::of::<v1alpha1::ClusterProfile>(), ResourceKind::of::<v1alpha1::PlacementDecision>()]
}
