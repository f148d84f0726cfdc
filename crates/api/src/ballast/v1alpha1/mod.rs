//! `ballast.dev/v1alpha1`
//!
//! A binding is *displaced* when a rule of its placement is broken where it runs, when it lost
//! targets to a failure and has not been back, or when it is in a later affinity group while an
//! earlier one would take it. It is *drifted* when all is well and a Fresh decision over the
//! present view would divide it otherwise.
//! A *plan* is the decisions for many bindings over one view. A *move* is what happens to one
//! binding of a plan.
//!
//! This module has the types of the kinds and their validation. All moves of a plan fit together
//! (BD1), and each move is decided again when it begins (BD2). Every step is one transaction (BD3).
//! Dry runs show what would happen (BD9), and events report what happened (BD11).

mod amounts;
mod cluster_rebalance;
mod eviction_limit;
mod fleet_review;
mod gate_rules;
mod gates;
mod moves;
mod objective;
mod objective_rules;
mod rebalance;
mod rebalance_rules;
mod rebalance_schedule;
mod rebalance_status;
mod reserved;
mod review;
mod review_rules;
mod rollout;
mod schedule_rules;
mod select;
mod select_rules;
mod suppose;
mod survival;
#[cfg(test)]
mod tests;

pub use amounts::{IntOrPercent, Limits, Mode, Rounding};
pub use cluster_rebalance::ClusterRebalance;
pub use eviction_limit::{EvictionLimit, EvictionLimitSpec};
pub use fleet_review::{
    ClusterCounts, ClusterReadiness, EvictionCounts, FleetReview, FleetReviewSpec, FleetReviewStatus, LocalFleetReview,
    NamespaceCounts, RateFrom, RegionCounts, ReplicaCounts,
};
pub use gates::{FailedGate, Gate, Holds, OnFailure, PrometheusGate, WaveStatus, WebhookGate};
pub use moves::{
    BindingRef, ClusterMove, Move, MovePhase, MoveReason, MoveSpec, MoveStatus, Share, ShareNow, WorkloadRef,
    move_name, other_move_name,
};
pub use objective::{CostStatus, Figure, FigureUnit, Goal, Objective, ObjectiveStatus, UNRELIEVED_MAX};
pub use rebalance::{Approval, Drain, Rebalance, RebalanceSpec, Undo};
pub use rebalance_rules::TAKEN_OVER;
pub use rebalance_schedule::{
    ClusterRecovered, ConcurrencyPolicy, RebalanceSchedule, RebalanceScheduleSpec, RebalanceScheduleStatus,
    RebalanceTemplate, Recovery, ScheduleOn, TemplateMetadata,
};
pub use rebalance_status::{ClusterCount, DrainStatus, Phase, ReasonCount, RebalanceStatus, Summary};
pub use reserved::{APPROVED_BY, CHANGED_BY, CREATED_BY, RECOVERED, RESERVED_PREFIX, SCHEDULED_FOR, SET_BY, writers};
pub use review::{
    AsOf, Explain, LocalPlacementReview, PlacementReview, ReviewMode, ReviewSpec, ReviewStatus, ReviewedMove,
    Unplaceable,
};
pub use rollout::{AbortOn, Order, Rollout, Settle, SettleWhen, Strategy};
pub use select::{PolicyRef, SelectEntry};
pub use suppose::{Suppose, SupposedCluster, SupposedWorkload};
pub use survival::{DomainSurvival, FailureDomain, Survive};

/// The group of all these kinds.
pub const GROUP: &str = "ballast.dev";
const VERSION: &str = "v1alpha1";
const CATEGORIES: &[&str] = &["ballast"];
const OPENAPI_PACKAGE: &str = "dev.ballast.v1alpha1";

/// The label of a Move or ClusterMove with the name of its rebalance.
pub const REBALANCE_LABEL: &str = "ballast.dev/rebalance";

/// The label of a namespace, with the value `true`, whose rebalances need another user's approval.
pub const REQUIRE_APPROVAL: &str = "ballast.dev/require-approval";

/// The label of a rebalance that takes back what another one has moved whose gate failed. Its value
/// is the name of the other one.
pub const UNDOES_LABEL: &str = "ballast.dev/undoes";

/// The label of a ClusterRebalance with the name of the schedule that made it.
pub const SCHEDULE_LABEL: &str = "ballast.dev/schedule";
