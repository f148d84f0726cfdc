//! What both placements are made of: which resources, which clusters, how, and how it goes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::per_resource::{DiffedResource, DriftedResource, FailedResource, NamespacedName, ResourceIdentifier};
use super::policy::PlacementPolicy;
use super::strategy::RolloutStrategy;
use crate::api::meta::{Condition, LabelSelector};
use crate::resource::schema::mark::{Atomic, MapList};

/// Which resources go to which clusters, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// Which resources.
    #[schema(min_items = 1, max_items = 100)]
    pub resource_selectors: Vec<ResourceSelectorTerm>,
    /// Which clusters; absent is all. It can be changed, not taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// How.
    #[serde(default, skip_serializing_if = "crate::api::is_default")]
    pub strategy: RolloutStrategy,
    /// How many old snapshots are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000, default = 10)]
    pub revision_history_limit: Option<i32>,
    /// Who can see the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "ClusterScopeOnly")]
    pub status_reporting_scope: Option<StatusReportingScope>,
}

/// Selects resources by kind, and by name or labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelectorTerm {
    /// API group; empty is the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name. Not together with `labelSelector`; without both all resources of the kind are
    /// selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// For a namespace: whether what is in it comes along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "NamespaceWithResources")]
    pub selection_scope: Option<SelectionScope>,
}

/// Whether what is in a namespace comes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum SelectionScope {
    /// It stays.
    NamespaceOnly,
    /// All of it comes along.
    NamespaceWithResources,
    /// What the other selectors select comes along.
    NamespaceWithResourceSelectors,
}

/// Who can see the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum StatusReportingScope {
    /// Those who can see the placement.
    ClusterScopeOnly,
    /// Those who can see the namespace, too.
    NamespaceAccessible,
}

/// How a placement goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The resources that are selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_resources: Vec<ResourceIdentifier>,
    /// Index of the resource snapshot that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_resource_index: Option<String>,
    /// How it goes on each picked cluster; entries without a name stand for clusters that could not
    /// be found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_statuses: Vec<PerClusterPlacementStatus>,
    /// Aspects of its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
}

/// How a placement goes on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerClusterPlacementStatus {
    /// Name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Overrides of resources that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applicable_resource_overrides: Vec<NamespacedName>,
    /// Names of cluster-wide overrides that apply.
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
    /// Resources that differ from what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub diffed_placements: Vec<DiffedResource>,
    /// Aspects of its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Index of the resource snapshot that is there or on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_resource_index: Option<String>,
}
