//! The host cluster: Ballast serves behind its kube-apiserver. Reviews of tokens and accesses,
//! namespaces, admission webhooks and policies, events, the inventory, and the lease of the active
//! replica.
//!
//! *Invariants:*
//! - Nothing here allows a request that the host cluster did not allow.
//! - Every call has a deadline.
//! - A host cluster that is down, slow or sends malformed responses is an `Unavailable`. It never
//!   causes a panic or the end of the process.
//!
//! This crate, `attach` and `members` are the only ones of a server that call another API server.
//! Lower crates define the traits that it implements (`auth` the reviewers, `registry` the external
//! admission) and do not depend on it.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `connect`: `Host`, a connection to the host cluster
//! - `pauses`: the backoff of watches
//! - `first_read`: a signal that a watch has read its objects once
//! - `reviews`: TokenReviews and SubjectAccessReviews
//! - `secrets`: Secrets of the host cluster
//! - `external_names`: Services that name the addresses of estimators
//! - `authentication_config`: the CAs of users and front proxies
//! - `namespaces`: the existing namespaces, and their labels
//! - `events`: events in the host cluster
//! - `inventory`: copies profiles and decisions into the host cluster
//! - `lease`: the Lease that decides which replica is active
//! - `serving_cert`: the serving certificate, in a Secret
//! - `probe`: checks whether a kube-apiserver is ready
//! - `rules`: rules and selectors of webhooks and policies
//! - `request`: the request as webhooks and policies see it
//! - `questions`: access checks in expressions
//! - `webhooks`: admission webhooks that the host cluster configures
//! - `policies`: admission policies of the host cluster
//! - `admission`: both, in kube-apiserver's order

mod admission;
mod authentication_config;
mod connect;
mod events;
mod external_names;
mod first_read;
mod inventory;
mod lease;
mod namespaces;
mod pauses;
mod policies;
mod probe;
mod questions;
mod request;
mod reviews;
mod rules;
mod secrets;
mod serving_cert;
mod webhooks;

pub use admission::HostAdmission;
pub use authentication_config::{AuthenticationConfig, Data};
pub use connect::{ConnectError, Host, HostAddress};
pub use events::HostEvents;
pub use external_names::ExternalNames;
pub use inventory::HostInventory;
pub use lease::{Fence, HostLease, LeaseTimings};
pub use namespaces::Namespaces;
pub use pauses::Pauses;
pub use policies::AdmissionPolicies;
pub use probe::{Probe, ProbeError, ProbeTarget, Readiness};
pub use reviews::Reviews;
pub use serving_cert::{Pair, ServingCert};
pub use webhooks::Webhooks;
