//! The loop that the controllers of KubeFleet placements share, and the objects of a placement in a
//! view.
//!
//! *Invariant:* a controller reads one placement from one view and writes one batch, all or
//! nothing. After a conflict it starts again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use ballast_api::fleet::placement::v1beta1::any::{PlacementKinds, SCOPES, placement_of};
use ballast_api::fleet::placement::v1beta1::strays::Strays;
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Object, Time};
use ballast_registry::{Change, Client, Part};
use ballast_watch::{Event, EventKind, View};
pub(super) use ballast_worker::Changes;
pub(super) use ballast_worker::placements::read;
use ballast_worker::placements::{self, commit, is_latest};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Maximum number of placements processed concurrently by each controller.
const CONCURRENCY: usize = 4;

/// Plans the changes of a placement, and the time of its next check. `None`: no change.
pub(super) type PlanChanges = fn(&PlacementView<'_>, Time) -> Option<(Changes, Next)>;

/// A loop over placements. An event about any object of a placement queues the placement.
pub struct PlacementController {
    name: &'static str,
    look: PlanChanges,
    client: Client,
    clock: Arc<dyn Clock>,
    strays: Strays,
}

impl PlacementController {
    pub(super) fn new(
        name: &'static str,
        look: PlanChanges,
        client: Client,
        clock: Arc<dyn Clock>,
    ) -> PlacementController {
        PlacementController { name, look, client, clock, strays: Strays::default() }
    }
}

impl Work for PlacementController {
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

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        match event.kind {
            EventKind::Deleted => self.strays.forget(&event.object),
            _ => self.strays.note(&event.object),
        }
        // A changed label moves an object from one placement to another.
        for state in [Some(&event.object), event.previous.as_ref()].into_iter().flatten() {
            if let Some(placement) = placement_of(state) {
                queue.mark(placement, 0);
            }
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (name, look, client, now) = (self.name, self.look, self.client.clone(), self.clock.now());
        let tasks: Vec<(Key, Vec<Key>)> = keys.into_iter().map(|key| (key.clone(), self.strays.of(&key))).collect();
        async move {
            let mut worked = BatchOutcome::default();
            for (key, strays) in tasks {
                let view = client.view();
                let next = match PlacementView::of(&view, &key, &strays)
                    .and_then(|placement_view| look(&placement_view, now))
                {
                    Some((changes, next)) => commit(name, &client, &key, changes, next).await,
                    None => Next::Done,
                };
                worked.outcomes.push(KeyOutcome::new(key, next));
            }
            worked
        }
        .boxed()
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }
}

/// One placement in one view.
pub(super) struct PlacementView<'a> {
    pub view: &'a View,
    pub kinds: &'static PlacementKinds,
    /// The placement itself.
    pub object: &'a Arc<Object>,
    /// Keys of objects that belong to the placement but are not named after it.
    strays: &'a [Key],
}

impl<'a> PlacementView<'a> {
    fn of(view: &'a View, placement: &Key, strays: &'a [Key]) -> Option<PlacementView<'a>> {
        Some(PlacementView {
            view,
            kinds: PlacementKinds::of(placement.resource)?,
            object: view.get(placement)?,
            strays,
        })
    }

    /// Returns the snapshots or bindings of the placement.
    pub fn children(&self, resource: GroupResource) -> impl Iterator<Item = &'a Arc<Object>> {
        placements::children(self.view, resource, &self.object.key, self.strays)
    }

    /// Returns the children of this kind that can be parsed.
    pub fn all<T: DeserializeOwned + Clone + Send + Sync + 'static>(&self, resource: GroupResource) -> Vec<T> {
        self.children(resource).filter_map(read::<T>).map(|object| T::clone(&object)).collect()
    }

    /// Returns the snapshot in force.
    pub fn latest(&self, resource: GroupResource) -> Option<&'a Arc<Object>> {
        self.children(resource).find(|object| is_latest(object))
    }

    /// Returns the key of an object that belongs to the placement.
    pub fn key(&self, resource: GroupResource, name: &str) -> Key {
        Key { resource, namespace: self.object.key.namespace.clone(), name: name.into() }
    }

    pub fn create(&self, resource: GroupResource, object: &impl Serialize) -> (GroupResource, Change) {
        let mut tree = self.kinds.tree(resource, object);
        // Only reports write the status.
        tree.remove("status");
        (resource, Change::Create(tree))
    }

    pub fn update(&self, part: Part, resource: GroupResource, object: &impl Serialize) -> (GroupResource, Change) {
        (resource, Change::Update { part, object: self.kinds.tree(resource, object) })
    }
}
