//! Keeps a deleted Cluster, by upstream's finalizer, until no binding is placed on it.
//!
//! The deletion must survive restarts while bindings still have the cluster as a target. The
//! finalizer keeps the Cluster, with its deletion timestamp, while `failover` and the scheduler
//! move the bindings. When the last binding has left, this controller removes the finalizer and the
//! Cluster is deleted.
//!
//! As upstream, all bindings count, including bindings of another scheduler and bindings with
//! suspended scheduling. This scheduler does not move these, so the Cluster waits until another
//! actor does. A log line and an event on the Cluster name one of them.
//!
//! Differs from Karmada (D49): there is no execution namespace to wait for. Where Karmada's cluster
//! controller runs, this controller must not (`--manage-cluster-finalizer=false`).

mod plan;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::json;

pub use self::plan::FINALIZER;
use self::plan::{FinalizerPlan, ObservedCluster};
use super::clusters::{CLUSTERS, reference_to_cluster};
use super::commit::commit_one;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::{Change, Client, Part};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Maximum number of clusters processed concurrently.
const CONCURRENCY: usize = 4;

pub struct ClusterFinalizer {
    client: Client,
    recorder: Recorder,
    /// The clusters that are being deleted, each with the binding that it waits for. Only a change
    /// of that binding queues the cluster again; while the binding is unknown, any change does.
    leaving: Arc<Mutex<BTreeMap<Key, Option<Key>>>>,
}

impl ClusterFinalizer {
    pub fn new(client: Client, recorder: &Recorder) -> ClusterFinalizer {
        ClusterFinalizer { client, recorder: recorder.named("cluster-controller"), leaving: Arc::default() }
    }
}

impl Work for ClusterFinalizer {
    fn name(&self) -> &'static str {
        "cluster-finalizer"
    }

    fn interest(&self) -> Vec<GroupResource> {
        [CLUSTERS].into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        let leaving = view.list(CLUSTERS, None).filter(|cluster| cluster.deleting);
        *lock(&self.leaving) = leaving.map(|cluster| (cluster.key.clone(), None)).collect();
        for cluster in view.list(CLUSTERS, None) {
            queue.mark(cluster.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let object = &event.object;
        let mut leaving = lock(&self.leaving);
        if object.key.resource != CLUSTERS {
            let may_be_held = |holder: &Option<Key>| holder.as_ref().is_none_or(|holder| *holder == object.key);
            let concerned = leaving.iter().filter(|(_, holder)| may_be_held(holder));
            return concerned.for_each(|(cluster, _)| queue.mark(cluster.clone(), 0));
        }
        if event.kind == EventKind::Deleted {
            leaving.remove(&object.key);
            return;
        }
        if object.deleting {
            leaving.entry(object.key.clone()).or_default();
        }
        queue.mark_changed(object.key.clone(), 0, event.revision);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, recorder, leaving) = (self.client.clone(), self.recorder.clone(), Arc::clone(&self.leaving));
        async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                let next = reconcile(&client, &recorder, &leaving, &key).await;
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

type Leaving = Mutex<BTreeMap<Key, Option<Key>>>;

fn lock(leaving: &Leaving) -> std::sync::MutexGuard<'_, BTreeMap<Key, Option<Key>>> {
    leaving.lock().expect("no holder of this lock can panic")
}

async fn reconcile(client: &Client, recorder: &Recorder, leaving: &Leaving, key: &Key) -> Next {
    // Taken before the view is, so that a change in between queues the cluster again.
    let known = lock(leaving).get_mut(key).and_then(Option::take);
    let view = client.view();
    let Some(object) = view.get(key) else { return Next::Done };
    let Ok(cluster) = object.typed::<Cluster>() else { return Next::Unschedulable };
    let holder = match object.deleting {
        true => holder_of(&view, key, known.as_ref()).await,
        false => None,
    };
    if let Some(known) = lock(leaving).get_mut(key) {
        known.clone_from(&holder);
    }
    let finalizers = &cluster.metadata.finalizers;
    match plan::plan(ObservedCluster { is_deleting: object.deleting, finalizers, holder: holder.as_ref() }) {
        FinalizerPlan::Keep => Next::Done,
        FinalizerPlan::Wait => {
            if let Some(holder) = holder.filter(|holder| known.as_ref() != Some(holder)) {
                tracing::info!(%key, %holder, "a deleted cluster waits for the bindings that are placed on it");
                recorder.record(waits(recorder, object, &holder));
            }
            Next::Done
        }
        FinalizerPlan::Write(finalizers) => {
            let Some(change) = with_finalizers(object, &finalizers) else { return Next::Unschedulable };
            commit_one(client, key, change, Next::Done).await
        }
    }
}

/// Finds a binding that is placed on the cluster: `known` if it still is, otherwise the next one in
/// key order. While the bindings leave one by one, each is therefore read about once.
async fn holder_of(view: &Arc<View>, cluster: &Key, known: Option<&Key>) -> Option<Key> {
    let name = cluster.name.to_string();
    let is_on = move |object: &&Arc<Object>| {
        PartialBinding::of(&object.text.content()).is_ok_and(|binding| binding.spec.is_on(&name))
    };
    if let Some(known) = known.and_then(|known| view.get(known)).filter(&is_on) {
        return Some(known.key.clone());
    }
    let (view, known) = (Arc::clone(view), known.cloned());
    // This may read every binding, which would block the runtime thread for too long.
    let found = tokio::task::spawn_blocking(move || {
        let after = |known: Key| {
            let place = (&*known.namespace, &*known.name);
            view.list_after(known.resource, None, place).find(&is_on).map(|object| object.key.clone())
        };
        let all = || BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        known.and_then(after).or_else(|| all().find(&is_on).map(|object| object.key.clone()))
    });
    // A shutdown may cancel the search. Then the cluster is its own holder, and no event is lost.
    found.await.unwrap_or_else(|_| Some(cluster.clone()))
}

fn with_finalizers(cluster: &Object, finalizers: &[String]) -> Option<Change> {
    let mut object = cluster.value().ok()?;
    object.get_mut("metadata")?.as_object_mut()?.insert("finalizers".to_owned(), json!(finalizers));
    Some(Change::Update { part: Part::Main, object })
}

fn waits(recorder: &Recorder, cluster: &Object, holder: &Key) -> Note {
    let about = reference_to_cluster(cluster);
    let message = format!(
        "The cluster is deleted when no binding is placed on it. {holder} still is. A binding that is suspended, or \
         that another scheduler places, has to be resumed or moved."
    );
    Note::new(recorder, about, Severity::Normal, "WaitingForBindings", message)
}
