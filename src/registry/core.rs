//! The registry itself: what all verbs share. The verbs are in files of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::action::Action;
use super::gate::Gate;
use super::turns::Turns;
use crate::clock::Clock;
use crate::k8s::{GroupResource, Object};
use crate::resource::{Kinds, ResourceKind};
use crate::watch::{Cache, Fence, Writer};

/// The verbs. Cheap to share; hand out an `Arc` of it.
pub struct Registry {
    pub(super) core: Arc<Core>,
    pub(super) actions: BTreeMap<GroupResource, Arc<dyn Action>>,
    pub(super) turns: Turns,
    pub(super) fence: Option<Fence>,
}

/// What every verb needs, shared with the in-process clients.
pub(super) struct Core {
    pub kinds: Arc<Kinds>,
    pub rows: BTreeMap<GroupResource, Arc<ResourceKind>>,
    pub cache: Cache,
    pub writer: Writer,
    pub clock: Arc<dyn Clock>,
    /// Who else has a say in what clients write.
    pub gate: OnceLock<Arc<dyn Gate>>,
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
            turns: Turns::new(),
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
}
