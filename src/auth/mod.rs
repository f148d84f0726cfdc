//! Who asks, and what they may do.
//!
//! *Invariants:* a request has a user only through a credential that was verified; headers that
//! name a user count only on a connection whose certificate proves the front proxy. A credential
//! that is wrong is refused, never taken for none. Whoever cannot be asked (the cluster that
//! reviews tokens and accesses) has not said yes.
//!
//! Deliberately absent: HTTP (headers are handed in) and the clients that reach the host cluster
//! (`host` implements `TokenReviewer` and `AccessReviewer`).

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

use crate::k8s::User;

/// Paths that are open to everybody unless told otherwise: probes and version skew checks (HE5).
/// What lies below them is not.
pub const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Every user that was authenticated belongs to this group (AN9).
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// A reviewer could not be asked, or its answer could not be read. Says nothing about the question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// The aggregator's own pollers name a user and no group, and must count as authenticated (AN9).
fn with_authenticated_group(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}
