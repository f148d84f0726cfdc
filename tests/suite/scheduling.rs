//! Decisions and their consequences: stories of whole systems and recorded decisions.

mod fleet;
mod stories;
mod stories_fleet;
mod vectors;
mod vectors_fleet;

#[path = "../support/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
mod support;
