//! The cluster that Ballast serves behind: whom it knows, what it lets them do, its namespaces, its webhooks,
//! its events, and which replica works.
//!
//! *Invariants:* nothing here says yes when the host cluster did not; every call has a deadline; a host
//! cluster that is down, slow or talks nonsense is an `Unavailable`, never a panic and never a reason to end.
//!
//! The only room that talks to another API server. What it implements is asked for below: `auth` knows
//! reviewers, `registry` knows gates, `worker` knows leases; none of them knows this room.

mod authentication_config;
mod connect;
mod events;
mod lease;
mod namespaces;
mod reviews;
mod webhooks;

pub use authentication_config::{AuthenticationConfig, Data};
pub use connect::{ConnectError, Host, Place};
pub use events::HostEvents;
pub use lease::{Fence, Lease, Terms};
pub use namespaces::Namespaces;
pub use reviews::Reviews;
pub use webhooks::Webhooks;
