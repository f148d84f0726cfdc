//! `cluster.karmada.io/v1alpha1`

mod cluster;
mod cluster_rules;
mod cluster_status;

pub use cluster::{Cluster, ClusterSpec, LocalSecretReference, ResourceModel, ResourceModelRange};
pub use cluster_status::{
    APIEnablement, APIResource, AllocatableModeling, ClusterStatus, NodeSummary, ResourceSummary,
};
