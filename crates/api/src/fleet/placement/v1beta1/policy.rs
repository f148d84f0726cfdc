//! PlacementPolicy: selects the clusters of a placement.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::LabelSelector;
use ballast_resource::schema::mark::Atomic;

/// Selects the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicy {
    /// Whether all fitting clusters are picked, a number of them, or named ones. It cannot be
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "PickAll")]
    pub placement_type: Option<PlacementType>,
    /// Names of clusters, for `PickFixed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub cluster_names: Vec<String>,
    /// The number of clusters, for `PickN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub number_of_clusters: Option<i32>,
    /// Requirements on clusters, and preferences among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How the picked clusters are spread, for `PickN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Taints of clusters that are tolerated. Tolerations can be added, but not changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub tolerations: Vec<Toleration>,
}

/// Which clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PlacementType {
    /// All clusters that fit.
    #[default]
    PickAll,
    /// The best clusters, up to a number.
    PickN,
    /// The named clusters.
    PickFixed,
}

/// Requirements on clusters, and preferences among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Requirements on the clusters themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// Requirements at the time when a cluster is picked. Later changes of the cluster do not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// What a cluster must fulfil.
    #[serde(
        default,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<ClusterSelector>,
    /// What makes a cluster preferred, for `PickN`.
    #[serde(
        default,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredClusterSelector>,
}

/// Selects the clusters that match any of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// A cluster must match one of these terms. Empty: nothing is required.
    #[schema(max_items = 10)]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// Selects the clusters for which all fields hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelectorTerm {
    /// Selects by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// Selects by properties. Only for requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
    /// Sorts by a property. Only for preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Selects clusters by the properties that they report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySelector {
    /// Comparisons. All of them must hold.
    pub match_expressions: Vec<PropertySelectorRequirement>,
}

/// Compares one property with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertySelectorRequirement {
    /// Name of the property. Resources are named
    /// `resources.kubernetes-fleet.io/{total,allocatable,available}-<resource>`.
    pub name: String,
    /// `Gt`, `Ge`, `Eq`, `Ne`, `Lt` or `Le`.
    pub operator: String,
    /// Exactly one quantity.
    #[schema(max_items = 1)]
    pub values: Vec<String>,
}

/// Sorts clusters by a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySorter {
    /// Name of the property.
    pub name: String,
    /// Which end is best.
    #[schema(value_type = PropertySortOrder)]
    pub sort_order: String,
}

/// Which end of an order is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PropertySortOrder {
    /// The smallest value.
    Ascending,
    /// The largest value.
    Descending,
}

/// Prefers some clusters, or avoids them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreferredClusterSelector {
    /// The weight. Negative weights avoid clusters.
    #[schema(minimum = -100, maximum = 100)]
    pub weight: i32,
    /// Selects the clusters.
    pub preference: ClusterSelectorTerm,
}

/// Bounds how unevenly the picked clusters are spread over the values of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// The largest allowed difference between the fullest and the emptiest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, default = 1)]
    pub max_skew: Option<i32>,
    /// Key of the label.
    pub topology_key: String,
    /// What happens to a cluster that would exceed the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "DoNotSchedule")]
    pub when_unsatisfiable: Option<UnsatisfiableConstraintAction>,
}

/// What happens to a cluster that would exceed the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum UnsatisfiableConstraintAction {
    /// It is not picked.
    #[default]
    DoNotSchedule,
    /// It is picked last.
    ScheduleAnyway,
}

/// Lets a placement use clusters with a matching taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Toleration {
    /// Key of the taint. Empty matches all keys, and requires the operator `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Exists` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TolerationOperator>, default = "Equal")]
    pub operator: Option<String>,
    /// Value of the taint, for `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint. Absent matches all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TolerationEffect>)]
    pub effect: Option<String>,
}

/// How the value of a toleration is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum TolerationOperator {
    Equal,
    Exists,
}

/// Effects that can be tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum TolerationEffect {
    NoSchedule,
}
