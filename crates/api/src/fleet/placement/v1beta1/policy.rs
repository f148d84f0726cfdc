//! PlacementPolicy: selects the clusters of a placement.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::LabelSelector;
use ballast_resource::schema::mark::Atomic;

/// Selects the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicy {
    /// Type of the placement: all fitting clusters, a number of them, or named ones. It cannot be
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "PickAll")]
    pub placement_type: Option<PlacementType>,
    /// Names of clusters, for `PickFixed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub cluster_names: Vec<String>,
    /// Number of clusters, for `PickN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub number_of_clusters: Option<i32>,
    /// Requirements on clusters, and preferences among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Spread of the picked clusters, for `PickN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Taints of clusters that are tolerated. Tolerations can be added, but not changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub tolerations: Vec<Toleration>,
}

/// The type of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PlacementType {
    /// All clusters that fit are picked.
    #[default]
    PickAll,
    /// The best clusters are picked, up to a number.
    PickN,
    /// The named clusters are picked.
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
    /// Requirements that a cluster must satisfy.
    #[serde(
        default,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<ClusterSelector>,
    /// Preferences among clusters, for `PickN`.
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
    /// Terms of which a cluster must match at least one. Empty: nothing is required.
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

/// A comparison of one property with one value.
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
    /// Order in which values are better.
    #[schema(value_type = PropertySortOrder)]
    pub sort_order: String,
}

/// The order in which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PropertySortOrder {
    /// Smaller values are better.
    Ascending,
    /// Larger values are better.
    Descending,
}

/// A preference for some clusters, or against them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreferredClusterSelector {
    /// Weight of the preference. Clusters with a negative weight are avoided.
    #[schema(minimum = -100, maximum = 100)]
    pub weight: i32,
    /// Selects the clusters.
    pub preference: ClusterSelectorTerm,
}

/// A bound on the unevenness of the spread of the picked clusters over the values of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// Maximum difference between the numbers of picked clusters of any two values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, default = 1)]
    pub max_skew: Option<i32>,
    /// Key of the label.
    pub topology_key: String,
    /// Behavior for a cluster that would exceed the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "DoNotSchedule")]
    pub when_unsatisfiable: Option<UnsatisfiableConstraintAction>,
}

/// The behavior for a cluster that would exceed the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum UnsatisfiableConstraintAction {
    /// The cluster is not picked.
    #[default]
    DoNotSchedule,
    /// The cluster is picked last.
    ScheduleAnyway,
}

/// A toleration, which lets a placement use clusters with a matching taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Toleration {
    /// Key of the taint. Empty matches all keys, and requires the operator `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal`, or `Exists` for any value.
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

/// The comparison of the value of a toleration.
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
