//! One server process, put together. The `serve` command runs it, and so do tests and the demo, in
//! their own process.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Files, flags and the process:
//! - `certs`: the development certificates
//! - `descriptors`: file descriptors, and how many of them are for connections
//! - `memory`: how the process returns memory to the system
//! - `tables`: the SQL view of each kind
//! - `http_gates`: asks gates of rollouts over HTTP
//! - `features`: the parts that a binary can be built without
//! - `config`: the flags of `serve`, with their defaults
//! - `otlp`: sends spans to an OpenTelemetry collector (`no_otlp`: refuses to)
//! - `kubeconfig`: a connection to an API server, by the rules of kubectl
//! - `identity`: authentication and authorization, from the flags
//!
//! Parts of a server:
//! - `assembly`: the registry and the workers
//! - `attached`: what differs when the server is attached to a Karmada (`no_attached`: nothing)
//! - `estimators`: the estimators in member clusters, from the flags
//! - `storage_probe`: whether the store can write
//! - `supervision`: tasks that end by themselves
//!
//! Replicas:
//! - `heartbeat`: announces this replica to the others
//! - `peer_certificates`: the certificates by which replicas trust each other
//! - `election`: which replica leads
//! - `strays`: stored bindings that have no effect
//! - `leadership`: when the workers of this process run
//! - `quarantine`: damaged rows that are set aside
//! - `log`: opens the log, alone or shared
//! - `history_events`: the events about changes that the database has lost, and about a short past
//!
//! The whole:
//! - `serve`: starts the parts, and stops them in order

pub mod assembly;
#[cfg_attr(not(feature = "attach"), path = "no_attached.rs")]
pub mod attached;
pub mod certs;
pub mod config;
mod descriptors;
pub mod election;
mod estimators;
pub mod features;
pub mod heartbeat;
pub mod http_gates;
mod identity;
pub mod kubeconfig;
mod leadership;
mod log;
mod history_events;
pub mod memory;
#[cfg_attr(not(feature = "otlp"), path = "no_otlp.rs")]
pub mod otlp;
mod peer_certificates;
mod quarantine;
pub mod serve;
mod storage_probe;
mod strays;
mod supervision;
pub mod tables;

use ballast_base::telemetry;

pub use peer_certificates::KIND as REPLICA_CERTIFICATES;

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
