//! The loop that the controllers of Fleet placements share, and the objects of a placement in a
//! view.
//!
//! *Invariant:* a controller reads one placement from one view and answers with one batch, all or
//! nothing. After a conflict it starts again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::fleet::placement::v1beta1::any::{PlacementKinds, SCOPES, placement_of};
use crate::api::fleet::placement::v1beta1::names::{IS_LATEST_LABEL, binding_prefix};
use crate::api::fleet::placement::v1beta1::strays::Strays;
use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Object, Time};
use crate::registry::{Atomicity, Change, Client, Part};
use crate::watch::{Event, EventKind, View};
use crate::worker::{Failure, Handled, Next, Queue, Work, Worked};

/// Placements in work at once, for each controller.
const CONCURRENCY: usize = 4;

/// Changes of one batch.
pub(super) type Changes = Vec<(GroupResource, Change)>;

/// The changes that a controller wants for a placement, and when it wants to look again. `None`:
/// nothing.
pub(super) type Look = fn(&Scene<'_>, Time) -> Option<(Changes, Next)>;

/// A loop over placements. An event about any object of a placement marks the placement.
pub struct Placements {
    name: &'static str,
    look: Look,
    client: Client,
    clock: Arc<dyn Clock>,
    strays: Strays,
}

impl Placements {
    pub(super) fn new(name: &'static str, look: Look, client: Client, clock: Arc<dyn Clock>) -> Placements {
        Placements { name, look, client, clock, strays: Strays::default() }
    }
}

impl Work for Placements {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interest(&self) -> Vec<GroupResource> {
        SCOPES.iter().flat_map(|kinds| kinds.all()).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        let objects = self.interest().into_iter().flat_map(|kind| view.list(kind, None));
        self.strays.list(objects.map(Arc::as_ref));
        for object in SCOPES.iter().flat_map(|kinds| view.list(kinds.placements, None)) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        match event.kind {
            EventKind::Deleted => self.strays.forget(&event.object),
            _ => self.strays.note(&event.object),
        }
        // A changed label takes an object from one placement to another.
        for state in [Some(&event.object), event.previous.as_ref()].into_iter().flatten() {
            if let Some(placement) = placement_of(state) {
                queue.mark(placement, 0);
            }
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let (name, look, client, now) = (self.name, self.look, self.client.clone(), self.clock.now());
        let tasks: Vec<(Key, Vec<Key>)> = keys.into_iter().map(|key| (key.clone(), self.strays.of(&key))).collect();
        async move {
            let mut worked = Worked::default();
            for (key, strays) in tasks {
                let view = client.view();
                let next = match Scene::of(&view, &key, &strays).and_then(|scene| look(&scene, now)) {
                    Some((changes, next)) => commit(name, &client, &key, changes, next).await,
                    None => Next::Done,
                };
                worked.outcomes.push(Handled::new(key, next));
            }
            worked
        }
        .boxed()
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }
}

async fn commit(name: &str, client: &Client, key: &Key, changes: Changes, next: Next) -> Next {
    if changes.is_empty() {
        return next;
    }
    tracing::debug!(controller = name, %key, writes = changes.len(), "committing");
    let refused = match client.batch(changes, Atomicity::All).await {
        Ok(outcomes) => outcomes.into_iter().find_map(Result::err),
        Err(status) => Some(status),
    };
    let Some(status) = refused else { return next };
    tracing::debug!(controller = name, %key, %status, "not committed, looking again");
    Failure::of(&status).into()
}

/// One placement in one view.
pub(super) struct Scene<'a> {
    pub view: &'a View,
    pub kinds: &'static PlacementKinds,
    /// The placement itself.
    pub object: &'a Arc<Object>,
    /// The objects that belong to it but are not named after it.
    strays: &'a [Key],
}

impl<'a> Scene<'a> {
    fn of(view: &'a View, placement: &Key, strays: &'a [Key]) -> Option<Scene<'a>> {
        Some(Scene { view, kinds: PlacementKinds::of(placement.resource)?, object: view.get(placement)?, strays })
    }

    /// The snapshots or bindings of the placement.
    pub fn children(&self, resource: GroupResource) -> impl Iterator<Item = &'a Arc<Object>> {
        let placement = &self.object.key;
        // All others are named after the placement, so only a part of the kind is read.
        let named_alike = self.view.list_prefixed(resource, &placement.namespace, binding_prefix(&placement.name));
        let strays = self.strays.iter().filter(move |stray| stray.resource == resource);
        let strays = strays.filter_map(|stray| self.view.get(stray));
        named_alike.chain(strays).filter(move |object| placement_of(object).as_ref() == Some(placement))
    }

    /// Those that fit their kind's type.
    pub fn all<T: DeserializeOwned + Clone + Send + Sync + 'static>(&self, resource: GroupResource) -> Vec<T> {
        self.children(resource).filter_map(read::<T>).map(|object| T::clone(&object)).collect()
    }

    /// The snapshot in force.
    pub fn latest(&self, resource: GroupResource) -> Option<&'a Arc<Object>> {
        self.children(resource).find(|object| object.label(IS_LATEST_LABEL) == Some("true"))
    }

    /// The key of an object that belongs to the placement.
    pub fn key(&self, resource: GroupResource, name: &str) -> Key {
        Key { resource, namespace: self.object.key.namespace.clone(), name: name.into() }
    }

    pub fn create(&self, resource: GroupResource, object: &impl Serialize) -> (GroupResource, Change) {
        let mut tree = self.kinds.tree(resource, object);
        // Whoever reports the status writes it.
        tree.remove("status");
        (resource, Change::Create(tree))
    }

    pub fn update(&self, part: Part, resource: GroupResource, object: &impl Serialize) -> (GroupResource, Change) {
        (resource, Change::Update { part, object: self.kinds.tree(resource, object) })
    }
}

/// An object that does not fit its kind's type is logged and left alone.
pub(super) fn read<T: DeserializeOwned + Send + Sync + 'static>(object: &Arc<Object>) -> Option<Arc<T>> {
    object.typed().inspect_err(|error| tracing::warn!(%error, "left alone")).ok()
}
