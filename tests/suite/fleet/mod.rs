//! The Fleet family through the real interface.

mod endings;
mod hands;
mod messages;
mod rows;
mod stage;
mod triggers;
