//! Assembles one server process. The `serve` command, the tests and the demo run it in their
//! process.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Files, flags and the process:
//! - `certs`: the development certificates
//! - `descriptors`: the limit of file descriptors, and the limits of connections within it
//! - `memory`: returns memory to the system
//! - `tables`: the SQL view of each kind
//! - `http_gates`: queries gates of rollouts over HTTP
//! - `features`: the parts that a binary can be built without
//! - `config`: the flags of `serve`, with their defaults
//! - `otlp`: sends spans to an OpenTelemetry collector (`no_otlp`: rejects the flag)
//! - `kubeconfig`: a connection to an API server, by the rules of kubectl
//! - `identity`: authentication and authorization, from the flags
//!
//! Parts of a server:
//! - `assembly`: the registry and the workers
//! - `attached`: differences of a server attached to a Karmada (`no_attached`: rejects the flag)
//! - `estimators`: the estimators in member clusters, from the flags
//! - `storage_probe`: checks whether the store can write
//! - `supervision`: tasks that end unexpectedly
//!
//! Replicas:
//! - `heartbeat`: announces this replica to the others
//! - `peer_certificates`: the certificates by which replicas authenticate each other
//! - `election`: elects the leader
//! - `strays`: reports stored bindings that have no effect
//! - `leadership`: starts and stops the workers of this process
//! - `quarantine`: sets damaged rows aside
//! - `log`: opens the log, exclusive or shared
//! - `history_events`: events about lost changes and about a shortened history
//!
//! The server:
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

/// A usage error of the command line: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// Converts the error of a file or server that the command line names.
    pub fn because(error: impl Into<anyhow::Error>) -> UsageError {
        UsageError(telemetry::with_causes(error.into().as_ref()))
    }
}
