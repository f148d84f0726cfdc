//! The verbs, once, for every kind, without HTTP: what a request or a worker wants done to trees of
//! JSON, decided by the row of the kind and committed through the one writer.
//!
//! *Invariants.* What is stored was admitted: pruned, defaulted, judged. Nothing is written that
//! changes nothing. Every write names the revision that it was decided on, so no write is lost and
//! none is made from an old state. Errors are `Status`, in Kubernetes' words.
//!
//! Each object is parsed once and serialized once on its way in; on its way out it is bytes
//! already.
//!
//! Deliberately absent: kinds by name (rows are handed in), who may do what (`auth`), namespaces as
//! objects (any valid namespace will do).

mod action;
mod admit;
mod apply;
mod batch;
mod client;
mod create;
mod defaults;
mod delete;
pub mod discovery;
mod edit;
mod gate;
mod list;
mod locator;
mod metadata;
pub mod openapi;
mod patch;
mod published;
mod remarks;
pub mod table;
mod update;
mod watch;

#[cfg(test)]
mod test_kinds;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Object, Revision, Status, User};
use crate::resource::{Kinds, ResourceKind};
use crate::watch::{Cache, Fence, Writer};

pub use crate::watch::Atomicity;
pub use action::Action;
pub use apply::MayCreate;
pub use client::{Change, Client, Part};
pub use delete::Deleted;
pub use discovery::Discovery;
pub use gate::{Asked, Caller, Gate, Operation};
pub use list::List;
pub use locator::Locator;
pub use openapi::OpenApi;
pub use published::Published;
pub use remarks::Remarks;
pub use watch::{Watch, WatchEvent};

/// The verbs. Cheap to share; hand out an `Arc` of it.
pub struct Registry {
    core: Arc<Core>,
    actions: BTreeMap<GroupResource, Arc<dyn Action>>,
    turns: patch::Turns,
    fence: Option<Fence>,
}

/// What every verb needs, shared with the in-process clients.
struct Core {
    kinds: Arc<Kinds>,
    rows: BTreeMap<GroupResource, Arc<ResourceKind>>,
    cache: Cache,
    writer: Writer,
    clock: Arc<dyn Clock>,
    /// Who else has a say in what clients write.
    gate: OnceLock<Arc<dyn Gate>>,
}

/// What a write came to.
#[derive(Clone, Debug)]
pub struct Written {
    /// As stored; after a dry run, as it would have been stored.
    pub object: Arc<Object>,
    /// False for a write to an object that was there.
    pub created: bool,
    /// Sentences for the caller's eyes: unknown fields and the like.
    pub warnings: Vec<String>,
}

impl Registry {
    pub fn new(kinds: Arc<Kinds>, cache: Cache, writer: Writer, clock: Arc<dyn Clock>) -> Registry {
        let stored = kinds.rows().iter().filter(|row| row.is_stored_version());
        let rows = stored.map(|row| (row.resource, Arc::clone(row))).collect();
        Registry {
            core: Arc::new(Core { kinds, rows, cache, writer, clock, gate: OnceLock::new() }),
            actions: BTreeMap::new(),
            turns: patch::Turns::new(),
            fence: None,
        }
    }

    /// Gives a create-only kind what it does.
    #[must_use]
    pub fn with_action(mut self, resource: GroupResource, action: Arc<dyn Action>) -> Registry {
        self.actions.insert(resource, action);
        self
    }

    /// Has every write of a client pass this gate.
    #[must_use]
    pub fn with_gate(self, gate: Arc<dyn Gate>) -> Registry {
        let first = self.core.gate.set(gate);
        assert!(first.is_ok(), "there is one gate");
        self
    }

    /// Has what workers write refused while the fence does not hold: another replica may be at it.
    /// Clients handed out before are not fenced.
    #[must_use]
    pub fn with_fence(mut self, fence: Fence) -> Registry {
        self.fence = Some(fence);
        self
    }

    pub fn kinds(&self) -> &Arc<Kinds> {
        &self.core.kinds
    }

    pub fn cache(&self) -> &Cache {
        &self.core.cache
    }

    /// For a part of Ballast that acts under this name.
    pub fn client(&self, user: User) -> Client {
        Client::new(Arc::clone(&self.core), user, self.fence.clone())
    }
}

/// An object that was never stored, or not at this content: what a dry run answers.
fn unstored(key: Key, revision: Option<Revision>, mut tree: Map<String, Value>) -> Result<Arc<Object>, Status> {
    let metadata = metadata::of_mut(&mut tree);
    match revision {
        Some(revision) => metadata.insert("resourceVersion".to_owned(), Value::from(revision.to_string())),
        None => metadata.remove("resourceVersion"),
    };
    let json = serde_json::to_vec(&tree).map_err(Status::internal)?;
    let object = Object::decode(key, revision.unwrap_or_default(), json.into()).map_err(Status::internal)?;
    Ok(Arc::new(object))
}
