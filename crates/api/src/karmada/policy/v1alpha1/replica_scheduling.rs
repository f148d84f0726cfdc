//! The division of replicas among the selected clusters: the strategies of upstream, and the
//! strategies that the proposal "Specify replicas to schedule" adds (R140-R152).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::placement::ClusterAffinity;
use crate::lean::Pairs;

/// Name of a strategy in `extendReplicaDivisionPreference`: the listed clusters share all replicas
/// of the workload, and every change of their number is divided evenly (R136, R137).
pub const REGIONS: &str = "Regions";

/// The division of replicas among the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSchedulingStrategy {
    /// Whether each cluster gets all replicas, or the clusters share them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Divided")]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// Way of dividing the replicas, for `Divided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// Weights of clusters, for `Weighted`. Absent: all clusters have the same weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<WeightPreference>,
    /// Numbers of replicas, for `Specified`. Absent: all clusters have the same weight. Not a field
    /// of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specify_preference: Option<Box<ClusterPreferences>>,
    /// Name of a strategy. This scheduler serves `SpecifiedClusters`, `SpecifiedRegions` and
    /// `Regions`. Other names are for a custom scheduler. Not a field of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_replica_division_preference: Option<Box<str>>,
    /// Input of the strategy that `extendReplicaDivisionPreference` names. Not a field of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_cluster_preferences: Option<Box<ExtendClusterPreferences>>,
    /// Behavior if not all replicas fit, where replicas are divided by dynamic weight or as
    /// `Aggregated`. Absent: `DoNotSchedule`. Not a field of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenReplicasUnsatisfiable>,
    /// Bounds on the number of replicas of each cluster that gets any, where replicas are divided
    /// by dynamic weight or as `Aggregated`. If several entries select a cluster, all of them
    /// apply. Not a field of upstream.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_bounds: Vec<ClusterBounds>,
}

/// The behavior if not all replicas fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WhenReplicasUnsatisfiable {
    /// No replica is placed until all fit.
    DoNotSchedule,
    /// As many replicas as fit are placed, and the others when capacity becomes free. No placed
    /// replica is removed for that.
    ScheduleWhatFits,
}

/// Bounds on the number of replicas of each cluster that the selector selects and that gets any
/// (S7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBounds {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// Minimum number of replicas of each of these clusters that gets any. Absent: no minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub min_replicas: Option<i64>,
    /// Maximum number of replicas of each of these clusters. Absent: no maximum.
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

/// The way of dividing the replicas among clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ReplicaDivisionPreference {
    /// Replicas go to as few clusters as have enough capacity.
    Aggregated,
    /// Replicas are divided in proportion to weights.
    Weighted,
    /// Replicas are divided by the numbers that the user specifies. Not a value of upstream.
    Specified,
}

/// The weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightPreference {
    /// Static weights.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// Dynamic weight, used instead of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
}

/// The weight of the clusters that a selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// Weight of each of these clusters.
    #[schema(minimum = 1)]
    pub weight: i64,
}

/// The source of a dynamic weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum DynamicWeightFactor {
    /// Number of replicas that the cluster has capacity for.
    AvailableReplicas,
}

/// Numbers of replicas that the user specifies (R141, R143).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Numbers for groups of clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_specify_list: Vec<StaticClusterSpecified>,
}

/// The number of replicas for the clusters that a selector selects (R144, R145).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterSpecified {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// Total number of replicas on these clusters.
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

/// Numbers for the clusters that a selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendStaticCluster {
    /// Selects the clusters.
    pub target_cluster: ClusterAffinity,
    /// Numbers, by the names that the strategy defines. `replicas` is a total. `Regions` accepts
    /// entries without it, and then uses the replicas of the workload.
    pub extend_fields: Pairs<i64>,
}
