//! The status of both bindings, and their printer columns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::FreeForm;
use crate::api::meta::Condition;
use crate::k8s::Time;
use crate::resource::Column;

/// The printer columns of both bindings.
pub(super) const COLUMNS: &[Column] = &[
    Column {
        name: "Scheduled",
        kind: "string",
        path: r#".status.conditions[?(@.type=="Scheduled")].status"#,
        priority: 0,
        description: "",
    },
    Column {
        name: "FullyApplied",
        kind: "string",
        path: r#".status.conditions[?(@.type=="FullyApplied")].status"#,
        priority: 0,
        description: "",
    },
    Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
];

/// What the scheduler and the member clusters last said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// The generation of the binding that the scheduler last placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_generation: Option<i64>,
    /// The affinity group that the placement comes from. The name on the wire is upstream's.
    #[serde(default, rename = "schedulerObservingAffinityName", skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_affinity_name: Option<String>,
    /// When the scheduler last placed the object with success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// Aspects of its state: `Scheduled`, `FullyApplied`.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What each cluster says of the object.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// What one cluster says of the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// Name of the cluster.
    pub cluster_name: String,
    /// The object's own status there, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FreeForm>,
    /// Whether the object is there in its latest form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_message: Option<String>,
    /// How it fares there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
}

/// How an object fares on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ResourceHealth {
    Healthy,
    Unhealthy,
    Unknown,
}
