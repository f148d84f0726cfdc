//! Authentication and authorization: the user of a request, and the permissions of that user.

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
