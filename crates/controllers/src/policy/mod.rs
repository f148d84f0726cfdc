//! Copies a changed PropagationPolicy or ClusterPropagationPolicy to the bindings that it manages
//! (R121).
//!
//! Labels and annotations of a binding reference its policy (`PolicyIds`). A policy is copied when
//! it is created, when its spec changes, and at start. As with Karmada, a manual change of a
//! binding persists until then. A binding that is created without a placement gets the placement of
//! its policy immediately.
//!
//! Karmada's detector, which creates the bindings, decides which policy claims a template first. A
//! binding whose policy was deleted, no longer selects it, or is preempted moves to the next policy
//! in upstream's order (`plan`). If there is none, the binding keeps its placement and loses the
//! reference, and the next policy that selects it claims it. Only a change that this server
//! observes has this effect, because an unknown policy may be on another server.
//!
//! All changed policies share one scan of the bindings. For a namespaced policy, the scan covers
//! the bindings of that namespace; for a cluster-wide policy, the bindings that it can affect
//! (`policy_index`). The index exists while there is a cluster-wide policy. Building it, for the
//! first such policy, reads all bindings once.

mod updates;
mod policy_index;
mod plan;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::{BoxFuture, FutureExt};

use self::policy_index::{BindingEntry, PolicyIndex};
use self::updates::{LivePolicies, Updates};
use super::commit::commit_all;
use ballast_api::karmada::policy::v1alpha1::{CLUSTER_PROPAGATION_POLICIES, POLICIES};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::Client;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Maximum number of policies that share one scan of the bindings.
const BATCH_MAX: usize = 10_000;
/// Number of bindings that are indexed before events are handled again: some milliseconds.
const INDEXED_PER_TURN: usize = 1_000;

pub struct Policies {
    client: Client,
    /// The index of the bindings, while there is a cluster-wide policy.
    index: Arc<Mutex<Option<PolicyIndex>>>,
}

impl Policies {
    pub fn new(client: Client) -> Policies {
        Policies { client, index: Arc::default() }
    }
}

impl Work for Policies {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn interest(&self) -> Vec<GroupResource> {
        POLICIES.into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for policy in POLICIES.into_iter().flat_map(|kind| view.list(kind, None)) {
            queue.mark(policy.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        if BINDINGS.contains(&event.object.key.resource) {
            if let Some(index) = lock(&self.index).as_mut() {
                match event.kind {
                    EventKind::Deleted => index.forget(&event.object.key),
                    EventKind::Created | EventKind::Updated => add_to_index(index, &event.object),
                }
            }
            if event.previous.is_none() && event.kind != EventKind::Deleted && lacks_placement(&event.object) {
                queue.mark(event.object.key.clone(), 0);
            }
            return;
        }
        let before = event.previous.as_ref().map(|object| (object.generation, &object.labels));
        if event.kind == EventKind::Deleted || before != Some((event.object.generation, &event.object.labels)) {
            queue.mark(event.object.key.clone(), 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, index) = (self.client.clone(), Arc::clone(&self.index));
        async move {
            let next = update_bindings(&client, &index, &keys).await;
            let outcomes = keys.into_iter().map(|key| KeyOutcome::new(key, next)).collect();
            BatchOutcome { outcomes, ..BatchOutcome::default() }
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// Updates the bindings of these policies, and these bindings. Returns the next step for all of
/// them.
async fn update_bindings(client: &Client, index: &Arc<Mutex<Option<PolicyIndex>>>, keys: &[Key]) -> Next {
    let (looker, index, changed) = (client.clone(), Arc::clone(index), keys.iter().cloned().collect());
    let updates = tokio::task::spawn_blocking(move || look(&looker, &index, &changed)).await;
    let Ok(Updates { looked_at, stale, .. }) = updates else { return Next::Retry };
    if !stale.is_empty() {
        tracing::info!(bindings = stale.len(), looked_at, "policies changed");
    }
    commit_all(client, stale).await
}

/// Finds the updates of the changed bindings and of bindings affected by the changed policies.
fn look(client: &Client, index: &Mutex<Option<PolicyIndex>>, changed: &BTreeSet<Key>) -> Updates {
    let asks_all = changed.iter().any(|key| key.resource == CLUSTER_PROPAGATION_POLICIES);
    let is_indexed = lock(index).as_ref().is_some_and(PolicyIndex::is_whole);
    if asks_all && !is_indexed {
        index_all(client, index);
    }
    let view = client.view();
    let live = LivePolicies::of(&view);
    let affected = updates::affected(&live, changed, lock(index).as_mut());
    let updates = updates::find(&view, &live, changed, &affected);
    for evaluated in updates.evaluated.chunks(INDEXED_PER_TURN) {
        if let Some(index) = lock(index).as_mut() {
            evaluated.iter().for_each(|(key, entry, is_selected)| index.record_selected(key, entry, *is_selected));
        }
    }
    if !live.has_cluster_wide() {
        *lock(index) = None;
    }
    updates
}

/// Indexes all bindings in chunks, so that events are handled between them. Each chunk reads a
/// separate view, not older than the events handled before. Later events update the index again.
fn index_all(client: &Client, index: &Mutex<Option<PolicyIndex>>) {
    *lock(index) = Some(PolicyIndex::default());
    for kind in BINDINGS {
        let mut place = Some(Key::cluster(kind, ""));
        while let Some(after) = place.take() {
            let mut slot = lock(index);
            let Some(index) = slot.as_mut() else { return };
            let view = client.view();
            let objects = view.list_after(kind, None, (&after.namespace, &after.name));
            for (count, object) in objects.take(INDEXED_PER_TURN).enumerate() {
                add_to_index(index, object);
                place = (count + 1 == INDEXED_PER_TURN).then(|| object.key.clone());
            }
        }
    }
    if let Some(index) = lock(index).as_mut() {
        index.end();
    }
}

fn add_to_index(index: &mut PolicyIndex, binding: &Object) {
    let content = binding.text.content();
    let entry = PartialBinding::of(&content).ok().and_then(|partial| BindingEntry::of(binding, &partial));
    index.upsert(&binding.key, entry);
}

fn lock(index: &Mutex<Option<PolicyIndex>>) -> MutexGuard<'_, Option<PolicyIndex>> {
    index.lock().expect("no holder of this lock can panic")
}

/// Returns whether the binding was created without a placement. A binding that cannot be parsed
/// counts as complete, because no policy can complete it.
fn lacks_placement(binding: &Object) -> bool {
    let content = binding.text.content();
    !shows_placement(&content) && PartialBinding::of(&content).is_ok_and(|binding| binding.spec.placement().is_none())
}

/// Returns whether the stored text contains a placement, without parsing it, which would be a
/// twentieth of the cost of a create. Labels and annotations are strings, so before the status only
/// the spec can have an object member of this name. False is not a proof of absence.
fn shows_placement(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Some(place) = text.find(r#""placement":{"#) else { return false };
    !text[..place].contains(r#""status":"#)
}

#[cfg(test)]
mod tests;
