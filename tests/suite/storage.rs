//! The stores, and replicas that share one.

mod replicas;
mod store;

#[path = "../support/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
mod support;
