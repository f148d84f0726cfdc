//! The built binary, as a user starts it.

mod backup;
mod commands;
mod copy;
mod credentials;
mod estimators;
mod defaults;
mod failover;
mod files;
mod glance;
mod full_disk;
mod health;
mod held_plan;
mod kill;
mod kubectl;
mod lift;
pub mod operator;
mod output;
mod page;
mod rebalancer;
mod room;
mod rows;
mod selectors;
mod simulate;
mod specified;
mod transfer;
mod vectors;
mod tracing;
