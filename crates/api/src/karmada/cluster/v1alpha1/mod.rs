//! `cluster.karmada.io/v1alpha1`

mod cluster;
mod cluster_rules;
mod cluster_status;
mod stay;

pub use cluster::{Cluster, ClusterSpec, LocalSecretReference, ResourceModel, ResourceModelRange};
pub(crate) use cluster_rules::name_faults as cluster_name_faults;
pub use cluster_status::{
    APIEnablement, APIResource, AllocatableModeling, ClusterStatus, NodeSummary, ResourceSummary,
};
pub use stay::{Stay, is_no_execute, is_undated};

/// Key of the taint that closes a cluster to new workloads, as `karmadactl cordon` sets it.
pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";

/// Key of the taints of a cluster that reports that it is not ready.
pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
/// Key of the taints of a cluster in an unknown state.
pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
