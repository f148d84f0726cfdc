//! The Kubernetes contract that no kind owns. Pure: no I/O, no clock, no async.

mod body;
mod field_errors;
pub mod field_query;
pub mod human_duration;
pub mod json_path;
mod key;
pub mod label_query;
pub mod list_options;
pub mod names;
mod object;
pub mod patch;
pub mod quantity;
mod query;
mod revision;
pub mod selector;
mod status;
pub mod taint;
mod time;
mod user;
pub mod write_options;

pub use body::{Body, Duplicate, Malformed};
pub use field_errors::{FieldError, FieldErrors, FieldPath};
pub use field_query::FieldQuery;
pub use key::{GroupResource, Key};
pub use list_options::{ContinueToken, GetOptions, ListOptions, RevisionMatch};
pub use object::{DecodeError, Document, Object};
pub use patch::Patch;
pub use quantity::Quantity;
pub use query::Query;
pub use revision::Revision;
pub use selector::{Labels, Requirement, Selector};
pub use status::{Cause, Details, Status};
pub use taint::{Taint, Toleration};
pub use time::Time;
pub use user::User;
pub use write_options::{DeleteOptions, FieldValidation, Propagation, WriteOptions};
