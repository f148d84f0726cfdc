//! The host cluster, behind whose kube-apiserver Ballast serves: reviews of tokens and accesses,
//! namespaces, admission webhooks and policies, events, the inventory, and the lease of the replica
//! that works.
//!
//! *Invariants:*
//! - Nothing here allows what the host cluster did not allow.
//! - Every call has a deadline.
//! - A host cluster that is down, slow or sends malformed answers is an `Unavailable`. It never
//!   causes a panic or the end of the process.
//!
//! This room, `attach` and `members` are the only ones of a server that talk to another API server.
//! Lower rooms define the traits that it implements (`auth` the reviewers, `registry` the external
//! admission) and do not know it.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `connect`: `Host`, a connection to the host cluster
//! - `pauses`: the pauses between tries to watch
//! - `first_read`: whether a watch has read its objects once
//! - `reviews`: TokenReviews and SubjectAccessReviews
//! - `secrets`: Secrets of the host cluster
//! - `external_names`: Services that say where estimators are
//! - `authentication_config`: the CAs of users and front proxies
//! - `namespaces`: which namespaces exist, and their labels
//! - `events`: events in the host cluster
//! - `inventory`: copies profiles and decisions into the host cluster
//! - `lease`: the Lease that says which replica works
//! - `serving_cert`: the serving certificate, in a Secret
//! - `probe`: asks a kube-apiserver whether it is ready
//! - `rules`: what the rules of webhooks and policies match
//! - `request`: the request as webhooks and policies see it
//! - `questions`: what expressions ask about the access of users
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
