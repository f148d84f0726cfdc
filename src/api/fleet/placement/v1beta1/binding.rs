//! What both bindings are made of.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::per_resource::{DiffedResource, DriftedResource, FailedResource, NamespacedName};
use super::policy_snapshot::ClusterDecision;
use super::strategy::ApplyStrategy;
use crate::api::meta::Condition;
use crate::resource::Column;
use crate::resource::schema::mark::MapList;

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

/// Which resources go to which cluster, and how far that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// How far the binding is.
    #[schema(value_type = String)]
    pub state: BindingState,
    /// Name of the snapshot with the resources that go there; empty until the rollout begins.
    pub resource_snapshot_name: String,
    /// Snapshots of resource overrides that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// Names of snapshots of cluster-wide overrides that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// Name of the policy snapshot that picked the cluster.
    pub scheduling_policy_snapshot_name: String,
    /// Name of the cluster.
    pub target_cluster: String,
    /// Why the cluster was picked.
    pub cluster_decision: ClusterDecision,
    /// How the resources are applied there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}

/// How far a binding is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingState {
    /// The cluster is picked; the rollout has not begun.
    #[default]
    Scheduled,
    /// The rollout has begun.
    Bound,
    /// The cluster is no longer picked; the resources wait for their removal.
    Unscheduled,
    /// What the schema lets through and nobody knows.
    #[serde(untagged)]
    Other(String),
}

/// How the resources fare on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// Aspects of its state: `RolloutStarted`, `Overridden`, `WorkSynchronized`, `Applied`,
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
    /// Resources that differ from what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub diffed_placements: Vec<DiffedResource>,
}
