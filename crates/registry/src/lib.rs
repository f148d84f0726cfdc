//! The verbs of the API, implemented once for all kinds and without HTTP. A caller (the HTTP server
//! or a worker) passes a verb, the row of a kind, and an object as a JSON tree. The registry
//! decides on the write, and the single writer commits it.
//!
//! ```text
//!  client: create, update, patch, apply, delete         worker: Client::batch
//!        │ body                                               │ changes, one view
//!        ▼                                                    │
//!    admit: read ─ unknown fields, kind, version              │
//!        │                                                    │
//!        ▼  AdmissionChain                                    ▼
//!    external admission: mutate (webhooks)           admit: read, default, prepare, validate
//!        │                                           or edit: only the named members
//!        ▼                                                    │
//!    admit: default ─ prepare ─ validate                      │
//!        │                                                    │
//!        ▼                                                    │
//!    update_outcome: unchanged, put or remove                 │
//!        │                                                    │
//!        ▼                                                    │
//!    external admission: validate, then validators            │
//!        │ a write with a precondition on the revision        │
//!        └──────────────► watch::Writer ◄─────────────────────┘
//!
//!  get, list ◄── a view of the cache          watch ◄── events of the cache, or the log
//! ```
//!
//! *Guarantees.* Every stored object was admitted: pruned, defaulted and validated. A write without
//! changes is skipped. Each write carries the revision that it was decided on, so no write is lost,
//! and none is based on an old state. Errors are `Status`, with the messages of Kubernetes.
//!
//! *Rationale.* An object is parsed once and serialized once on its way in; on its way out its
//! bytes are sent unparsed. Admission runs in the task of the request and not in the writer: it may
//! be slow, and all requests share the writer. If another write comes first, the precondition
//! fails, and the verb decides again where Kubernetes does so (patch, apply, delete). Many patches
//! of one object would fail most of their attempts, so they take a lock (`keyed_locks`). Workers
//! skip external admission, because one of their batches contains many objects; a worker that
//! schedules workloads queries it before it commits (`admission_check`).
//!
//! *Out of scope.* Kinds by name (callers pass the rows), authorization (`auth`), and namespaces as
//! objects: any valid namespace exists.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list; `tests/suite/tidy.rs` checks that.
//!
//! Types that all verbs need:
//! - `metadata_types`: the types of the members of `metadata`
//! - `metadata`: the rules of `metadata` that apply to every kind
//! - `part`: the part of an object that a write changes
//! - `locator`: the kind, namespace and name of a request
//! - `warnings`: warnings for the caller and annotations for the audit log
//! - `action`: kinds that act when they are created, and are never stored
//! - `computed`: cells of a table that no field of the object contains
//! - `external_admission`: admission by another server, such as webhooks
//! - `validator`: built-in admission of one kind, implemented by other crates
//! - `keyed_locks`: serializes patches of one object
//! - `remote_store`: kinds that another API server stores
//! - `core`: `Registry`, the type that implements the verbs
//!
//! From a body to a write:
//! - `ownership`: managed fields and their managers
//! - `admit`: reads, defaults, prepares and validates an object
//! - `stored`: the stored object that a write is decided on
//! - `update_outcome`: decides on the write of an update
//! - `commit`: commits an outcome, or returns the error of the writer
//! - `newest`: looks objects up by name, consistently across replicas
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
//! - `admission_check`: queries external admission about the write of a worker
//! - `defaults`: fills in new defaults at start-up
//! - `import`: validates an object of another server
//!
//! Documents and tables that are derived from the rows:
//! - `published`: immutable documents
//! - `discovery`
//! - `openapi`
//! - `table`: objects as rows and columns

mod action;
mod admit;
mod apply;
mod client;
mod commit;
mod computed;
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
mod metadata_types;
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
pub use computed::Computed;
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
