//! How a plan is carried out: its pace, when a move is over (BD4), and SurgeFirst (BD5).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::amounts::{IntOrPercent, Rounding};
use super::gates::Gate;

pub(super) const MIN_AVAILABLE: IntOrPercent = IntOrPercent::Percent(90);
pub(super) const MAX_SURGE: IntOrPercent = IntOrPercent::Percent(100);

/// How a plan is carried out: the bounds while it runs, and when a move is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How the replicas of one workload move.
    /// Absent: `SurgeFirst` for a drain, `Direct` elsewhere.
    #[serde(default)]
    pub strategy: Strategy,
    /// How many workloads may move at once: a number, or a percentage of the moves in the plan,
    /// rounded up. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<IntOrPercent>,
    /// How many replicas may move at once, over all workloads. Under SurgeFirst, a move that is
    /// larger goes in steps within the bound. Under Direct, and where a workload is not divided
    /// within a cluster, such a move begins alone, and its Move names the bound. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647_i64)]
    pub max_moving_replicas: Option<i64>,
    /// How many replicas may move to one cluster at once. A move that is larger is split as with
    /// maxMovingReplicas. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647_i64)]
    pub max_incoming_per_cluster: Option<i64>,
    /// Seconds between the waves in which moves begin.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 86400, default = 0)]
    pub interval_seconds: i64,
    /// Which moves come first.
    #[serde(default)]
    #[schema(default = "Priority")]
    pub order: Order,
    /// How many replicas of a workload are kept assigned and ready under SurgeFirst: a number, or a
    /// percentage of its replicas, rounded up. 90% unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrPercent>,
    /// How many replicas above the workload's own number are assigned at once under SurgeFirst: a
    /// number, or a percentage of its replicas, rounded up. 100% unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrPercent>,
    /// When a move is over.
    #[serde(default)]
    #[schema(default = json!({}))]
    pub settle: Settle,
    /// When the rebalance ends early. Absent: it does not end early by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_on: Option<AbortOn>,
    /// What must say yes after each wave, the last one too. With gates, `maxConcurrent` moves are a
    /// wave: all of them have settled before the gates are asked, and the next wave begins when all
    /// gates have said yes. Reviews and dry runs ask nobody.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub gates: Vec<Gate>,
}

impl Rollout {
    /// How many of `moves` moves may be in progress at once. `None`: no bound.
    pub fn concurrency(&self, moves: i64) -> Option<i64> {
        self.max_concurrent.map(|most| most.of(moves, Rounding::Up).max(1))
    }

    /// How many of `moves` moves must fail before the rebalance ends early. `None`: failures do not
    /// end it.
    pub fn failures_that_abort(&self, moves: i64) -> Option<i64> {
        self.abort_on.map(|on| on.failed.of(moves, Rounding::Up).max(1))
    }

    /// How many of a workload's replicas SurgeFirst keeps assigned and ready.
    pub fn floor(&self, replicas: i64) -> i64 {
        self.min_available.unwrap_or(MIN_AVAILABLE).of(replicas, Rounding::Up)
    }

    /// How many replicas above a workload's own number SurgeFirst may assign at once.
    pub fn surge(&self, replicas: i64) -> i64 {
        self.max_surge.unwrap_or(MAX_SURGE).of(replicas, Rounding::Up)
    }
}

/// How the replicas of one workload move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Strategy {
    /// All at once: the final targets are written in one step.
    #[default]
    Direct,
    /// New replicas are ready before old ones are removed.
    SurgeFirst,
}

/// Which moves come first. Equal moves are ordered by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Order {
    /// Those of the workloads with the highest priority.
    #[default]
    Priority,
    /// Those with the fewest replicas.
    FewestReplicas,
    /// By namespace and name.
    Name,
}

/// When a move is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settle {
    /// What must be reported before a move is over.
    #[serde(default)]
    #[schema(default = "Healthy")]
    pub when: SettleWhen,
    /// Seconds after which a move that is not over counts as failed. Nothing is removed then.
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

/// What must be reported before a move is over. For a binding without any reports, `Scheduled`
/// applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum SettleWhen {
    /// The targets are written.
    Scheduled,
    /// The workload is applied on all targets.
    Applied,
    /// The workload is healthy there. If ready replicas are reported, all assigned ones are ready.
    #[default]
    Healthy,
}

/// When a rebalance ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbortOn {
    /// When this many moves have failed: a number, or a percentage of the moves in the plan,
    /// rounded up.
    pub failed: IntOrPercent,
}
