//! `ballast.dev/v1alpha1`
//!
//! A binding is *displaced* if its current placement violates its rules, if it lost targets to a
//! failure and has not returned to them, or if it uses a later affinity group although an earlier
//! one would accept it. It is *drifted* if it is not displaced and a Fresh decision over the
//! present view would divide it differently. A *plan* contains the decisions for many bindings over
//! one view. A *move* is the part of a plan that concerns one binding.
//!
//! This module contains the types of the kinds and their validation. All moves of a plan fit
//! together (BD1), and each move is decided again when it begins (BD2). Every step is one
//! transaction (BD3). Dry runs preview the effects (BD9), and events report the progress (BD11).

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

/// The API group of these kinds.
pub const GROUP: &str = "ballast.dev";
const VERSION: &str = "v1alpha1";
const CATEGORIES: &[&str] = &["ballast"];
const OPENAPI_PACKAGE: &str = "dev.ballast.v1alpha1";

/// Label of a Move or ClusterMove that contains the name of its rebalance.
pub const REBALANCE_LABEL: &str = "ballast.dev/rebalance";

/// Label of a namespace. With the value `true`, its rebalances require another user's approval.
pub const REQUIRE_APPROVAL: &str = "ballast.dev/require-approval";

/// Label of a rebalance that undoes another rebalance after a failed gate. Its value is the name of
/// the undone rebalance.
pub const UNDOES_LABEL: &str = "ballast.dev/undoes";

/// Label of a ClusterRebalance that contains the name of the schedule that created it.
pub const SCHEDULE_LABEL: &str = "ballast.dev/schedule";
