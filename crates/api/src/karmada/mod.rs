//! The kinds of the Karmada family.
//!
//! All fields of upstream are present, with the same names and bounds. Fields that upstream does
//! not have are documented as such. Module paths are named after group and version.

pub mod apps;
pub mod cluster;
pub mod policy;
pub mod task;
pub mod work;

use ballast_resource::ResourceKind;

/// Returns the kinds of this family, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![
        ResourceKind::of::<apps::v1alpha1::WorkloadRebalancer>(),
        ResourceKind::of::<cluster::v1alpha1::Cluster>(),
        ResourceKind::of::<policy::v1alpha1::ClusterOverridePolicy>(),
        ResourceKind::of::<policy::v1alpha1::ClusterPropagationPolicy>(),
        ResourceKind::of::<policy::v1alpha1::ClusterTaintPolicy>(),
        ResourceKind::of::<policy::v1alpha1::FederatedResourceQuota>(),
        ResourceKind::of::<policy::v1alpha1::OverridePolicy>(),
        ResourceKind::of::<policy::v1alpha1::PropagationPolicy>(),
        ResourceKind::of::<task::v1alpha1::RescheduleTask>(),
        ResourceKind::of::<work::v1alpha2::ClusterResourceBinding>(),
        ResourceKind::of::<work::v1alpha2::ResourceBinding>(),
    ]
}
