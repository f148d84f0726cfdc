//! Ends eviction tasks (see `plan`). Each binding with tasks is a key. It is checked when it
//! changes, when a cluster is deleted, when the taints or the readiness of a cluster change, and
//! when its next grace period ends.
//!
//! A binding with copies that are kept beyond their grace period has the condition `LastCopyKept`,
//! and gets a Warning event when that begins. Tasks, targets and the condition are written
//! together.

mod last_copy;
mod plan;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use self::last_copy::{LeavingWorkload, Reports, Wanted};
pub use self::plan::EvictionRules;
use self::plan::{EvictionOrigin, EvictionState, KeptCopies, TaskEnd, TaskPlan};
use super::clusters::{CLUSTERS, cluster_key, is_ready, readiness_changed, taints_changed};
use super::commit::commit_each_whole;
use super::eviction_task::record_change;
use super::places::{FreePlaces, Places};
use super::tracked_bindings::TrackedBindings;
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::karmada::cluster::v1alpha1::{Cluster, Stay};
use ballast_api::karmada::policy::v1alpha1::ReplicaSchedulingType;
use ballast_api::karmada::work::v1alpha2::{
    AnyBinding, BINDINGS, IS_EVICTING, LAST_COPY_KEPT, RESOURCE_BINDINGS, ResourceBindingSpec, TELLS_OF_KEPT_COPY,
    TargetCluster,
};
use ballast_api::meta::Condition;
use ballast_base::clock::Clock;
use ballast_k8s::{Flag, GroupResource, Key, Object, Time, read_json};
use ballast_registry::Client;
use ballast_scheduler::cause::Cause;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

const BATCH_MAX: usize = 500;
/// Maximum number of evictions that a log line names. Further ones are only counted.
const LOGGED_MAX: usize = 5;

/// A binding may still have the condition `LastCopyKept` after another writer ended its tasks.
static LEAVING: [&Flag; 2] = [&IS_EVICTING, &TELLS_OF_KEPT_COPY];

pub struct GracefulEviction {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    rules: EvictionRules,
    places: Option<Arc<Places>>,
    leaving: TrackedBindings,
}

impl GracefulEviction {
    /// Creates the controller. `places` checks which targets the scheduler would keep; without it,
    /// the former targets are restored unchanged.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        recorder: &Recorder,
        rules: EvictionRules,
        places: Option<Arc<Places>>,
    ) -> GracefulEviction {
        let leaving = TrackedBindings::by(&LEAVING);
        GracefulEviction { client, clock, recorder: recorder.clone(), rules, places, leaving }
    }
}

impl Work for GracefulEviction {
    fn name(&self) -> &'static str {
        "graceful-eviction"
    }

    fn interest(&self) -> Vec<GroupResource> {
        [CLUSTERS].into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        self.leaving.list(view);
        self.leaving.keys().for_each(|key| queue.mark(key.clone(), 0));
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        if event.object.key.resource == CLUSTERS {
            if event.kind == EventKind::Deleted || taints_changed(event) || readiness_changed(event) {
                self.leaving.keys().for_each(|key| queue.mark(key.clone(), 0));
            }
        } else if self.leaving.note(event) && event.kind != EventKind::Deleted {
            queue.mark_changed(event.object.key.clone(), 0, event.revision);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, recorder, places) = (self.client.clone(), self.recorder.clone(), self.places.clone());
        let (rules, now) = (self.rules, self.clock.now());
        async move {
            let mut view = client.view();
            let mut worked = BatchOutcome::default();
            let mut writes = Vec::new();
            let mut told = Vec::new();
            // Few batches cancel an eviction, and only these need the state of the clusters.
            let mut free = None;
            // Held until the write is in the log, so that no other decision takes the same
            // capacity.
            let mut _turn = None;
            if let Some(places) = places.as_ref().filter(|_| keys.iter().any(|key| may_take_room(&view, key))) {
                _turn = places.turn(client.cache()).await;
                let (newest, places) = places.present(client.cache(), now);
                (view, free) = (newest, Some(places));
            }
            for key in keys {
                let Some((object, binding)) = read(&view, &key) else {
                    worked.outcomes.push(KeyOutcome::new(key, Next::Done));
                    continue;
                };
                let admits = |targets: &[TargetCluster]| match &places {
                    None => true,
                    Some(places) => {
                        let free: &mut FreePlaces = free.get_or_insert_with(|| places.in_view(&view, now));
                        free.keeps(object, targets)
                    }
                };
                let plan = judge(&view, object, &binding, rules, admits, now);
                let next = match plan.next_check {
                    Some(due) => Next::After((due.seconds() - now.seconds()).saturating_mul(1_000)),
                    None => Next::Done,
                };
                match planned(object, &binding, &plan, now) {
                    None => {
                        worked.outcomes.push(KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(key, next) })
                    }
                    Some(tree) => {
                        log_ended(&key, &plan.ended);
                        if let Some(kept) = &plan.kept {
                            tracing::warn!(%key, message = kept.message, "an eviction does not end");
                        }
                        told.push(notes(&recorder, &key, &binding, &plan));
                        writes.push((key, tree, next));
                    }
                }
            }
            let done = commit_each_whole(&client, writes, &mut worked).await;
            for notes in told.into_iter().zip(done).filter_map(|(notes, done)| done.then_some(notes)) {
                notes.into_iter().for_each(|note| recorder.record(note));
            }
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

fn read<'a>(view: &'a View, key: &Key) -> Option<(&'a Arc<Object>, AnyBinding)> {
    let object = view.get(key).filter(|object| !object.deleting)?;
    let binding: AnyBinding = read_json(&object.text.content()).ok()?;
    (!binding.is_elsewhere(key)).then_some((object, binding))
}

/// Returns whether cancelling an eviction may take capacity that the binding does not hold: a task
/// that a user wrote may lack the number of replicas.
fn may_take_room(view: &View, key: &Key) -> bool {
    read(view, key).is_some_and(|(_, binding)| {
        let is_divided = matches!(wanted(&binding.spec), Wanted::Divided(_));
        is_divided && binding.spec.graceful_eviction_tasks.iter().any(|task| task.replicas.is_none())
    })
}

fn judge(
    view: &View,
    object: &Object,
    binding: &AnyBinding,
    rules: EvictionRules,
    admits: impl FnMut(&[TargetCluster]) -> bool,
    now: Time,
) -> TaskPlan {
    let spec = &binding.spec;
    let tolerations = spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
    let origin = |name: &str| match view.get(&cluster_key(name)) {
        None => EvictionOrigin::Gone,
        Some(cluster) if cluster.deleting => EvictionOrigin::Deleting,
        Some(cluster) => match cluster.typed::<Cluster>() {
            Ok(cluster) if !Stay::of(&cluster.spec.taints, tolerations, now).is_over(now) => match is_ready(&cluster) {
                true => EvictionOrigin::Well,
                false => EvictionOrigin::Friendly,
            },
            // A binding does not stay on a cluster that cannot be parsed.
            _ => EvictionOrigin::Hostile,
        },
    };
    let reports = Reports::new(&binding.status.aggregated_status);
    let workload = LeavingWorkload { wanted: wanted(spec), targets: &spec.clusters, reports: &reports };
    let leaving = EvictionState {
        tasks: &spec.graceful_eviction_tasks,
        workload,
        is_scheduled: binding.status.scheduler_observed_generation == Some(object.generation),
        is_suspended: rules.holds_suspended
            && spec.suspension.as_ref().and_then(|suspension| suspension.scheduling) == Some(true),
    };
    plan::plan(leaving, rules, origin, admits, now)
}

fn wanted(spec: &ResourceBindingSpec) -> Wanted {
    let strategy = spec.placement.as_ref().and_then(|placement| placement.replica_scheduling.as_ref());
    let is_divided = strategy.is_some_and(|strategy| {
        strategy.replica_scheduling_type.unwrap_or(ReplicaSchedulingType::Divided) == ReplicaSchedulingType::Divided
    });
    // A workload of several pod templates is placed as a whole.
    match (is_divided, spec.components.len()) {
        (true, 0 | 1) if spec.replicas.is_some() => Wanted::Divided(i64::from(spec.replicas.unwrap_or_default())),
        (_, 0 | 1) => Wanted::Copies(spec.replicas.filter(|&replicas| replicas > 0)),
        _ => Wanted::Copies(None),
    }
}

/// Returns the binding to write, or `None` if nothing changes.
fn planned(object: &Object, binding: &AnyBinding, plan: &TaskPlan, now: Time) -> Option<Map<String, Value>> {
    let conditions = conditions(&binding.status.conditions, plan.kept.as_ref(), now);
    if plan.tasks.is_none() && plan.targets.is_none() && conditions.is_none() {
        return None;
    }
    let mut tree = object.value().ok()?;
    let spec = tree.get_mut("spec")?.as_object_mut()?;
    if let Some(tasks) = &plan.tasks {
        put(spec, "gracefulEvictionTasks", tasks)?;
    }
    if let Some(targets) = &plan.targets {
        put(spec, "clusters", targets)?;
    }
    if let Some(conditions) = conditions {
        let status = tree.entry("status").or_insert_with(|| Value::Object(Map::new()));
        put(status.as_object_mut()?, "conditions", &conditions)?;
    }
    let off = plan.ended.iter().filter(|(_, end)| matches!(end, TaskEnd::CalledOff { .. }));
    record_change(&mut tree, binding, &Cause::CalledOff(off.map(|(name, _)| name.clone()).collect()), now);
    Some(tree)
}

/// Writes a list, or removes the member if the list is empty.
fn put<T: serde::Serialize>(members: &mut Map<String, Value>, name: &str, list: &[T]) -> Option<()> {
    match list {
        [] => members.remove(name),
        list => members.insert(name.to_owned(), serde_json::to_value(list).ok()?),
    };
    Some(())
}

/// Returns the conditions with the kept copies, or `None` if they are up to date.
fn conditions(known: &[Condition], kept: Option<&KeptCopies>, now: Time) -> Option<Vec<Condition>> {
    let mut after = known.to_vec();
    match kept {
        None => after.retain(|condition| condition.type_ != LAST_COPY_KEPT),
        Some(KeptCopies { reason, message }) => {
            let generation = known.iter().find(|condition| condition.type_ == LAST_COPY_KEPT);
            let generation = generation.and_then(|condition| condition.observed_generation);
            let update = ConditionUpdate { type_: LAST_COPY_KEPT, status: "True", reason, message };
            conditions::set(&mut after, generation, now, update);
        }
    }
    (after != known).then_some(after)
}

/// Logs the ended evictions of a binding in one line, because a user may write any number of tasks.
fn log_ended(key: &Key, ended: &[(String, TaskEnd)]) {
    let named: Vec<String> = ended.iter().take(LOGGED_MAX).map(|(name, end)| format!("{name}: {end:?}")).collect();
    if !named.is_empty() {
        let (evictions, clusters) = (ended.len(), named.join(", "));
        tracing::info!(%key, evictions, clusters, "evictions ended");
    }
}

/// Returns the events of ended evictions. An eviction that is over has upstream's message and
/// reason.
fn notes(recorder: &Recorder, key: &Key, binding: &AnyBinding, plan: &TaskPlan) -> Vec<Note> {
    let source = match key.resource {
        RESOURCE_BINDINGS => "resource-binding-graceful-eviction-controller",
        _ => "cluster-resource-binding-graceful-eviction-controller",
    };
    let recorder = recorder.named(source);
    let mut told = Vec::new();
    for (cluster, end) in &plan.ended {
        match end {
            TaskEnd::Over { lost } => {
                let message = format!("Evict from cluster {cluster} succeed.");
                told.push((Severity::Normal, "EvictWorkloadFromClusterSucceed", message));
                let message = last_copy_lost(wanted(&binding.spec), *lost, cluster);
                told.extend(message.map(|message| (Severity::Warning, "LastCopyLost", message)));
            }
            TaskEnd::CalledOff { replicas } => {
                let stays = match replicas {
                    None => "The object stays".to_owned(),
                    Some(1) => "1 replica stays".to_owned(),
                    Some(replicas) => format!("{replicas} replicas stay"),
                };
                let message = format!("{stays} on {cluster}: the reason of the eviction has ended.");
                told.push((Severity::Normal, "EvictionCalledOff", message));
            }
            TaskEnd::Placed => {}
        }
    }
    let known = binding.status.conditions.iter().find(|condition| condition.type_ == LAST_COPY_KEPT);
    if let Some(kept) = plan.kept.as_ref().filter(|kept| known.is_none_or(|known| known.message != kept.message)) {
        told.push((Severity::Warning, LAST_COPY_KEPT, kept.message.clone()));
    }
    let subjects = binding.subjects(key);
    let about = |(severity, reason, message): (Severity, &'static str, String)| {
        let recorder = &recorder;
        subjects.clone().map(|about| Note::new(recorder, about, severity, reason, message.clone()))
    };
    told.into_iter().flat_map(about).collect()
}

/// Returns a message about the lost replicas, or `None` if there are none.
fn last_copy_lost(wanted: Wanted, lost: i64, cluster: &str) -> Option<String> {
    let replicas = match wanted {
        Wanted::Divided(_) => Some(lost),
        Wanted::Copies(replicas) => replicas.map(i64::from),
    };
    let what = match replicas {
        Some(1) => "1 replica was".to_owned(),
        Some(replicas) => format!("{replicas} replicas were"),
        None => "the object was".to_owned(),
    };
    (lost > 0).then(|| format!("{what} not ready elsewhere, and left {cluster}"))
}
