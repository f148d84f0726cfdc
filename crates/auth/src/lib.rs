//! Authentication and authorization: which user sends a request, and what this user may do.
//!
//! ```text
//! peer certificate ─┐                     headers         attributes
//! (TLS has checked  │  Authenticator   Impersonation      Authorizer
//!  its key)         ├─► front proxy ─┐       │         ┌─► system:masters: allow
//! headers ──────────┤   certificate  ├► User ┴► User ──┼─► open path: allow
//! (Authorization,   │   bearer token │                 └─► policy, or the host cluster:
//!  X-Remote-User)   └─► anonymous ───┘                     Allow / Deny / Failed
//! ```
//!
//! A request has one user. The first credential that is present and valid decides, in the order
//! above. Impersonation replaces the user if authorization allows each part of it. Then the
//! authorizer decides on the attributes of the request, before its body is read and before the
//! object is looked up, so a refusal does not reveal what exists.
//!
//! A standalone server decides by a policy file. A server behind a host cluster asks it, by
//! TokenReviews and SubjectAccessReviews, and caches the answers, because such a call takes
//! milliseconds.
//!
//! *Invariants:*
//! - A request has a user only after a credential was verified.
//! - Headers name a user only on a connection whose certificate is that of a front proxy.
//! - A wrong credential is refused. It is never treated like a missing one.
//! - A reviewer that cannot be reached allows nothing.
//!
//! *Left to others:* HTTP (callers pass the headers in) and the clients that reach the host cluster
//! (`host` implements `TokenReviewer` and `AccessReviewer`).
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `well_known`: names of groups and users, and the open paths
//! - `unavailable`: the error of a reviewer that gives no decision
//! - `ttl_cache`: caches the answers of reviewers
//! - `client_cert`: users of client certificates
//! - `front_proxy`: users that a front proxy names in headers
//! - `token_file`: users of static bearer tokens
//! - `token_review`: users of bearer tokens, by the host cluster
//! - `authenticate`: tries all of them
//! - `attributes`: the attributes of a request, and the 403 for them
//! - `impersonate`: the user that a request asks to act as
//! - `access_review`: what a user may do, by the host cluster
//! - `policy`: what a user may do, by a file
//! - `authorize`: tries all of them

mod access_review;
mod attributes;
mod authenticate;
mod authorize;
mod client_cert;
mod front_proxy;
mod impersonate;
mod policy;
mod token_file;
mod token_review;
mod ttl_cache;
mod unavailable;
mod well_known;

pub use access_review::{AccessReviewer, AccessReviews, Answer};
pub use attributes::{Attributes, ResourceAttributes};
pub use authenticate::{Authenticator, Certificate, Refused, Trust};
pub use authorize::{Authorizer, Mode, Permission};
pub use client_cert::{ClientCa, ClientCaError, Untrusted};
pub use front_proxy::{FrontProxy, HeaderNames};
pub use impersonate::Impersonation;
pub use policy::{Policy, PolicyError};
pub use token_file::{TokenFile, TokenFileError};
pub use token_review::{TokenReviewer, TokenReviews};
pub use unavailable::Unavailable;
pub use well_known::OPEN_PATHS;
