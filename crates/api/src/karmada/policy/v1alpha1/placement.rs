//! Placement: the clusters that may be selected, their spread, and the division of replicas.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::replica_scheduling::ReplicaSchedulingStrategy;
use crate::core::{NodeSelectorRequirement, Toleration};
use crate::meta::LabelSelector;
use ballast_resource::schema::mark::Atomic;

/// The rules by which clusters are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Clusters that may be selected. All may be, if neither this field nor `clusterAffinities` is
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups of clusters, tried in this order. Only the first group that satisfies the other rules
    /// is used. Must not be combined with `clusterAffinity`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Taints of clusters that are tolerated.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// Spread of the selected clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Division of the replicas among the selected clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// Workloads that go to the same clusters as this one, or to different ones.
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
    /// Groups that take the replicas that do not fit into this group, in this order.
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

/// Bounds on the number of groups that the selected clusters belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// Field by which clusters are grouped: clusters with the same value form a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadField>,
    /// Label by which clusters are grouped: clusters with the same value form a group. Must not be
    /// combined with `spreadByField`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_by_label: Option<String>,
    // `isize` in the schema: upstream's Go `int` has no format.
    /// Maximum number of groups. Absent or 0: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>)]
    pub max_groups: Option<i64>,
    /// Minimum number of groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>)]
    pub min_groups: Option<i64>,
    /// Behavior if the constraint cannot be satisfied. Absent: `DoNotSchedule`. Not a field of
    /// upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenSpreadUnsatisfiable>,
}

/// The behavior if a spread constraint cannot be satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum WhenSpreadUnsatisfiable {
    /// The workload is not placed.
    DoNotSchedule,
    /// The constraint is a preference. It is satisfied where that moves no replica and does not
    /// change the affinity group.
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

/// Workloads that go to the same clusters, and workloads that go to different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Groups of workloads that go to the same clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// Groups of workloads that go to different clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

/// The grouping of workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityTerm {
    /// Key of the label by which workloads are grouped: workloads with the same value form a group.
    pub group_by_label_key: String,
}
