//! wip
pub mod stage;
pub mod stories;
