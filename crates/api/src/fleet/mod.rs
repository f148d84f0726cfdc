//! The kinds of the KubeFleet family.
//!
//! Karmada has kinds of the same names (`ResourceBinding`, `ClusterResourceBinding`). The module
//! path distinguishes them.

pub mod cluster;
pub mod placement;

use crate::meta::Condition;
use ballast_resource::schema::mark::Keyed;
use ballast_resource::{ResourceKind, Scope};

/// Upstream's Go packages of the versions that are served in addition to the stored one.
const CLUSTER_V1: &str = "com.github.kubefleet-dev.kubefleet.apis.cluster.v1";
const PLACEMENT_V1: &str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1";

/// Returns the kinds of this family, in the order of discovery. As upstream, `v1beta1` is stored,
/// and the cluster-scoped kinds are also served as `v1`.
///
/// Differs from KubeFleet (D38): both versions have all fields. Upstream's `v1` lacks the newest
/// ones.
pub fn rows() -> Vec<ResourceKind> {
    let beta = vec![
        ResourceKind::of::<cluster::v1beta1::MemberCluster>(),
        ResourceKind::of::<placement::v1beta1::ClusterResourceBinding>(),
        ResourceKind::of::<placement::v1beta1::ClusterResourcePlacement>(),
        ResourceKind::of::<placement::v1beta1::ClusterResourceSnapshot>(),
        ResourceKind::of::<placement::v1beta1::ClusterSchedulingPolicySnapshot>(),
        ResourceKind::of::<placement::v1beta1::ResourceBinding>(),
        ResourceKind::of::<placement::v1beta1::ResourcePlacement>(),
        ResourceKind::of::<placement::v1beta1::ResourceSnapshot>(),
        ResourceKind::of::<placement::v1beta1::SchedulingPolicySnapshot>(),
    ];
    let stable: Vec<ResourceKind> = beta
        .iter()
        .filter(|row| row.scope == Scope::Cluster)
        .map(|row| row.served_as("v1", if row.group.starts_with("cluster.") { CLUSTER_V1 } else { PLACEMENT_V1 }))
        .collect();
    beta.into_iter().chain(stable).collect()
}

/// KubeFleet's kinds have one condition of each type, keyed by type. Karmada's conditions are plain
/// lists.
impl Keyed for Condition {
    const KEYS: &'static [&'static str] = &["type"];
}
