//! The requirements as stories: a test for each, with its number of docs/requirements.md in its name.

mod events;
mod failover;
pub mod fleet;
mod fleet_sight;
mod fleet_simulation;
mod groups;
mod policy;
mod promise;
mod rebalancer;
mod scheduling;
mod seeds;
mod simulation;
mod specified;
mod task;
mod ttl;
mod wake;
mod world;
