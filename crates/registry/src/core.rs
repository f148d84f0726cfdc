//! The registry: the state that all verbs share. Each verb is in its own file.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::action::Action;
use super::computed::Computed;
use super::external_admission::ExternalAdmission;
use super::keyed_locks::KeyedLocks;
use super::locator::Locator;
use super::remote_store::{self, RemoteStore};
use super::validator::{Validator, Validators};
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Object, Status};
use ballast_resource::{Kinds, ResourceKind};
use ballast_watch::{Cache, Fence, Writer};

/// The verbs of the API, as methods. Share it by an `Arc`.
pub struct Registry {
    pub(super) core: Arc<Core>,
    pub(super) actions: BTreeMap<GroupResource, Arc<dyn Action>>,
    pub(super) computed: BTreeMap<GroupResource, Arc<dyn Computed>>,
    pub(super) validators: Validators,
    pub(super) locks: KeyedLocks,
    pub(super) fence: Option<Fence>,
}

/// The state that every verb needs. The in-process clients share it.
pub(super) struct Core {
    pub kinds: Arc<Kinds>,
    pub rows: BTreeMap<GroupResource, Arc<ResourceKind>>,
    pub cache: Cache,
    pub writer: Writer,
    pub clock: Arc<dyn Clock>,
    /// Admission by another server, such as webhooks. It is set at most once.
    pub external_admission: OnceLock<Arc<dyn ExternalAdmission>>,
    /// The API server that stores the attached kinds. It is set at most once.
    pub remote_store: OnceLock<Arc<dyn RemoteStore>>,
    /// The bytes that clients may store in one namespace. It is set at most once.
    pub namespace_bytes_max: OnceLock<usize>,
}

/// The result of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The stored object. After a dry run, the object as it would have been stored.
    pub object: Arc<Object>,
    /// False if the object existed before.
    pub created: bool,
    /// Warnings for the caller, such as unknown fields.
    pub warnings: Vec<String>,
}

impl Registry {
    pub fn new(kinds: Arc<Kinds>, cache: Cache, writer: Writer, clock: Arc<dyn Clock>) -> Registry {
        let stored = kinds.rows().iter().filter(|row| row.is_stored_version());
        let rows = stored.map(|row| (row.resource, Arc::clone(row))).collect();
        Registry {
            core: Arc::new(Core {
                kinds,
                rows,
                cache,
                writer,
                clock,
                external_admission: OnceLock::new(),
                remote_store: OnceLock::new(),
                namespace_bytes_max: OnceLock::new(),
            }),
            actions: BTreeMap::new(),
            computed: BTreeMap::new(),
            validators: Validators::default(),
            locks: KeyedLocks::new(),
            fence: None,
        }
    }

    /// Sets the action of a create-only kind.
    #[must_use]
    pub fn with_action(mut self, resource: GroupResource, action: Arc<dyn Action>) -> Registry {
        self.actions.insert(resource, action);
        self
    }

    /// Sets the source of computed cells, which no field of the kind's objects contains.
    #[must_use]
    pub fn with_computed(mut self, resource: GroupResource, computed: Arc<dyn Computed>) -> Registry {
        self.computed.insert(resource, computed);
        self
    }

    /// Returns the source of computed cells of the kind.
    pub fn computed(&self, resource: GroupResource) -> Option<Arc<dyn Computed>> {
        self.computed.get(&resource).cloned()
    }

    /// Adds a validator of clients' writes of a kind. Validators run in the order of registration.
    #[must_use]
    pub fn with_validator(mut self, resource: GroupResource, validator: Arc<dyn Validator>) -> Registry {
        self.validators.add(resource, validator);
        self
    }

    /// Sets the external admission, which mutates and validates every write of a client.
    #[must_use]
    pub fn with_external_admission(self, admission: Arc<dyn ExternalAdmission>) -> Registry {
        let first = self.core.external_admission.set(admission);
        assert!(first.is_ok(), "external admission is set once");
        self
    }

    /// Sets the API server that stores the objects of some kinds. It also applies to existing
    /// clients.
    ///
    /// # Panics
    ///
    /// If it was set before.
    #[must_use]
    pub fn with_remote_store(self, remote_store: Arc<dyn RemoteStore>) -> Registry {
        let first = self.core.remote_store.set(remote_store);
        assert!(first.is_ok(), "the remote store is set once");
        self
    }

    /// Limits the total bytes of the objects in a namespace that clients may write. Concurrent
    /// writes may exceed the limit together.
    ///
    /// # Panics
    ///
    /// If it was set before.
    #[must_use]
    pub fn with_namespace_bytes_max(self, bytes: usize) -> Registry {
        let first = self.core.namespace_bytes_max.set(bytes);
        assert!(first.is_ok(), "the bound of a namespace is set once");
        self
    }

    /// Rejects writes of workers while the fence does not hold, because another replica may lead
    /// then. It does not apply to existing clients.
    #[must_use]
    pub fn with_fence(mut self, fence: Fence) -> Registry {
        self.fence = Some(fence);
        self
    }

    /// Rejects a verb that the kind does not have, and writes of kinds that are stored upstream.
    pub(super) fn allow_write(&self, target: &Locator, verb: &str) -> Result<(), Status> {
        target.allow(verb)?;
        let resource = target.row.resource;
        match self.core.remote_store_of(resource) {
            Some(remote) => Err(remote_store::written_elsewhere(&**remote, resource, verb)),
            None => Ok(()),
        }
    }

    pub fn kinds(&self) -> &Arc<Kinds> {
        &self.core.kinds
    }

    pub fn cache(&self) -> &Cache {
        &self.core.cache
    }
}

impl Core {
    /// Returns the API server that stores this kind, if it is stored upstream.
    pub fn remote_store_of(&self, resource: GroupResource) -> Option<&Arc<dyn RemoteStore>> {
        self.remote_store.get().filter(|remote| remote.keeps(resource))
    }
}
