//! Rebalances: carries out what a Rebalance or a ClusterRebalance asks for, move by move.
//!
//! The stored objects are the truth: the rebalance, its Moves, and the bindings' annotation that
//! says they are under way. What is kept in memory is made from them again at any time.
//!
//! - `step` Where a binding's targets go next, where new replicas come before old ones go.
//! - `settle` Whether the member clusters report that a move has arrived.
//! - `waves` Which moves begin now, under the bounds of the rollout.
//! - `schedule` Makes ClusterRebalances by clock or when clusters have recovered.

pub mod schedule;
pub mod settle;
pub mod step;
pub mod waves;
