//! Who asks, and what they may do.
//!
//! *Invariant:* a request has a user only through a credential that was verified; nothing a client writes
//! into a header makes a user. There is no anonymous user: without a credential there is no user, and
//! what is open to everybody is listed in `OPEN_PATHS`.

mod authorize;
mod client_cert;

pub use authorize::{Attributes, Authorizer, Decision, ResourceAttributes};
pub use client_cert::{ClientCa, ClientCaError, Untrusted};

/// Probes and version skew checks reach these without a credential (HE5); everything below them does not.
pub const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Every user that was authenticated belongs to this group (AN9).
const AUTHENTICATED: &str = "system:authenticated";
