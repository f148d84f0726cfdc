//! The spec and status of both bindings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::PLACEMENT_COLUMN;
use super::per_resource::{DiffedResource, DriftedResource, FailedResource, NamespacedName};
use super::policy_snapshot::ClusterDecision;
use super::strategy::ApplyStrategy;
use crate::meta::Condition;
use ballast_resource::schema::mark::MapList;
use ballast_resource::{Column, SqlColumn};

/// The printer columns of both bindings.
pub(super) const COLUMNS: &[Column] = &[
    Column {
        name: "WorkSynchronized",
        kind: "string",
        path: r#".status.conditions[?(@.type=="WorkSynchronized")].status"#,
        priority: 0,
        description: "",
    },
    Column {
        name: "ResourcesApplied",
        kind: "string",
        path: r#".status.conditions[?(@.type=="Applied")].status"#,
        priority: 0,
        description: "",
    },
    Column {
        name: "ResourceAvailable",
        kind: "string",
        path: r#".status.conditions[?(@.type=="Available")].status"#,
        priority: 1,
        description: "",
    },
    Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
];

pub(super) const SQL_COLUMNS: &[SqlColumn] = &[
    PLACEMENT_COLUMN,
    SqlColumn::field("cluster", &["spec", "targetCluster"]),
    SqlColumn::field("state", &["spec", "state"]),
    SqlColumn::field("policy_snapshot", &["spec", "schedulingPolicySnapshotName"]),
    SqlColumn::condition("available", "Available"),
];

/// The cluster of a binding, its resources, and the state of its rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// State of the binding.
    #[schema(value_type = String)]
    pub state: BindingState,
    /// Name of the resource snapshot for the cluster. Empty until the rollout begins.
    pub resource_snapshot_name: String,
    /// Snapshots of the resource overrides that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// Names of the snapshots of the cluster-wide overrides that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// Name of the policy snapshot that picked the cluster.
    pub scheduling_policy_snapshot_name: String,
    /// Name of the cluster.
    pub target_cluster: String,
    /// Reason for picking the cluster.
    pub cluster_decision: ClusterDecision,
    /// Way of applying the resources on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}

/// The state of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingState {
    /// The cluster is picked, and the rollout has not begun.
    #[default]
    Scheduled,
    /// The rollout has begun.
    Bound,
    /// The cluster is no longer picked, and the resources wait for their removal.
    Unscheduled,
    /// A value that the schema allows and that is unknown.
    #[serde(untagged)]
    Other(String),
}

/// The state of the resources on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// Conditions of the binding: `RolloutStarted`, `Overridden`, `WorkSynchronized`, `Applied`,
    /// `Available`, `DiffReported`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// Resources that could not be applied or are not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub failed_placements: Vec<FailedResource>,
    /// Resources that were changed on the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub drifted_placements: Vec<DriftedResource>,
    /// Resources that differ from those on the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub diffed_placements: Vec<DiffedResource>,
}
