//! The changes that a review assumes, such as a lost cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::{Quantity, Taint};
use crate::lean::Pairs;

/// Assumed differences from the present state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suppose {
    /// Clusters that are assumed to be gone, changed or new.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub clusters: Vec<SupposedCluster>,
    /// Workloads that are assumed to have other numbers of replicas.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10000)]
    pub workloads: Vec<SupposedWorkload>,
}

/// A cluster that is assumed to be gone, changed or new. Absent fields keep their present values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SupposedCluster {
    /// Name of the cluster.
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    /// Whether the cluster is gone. No other field may be given with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<bool>,
    /// Name of the cluster of which this new cluster is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 253)]
    pub like: Option<String>,
    /// Taints that replace those of the cluster. An empty list: no taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub taints: Option<Vec<Taint>>,
    /// Labels that are added to those of the cluster. They replace labels with the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Pairs<String>>)]
    pub labels: Option<Pairs<String>>,
    /// Total amounts of resources. They replace the cluster's amounts of the same resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Pairs<Quantity>>)]
    pub allocatable: Option<Pairs<Quantity>>,
}

/// A workload that is assumed to have another number of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupposedWorkload {
    /// API version of the workload. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 317)]
    pub api_version: Option<String>,
    /// Kind of the workload.
    #[schema(min_length = 1, max_length = 63)]
    pub kind: String,
    /// Namespace of the workload. Absent for cluster-scoped workloads. A LocalPlacementReview uses
    /// its own namespace if absent, and accepts no other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 63)]
    pub namespace: Option<String>,
    /// Name of the workload.
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    /// The assumed number of replicas.
    #[schema(minimum = 0)]
    pub replicas: i32,
}
