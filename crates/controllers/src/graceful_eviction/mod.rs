//! Ends eviction tasks (see `plan`). Each binding with tasks is a key. It is checked when it
//! changes, when the taints of a cluster change, and when its next grace period ends.

mod plan;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use self::plan::{EvictionOrigin, EvictionState, TaskEnd, TaskPlan};
use super::clusters::{CLUSTERS, cluster_key, taints_changed};
use super::commit::commit_each;
use super::tracked_bindings::TrackedBindings;
use ballast_api::karmada::cluster::v1alpha1::{Cluster, Stay};
use ballast_api::karmada::policy::v1alpha1::ReplicaSchedulingType;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, BINDINGS, IS_EVICTING, RESOURCE_BINDINGS, ResourceBindingSpec};
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Object, Time, read_json};
use ballast_registry::Client;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

const BATCH_MAX: usize = 500;

pub struct GracefulEviction {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    /// The grace period of tasks that have none of their own.
    grace_seconds: i64,
    /// Whether tasks wait while scheduling is suspended and nothing replaces what leaves.
    holds_suspended: bool,
    leaving: TrackedBindings,
}

impl GracefulEviction {
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        recorder: &Recorder,
        grace_seconds: i64,
        holds_suspended: bool,
    ) -> GracefulEviction {
        let leaving = TrackedBindings::by(&IS_EVICTING);
        GracefulEviction { client, clock, recorder: recorder.clone(), grace_seconds, holds_suspended, leaving }
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
            if event.kind == EventKind::Deleted || taints_changed(event) {
                self.leaving.keys().for_each(|key| queue.mark(key.clone(), 0));
            }
        } else if self.leaving.note(event) && event.kind != EventKind::Deleted {
            queue.mark_changed(event.object.key.clone(), 0, event.revision);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, recorder) = (self.client.clone(), self.recorder.clone());
        let rules = TaskRules { grace_seconds: self.grace_seconds, holds_suspended: self.holds_suspended };
        let now = self.clock.now();
        async move {
            let view = client.view();
            let mut worked = BatchOutcome::default();
            let mut writes = Vec::new();
            let mut told = Vec::new();
            for key in keys {
                let Some((object, binding)) = read(&view, &key) else {
                    worked.outcomes.push(KeyOutcome::new(key, Next::Done));
                    continue;
                };
                let plan = judge(&view, object, &binding, rules, now);
                let next = match plan.next_check {
                    Some(due) => Next::After((due.seconds() - now.seconds()).saturating_mul(1_000)),
                    None => Next::Done,
                };
                match plan.tasks.as_ref().and_then(|_| with_tasks(object, &plan)) {
                    None => {
                        worked.outcomes.push(KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(key, next) })
                    }
                    Some(tree) => {
                        let clusters: Vec<&str> = plan.ended.iter().map(|(cluster, _)| &**cluster).collect();
                        tracing::info!(%key, clusters = clusters.join(", "), "evictions ended");
                        told.push(notes(&recorder, &key, binding, &plan));
                        writes.push((key, tree, next));
                    }
                }
            }
            let done = commit_each(&client, writes, &mut worked).await;
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

/// What decides when a task ends, besides the binding.
#[derive(Clone, Copy)]
struct TaskRules {
    grace_seconds: i64,
    holds_suspended: bool,
}

fn judge(view: &View, object: &Object, binding: &AnyBinding, rules: TaskRules, now: Time) -> TaskPlan {
    let spec = &binding.spec;
    let tolerations = spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
    let origin = |name: &str| match view.get(&cluster_key(name)) {
        None => EvictionOrigin::Gone,
        Some(cluster) => match cluster.typed::<Cluster>() {
            Ok(cluster) if !Stay::of(&cluster.spec.taints, tolerations, now).is_over(now) => EvictionOrigin::Friendly,
            // A binding does not stay on a cluster that cannot be parsed.
            _ => EvictionOrigin::Hostile,
        },
    };
    let leaving = EvictionState {
        tasks: &spec.graceful_eviction_tasks,
        targets: &spec.clusters,
        reports: &binding.status.aggregated_status,
        is_scheduled: binding.status.scheduler_observed_generation == Some(object.generation),
        is_replaced: is_replaced(spec),
        is_suspended: rules.holds_suspended
            && spec.suspension.as_ref().and_then(|suspension| suspension.scheduling) == Some(true),
    };
    plan::plan(leaving, rules.grace_seconds, origin, now)
}

fn is_replaced(spec: &ResourceBindingSpec) -> bool {
    let strategy = spec.placement.as_ref().and_then(|placement| placement.replica_scheduling.as_ref());
    let is_divided = strategy.is_some_and(|strategy| {
        strategy.replica_scheduling_type.unwrap_or(ReplicaSchedulingType::Divided) == ReplicaSchedulingType::Divided
    });
    let wanted = i64::from(spec.replicas.unwrap_or_default());
    let placed: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas.unwrap_or_default())).sum();
    is_divided && wanted > 0 && placed >= wanted
}

fn with_tasks(object: &Object, plan: &TaskPlan) -> Option<Map<String, Value>> {
    let mut tree = object.value().ok()?;
    let spec = tree.get_mut("spec")?.as_object_mut()?;
    match plan.tasks.as_deref()? {
        [] => spec.remove("gracefulEvictionTasks"),
        tasks => spec.insert("gracefulEvictionTasks".to_owned(), serde_json::to_value(tasks).ok()?),
    };
    Some(tree)
}

/// An event in upstream's words and under upstream's name. A cancelled eviction has none.
fn notes(recorder: &Recorder, key: &Key, binding: AnyBinding, plan: &TaskPlan) -> Vec<Note> {
    let source = match key.resource {
        RESOURCE_BINDINGS => "resource-binding-graceful-eviction-controller",
        _ => "cluster-resource-binding-graceful-eviction-controller",
    };
    let recorder = recorder.named(source);
    let over = plan.ended.iter().filter(|(_, end)| *end == TaskEnd::Over);
    let subjects = binding.subjects(key);
    let about_one = |(cluster, _): &(String, TaskEnd)| {
        let message = format!("Evict from cluster {cluster} succeed.");
        subjects.clone().map(|about| {
            let reason = "EvictWorkloadFromClusterSucceed";
            Note::new(&recorder, about, Severity::Normal, reason, message.clone())
        })
    };
    over.flat_map(about_one).collect()
}
