//! The part of the Kubernetes API that belongs to no kind. Pure: no I/O, no clock, no async.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Values in objects:
//! - `time`: `metav1.Time`, whole seconds in UTC
//! - `duration`: durations as Go writes them
//! - `human_duration`: ages as kubectl shows them
//! - `quantity`: `500m`, `1.5Gi`
//! - `cron`: the schedule of a CronJob
//! - `taint`: taints and tolerations
//! - `selector`: label requirements
//! - `natural`: the order in which people read names
//! - `names`: the form of names, labels and annotation keys
//! - `suggestion`: the known name that is closest to a mistyped one
//! - `field_errors`: faults of an object, field by field
//! - `user`: the identity of a request
//!
//! The text of an object:
//! - `scan`: finds where values of a JSON text end
//! - `json_fault`: why a text is no JSON
//! - `read`: reads JSON that is known to be UTF-8
//! - `walk`: takes single values out of a JSON text
//! - `json_path`: paths of printer columns
//! - `json_column`: where in an object a value is
//! - `parts`: changes members of an object without parsing the rest
//! - `pool`: shares equal values
//! - `packed`: compresses a text against a similar one
//! - `content`: a text, packed or not
//! - `text`: the text of an object, with its managed fields apart
//! - `record_shape`: what the managed fields of similar objects have in common
//! - `fields`: `FieldsV1` and managed fields
//!
//! Objects:
//! - `key`: kind, namespace and name
//! - `revision`: the counter of the log
//! - `flag`: whether a word is in an object, found once
//! - `typed_forms`: the typed forms of large objects, within a bound
//! - `object`: one version of an object
//! - `document`: an object to be written, before it has a revision
//! - `decoder`: decodes many objects
//!
//! Requests and answers:
//! - `status`: `metav1.Status`, the form of every failure
//! - `query`: a query string, read as Go reads it
//! - `label_query`: the label selector of a query
//! - `field_query`: the field selector of a query
//! - `repair`: mends JSON whose strings are not Unicode
//! - `yaml`: reads YAML as Kubernetes does
//! - `body`: bodies in JSON and YAML
//! - `list_options`: the options of LIST and WATCH
//! - `write_options`: the options of a write
//! - `protobuf`: bodies in the binary form
//! - `patch_path`: the paths of a JSON patch
//! - `patch`: JSON patch and JSON merge patch

mod body;
mod content;
pub mod cron;
mod decoder;
mod document;
pub mod duration;
mod json_column;
mod json_fault;
mod field_errors;
pub mod field_query;
pub mod fields;
mod flag;
pub mod human_duration;
pub mod json_path;
mod key;
pub mod label_query;
pub mod list_options;
pub mod names;
pub mod natural;
mod object;
mod packed;
mod parts;
pub mod patch;
mod patch_path;
mod pool;
pub mod protobuf;
pub mod quantity;
mod query;
mod read;
mod record_shape;
mod repair;
mod revision;
mod scan;
pub mod selector;
mod status;
pub mod suggestion;
pub mod taint;
mod text;
mod time;
mod typed_forms;
mod user;
mod walk;
pub mod write_options;
mod yaml;

pub use body::{Body, Duplicate, Malformed, type_meta_fault, type_of};
pub use decoder::Decoder;
pub use document::Document;
pub use field_errors::{FieldError, FieldErrors, FieldPath, TOLD_MAX, and_more, shown_name};
pub use field_query::FieldQuery;
pub use flag::Flag;
pub use json_column::{JsonColumn, MemberPath};
pub use json_fault::json_fault;
pub use key::{GroupResource, Key};
pub use list_options::{ContinueToken, GetOptions, ListOptions, Remaining, RevisionMatch};
pub use object::{DecodeError, Object};
pub use packed::Dictionaries;
pub use parts::{Edit, EditValue, Outline, Parts};
pub use patch::Patch;
pub use quantity::{Notation, Quantity};
pub use query::Query;
pub use read::read_json;
pub use record_shape::{RecordShape, ShapePatch};
pub use revision::Revision;
pub use selector::{Labels, Requirement, Selector};
pub use status::{Cause, Details, Status};
pub use taint::{Taint, Toleration};
pub use text::{Managers, Text};
pub use time::Time;
pub use user::User;
pub use walk::Walk;
pub use write_options::{DeleteOptions, FieldValidation, Propagation, WriteOptions};
