//! The status that a member cluster reports: its APIs, its nodes and their free resources.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::Quantity;
use crate::lean::Pairs;
use crate::meta::Condition;
use ballast_k8s::Time;

/// The state of a cluster, as last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Kubernetes version of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// APIs that the cluster serves.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<APIEnablement>,
    /// Conditions of the cluster. `Ready` is one of them.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<ClusterCondition>)]
    pub conditions: Vec<Condition>,
    /// Number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// Resources of all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// Actions that remedies request, for example to stop traffic to the cluster.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

/// A group and version that the cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct APIEnablement {
    /// Group and version, as `group/version`.
    #[schema(default = "")]
    pub group_version: String,
    /// Kinds in this group and version.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<APIResource>,
}

/// A kind that the cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIResource {
    /// Plural name of the kind.
    #[schema(default = "")]
    pub name: String,
    /// Name of the kind.
    #[schema(default = "")]
    pub kind: String,
}

/// The number of nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// Number of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_num: Option<i32>,
    /// Number of nodes that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_num: Option<i32>,
}

/// The resources of a cluster: the sums over its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// Amounts that workloads can use on the nodes.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub allocatable: Pairs<Quantity>,
    /// Requests of pods that are not yet assigned to a node.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub allocating: Pairs<Quantity>,
    /// Requests of pods that are assigned to a node.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub allocated: Pairs<Quantity>,
    /// Number of nodes with free resources, by class.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// The number of nodes in one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllocatableModeling {
    /// Rank of the class.
    #[schema(default = 0)]
    pub grade: i32,
    /// Number of nodes in the class.
    #[schema(default = 0)]
    pub count: i32,
}

/// The schema of a condition of a cluster. Upstream derives it from Go types, which have no bounds.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields are read by the schema only")]
struct ClusterCondition {
    /// Type of the condition.
    #[schema(rename = "type", default = "")]
    type_: String,
    /// `True`, `False` or `Unknown`.
    #[schema(default = "")]
    status: String,
    /// Generation of the cluster that the condition was computed from.
    observed_generation: Option<i64>,
    /// Time at which `status` last changed.
    last_transition_time: Time,
    /// Machine-readable reason for the status, in one word.
    #[schema(default = "")]
    reason: String,
    /// Human-readable reason for the status.
    #[schema(default = "")]
    message: String,
}
