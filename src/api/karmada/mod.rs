//! The Karmada family, as Karmada serves it: every field upstream has, under the same name and with
//! the same bounds, and the few that the seed documents add (each says so). Paths read like the
//! group, version and resource.

pub mod apps;
pub mod cluster;
pub mod policy;
pub mod task;
pub mod work;

use crate::resource::ResourceKind;

/// The family's kinds, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![
        ResourceKind::of::<apps::v1alpha1::WorkloadRebalancer>(),
        ResourceKind::of::<cluster::v1alpha1::Cluster>(),
        ResourceKind::of::<policy::v1alpha1::ClusterPropagationPolicy>(),
        ResourceKind::of::<policy::v1alpha1::PropagationPolicy>(),
        ResourceKind::of::<task::v1alpha1::RescheduleTask>(),
        ResourceKind::of::<work::v1alpha2::ClusterResourceBinding>(),
        ResourceKind::of::<work::v1alpha2::ResourceBinding>(),
    ]
}
