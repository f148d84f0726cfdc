//! The cluster that Ballast serves behind: whom it knows, what it lets them do.
//!
//! *Invariants:* nothing here says yes when the host cluster did not; every call has a deadline; a host
//! cluster that is down, slow or talks nonsense is an `Unavailable`, never a panic and never a reason to end.
//!
//! The only room that talks to another API server. What it implements is asked for below: `auth` knows
//! reviewers, `registry` knows gates, `worker` knows leases; none of them knows this room.

mod authentication_config;
mod connect;
mod reviews;

pub use authentication_config::{AuthenticationConfig, Data};
pub use connect::{ConnectError, Host, Place};
pub use reviews::Reviews;
