//! The Kubernetes contract that no kind owns. Pure: no I/O, no clock, no async.

mod field_errors;
mod key;
mod object;
pub mod quantity;
mod revision;
pub mod selector;
mod status;
pub mod taint;
mod time;
mod user;

pub use field_errors::{FieldError, FieldErrors, FieldPath};
pub use key::{GroupResource, Key};
pub use object::{DecodeError, Document, Object};
pub use quantity::Quantity;
pub use revision::Revision;
pub use selector::{Labels, Requirement, Selector};
pub use status::{Cause, Details, Status};
pub use taint::{Taint, Toleration};
pub use time::Time;
pub use user::User;
