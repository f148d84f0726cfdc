//! The spec and status of both placements.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::per_resource::{DiffedResource, DriftedResource, FailedResource, NamespacedName, ResourceIdentifier};
use super::policy::PlacementPolicy;
use super::strategy::RolloutStrategy;
use crate::meta::{Condition, LabelSelector};
use ballast_resource::SqlColumn;
use ballast_resource::schema::mark::{Atomic, MapList};

/// The printer columns of a placement. The types of its conditions begin with its kind.
macro_rules! columns {
    (column $name:literal, $kind:literal, $path:expr, $priority:literal, $description:literal) => {
        Column { name: $name, kind: $kind, path: $path, priority: $priority, description: $description }
    };
    (condition $name:literal, $of:literal, $type:literal, $member:literal, $priority:literal) => {
        columns!(
            column $name, "string",
            concat!(".status.conditions[?(@.type==\"", $of, $type, "\")].", $member), $priority, ""
        )
    };
    ($of:literal) => {
        &[
            columns!(column "Gen", "string", ".metadata.generation", 0, ""),
            columns!(column "Type", "string", ".spec.policy.placementType", 1, "How clusters are picked."),
            columns!(condition "Scheduled", $of, "Scheduled", "status", 0),
            columns!(condition "Scheduled-Gen", $of, "Scheduled", "observedGeneration", 0),
            columns!(condition "Work-Synchronized", $of, "WorkSynchronized", "status", 1),
            columns!(condition "Work-Synchronized-Gen", $of, "WorkSynchronized", "observedGeneration", 1),
            columns!(condition "Available", $of, "Available", "status", 0),
            columns!(condition "Available-Gen", $of, "Available", "observedGeneration", 0),
            columns!(column "Age", "date", ".metadata.creationTimestamp", 0, ""),
        ]
    };
}
pub(super) use columns;

/// Returns the SQL columns. `condition` is the type of the condition that reports whether clusters
/// are picked.
pub(super) const fn sql_columns(condition: &'static str) -> [SqlColumn; 3] {
    [
        SqlColumn::field("policy", &["spec", "policy", "placementType"]),
        SqlColumn::field("wanted", &["spec", "policy", "numberOfClusters"]),
        SqlColumn::condition("scheduled", condition),
    ]
}

/// The resources of a placement, their clusters, and the rollout strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// Selects the resources.
    #[schema(min_items = 1, max_items = 100)]
    pub resource_selectors: Vec<ResourceSelectorTerm>,
    /// Selects the clusters. Absent: all clusters. It can be changed, but not removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// Strategy of the rollout.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub strategy: RolloutStrategy,
    /// Number of old snapshots that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000, default = 10)]
    pub revision_history_limit: Option<i32>,
    /// Users that can read the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "ClusterScopeOnly")]
    pub status_reporting_scope: Option<StatusReportingScope>,
}

/// Selects resources by kind, and by name or labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelectorTerm {
    /// API group. Empty: the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name of the resource. Must not be combined with `labelSelector`. If neither is set, all
    /// resources of the kind are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// For a namespace: the resources that are selected with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "NamespaceWithResources")]
    pub selection_scope: Option<SelectionScope>,
}

/// The resources of a namespace that are selected with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum SelectionScope {
    /// None of its resources.
    NamespaceOnly,
    /// All of its resources.
    NamespaceWithResources,
    /// Resources that the other selectors select.
    NamespaceWithResourceSelectors,
}

/// The users that can read the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum StatusReportingScope {
    /// Users that can read the placement.
    ClusterScopeOnly,
    /// Users that can read the namespace as well.
    NamespaceAccessible,
}

/// The progress of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// Selected resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_resources: Vec<ResourceIdentifier>,
    /// Index of the resource snapshot that the conditions belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_resource_index: Option<String>,
    /// Progress on each picked cluster. Entries without a name stand for clusters that could not be
    /// found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_statuses: Vec<PerClusterPlacementStatus>,
    /// Conditions of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
}

/// The progress of a placement on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerClusterPlacementStatus {
    /// Name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Resource overrides that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applicable_resource_overrides: Vec<NamespacedName>,
    /// Names of the cluster-wide overrides that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applicable_cluster_resource_overrides: Vec<String>,
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
    /// Conditions on this cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Index of the resource snapshot that is applied, or is being applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_resource_index: Option<String>,
}
