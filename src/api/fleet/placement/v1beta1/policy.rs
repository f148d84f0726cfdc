//! PlacementPolicy: which clusters are picked.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::meta::LabelSelector;
use crate::resource::schema::mark::Atomic;

/// Which clusters are picked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicy {
    /// How many clusters are picked: all that fit, some of them, or those that are named. Fixed
    /// once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "PickAll")]
    pub placement_type: Option<PlacementType>,
    /// Names of clusters, for `PickFixed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub cluster_names: Vec<String>,
    /// How many clusters, for `PickN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub number_of_clusters: Option<i32>,
    /// What clusters must have, and what is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How evenly the picked clusters are spread, for `PickN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Taints of clusters that are tolerated. More may be added; those that are there stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub tolerations: Vec<Toleration>,
}

/// How many clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PlacementType {
    /// All that fit.
    #[default]
    PickAll,
    /// The best, up to a number.
    PickN,
    /// Those that are named.
    PickFixed,
}

/// What clusters must have, and what is better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// What is asked of the clusters themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// What is asked of clusters when they are picked. What becomes of them later does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// What a cluster must have.
    #[serde(
        default,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<ClusterSelector>,
    /// What makes a cluster better, for `PickN`.
    #[serde(
        default,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredClusterSelector>,
}

/// Clusters that any of the terms selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// One of these must match. None at all asks for nothing.
    #[schema(max_items = 10)]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// Selects clusters: those that all parts admit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelectorTerm {
    /// By their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// By their properties; only what a cluster must have can say this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
    /// Orders them by a property; only a preference can say this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Selects clusters by properties they report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySelector {
    /// Comparisons that must all hold.
    pub match_expressions: Vec<PropertySelectorRequirement>,
}

/// Compares one property with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertySelectorRequirement {
    /// Name of the property;
    /// `resources.kubernetes-fleet.io/{total,allocatable,available}-<resource>` for the room.
    pub name: String,
    /// `Gt`, `Ge`, `Eq`, `Ne`, `Lt` or `Le`.
    pub operator: String,
    /// Exactly one quantity.
    #[schema(max_items = 1)]
    pub values: Vec<String>,
}

/// Orders clusters by a property.
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

/// Makes clusters better, or worse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreferredClusterSelector {
    /// By how much.
    #[schema(minimum = -100, maximum = 100)]
    pub weight: i32,
    /// Which clusters.
    pub preference: ClusterSelectorTerm,
}

/// Bounds how unevenly the picked clusters lie over the values of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// The largest difference between the fullest and the emptiest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, default = 1)]
    pub max_skew: Option<i32>,
    /// Key of the label.
    pub topology_key: String,
    /// What happens to a cluster that would go beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "DoNotSchedule")]
    pub when_unsatisfiable: Option<UnsatisfiableConstraintAction>,
}

/// What happens to a cluster that would go beyond a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum UnsatisfiableConstraintAction {
    /// It is not picked.
    #[default]
    DoNotSchedule,
    /// It is picked last.
    ScheduleAnyway,
}

/// Lets a placement go where a matching taint is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Toleration {
    /// Key of the taint; empty matches all keys and needs the operator `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Exists` for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TolerationOperator>, default = "Equal")]
    pub operator: Option<String>,
    /// Value of the taint, for `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint; absent matches all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TolerationEffect>)]
    pub effect: Option<String>,
}

/// How a toleration's value is compared.
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
