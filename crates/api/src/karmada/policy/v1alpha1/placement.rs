//! Placement: which clusters may be chosen, how they are spread, and how replicas are divided.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::replica_scheduling::ReplicaSchedulingStrategy;
use crate::core::{NodeSelectorRequirement, Toleration};
use crate::meta::LabelSelector;
use ballast_resource::schema::mark::Atomic;

/// The rules by which clusters are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The clusters that may be chosen. If neither this nor `clusterAffinities` is given, all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups of clusters, tried in this order. The first group that satisfies the other rules is
    /// used alone. Not together with `clusterAffinity`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Taints of clusters that are tolerated.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How the chosen clusters are spread.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// How replicas are divided among the chosen clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// Which workloads go to the same clusters, and which to different ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// Selects the clusters for which all four fields hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Selects by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// Selects by provider, region and zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects by name. Empty: any name.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// Names of clusters that are excluded.
    #[serde(
        default,
        rename = "exclude",
        deserialize_with = "crate::lean::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub exclude_clusters: Vec<String>,
}

/// Selects clusters by their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    /// Requirements on `provider`, `region` and `zone`. All of them must hold.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// A group of clusters, with the groups that take its overflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// Name of the group, unique within the placement.
    #[schema(min_length = 1, max_length = 32)]
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Groups that take the replicas that do not fit into this one, in this order.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowAffinityTerm>,
}

/// A group of clusters that takes the overflow of another group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverflowAffinityTerm {
    /// Name of the group, unique within the placement.
    #[schema(min_length = 1, max_length = 32)]
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

/// Bounds the number of groups that the chosen clusters fall into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// Clusters with the same value of this field are one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadField>,
    /// Clusters with the same value of this label are one group. Not together with `spreadByField`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_by_label: Option<String>,
    // `isize` in the schema: upstream's Go `int` has no format.
    /// The largest number of groups. Absent or 0: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>)]
    pub max_groups: Option<i64>,
    /// The smallest number of groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>)]
    pub min_groups: Option<i64>,
    /// What happens if the constraint cannot be kept. Absent: `DoNotSchedule`. Not a field of
    /// upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenSpreadUnsatisfiable>,
}

/// What happens if a spread constraint cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WhenSpreadUnsatisfiable {
    /// The workload is not placed.
    DoNotSchedule,
    /// The constraint is a wish. It is kept where that moves no replica and leaves the affinity
    /// group as it is.
    ScheduleAnyway,
}

/// A field that clusters can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpreadField {
    Cluster,
    Region,
    Zone,
    Provider,
}

/// Which workloads go to the same clusters, and which to different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Workloads of one group go to the same clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// Workloads of one group go to different clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

/// How workloads are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityTerm {
    /// Workloads with the same value of this label are one group.
    pub group_by_label_key: String,
}
