//! What a member cluster reports: the APIs it has, its nodes, the room on them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::core::Quantity;
use crate::api::lean::Pairs;
use crate::api::meta::Condition;
use crate::k8s::Time;

/// How the cluster is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Kubernetes version of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The APIs that the cluster serves.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<APIEnablement>,
    /// Aspects of its state, `Ready` among them.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<ClusterCondition>)]
    pub conditions: Vec<Condition>,
    /// Its nodes, counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// The room on its nodes, summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// What remedies ask for, for example that traffic stays away.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

/// One group and version that the cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct APIEnablement {
    /// `group/version`
    #[schema(default = "")]
    pub group_version: String,
    /// The kinds in it.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<APIResource>,
}

/// One kind that the cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct APIResource {
    /// Its plural name.
    #[schema(default = "")]
    pub name: String,
    /// The kind.
    #[schema(default = "")]
    pub kind: String,
}

/// The nodes of a cluster, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// All nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_num: Option<i32>,
    /// Those that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_num: Option<i32>,
}

/// The room in a cluster, summed up over its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// What the nodes have for workloads.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub allocatable: Pairs<Quantity>,
    /// What is asked for by pods that wait for a node.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub allocating: Pairs<Quantity>,
    /// What is asked for by pods that have a node.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub allocated: Pairs<Quantity>,
    /// The nodes that still have room, counted by class.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// How many nodes of one class there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllocatableModeling {
    /// Rank of the class.
    #[schema(default = 0)]
    pub grade: i32,
    /// Nodes in the class.
    #[schema(default = 0)]
    pub count: i32,
}

/// The schema of a cluster's condition: upstream serves clusters from Go types, which bound
/// nothing.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields are read by the schema only")]
struct ClusterCondition {
    /// Which aspect.
    #[schema(rename = "type", default = "")]
    type_: String,
    /// `True`, `False` or `Unknown`.
    #[schema(default = "")]
    status: String,
    /// The generation of the cluster that the condition speaks of.
    observed_generation: Option<i64>,
    /// When `status` last changed.
    last_transition_time: Time,
    /// Why, as one word for programs.
    #[schema(default = "")]
    reason: String,
    /// Why, in words for people.
    #[schema(default = "")]
    message: String,
}
