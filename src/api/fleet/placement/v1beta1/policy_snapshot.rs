//! What both policy snapshots are made of: a policy as it was, and what the scheduler made of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::policy::PlacementPolicy;
use crate::api::meta::Condition;
use crate::resource::Column;
use crate::resource::schema::mark::MapList;

/// The printer columns of both snapshots.
pub(super) const COLUMNS: &[Column] = &[
    Column { name: "Gen", kind: "string", path: ".metadata.generation", priority: 0, description: "" },
    Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
];

/// A policy as it was. It does not change; another policy is another snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshotSpec {
    /// The policy; absent picks all clusters. Its `numberOfClusters` may be out of date: the
    /// annotation `kubernetes-fleet.io/number-of-clusters` says how many are wanted now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// SHA-256 of the policy without its number of clusters, in base64.
    #[schema(format = Byte)]
    pub policy_hash: String,
}

/// What the scheduler made of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshotStatus {
    /// The generation of the placement that the decisions are for.
    #[serde(rename = "observedCRPGeneration")]
    pub observed_crp_generation: i64,
    /// Aspects of its state: `Scheduled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// What was decided about which cluster, selected ones first. Not all that were left out are
    /// listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub target_clusters: Vec<ClusterDecision>,
}

/// What was decided about one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Whether it was picked.
    pub selected: bool,
    /// How it scored, where scores were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,
    /// Why.
    pub reason: String,
}

/// How a cluster scored. More is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScore {
    /// By the policy's preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i32>,
    /// By how it evens out the spread. The name on the wire is upstream's.
    #[serde(default, rename = "priorityScore", skip_serializing_if = "Option::is_none")]
    pub topology_spread_score: Option<i32>,
}
