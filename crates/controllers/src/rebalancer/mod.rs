//! WorkloadRebalancer: writes a trigger to the bindings of the listed workloads, once, and reports
//! that in its status.
//!
//! A workload may also be a placement of the KubeFleet family, an addition to the seed. Its trigger
//! is an annotation, see `api::fleet::placement::v1beta1::trigger`.
//!
//! *Invariant:* a workload is triggered exactly once per request, whatever fails or crashes. The
//! triggers and the status that reports them are one transaction. A list that is too long for one
//! transaction is processed in chunks, and each chunk writes a status with the results of its own
//! triggers. So after a restart, the status lists the completed workloads, and the plan never
//! triggers those again. `observedGeneration` and `finishTime` are written with the last chunk, so
//! a list in progress never looks finished.
//!
//! A chunk that conflicts is planned again, smaller (`ballast_worker::Attempts`).
//!
//! Two events report its progress: one when all triggers are written, and one when passes have
//! served all of them, with how many workloads moved, stayed and fit nowhere
//! (`events::TriggerTracker`).
//!
//! A rebalancer that fails does not delay the others. Several are processed at once, a long one
//! goes to the end of the queue after each chunk, and a failed one waits for its backoff.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::{BoxFuture, FutureExt};

use self::plan::{FollowUp, RebalancerState, TriggerPlan, TriggerTarget};
use ballast_api::fleet::placement::v1beta1::any::PlacementKinds;
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::apps::v1alpha1::{
    ObjectReference, RebalanceResult, WorkloadRebalancer, WorkloadRebalancerStatus,
};
use ballast_api::karmada::work::v1alpha2::{PartialBinding, Trigger, key_of_workload};
use ballast_base::clock::Clock;
use ballast_k8s::{Edit, GroupResource, Key, Object, Revision, Status, Time, read_json};
use ballast_registry::{Change, Client};
use ballast_resource::Resource;
use ballast_watch::{Event, View};
use ballast_worker::events::{Note, ObjectReference as EventReference, Recorder, Severity};
use ballast_worker::{Attempts, BatchOutcome, CommitFailure, Failure, KeyOutcome, Next, Queue, Work, commit_together};

pub const WORKLOAD_REBALANCERS: GroupResource = GroupResource::new("workloadrebalancers.apps.karmada.io");

/// Maximum number of bindings triggered in one transaction.
const TRIGGERS_PER_COMMIT_MAX: usize = 2_000;
/// Maximum number of rebalancers processed concurrently.
const CONCURRENCY: usize = 4;
/// Maximum number of workloads without a binding that an event names.
const NAMES_TOLD_MAX: usize = 3;

pub struct Rebalancer {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    in_progress: InProgress,
}

/// Rebalancers between two chunks, by key, as the last chunk left them. So long lists are not
/// parsed again for each chunk.
type InProgress = Arc<Mutex<HashMap<Key, (Revision, WorkloadRebalancer)>>>;

/// Maximum number of cached rebalancers. Others are parsed again.
const IN_PROGRESS_MAX: usize = CONCURRENCY;

impl Rebalancer {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder) -> Rebalancer {
        Rebalancer { client, clock, recorder: recorder.named("rebalancer"), in_progress: InProgress::default() }
    }
}

impl Work for Rebalancer {
    fn name(&self) -> &'static str {
        "rebalancer"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![WORKLOAD_REBALANCERS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(WORKLOAD_REBALANCERS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        queue.mark_changed(event.object.key.clone(), 0, event.revision);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, clock, recorder) = (self.client.clone(), Arc::clone(&self.clock), self.recorder.clone());
        let in_progress = Arc::clone(&self.in_progress);
        async move {
            BatchOutcome::one_by_one(keys, |key| rebalance(&client, &*clock, &recorder, &in_progress, key)).await
        }
        .boxed()
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }
}

async fn rebalance(
    client: &Client,
    clock: &dyn Clock,
    recorder: &Recorder,
    in_progress: &InProgress,
    key: Key,
) -> KeyOutcome {
    let mut attempts = Attempts::new(TRIGGERS_PER_COMMIT_MAX);
    let mut kept = lock(in_progress).remove(&key);
    while attempts.begin() {
        let view = client.view();
        let Some(object) = view.get(&key).filter(|object| !object.deleting) else {
            return KeyOutcome::new(key, Next::Done);
        };
        let known = kept.take().filter(|(revision, _)| *revision == object.revision);
        let is_known = known.is_some();
        let read = known.map_or_else(|| read_json(&object.text.content()), |(_, rebalancer)| Ok(rebalancer));
        let mut rebalancer: WorkloadRebalancer = match read {
            Ok(rebalancer) => rebalancer,
            Err(error) => {
                tracing::warn!(%key, %error, "cannot be read as a WorkloadRebalancer");
                return KeyOutcome::new(key, Next::Unschedulable);
            }
        };
        let now = clock.now();
        let entries = is_known.then(|| std::mem::take(&mut rebalancer.status.observed_workloads));
        let request = RebalancerState {
            created: rebalancer.metadata.creation_timestamp.unwrap_or(now),
            generation: object.generation,
            workloads: &rebalancer.spec.workloads,
            status: &rebalancer.status,
        };
        if plan::is_settled(request) {
            return KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(key, Next::Done) };
        }
        let find = |workload: &ObjectReference| find(&view, attempts.left_out(), workload);
        let plan = match entries {
            Some(entries) => plan::resume(request, entries, find, now, attempts.size()),
            None => plan::plan(request, find, now, attempts.size()),
        };
        let about = reference(&key, &rebalancer);
        // Recorded before the commit, because the scheduler may serve a trigger before this task
        // resumes.
        let noted = plan.triggers.iter().filter_map(|(key, time)| Some((key, pending_pass(view.get(key)?, *time))));
        for superseded in recorder.triggers().record(&about, noted) {
            recorder.record_summary(Some(superseded));
        }
        let committed = commit(client, &view, object, &about, &plan).await;
        match committed {
            Ok(written) => {
                if plan.then == FollowUp::Finished {
                    let (severity, message) = told(&plan.status);
                    recorder.record(Note::new(recorder, about.clone(), severity, "RescheduleAsked", message));
                    recorder.record_summary(recorder.triggers().close(&about));
                }
                tracing::info!(%key, triggered = plan.triggers.len(), is_finished = plan.then == FollowUp::Finished, "rebalanced");
                let next = match plan.then {
                    FollowUp::Finished => Next::Done,
                    FollowUp::Continue => Next::Again,
                    FollowUp::Retry => Next::Retry,
                };
                let mut in_progress = lock(in_progress);
                if plan.then == FollowUp::Continue && in_progress.len() < IN_PROGRESS_MAX {
                    let rebalancer = WorkloadRebalancer { status: plan.status, ..rebalancer };
                    in_progress.insert(key.clone(), (written.revision, rebalancer));
                }
                return KeyOutcome { seen: Some(written.revision), ..KeyOutcome::new(key, next) };
            }
            Err(failed) => {
                recorder.triggers().withdraw(&about, plan.triggers.iter().map(|(key, _)| key));
                for (key, status) in &failed.refused {
                    tracing::warn!(%key, %status, "a binding does not take its trigger");
                }
                if !attempts.adapt(Failure::of(&failed.status), failed.refused) {
                    tracing::warn!(%key, status = %failed.status, "the triggers cannot be written now");
                    break;
                }
            }
        }
    }
    KeyOutcome::new(key, Next::Retry)
}

fn lock(in_progress: &InProgress) -> MutexGuard<'_, HashMap<Key, (Revision, WorkloadRebalancer)>> {
    in_progress.lock().expect("no holder of this lock can panic")
}

/// Returns the reference for events about the rebalancer.
fn reference(key: &Key, rebalancer: &WorkloadRebalancer) -> EventReference {
    EventReference {
        api_version: Some(format!("{}/{}", WorkloadRebalancer::GROUP, WorkloadRebalancer::VERSION)),
        kind: Some(WorkloadRebalancer::KIND.to_owned()),
        name: Some(key.name.to_string()),
        uid: rebalancer.metadata.uid.clone(),
        ..EventReference::default()
    }
}

/// Formats the event of a finished rebalancer:
/// `Asked for fresh placements of 2. 1 without a binding: shop/db.`
fn told(status: &WorkloadRebalancerStatus) -> (Severity, String) {
    let failed = status.observed_workloads.iter().filter(|it| it.result == Some(RebalanceResult::Failed));
    let failed: Vec<&ObjectReference> = failed.map(|it| &it.workload).collect();
    let mut message = format!("Asked for fresh placements of {}.", status.observed_workloads.len() - failed.len());
    if failed.is_empty() {
        return (Severity::Normal, message);
    }
    let name = |it: &&ObjectReference| match it.namespace.as_deref().unwrap_or_default() {
        "" => it.name.clone(),
        namespace => format!("{namespace}/{}", it.name),
    };
    let names: Vec<String> = failed.iter().take(NAMES_TOLD_MAX).map(name).collect();
    let more = match failed.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    message.push_str(&format!(" {} without a binding: {}{more}.", failed.len(), names.join(", ")));
    (Severity::Warning, message)
}

fn find(view: &View, refused: &HashMap<Key, Status>, workload: &ObjectReference) -> TriggerTarget {
    let namespace = workload.namespace.as_deref().unwrap_or_default();
    let ObjectReference { api_version, kind, name, .. } = workload;
    if let Some(key) = trigger::placement_named(api_version, kind, namespace, name) {
        return find_placement(view, refused, key);
    }
    let key = key_of_workload(&workload.kind, namespace, &workload.name);
    if refused.contains_key(&key) {
        return TriggerTarget::Refused;
    }
    let Some(object) = view.get(&key) else { return TriggerTarget::Nothing };
    let content = object.text.content();
    let Ok(binding) = PartialBinding::of(&content) else { return TriggerTarget::Refused };
    let Some(bound) = binding.workload(&key) else { return TriggerTarget::Refused };
    if !bound.is_named(api_version, kind, name) {
        return TriggerTarget::Nothing;
    }
    TriggerTarget::Binding(key, binding.trigger())
}

/// Finds a KubeFleet placement, on which the trigger is written directly.
fn find_placement(view: &View, refused: &HashMap<Key, Status>, key: Key) -> TriggerTarget {
    let Some(object) = view.get(&key).filter(|object| !object.deleting) else { return TriggerTarget::Nothing };
    if refused.contains_key(&key) {
        return TriggerTarget::Refused;
    }
    let known = trigger::triggered_at(object);
    TriggerTarget::Placement(key, known)
}

/// Returns the pending pass of a trigger in the format of the object's API family.
fn pending_pass(object: &Object, timestamp: Time) -> Revision {
    if PlacementKinds::of(object.key.resource).is_some() { trigger::pending_pass(timestamp) } else { object.revision }
}

/// Returns the edits of a trigger in the format of the object's API family.
fn timestamp(object: &Object, time: Time, about: &EventReference) -> Vec<Edit> {
    match PlacementKinds::of(object.key.resource) {
        Some(_) => trigger::accepted(time, about).into(),
        None => Trigger::accepted(time, object.revision, about).into(),
    }
}

/// Commits the triggers and the status. Returns the committed rebalancer.
async fn commit(
    client: &Client,
    view: &View,
    rebalancer: &Arc<Object>,
    about: &EventReference,
    plan: &TriggerPlan,
) -> Result<Arc<Object>, CommitFailure> {
    let mut changes = Vec::with_capacity(plan.triggers.len() + 1);
    for (key, time) in &plan.triggers {
        let base = view.get(key).cloned().ok_or_else(|| Status::not_found(key.resource, &key.name))?;
        let edits = timestamp(&base, *time, about);
        changes.push((key.resource, Change::Edit { base, edits }));
    }
    let edits = vec![plan::edit(&plan.status).map_err(Status::internal)?];
    changes.push((WORKLOAD_REBALANCERS, Change::Edit { base: Arc::clone(rebalancer), edits }));
    let mut written = commit_together(client, changes, |key| key.resource != WORKLOAD_REBALANCERS).await?;
    Ok(written.pop().expect("the status is among the changes"))
}
