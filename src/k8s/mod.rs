//! The Kubernetes contract that no kind owns. Pure: no I/O, no clock, no async.

mod field_errors;
mod key;
mod object;
mod revision;
mod status;
mod time;
mod user;

pub use field_errors::{FieldError, FieldErrors, FieldPath};
pub use key::{GroupResource, Key};
pub use object::{DecodeError, Document, Object};
pub use revision::Revision;
pub use status::{Cause, Details, Status};
pub use time::Time;
pub use user::User;
