//! Failover: what happens when a workload fails, or a cluster that it runs on. Policies and
//! bindings share these types.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What happens on failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailoverBehavior {
    /// What happens when the workload fails. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// What happens when the cluster fails. Absent: the server's settings apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

/// What happens when a workload fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailoverBehavior {
    /// When the workload counts as failed.
    pub decision_conditions: DecisionConditions,
    /// How the workload is removed from the cluster where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Gracefully")]
    pub purge_mode: Option<PurgeMode>,
    /// For `Gracefully`: seconds after which the workload is removed even without a replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// State that is passed on to the next cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// When a workload counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds that the workload may be unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 300)]
    pub toleration_seconds: Option<i32>,
}

/// What happens when a cluster fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailoverBehavior {
    /// How the workload is removed from the failed cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Gracefully")]
    pub purge_mode: Option<ClusterPurgeMode>,
    /// State that is passed on to the next cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// How a workload is removed from a cluster that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PurgeMode {
    /// At once.
    Directly,
    /// When the workload runs elsewhere, or when the grace period is over.
    Gracefully,
    /// Not at all. A user removes it.
    Never,
    /// The name of `Directly` before Karmada 1.15, which 1.18 still takes.
    Immediately,
    /// The name of `Gracefully` before Karmada 1.15, which 1.18 still takes.
    Graciously,
}

impl PurgeMode {
    /// The mode under its present name.
    pub fn renamed(self) -> PurgeMode {
        match self {
            PurgeMode::Immediately => PurgeMode::Directly,
            PurgeMode::Graciously => PurgeMode::Gracefully,
            present => present,
        }
    }
}

/// How a workload is removed from a cluster that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ClusterPurgeMode {
    /// At once.
    Directly,
    /// When it runs elsewhere.
    Gracefully,
}

/// State of a workload that is passed on to the next cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatePreservation {
    /// The values to pass on.
    pub rules: Vec<StatePreservationRule>,
}

/// One value that is passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// The label that carries the value.
    pub alias_label_name: String,
    /// The path of the value in the workload's status.
    pub json_path: String,
}
