//! What the agents of a member cluster report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::core::Quantity;
use crate::api::meta::Condition;
use crate::k8s::Time;
use crate::resource::schema::mark::MapList;

/// What the agents of the cluster last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// Aspects of its membership: `ReadyToJoin`, `Joined`, `NamespaceCollectionSucceeded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// What the cluster says about itself, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, PropertyValue>,
    /// The room in the cluster.
    #[serde(default, skip_serializing_if = "crate::api::is_default")]
    pub resource_usage: ResourceUsage,
    /// How the agents are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_status: Vec<AgentStatus>,
    /// The namespaces on the cluster, each with the placement that put it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeMap<String, String>>,
}

/// One value that a cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyValue {
    /// The value. Comparisons and orders need a quantity.
    pub value: String,
    /// When it was seen.
    pub observation_time: Time,
}

/// The room in a cluster, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// What its nodes have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What of that is for workloads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What of that is free.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub available: BTreeMap<String, Quantity>,
    /// When it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Time>,
}

/// How one agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// `MemberAgent`, `MultiClusterServiceAgent` or `ServiceExportImportAgent`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Aspects of its state: `Joined`, `Healthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// When it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_received_heartbeat: Option<Time>,
}
