//! Rebalances: carries out what a Rebalance or a ClusterRebalance asks for, move by move.
//!
//! The stored objects are the truth: the rebalance, its Moves, and the bindings' mark that says
//! they are under way (`scheduler::move_annotation`). What is kept in memory (`Run`) is made from
//! them again at any time.
//!
//! - `step` Where a binding's targets go next, where new replicas come before old ones go.
//! - `settle` Whether the member clusters report that a move has arrived.
//! - `waves` Which moves begin now, under the bounds of the rollout.
//! - `schedule` Makes ClusterRebalances by clock or when clusters have recovered.
//! - `surge` Between targets and `step`.
//! - `status` Phase and conditions.
//! - `record` The objects as they are read and written.
//! - `intent` What is about to be written of a binding whose home is elsewhere.
//! - `run` What is remembered of a rebalance between its steps.
//! - `planned_moves` The plan, as the writes that store it.
//! - `placement_moves` Placements of the Fleet family.
//! - `capacity_ledger` Decisions at a move's turn.
//! - `advance` One step: what is seen, what begins, what is written.
//! - `worker` The loop that plans, steps and cleans up.
//! - `forecast` What a dry run answers, and warnings of what a trigger would move.
//! - `nearest` The known name that somebody may have meant.
//! - `review` What would happen, and why: answers that change nothing.

mod advance;
mod binding_storage;
mod capacity_ledger;
pub mod forecast;
mod intent;
pub mod suggestion;
mod placement_moves;
mod planned_moves;
pub mod record;
pub mod review;
mod run;
pub mod schedule;
pub mod settle;
mod status;
pub mod surge_step;
mod surge;
pub mod waves;
mod worker;

pub use self::worker::Rebalances;
