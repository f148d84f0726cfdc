//! Authentication and authorization: who sends a request, and what they may do.
//!
//! *Invariants:*
//! - A request has a user only after a credential was verified.
//! - Headers that name a user count only on a connection whose certificate is a front proxy's.
//! - A wrong credential is refused. It is never treated like a missing one.
//! - A reviewer that cannot be reached has not said yes.
//!
//! Deliberately absent: HTTP (callers pass the headers in) and the clients that reach the host
//! cluster (`host` implements `TokenReviewer` and `AccessReviewer`).

mod access_review;
mod authenticate;
mod authorize;
mod client_cert;
mod front_proxy;
mod impersonate;
mod policy;
mod token_file;
mod token_review;
mod ttl_cache;

pub use access_review::{AccessReviewer, AccessReviews, Answer};
pub use authenticate::{Authenticator, Certificate, Refused, Trust};
pub use authorize::{Attributes, Authorizer, Mode, Permission, ResourceAttributes};
pub use client_cert::{ClientCa, ClientCaError, Untrusted};
pub use front_proxy::{FrontProxy, HeaderNames};
pub use impersonate::Impersonation;
pub use policy::{Policy, PolicyError};
pub use token_file::{TokenFile, TokenFileError};
pub use token_review::{TokenReviewer, TokenReviews};

use ballast_k8s::User;

/// Paths that anybody may read by default: probes and version skew checks (HE5). The paths below
/// them are not open.
pub const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The group of every authenticated user (AN9).
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// A reviewer could not be reached, or its answer could not be read. The question stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Adds the group of authenticated users. The aggregator's own health checks name a user without a
/// group, and must count as authenticated (AN9).
fn with_authenticated_group(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}
