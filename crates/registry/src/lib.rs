//! The verbs of the API, once for all kinds and without HTTP. A request or a worker says what it
//! wants done to a tree of JSON, the row of the kind decides, and the one writer commits.
//!
//! *Promises.* What is stored was admitted: pruned, defaulted and validated. A write that changes
//! nothing is not made. Each write names the revision that it was decided on, so no write is lost
//! and none is made from an old state. Errors are `Status`, in the words of Kubernetes.
//!
//! An object is parsed once and serialized once on its way in. On its way out it is bytes already.
//!
//! *Left to others.* Kinds by name (rows are handed in), who may do what (`auth`), namespaces as
//! objects (any valid namespace will do).
//!
//! # Modules
//!
//! Each module uses only modules above it in this list; `tests/suite/tidy.rs` checks that.
//!
//! Words that all verbs need:
//! - `metadata`: the rules of `metadata` that hold for every kind
//! - `part`: which part of an object a write is about
//! - `locator`: which kind, namespace and name a request is about
//! - `warnings`: warnings for the caller and annotations for the audit log
//! - `action`: what a kind does that acts on create and is never stored
//! - `external_admission`: admission by another server, such as webhooks
//! - `validator`: built-in admission of one kind, by other rooms of the server
//! - `keyed_locks`: patches of one object wait for each other
//! - `remote_store`: kinds that another API server keeps
//! - `core`: `Registry`, which the verbs below are methods of
//!
//! From a body to a write:
//! - `ownership`: which manager owns which field
//! - `admit`: read, default, prepare and validate an object
//! - `stored`: the stored object that a write is decided on
//! - `update_outcome`: decides what an update of a stored object writes
//! - `commit`: commits an outcome, or says why the writer refused it
//! - `newest`: the newest view, and what is there under a name
//! - `admission_chain`: the admission of one write of a client
//!
//! Verbs:
//! - `list`: get and list
//! - `watch`
//! - `create`
//! - `update`
//! - `patch`
//! - `apply`: server-side apply
//! - `delete`: delete and deletecollection
//! - `edit`: an update that changes named members only
//! - `client`: batches of changes, for workers and actions
//! - `admission_check`: asks external admission about the write of a worker
//! - `defaults`: fills in new defaults at start-up
//! - `import`: judges an object that another server has admitted
//!
//! Documents and forms that follow from the rows:
//! - `published`: a document that never changes
//! - `discovery`
//! - `openapi`
//! - `table`: objects as rows and columns

mod action;
mod admit;
mod apply;
mod client;
mod commit;
mod core;
mod validator;
mod create;
mod defaults;
mod delete;
pub mod discovery;
mod edit;
mod external_admission;
mod remote_store;
mod import;
mod list;
mod locator;
mod metadata;
mod newest;
pub mod openapi;
mod ownership;
mod part;
mod admission_chain;
mod patch;
mod update_outcome;
mod published;
mod admission_check;
mod warnings;
mod stored;
pub mod table;
mod keyed_locks;
mod update;
mod watch;

#[cfg(test)]
mod test_kinds;

pub use self::core::{Registry, Written};
pub use action::{Action, answer_due, due_at};
pub use admission_check::AdmissionDecision;
pub use apply::MayCreate;
pub use ballast_watch::Atomicity;
pub use client::{Change, Client};
pub use delete::Deleted;
pub use discovery::Discovery;
pub use external_admission::{AdmissionAttributes, Caller, ExternalAdmission, Operation};
pub use import::{Imported, import};
pub use list::List;
pub use locator::Locator;
pub use openapi::OpenApi;
pub use part::Part;
pub use published::Published;
pub use remote_store::{RemoteStore, RemoteWrite};
pub use validator::Validator;
pub use warnings::Warnings;
pub use watch::{Watch, WatchEvent};
