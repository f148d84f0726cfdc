//! Rebalances: executes a Rebalance or a ClusterRebalance, move by move.
//!
//! ```text
//!   RebalanceSchedule
//!          │ schedule
//!          ▼
//!   Rebalance ──plan──► Moves ──step──► bindings ──► member clusters
//!                         ▲       │         │               │
//!                         │       ▼         ▼               │ status.aggregatedStatus
//!                       status, events    settle ◄──────────┘
//! ```
//!
//! The worker plans all moves against one ledger of capacity, and stores a Move for each. Then it
//! proceeds step by step. A step observes the moves in progress, decides each of them, and starts
//! further moves within the bounds of the rollout. The decisions are pure (`advance::decision`,
//! `settle`, `surge`, `waves`); only `worker` reads a clock and writes.
//!
//! # Guarantees
//!
//! - A step is one transaction: the binding, its Move and the summary change together or not at all
//!   (BD3). Bindings that are stored upstream cannot be in it; there, the order of the writes keeps
//!   the bounds and loses nothing (`advance::remote`, BD13).
//! - A move counts as settled when member clusters report it, not when it is written (BD4).
//! - A surging move removes no ready replica before a new one is ready (BD5).
//! - Other writers take precedence: if a client, the scheduler or an eviction changes a binding
//!   that moves, the move ends as superseded (BD6).
//!
//! # Design
//!
//! The stored objects are the only source of truth: the rebalance, its Moves, and the annotation
//! `ballast.dev/move` of the bindings in progress (`scheduler::move_annotation`). A `Run` in memory
//! only saves the worker from reading all Moves for each step. If a write fails, the run is dropped
//! and loaded again, so a conflict and a crash are recovered in the same way. A move is decided
//! when it starts, and not when it is planned, because the clusters have changed since (BD2).
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Pure rules:
//! - `settle`: whether member clusters report that a move has settled
//! - `surge_step`: the next replica counts of a move that adds new replicas first
//! - `surge`: these counts as targets of a binding
//! - `waves`: which moves start now, under the bounds of the rollout
//! - `placement_moves`: placements of the KubeFleet family, which move by a trigger
//! - `intent`: the record of a Move before a binding is written upstream
//! - `binding_storage`: the storage of bindings, and the order of its writes
//! - `gates`: external approvals before the next wave begins
//! - `status`: phase and conditions of a rebalance
//! - `takeover`: fields that an undo inherits from the undone rebalance
//! - `way_back`: the targets of a binding after an undo
//!
//! Objects and memory:
//! - `record`: reads and writes rebalances and Moves
//! - `reasons`: why workloads do not move, counted
//! - `plan_hash`: the name of a plan, and the difference between two plans
//! - `nameable`: the names that hints may contain
//! - `unknown_names`: warnings about clusters and regions that do not exist
//! - `unknown_selection`: warnings about names in a selection that do not exist
//! - `planned_moves`: a plan, as the writes that store it
//! - `run`: the state of a rebalance between its steps
//!
//! - `before`: the bindings at the moment that mode AsBefore names
//! - `cordon`: the clusters of a drain, and the taint that closes them
//! - `undo_order`: the order of a rebalance and its undos
//!
//! Steps:
//! - `step_input`: the input of a step
//! - `capacity_ledger`: the capacity and quota that earlier decisions have left
//! - `advance`: one step: observe, decide, effects
//! - `worker`: the loop that plans, steps and cleans up
//!
//! Entry points:
//! - `review`: computes the effects of changes without writing
//! - `forecast`: the result of a dry run, and warnings about the moves of a trigger
//! - `schedule`: creates ClusterRebalances by time, or when clusters have recovered

mod advance;
mod before;
mod binding_storage;
mod capacity_ledger;
mod cordon;
pub mod forecast;
pub mod gates;
mod intent;
pub mod nameable;
mod placement_moves;
mod plan_hash;
mod planned_moves;
pub mod record;
pub mod review;
mod run;
pub mod schedule;
pub mod settle;
mod status;
mod reasons;
mod step_input;
mod takeover;
mod undo_order;
mod unknown_names;
mod unknown_selection;
mod surge;
pub mod surge_step;
pub mod waves;
mod way_back;
mod worker;

pub use self::status::UNKNOWN_NAMES;
pub use self::unknown_names::{PlacementNames, in_placement};
pub use self::worker::Rebalances;
pub use ballast_k8s::suggestion;
