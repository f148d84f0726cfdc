//! The status that the agents of a member cluster report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::Quantity;
use crate::meta::Condition;
use ballast_k8s::Time;
use ballast_resource::schema::mark::MapList;

/// The status that the agents of a cluster last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// Conditions of the membership: `ReadyToJoin`, `Joined`, `NamespaceCollectionSucceeded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// Properties that the cluster reports, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, PropertyValue>,
    /// Resources of the cluster.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub resource_usage: ResourceUsage,
    /// State of the agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_status: Vec<AgentStatus>,
    /// Namespaces on the cluster, each with the placement that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeMap<String, String>>,
}

/// A property that a cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyValue {
    /// Value of the property. It must be a quantity to be compared or sorted.
    pub value: String,
    /// Time at which the value was observed.
    pub observation_time: Time,
}

/// The resources of a cluster, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// Capacity of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Part of the capacity that workloads can use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Part of the capacity that is free.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub available: BTreeMap<String, Quantity>,
    /// Time at which the values were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Time>,
}

/// The state of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Type of the agent: `MemberAgent`, `MultiClusterServiceAgent` or `ServiceExportImportAgent`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Conditions of the agent: `Joined`, `Healthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// Time at which the last heartbeat was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_received_heartbeat: Option<Time>,
}
