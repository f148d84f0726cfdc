//! Failover: the reaction to the failure of a workload or of its cluster. Policies and bindings
//! share these types.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reaction to failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailoverBehavior {
    /// Reaction to a failure of the workload. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// Reaction to a failure of the cluster. Absent: the server's settings apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

/// The reaction to a failure of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailoverBehavior {
    /// Conditions under which the workload counts as failed.
    pub decision_conditions: DecisionConditions,
    /// Way of removing the workload from the cluster where it failed.
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

/// The conditions under which a workload counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds that the workload may be unhealthy before it counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 300)]
    pub toleration_seconds: Option<i32>,
}

/// The reaction to a failure of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailoverBehavior {
    /// Way of removing the workload from the failed cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Gracefully")]
    pub purge_mode: Option<ClusterPurgeMode>,
    /// State that is passed on to the next cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// The way of removing a workload from a cluster that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PurgeMode {
    /// The workload is removed immediately.
    Directly,
    /// The workload is removed when it runs elsewhere, or when the grace period is over.
    Gracefully,
    /// The workload is not removed. A user has to remove it.
    Never,
    /// Name of `Directly` before Karmada 1.15. Karmada 1.18 still accepts it.
    Immediately,
    /// Name of `Gracefully` before Karmada 1.15. Karmada 1.18 still accepts it.
    Graciously,
}

impl PurgeMode {
    /// Returns the mode under its current name.
    pub fn renamed(self) -> PurgeMode {
        match self {
            PurgeMode::Immediately => PurgeMode::Directly,
            PurgeMode::Graciously => PurgeMode::Gracefully,
            present => present,
        }
    }
}

/// The way of removing a workload from a failed cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ClusterPurgeMode {
    /// The workload is removed immediately.
    Directly,
    /// The workload is removed when it runs elsewhere.
    Gracefully,
}

/// State of a workload that is passed on to the next cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatePreservation {
    /// Values to pass on.
    pub rules: Vec<StatePreservationRule>,
}

/// One value that is passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// Label that carries the value.
    pub alias_label_name: String,
    /// Path of the value in the workload's status.
    pub json_path: String,
}
