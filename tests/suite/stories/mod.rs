//! The requirements as stories. Each test carries the number of its requirement in its name
//! (docs/dev/requirements.md).

mod asked;
mod attached_moves;
pub mod fake_upstream;
mod beneath;
pub mod doorkeeper;
mod events;
mod failover;
pub mod fleet;
mod fleet_sight;
mod fleet_simulation;
mod groups;
mod policy;
mod promise;
mod quota;
mod rebalancer;
mod safe;
mod safe_causes;
mod safe_edges;
mod safe_faults;
mod safe_home;
mod safe_judge;
mod safe_reviews;
mod safe_scopes;
mod safe_simulation;
mod safe_surge;
mod schedule;
mod scheduling;
mod seeds;
pub mod simulation;
mod specified;
mod task;
mod task_intents;
mod ttl;
mod wake;
mod whose;
pub mod world;
