//! The plan of a rebalance, and its progress.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::gates::WaveStatus;
use super::moves::{MoveReason, WorkloadRef};
use super::objective::{CostStatus, ObjectiveStatus};
use crate::meta::Condition;
use ballast_k8s::Time;
use ballast_resource::schema::mark::MapList;
use ballast_resource::{Column, SqlColumn};

const fn column(name: &'static str, kind: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, kind, path, priority: 0, description }
}

pub(super) const COLUMNS: &[Column] = &[
    column("PHASE", "string", ".status.phase", "The phase of the rebalance."),
    column("SELECTED", "integer", ".status.summary.selected", "Workloads that are selected."),
    column("TO-MOVE", "integer", ".status.summary.toMove", "Workloads that the plan moves."),
    column("SETTLED", "integer", ".status.summary.settled", "Workloads that have moved."),
    column("FAILED", "integer", ".status.summary.failed", "Workloads whose move failed."),
    column("REPLICAS-MOVED", "integer", ".status.summary.replicasMoved", "Replicas that have moved."),
    column("AGE", "date", ".metadata.creationTimestamp", ""),
];

pub(super) const SQL_COLUMNS: &[SqlColumn] = &[
    SqlColumn::field("phase", &["status", "phase"]),
    SqlColumn::field("selected", &["status", "summary", "selected"]),
    SqlColumn::field("to_move", &["status", "summary", "toMove"]),
    SqlColumn::field("settled", &["status", "summary", "settled"]),
    SqlColumn::field("failed", &["status", "summary", "failed"]),
    SqlColumn::field("finished_at", &["status", "finishTime"]),
];

/// The plan, and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceStatus {
    /// The generation that this status is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The phase of the rebalance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Conditions of the rebalance: `Planned`, `Selected`, `Approved`, `Progressing` and
    /// `Completed`; with gates also `Gate`, which is False while a gate is pending. `Selected` is
    /// False if the plan has no workload, with the reason `UnknownNames` or `NothingMatches`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// Time at which the plan was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<Time>,
    /// Time at which the first move began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Time at which the last move ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
    /// The revision of the view that the plan is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_revision: Option<String>,
    /// Hash of the moves of the plan: bindings, sources and targets. Equal plans have equal hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// Counts of the selected workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The current or last wave, if `spec.rollout` has gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<WaveStatus>,
    /// The state of the drained clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainStatus>,
    /// Replicas of the selected workloads per cluster.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterCount>,
    /// Reasons why workloads do not move, as of the plan: no cluster accepts them, limits apply, or
    /// they may not move.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonCount>,
    /// How close the plan comes to `spec.objective`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveStatus>,
    /// The price of the selected workloads, if any cluster has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostStatus>,
}

impl RebalanceStatus {
    /// Returns whether the rebalance is completed or aborted.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Some(Phase::Completed | Phase::Aborted))
    }
}

/// The phase of a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Phase {
    /// The plan is being made.
    Planning,
    /// The plan is made, and nothing has moved yet.
    Planned,
    Running,
    /// No further move begins until `spec.paused` is false, or until a failed gate is checked
    /// again. Moves that have begun settle.
    Paused,
    /// All moves are over.
    Completed,
    /// The rebalance ended early. Pending moves never begin.
    Aborted,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Planning => "Planning",
            Phase::Planned => "Planned",
            Phase::Running => "Running",
            Phase::Paused => "Paused",
            Phase::Completed => "Completed",
            Phase::Aborted => "Aborted",
        }
    }
}

/// Counts of the selected workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Selected workloads. A workload that a drain moves again counts again.
    #[serde(default)]
    pub selected: i64,
    /// Workloads that the plan moves.
    #[serde(default)]
    pub to_move: i64,
    /// Moves that have not begun.
    #[serde(default)]
    pub pending: i64,
    /// Moves in progress.
    #[serde(default)]
    pub moving: i64,
    /// Moves that have ended.
    #[serde(default)]
    pub settled: i64,
    /// Workloads that keep their placement.
    #[serde(default)]
    pub unchanged: i64,
    /// Failed moves, including moves that failed at once because the plan found no target for the
    /// workload. Such a workload keeps its placement.
    #[serde(default)]
    pub failed: i64,
    /// Moves that another change of the binding replaced.
    #[serde(default)]
    pub superseded: i64,
    /// Replicas that the plan moves, counted on their target clusters.
    #[serde(default)]
    pub replicas_to_move: i64,
    /// Replicas that have moved, counted on their target clusters.
    #[serde(default)]
    pub replicas_moved: i64,
}

/// The state of the drained clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// Whether the drain has closed its clusters to new workloads. They stay closed when it ends.
    #[serde(default)]
    pub closed: bool,
    /// Number of times that the drain planned workloads that were placed on the clusters after the
    /// plan.
    #[serde(default)]
    pub rounds: i64,
    /// Time since which the drain waits for workloads that leave the clusters by themselves.
    /// Absent: it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// Whether the clusters are empty, except for workloads with a failed Move.
    #[serde(default)]
    pub ended: bool,
    /// The clusters that were opened while the drain was in progress. This ends the drain.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<String>,
}

/// Number of workloads that do not move for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonCount {
    /// The reason.
    pub reason: MoveReason,
    /// The number of workloads.
    pub count: i64,
    /// The reason as a sentence, for `workload`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// One of the workloads, as an example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadRef>,
}

/// Replicas of the selected workloads on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterCount {
    /// Name of the cluster.
    pub name: String,
    /// Replicas at planning time.
    #[serde(default)]
    pub before: i64,
    /// Replicas after all moves of the plan.
    #[serde(default)]
    pub planned: i64,
    /// Replicas as of this status.
    #[serde(default)]
    pub now: i64,
}
