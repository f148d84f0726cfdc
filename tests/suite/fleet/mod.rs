//! The KubeFleet family through the real interface.

mod endings;
mod hands;
mod messages;
mod rows;
pub mod stage;
mod triggers;
