//! How replicas are divided among the chosen clusters: upstream's strategies, and those that the
//! proposal "Specify replicas to schedule" adds (R140-R152).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::placement::ClusterAffinity;
use crate::api::lean::Pairs;

/// How replicas are divided among the chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSchedulingStrategy {
    /// Whether each cluster gets all replicas, or all clusters share them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Divided")]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// How they are shared, when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// The weights, for `Weighted`. Without them all clusters weigh the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<WeightPreference>,
    /// The numbers, for `Specified`. Without them all clusters weigh the same. An addition to
    /// upstream's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specify_preference: Option<Box<ClusterPreferences>>,
    /// Name of a strategy that a scheduler of the user's own knows. An addition to upstream's
    /// fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_replica_division_preference: Option<Box<str>>,
    /// What that strategy works with. An addition to upstream's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_cluster_preferences: Option<Box<ExtendClusterPreferences>>,
}

/// Whether clusters share the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ReplicaSchedulingType {
    /// Each cluster gets all replicas.
    Duplicated,
    /// The clusters share the replicas.
    Divided,
}

/// How clusters share the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ReplicaDivisionPreference {
    /// Among as few clusters as have the room.
    Aggregated,
    /// In proportion to weights.
    Weighted,
    /// By numbers that the user gives. An addition to upstream's values.
    Specified,
}

/// The weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightPreference {
    /// Fixed weights.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// What the weights are taken from, instead of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
}

/// The weight of the clusters that one selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// The clusters.
    pub target_cluster: ClusterAffinity,
    /// The weight of each of them.
    #[schema(minimum = 1)]
    pub weight: i64,
}

/// What a cluster's weight is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum DynamicWeightFactor {
    /// The number of replicas that it has room for.
    AvailableReplicas,
}

/// Numbers of replicas that the user gives (R141, R143).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Fixed numbers.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_specify_list: Vec<StaticClusterSpecified>,
}

/// The number of replicas that the clusters which one selector selects have together (R144, R145).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterSpecified {
    /// The clusters.
    pub target_cluster: ClusterAffinity,
    /// The replicas on all of them together.
    #[schema(minimum = 0)]
    pub replicas: i64,
}

/// What a strategy of the user's own works with (R151).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendClusterPreferences {
    /// One entry for each selector.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub extend_static_list: Vec<ExtendStaticCluster>,
}

/// Numbers for the clusters that one selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendStaticCluster {
    /// The clusters.
    pub target_cluster: ClusterAffinity,
    /// The numbers, by the names that the strategy gives them.
    pub extend_fields: Pairs<i64>,
}
