//! The spec and status of both policy snapshots.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::PLACEMENT_COLUMN;
use super::policy::PlacementPolicy;
use crate::meta::Condition;
use ballast_resource::schema::mark::MapList;
use ballast_resource::{Column, SqlColumn};

/// The printer columns of both snapshots.
pub(super) const COLUMNS: &[Column] = &[
    Column { name: "Gen", kind: "string", path: ".metadata.generation", priority: 0, description: "" },
    Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
];

pub(super) const SQL_COLUMNS: &[SqlColumn] = &[PLACEMENT_COLUMN, SqlColumn::condition("scheduled", "Scheduled")];

/// A policy at one time. It does not change: a new policy gets a new snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshotSpec {
    /// Policy of the placement. Absent: all clusters are picked. Its `numberOfClusters` may be out
    /// of date. The annotation `kubernetes-fleet.io/number-of-clusters` has the current number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// SHA-256 of the policy without its number of clusters, in base64.
    #[schema(format = Byte)]
    pub policy_hash: String,
}

/// The decisions of the scheduler about a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshotStatus {
    /// Generation of the placement that the decisions are for.
    #[serde(rename = "observedCRPGeneration")]
    pub observed_crp_generation: i64,
    /// Conditions of the snapshot: `Scheduled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// Decision about each cluster. Selected clusters come first. Not all rejected clusters are
    /// listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub target_clusters: Vec<ClusterDecision>,
}

/// The decision about one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Whether the cluster was picked.
    pub selected: bool,
    /// Score of the cluster, if it was scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,
    /// Human-readable reason for the decision.
    pub reason: String,
}

/// The score of a cluster. Higher is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScore {
    /// Sum of the weights of the matching preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i32>,
    /// Contribution of the cluster to an even spread. The field has upstream's name.
    #[serde(default, rename = "priorityScore", skip_serializing_if = "Option::is_none")]
    pub topology_spread_score: Option<i32>,
}
