//! Kinds of the Fleet family. Names that Karmada has too (`ResourceBinding`, `ClusterResourceBinding`) are told apart
//! by this module's.

pub mod cluster;
pub mod placement;

use crate::api::meta::Condition;
use crate::resource::ResourceKind;
use crate::resource::schema::mark::Keyed;

/// The family's kinds, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![
        ResourceKind::of::<cluster::v1beta1::MemberCluster>(),
        ResourceKind::of::<placement::v1beta1::ClusterResourceBinding>(),
        ResourceKind::of::<placement::v1beta1::ClusterResourcePlacement>(),
        ResourceKind::of::<placement::v1beta1::ClusterResourceSnapshot>(),
        ResourceKind::of::<placement::v1beta1::ClusterSchedulingPolicySnapshot>(),
        ResourceKind::of::<placement::v1beta1::ResourceBinding>(),
        ResourceKind::of::<placement::v1beta1::ResourcePlacement>(),
        ResourceKind::of::<placement::v1beta1::ResourceSnapshot>(),
        ResourceKind::of::<placement::v1beta1::SchedulingPolicySnapshot>(),
    ]
}

/// Fleet's kinds keep one condition of each type; Karmada's lists of conditions are plain.
impl Keyed for Condition {
    const KEYS: &'static [&'static str] = &["type"];
}
