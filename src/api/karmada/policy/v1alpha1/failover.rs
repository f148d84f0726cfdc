//! What happens when a workload, or a cluster that it runs on, fails. Shared by policies and
//! bindings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What happens on failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailoverBehavior {
    /// When the workload fails. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// When the cluster fails. Absent: as the server is set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

/// What happens when a workload fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailoverBehavior {
    /// When it counts as failed.
    pub decision_conditions: DecisionConditions,
    /// How it is removed from the cluster where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Gracefully")]
    pub purge_mode: Option<PurgeMode>,
    /// Seconds after which it is removed even if nothing has taken its place, for `Gracefully`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// State that goes along to the next cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// When a workload counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds that it may be unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 300)]
    pub toleration_seconds: Option<i32>,
}

/// What happens when a cluster fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailoverBehavior {
    /// How the workload is removed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Gracefully")]
    pub purge_mode: Option<ClusterPurgeMode>,
    /// State that goes along to the next cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// How a workload is removed from a cluster that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PurgeMode {
    /// At once.
    Directly,
    /// When it runs elsewhere, or when the grace period is over.
    Gracefully,
    /// Not at all: somebody does it by hand.
    Never,
}

/// How a workload is removed from a cluster that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ClusterPurgeMode {
    /// At once.
    Directly,
    /// When it runs elsewhere.
    Gracefully,
}

/// State of a workload that goes along to the next cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatePreservation {
    /// What is taken along.
    pub rules: Vec<StatePreservationRule>,
}

/// One value that is taken along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// The label under which it goes along.
    pub alias_label_name: String,
    /// Where it is found in the workload's status.
    pub json_path: String,
}
