//! Placement: which clusters may be chosen, how they are spread, and how replicas are divided among
//! them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::replica_scheduling::ReplicaSchedulingStrategy;
use crate::api::core::{NodeSelectorRequirement, Toleration};
use crate::api::meta::LabelSelector;
use crate::resource::schema::mark::Atomic;

/// The rules by which clusters are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The clusters that may be chosen. Without it and without `clusterAffinities` all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups of clusters, tried in this order: the first that satisfies the other rules is taken,
    /// and none of the rest. Not together with `clusterAffinity`.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Taints of clusters that are tolerated.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How far the chosen clusters are spread.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// How replicas are divided among the chosen clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// Which workloads share a cluster, and which do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// Selects clusters: those that all four parts admit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// By their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// By their provider, region and zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// By their names; empty admits all.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// Names of clusters that are left out.
    #[serde(
        default,
        rename = "exclude",
        deserialize_with = "crate::api::lean::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub exclude_clusters: Vec<String>,
}

/// Selects clusters by their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    /// Requirements on `provider`, `region` and `zone` that must all hold.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// One group of clusters, and the groups that take what does not fit into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// Name of the group, unique within the placement.
    #[schema(min_length = 1, max_length = 32)]
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Groups that take, in this order, the replicas that do not fit into this one.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowAffinityTerm>,
}

/// A group of clusters that takes what does not fit elsewhere.
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
    /// The most groups. Absent or 0 is as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>)]
    pub max_groups: Option<i64>,
    /// The fewest groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>)]
    pub min_groups: Option<i64>,
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

/// Which workloads share a cluster, and which do not.
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
