//! The seeds' requirements as stories: one test per row of mission.md, with its number in its name.

mod events;
mod failover;
mod fleet;
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
