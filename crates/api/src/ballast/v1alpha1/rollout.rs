//! The rollout of a plan: its pace, the end of a move (BD4), and SurgeFirst (BD5).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::amounts::{IntOrPercent, Rounding};
use super::gates::Gate;

pub(super) const MIN_AVAILABLE: IntOrPercent = IntOrPercent::Percent(90);
pub(super) const MAX_SURGE: IntOrPercent = IntOrPercent::Percent(100);

/// The rollout of a plan: its bounds, and the condition under which a move ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The strategy for the replicas of one workload. Absent: `SurgeFirst` for a drain, `Direct`
    /// otherwise.
    #[serde(default)]
    pub strategy: Strategy,
    /// Maximum number of workloads that move at once: a number, or a percentage of the moves in the
    /// plan, rounded up. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<IntOrPercent>,
    /// Maximum number of replicas that move at once, over all workloads. Under SurgeFirst, a larger
    /// move is split into steps within the bound. Under Direct, and if a workload is not divided
    /// within a cluster, a larger move begins alone, and its Move names the bound. Absent: no
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647_i64)]
    pub max_moving_replicas: Option<i64>,
    /// Maximum number of replicas that move to one cluster at once. A larger move is split as with
    /// `maxMovingReplicas`. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647_i64)]
    pub max_incoming_per_cluster: Option<i64>,
    /// Seconds between the waves in which moves begin.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 86400, default = 0)]
    pub interval_seconds: i64,
    /// The order of the moves.
    #[serde(default)]
    #[schema(default = "Priority")]
    pub order: Order,
    /// Minimum number of a workload's replicas that stay assigned and ready under SurgeFirst: a
    /// number, or a percentage of its replicas, rounded up. Default: 90%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrPercent>,
    /// Maximum number of replicas assigned at once in excess of the workload's own number under
    /// SurgeFirst: a number, or a percentage of its replicas, rounded up. Default: 100%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrPercent>,
    /// The condition under which a move ends.
    #[serde(default)]
    #[schema(default = json!({}))]
    pub settle: Settle,
    /// The condition under which the rebalance ends early. Absent: it does not end early by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_on: Option<AbortOn>,
    /// Checks that must pass after each wave, including the last one. With gates, `maxConcurrent`
    /// moves form a wave: the gates are checked after all of its moves have settled, and the next
    /// wave begins after all gates have passed. Reviews and dry runs do not check gates.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub gates: Vec<Gate>,
}

impl Rollout {
    /// Returns the maximum number of moves in progress at once for a plan of `moves` moves, or
    /// `None` if there is no bound.
    pub fn concurrency(&self, moves: i64) -> Option<i64> {
        self.max_concurrent.map(|most| most.of(moves, Rounding::Up).max(1))
    }

    /// Returns the number of failed moves, of `moves`, at which the rebalance ends early, or `None`
    /// if failures do not end it.
    pub fn failures_that_abort(&self, moves: i64) -> Option<i64> {
        self.abort_on.map(|on| on.failed.of(moves, Rounding::Up).max(1))
    }

    /// Returns the minimum number of a workload's replicas that SurgeFirst keeps assigned and
    /// ready.
    pub fn floor(&self, replicas: i64) -> i64 {
        self.min_available.unwrap_or(MIN_AVAILABLE).of(replicas, Rounding::Up)
    }

    /// Returns the maximum number of replicas that SurgeFirst assigns in excess of a workload's own
    /// number.
    pub fn surge(&self, replicas: i64) -> i64 {
        self.max_surge.unwrap_or(MAX_SURGE).of(replicas, Rounding::Up)
    }
}

/// The strategy for the replicas of one workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Strategy {
    /// The final targets are written in one step.
    #[default]
    Direct,
    /// New replicas are ready before old ones are removed.
    SurgeFirst,
}

/// The order of moves. Moves that compare equal are ordered by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Order {
    /// Workloads with the highest priority first.
    #[default]
    Priority,
    /// Workloads with the fewest replicas first.
    FewestReplicas,
    /// By namespace and name.
    Name,
}

/// The condition under which a move ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settle {
    /// The state that must be reported before a move ends.
    #[serde(default)]
    #[schema(default = "Healthy")]
    pub when: SettleWhen,
    /// Seconds after which a move that has not ended counts as failed. Nothing is removed then.
    #[serde(default = "settle_seconds")]
    #[schema(minimum = 1, maximum = 604800, default = 600)]
    pub timeout_seconds: i64,
}

impl Default for Settle {
    fn default() -> Settle {
        Settle { when: SettleWhen::Healthy, timeout_seconds: settle_seconds() }
    }
}

fn settle_seconds() -> i64 {
    600
}

/// The state that must be reported before a move ends. For a binding without any reports,
/// `Scheduled` applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum SettleWhen {
    /// The targets are written.
    Scheduled,
    /// The workload is applied on all targets.
    Applied,
    /// The workload is healthy on all targets. If ready replicas are reported, all assigned
    /// replicas are ready.
    #[default]
    Healthy,
}

/// The condition under which a rebalance ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbortOn {
    /// Number of failed moves: a number, or a percentage of the moves in the plan, rounded up.
    pub failed: IntOrPercent,
}
