//! Evicts workloads from clusters where they are unhealthy (see `plan`), for bindings with
//! `spec.failover.application`.
//!
//! As upstream, memory holds since when a workload is unhealthy. After a restart, the toleration
//! starts again.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use self::plan::{ApplicationEvictionPlan, Unhealthy};
use super::commit::commit_each;
use super::eviction_task::{APPLICATION_FAILURE, evict, preserve, remember_home, suppresses_deletion};
use super::tracked_bindings::TrackedBindings;
use ballast_api::karmada::policy::v1alpha1::{ApplicationFailoverBehavior, PurgeMode};
use ballast_api::karmada::work::v1alpha2::{
    AnyBinding, BINDINGS, GracefulEvictionTask, HAS_APPLICATION_FAILOVER, RESOURCE_BINDINGS,
};
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Object, Time};
use ballast_registry::Client;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

const BATCH_MAX: usize = 500;
/// The schema's default, for objects that were stored before the schema had it.
const TOLERATION_SECONDS: i32 = 300;

pub struct ApplicationFailover {
    client: Client,
    clock: Arc<dyn Clock>,
    guarded: TrackedBindings,
    /// Whether bindings whose scheduling is suspended leave nothing.
    holds_suspended: bool,
    unhealthy: Arc<Mutex<HashMap<Key, Unhealthy>>>,
}

impl ApplicationFailover {
    pub fn new(client: Client, clock: Arc<dyn Clock>, holds_suspended: bool) -> ApplicationFailover {
        let guarded = TrackedBindings::by(&HAS_APPLICATION_FAILOVER);
        ApplicationFailover { client, clock, guarded, holds_suspended, unhealthy: Arc::default() }
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
        async move {
            let view = client.view();
            let mut worked = BatchOutcome::default();
            let mut writes = Vec::new();
            for key in keys {
                let (next, seen, tree) = evaluate(&view, &key, &unhealthy, holds_suspended, now);
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

type Evaluation = (Next, Option<ballast_k8s::Revision>, Option<Map<String, Value>>);

fn evaluate(
    view: &View,
    key: &Key,
    unhealthy: &Mutex<HashMap<Key, Unhealthy>>,
    holds_suspended: bool,
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
        // No scheduler would replace what leaves (D87).
        return (Next::Done, seen, None);
    }
    let Some(behavior) = binding.spec.failover.as_ref().and_then(|failover| failover.application.clone()) else {
        return (Next::Done, seen, None);
    };
    let spec = &binding.spec;
    let toleration = behavior.decision_conditions.toleration_seconds.unwrap_or(TOLERATION_SECONDS);
    let reports = &binding.status.aggregated_status;
    let plan = plan::plan(&spec.clusters, reports, &spec.graceful_eviction_tasks, &known, i64::from(toleration), now);
    let next = match plan.next_check {
        Some(due) => Next::After((due.seconds() - now.seconds()).saturating_mul(1_000)),
        None => Next::Done,
    };
    let tree = match plan.leave.is_empty() {
        true => Ok(None),
        false => evicted(object, &binding, &behavior, &plan, now),
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

fn evicted(
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
    remember_home(&mut tree, binding, now);
    for cluster in &plan.leave {
        let mut task = GracefulEvictionTask {
            from_cluster: cluster.clone(),
            purge_mode: Some(mode),
            reason: APPLICATION_FAILURE.to_owned(),
            producer: producer.to_owned(),
            grace_period_seconds: behavior.grace_period_seconds.filter(|_| mode == PurgeMode::Gracefully),
            suppress_deletion: suppresses_deletion(mode),
            creation_timestamp: Some(now),
            ..GracefulEvictionTask::default()
        };
        preserve(behavior.state_preservation.as_ref(), binding, &mut task)?;
        evict(&mut tree, task).ok_or("it is not there any more")?;
    }
    tracing::info!(key = %object.key, leaves = plan.leave.join(", "), "evicted: the application does not run well there");
    Ok(Some(tree))
}
