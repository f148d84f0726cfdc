//! `cluster.kubernetes-fleet.io/v1beta1`

mod member_cluster;
mod member_cluster_status;

pub use member_cluster::{DeleteOptions, DeleteValidationMode, Identity, MemberCluster, MemberClusterSpec, Taint};
pub use member_cluster_status::{AgentStatus, MemberClusterStatus, PropertyValue, ResourceUsage};
