//! The part of the Kubernetes API that is independent of the kind. Pure: no I/O, no clock, no
//! async.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Values in objects:
//! - `time`: `metav1.Time`, whole seconds in UTC
//! - `duration`: durations in Go's format
//! - `human_duration`: ages in kubectl's format
//! - `quantity`: `500m`, `1.5Gi`
//! - `cron`: the schedule of a CronJob
//! - `taint`: taints and tolerations
//! - `selector`: label requirements
//! - `natural`: natural sort order of names
//! - `names`: the syntax of names, labels and annotation keys
//! - `suggestion`: the known name that is closest to a mistyped one
//! - `field_errors`: validation errors of an object, field by field
//! - `user`: the identity of a request
//!
//! The text of an object:
//! - `scan`: finds the ends of values in a JSON text
//! - `json_fault`: messages for invalid JSON
//! - `read`: parses JSON that is known to be UTF-8
//! - `walk`: extracts single values from a JSON text
//! - `json_path`: paths of printer columns
//! - `json_column`: the position of a value in an object
//! - `parts`: changes members of an object without parsing the rest
//! - `pool`: shares equal values
//! - `packed`: compresses a text against a similar one
//! - `content`: a text, plain or compressed
//! - `text`: the text of an object, with its managed fields stored separately
//! - `record_shape`: the common part of the managed fields of similar objects
//! - `fields`: `FieldsV1` and managed fields
//!
//! Objects:
//! - `key`: resource, namespace and name
//! - `revision`: the counter of the log
//! - `flag`: whether an object contains a word, computed once
//! - `typed_forms`: a bounded cache of the typed forms of large objects
//! - `object`: one version of an object
//! - `document`: an object to be written, before it has a revision
//! - `decoder`: decodes many objects
//!
//! Requests and responses:
//! - `status`: `metav1.Status`, the format of every failure
//! - `query`: a query string, parsed as in Go
//! - `label_query`: the label selector of a query
//! - `field_query`: the field selector of a query
//! - `repair`: repairs JSON that contains invalid Unicode
//! - `yaml`: parses YAML as Kubernetes does
//! - `body`: bodies in JSON and YAML
//! - `list_options`: the options of LIST and WATCH
//! - `write_options`: the options of a write
//! - `protobuf`: bodies in protobuf
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
