//! Evicts workloads from clusters where they are unhealthy (see `plan`), for bindings with
//! `spec.failover.application`.
//!
//! As upstream, the time since when a workload is unhealthy is held in memory only. After a
//! restart, the toleration starts again.
//!
//! Differs from Karmada (D121): a workload that no other cluster can take stays where it is (RM25),
//! and the wait between attempts grows (RM26). Upstream would remove the last copy and schedule it
//! to the same cluster again, indefinitely.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use self::plan::{ATTEMPTS, ApplicationEvictionPlan, Attempts, Unhealthy};
use super::commit::commit_each;
use super::eviction_task::{
    APPLICATION_FAILURE, evict, evicted_from, preserve, record_change, remember_home, suppresses_deletion,
};
use super::places::{FreePlaces, Places, kept_notes};
use super::tracked_bindings::TrackedBindings;
use ballast_api::karmada::policy::v1alpha1::{ApplicationFailoverBehavior, PurgeMode};
use ballast_api::karmada::work::v1alpha2::{
    AnyBinding, BINDINGS, GracefulEvictionTask, HAS_APPLICATION_FAILOVER, RESOURCE_BINDINGS,
};
use ballast_base::clock::Clock;
use ballast_k8s::{Flag, GroupResource, Key, Object, Time};
use ballast_registry::Client;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::Recorder;
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

const BATCH_MAX: usize = 500;
/// Interval between two searches for another cluster. A search costs one scheduling decision, some
/// 10 µs, and a delay of a minute is short compared to the default toleration of five minutes.
const NOWHERE_LOOK_AGAIN_SECONDS: i64 = 60;

static GUARDED: [&Flag; 1] = [&HAS_APPLICATION_FAILOVER];
/// The default of the schema, for objects that were stored before the schema had it.
const TOLERATION_SECONDS: i32 = 300;

pub struct ApplicationFailover {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    places: Option<Arc<Places>>,
    guarded: TrackedBindings,
    /// Whether bindings with suspended scheduling are exempt from eviction.
    holds_suspended: bool,
    unhealthy: Arc<Mutex<HashMap<Key, Unhealthy>>>,
}

impl ApplicationFailover {
    /// Creates the controller. Without `places`, workloads are evicted without a search for another
    /// cluster, as upstream.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        recorder: &Recorder,
        holds_suspended: bool,
        places: Option<Arc<Places>>,
    ) -> ApplicationFailover {
        let guarded = TrackedBindings::by(&GUARDED);
        let recorder = recorder.named("application-failover-controller");
        ApplicationFailover { client, clock, recorder, places, guarded, holds_suspended, unhealthy: Arc::default() }
    }
}

impl Work for ApplicationFailover {
    fn name(&self) -> &'static str {
        "application-failover"
    }

    fn interest(&self) -> Vec<GroupResource> {
        BINDINGS.to_vec()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        self.guarded.list(view);
        self.guarded.keys().for_each(|key| queue.mark(key.clone(), 0));
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        if !self.guarded.note(event) {
            return;
        }
        let key = event.object.key.clone();
        if event.kind == EventKind::Deleted {
            self.unhealthy.lock().expect("no holder of this lock can panic").remove(&key);
        } else {
            queue.mark_changed(key, 0, event.revision);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, now) = (self.client.clone(), self.clock.now());
        let (unhealthy, holds_suspended) = (Arc::clone(&self.unhealthy), self.holds_suspended);
        let (recorder, places) = (self.recorder.clone(), self.places.clone());
        async move {
            let view = client.view();
            let mut worked = BatchOutcome::default();
            let mut writes = Vec::new();
            let mut search = places.map(|places| PlaceSearch { places, view: Arc::clone(&view), now, free: None });
            for key in keys {
                let search = search.as_mut();
                let (next, seen, tree) = evaluate(&view, &key, &unhealthy, holds_suspended, search, &recorder, now);
                match tree {
                    None => worked.outcomes.push(KeyOutcome { key, next, seen }),
                    Some(tree) => writes.push((key, tree, next)),
                }
            }
            commit_each(&client, writes, &mut worked).await;
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// Snapshots the clusters when the first workload of a batch needs a search.
struct PlaceSearch {
    places: Arc<Places>,
    view: Arc<View>,
    now: Time,
    free: Option<FreePlaces>,
}

impl PlaceSearch {
    /// Returns the subset of the clusters in `leave` that the workload can leave, and the reason
    /// why it cannot leave the others.
    fn clusters_to_leave(&mut self, object: &Arc<Object>, leave: &[String]) -> (Vec<String>, Option<String>) {
        let free = self.free.get_or_insert_with(|| self.places.in_view(&self.view, self.now));
        let mut left: Vec<String> = Vec::new();
        let (mut found, mut refusal) = (None, None);
        for cluster in leave {
            let names: Vec<&str> = left.iter().chain([cluster]).map(String::as_str).collect();
            match free.find_other(object, &names) {
                Ok(place) => {
                    left.push(cluster.clone());
                    found = Some(place);
                }
                Err(why) => refusal = Some(why),
            }
        }
        // The last placement found excludes all of these clusters.
        if let Some(place) = found {
            free.take(&place);
        }
        (left, refusal)
    }
}

type Evaluation = (Next, Option<ballast_k8s::Revision>, Option<Map<String, Value>>);

fn evaluate(
    view: &View,
    key: &Key,
    unhealthy: &Mutex<HashMap<Key, Unhealthy>>,
    holds_suspended: bool,
    search: Option<&mut PlaceSearch>,
    recorder: &Recorder,
    now: Time,
) -> Evaluation {
    let mut unhealthy = unhealthy.lock().expect("no holder of this lock can panic");
    let known = unhealthy.remove(key).unwrap_or_default();
    let object = view.get(key).filter(|object| !object.deleting);
    let read = object.and_then(|object| {
        let binding: AnyBinding = serde_json::from_slice(&object.text.content()).ok()?;
        Some((object, binding)).filter(|(_, binding)| !binding.is_elsewhere(key))
    });
    let Some((object, binding)) = read else {
        return (Next::Done, None, None);
    };
    let seen = Some(object.revision);
    if holds_suspended && binding.spec.suspension.as_ref().and_then(|suspension| suspension.scheduling) == Some(true) {
        // No scheduler would replace the evicted replicas (D87).
        return (Next::Done, seen, None);
    }
    let Some(behavior) = binding.spec.failover.as_ref().and_then(|failover| failover.application.clone()) else {
        return (Next::Done, seen, None);
    };
    let spec = &binding.spec;
    let toleration = behavior.decision_conditions.toleration_seconds.unwrap_or(TOLERATION_SECONDS);
    let reports = &binding.status.aggregated_status;
    let tasks = &spec.graceful_eviction_tasks;
    let mut plan = plan::plan(&spec.clusters, reports, tasks, &known, i64::from(toleration), now);
    if let Some(search) = search {
        hold_back(&mut plan, search, object, &binding, recorder);
    }
    let next = match plan.next_check {
        Some(due) => Next::After((due.seconds() - now.seconds()).saturating_mul(1_000)),
        None => Next::Done,
    };
    let tree = match plan.leave.is_empty() {
        true => Ok(None),
        false => evicted(view, object, &binding, &behavior, &plan, now),
    };
    if !plan.unhealthy.is_empty() {
        unhealthy.insert(key.clone(), plan.unhealthy);
    }
    match tree {
        Ok(tree) => (next, seen, tree),
        Err(why) => {
            tracing::warn!(%key, why, "not evicted, trying again");
            (Next::Retry, seen, None)
        }
    }
}

/// Removes the clusters from the plan that the workload cannot leave now, either because the last
/// attempt was too recent or because no other cluster can take the workload.
fn hold_back(
    plan: &mut ApplicationEvictionPlan,
    search: &mut PlaceSearch,
    object: &Arc<Object>,
    binding: &AnyBinding,
    recorder: &Recorder,
) {
    if plan.leave.is_empty() {
        return;
    }
    let now = search.now;
    let attempts = Attempts::read(binding.metadata.annotations.get(ATTEMPTS).map(String::as_str));
    let look_again = |plan: &mut ApplicationEvictionPlan, due: Time| {
        plan.next_check = Some(plan.next_check.map_or(due, |other| other.min(due)));
    };
    if let Some(due) = attempts.map(|attempts| attempts.next_from(now)).filter(|due| *due > now) {
        plan.leave.clear();
        return look_again(plan, due);
    }
    let (left, refusal) = search.clusters_to_leave(object, &plan.leave);
    let Some(why) = refusal else { return };
    let stays: Vec<&str> = plan.leave.iter().filter(|cluster| !left.contains(cluster)).map(String::as_str).collect();
    tracing::info!(key = %object.key, clusters = stays.join(", "), why, "not evicted: there is no other place");
    kept_notes(recorder, object, binding, &stays).into_iter().for_each(|note| recorder.record(note));
    plan.leave = left;
    look_again(plan, now.plus_seconds(NOWHERE_LOOK_AGAIN_SECONDS));
}

fn evicted(
    view: &View,
    object: &Object,
    binding: &AnyBinding,
    behavior: &ApplicationFailoverBehavior,
    plan: &ApplicationEvictionPlan,
    now: Time,
) -> Result<Option<Map<String, Value>>, String> {
    let mut tree = object.value().map_err(|error| error.to_string())?;
    let mode = behavior.purge_mode.unwrap_or(PurgeMode::Gracefully);
    let producer = match object.key.resource {
        RESOURCE_BINDINGS => "resource-binding-application-failover-controller",
        _ => "cluster-resource-binding-application-failover-controller",
    };
    remember_home(&mut tree, binding, &object.key, view, now);
    for cluster in &plan.leave {
        let mut task = GracefulEvictionTask {
            from_cluster: cluster.clone(),
            purge_mode: Some(mode),
            reason: APPLICATION_FAILURE.to_owned(),
            producer: producer.to_owned(),
            grace_period_seconds: behavior.grace_period_seconds.filter(|_| mode.renamed() == PurgeMode::Gracefully),
            suppress_deletion: suppresses_deletion(mode),
            creation_timestamp: Some(now),
            ..GracefulEvictionTask::default()
        };
        preserve(behavior.state_preservation.as_ref(), binding, &mut task)?;
        evict(&mut tree, task).ok_or("it is not there any more")?;
    }
    note_attempt(&mut tree, binding, now).ok_or("it has no metadata")?;
    let cause = evicted_from(binding, plan.leave.iter().map(|cluster| (&**cluster, APPLICATION_FAILURE)));
    record_change(&mut tree, binding, &cause, now);
    tracing::info!(key = %object.key, leaves = plan.leave.join(", "), "evicted: the application does not run well there");
    Ok(Some(tree))
}

fn note_attempt(tree: &mut Map<String, Value>, binding: &AnyBinding, now: Time) -> Option<()> {
    let known = Attempts::read(binding.metadata.annotations.get(ATTEMPTS).map(String::as_str));
    let attempts = serde_json::to_string(&Attempts::and_now(known, now)).ok()?;
    let metadata = tree.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    annotations.as_object_mut()?.insert(ATTEMPTS.to_owned(), Value::from(attempts));
    Some(())
}
