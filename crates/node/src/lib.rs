//! A server, put together: what `ballast serve` runs, and what tests and the demo run in their own
//! process.

pub mod assembly;
pub mod attached;
pub mod certs;
pub mod config;
pub mod election;
mod endings;
mod identity;
pub mod kubeconfig;
mod leadership;
pub mod memory;
mod peers;
mod presence;
mod replicas;
pub mod serve;
mod storage;
pub mod tables;

use ballast_base::telemetry;

/// The command line is wrong: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// Something that the command line names cannot be used, for this reason.
    pub fn because(error: impl Into<anyhow::Error>) -> UsageError {
        UsageError(telemetry::with_causes(error.into().as_ref()))
    }
}
