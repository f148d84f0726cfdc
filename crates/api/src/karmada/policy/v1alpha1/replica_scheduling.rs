//! How replicas are divided among the chosen clusters: the strategies of upstream, and those that
//! the proposal "Specify replicas to schedule" adds (R140-R152).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::placement::ClusterAffinity;
use crate::lean::Pairs;

/// A strategy name for `extendReplicaDivisionPreference`: the listed clusters share all replicas of
/// the workload, and every difference is shared evenly (R136, R137).
pub const REGIONS: &str = "Regions";

/// How replicas are divided among the chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSchedulingStrategy {
    /// Whether each cluster gets all replicas, or the clusters share them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Divided")]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// How clusters share the replicas, for `Divided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// The weights, for `Weighted`. Without them all clusters weigh the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<WeightPreference>,
    /// The numbers of replicas, for `Specified`. Without them all clusters weigh the same. Not a
    /// field of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specify_preference: Option<Box<ClusterPreferences>>,
    /// Name of a strategy. This scheduler serves `SpecifiedClusters`, `SpecifiedRegions` and
    /// `Regions`. Other names are for a custom scheduler. Not a field of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_replica_division_preference: Option<Box<str>>,
    /// The input of the strategy that `extendReplicaDivisionPreference` names. Not a field of
    /// upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_cluster_preferences: Option<Box<ExtendClusterPreferences>>,
    /// What happens if not all replicas fit, where replicas are divided by dynamic weight or as
    /// `Aggregated`. Absent: `DoNotSchedule`. Not a field of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenReplicasUnsatisfiable>,
    /// How many replicas a cluster has that gets any, where replicas are divided by dynamic weight
    /// or as `Aggregated`. If several entries select a cluster, all of them hold. Not a field of
    /// upstream.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_bounds: Vec<ClusterBounds>,
}

/// What happens if not all replicas fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WhenReplicasUnsatisfiable {
    /// No replica is placed until all fit.
    DoNotSchedule,
    /// As many as fit are placed, and the others when there is room. Nothing that is placed is
    /// taken back for it.
    ScheduleWhatFits,
}

/// Bounds the replicas of each cluster that one selector selects and that gets any (S7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBounds {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// The least number of replicas of each of these clusters that gets any. Absent: no minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub min_replicas: Option<i64>,
    /// The largest number of replicas of each of these clusters. Absent: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_replicas: Option<i64>,
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
    /// On as few clusters as have enough capacity.
    Aggregated,
    /// In proportion to weights.
    Weighted,
    /// By the numbers that the user gives. Not a value of upstream.
    Specified,
}

/// The weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightPreference {
    /// Fixed weights.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// A dynamic weight, used instead of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
}

/// The weight of the clusters that one selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// The weight of each of these clusters.
    #[schema(minimum = 1)]
    pub weight: i64,
}

/// The source of a dynamic weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum DynamicWeightFactor {
    /// The number of replicas that the cluster has capacity for.
    AvailableReplicas,
}

/// Numbers of replicas that the user gives (R141, R143).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Numbers for groups of clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_specify_list: Vec<StaticClusterSpecified>,
}

/// The number of replicas for the clusters that one selector selects (R144, R145).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterSpecified {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// The total of replicas on these clusters.
    #[schema(minimum = 0)]
    pub replicas: i64,
}

/// The input of an extended strategy (R151).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendClusterPreferences {
    /// Numbers for groups of clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub extend_static_list: Vec<ExtendStaticCluster>,
}

/// Numbers for the clusters that one selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendStaticCluster {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// The numbers, by the names that the strategy defines. `replicas` is a total. `Regions` may
    /// leave it out, and then uses the replicas of the workload.
    pub extend_fields: Pairs<i64>,
}
