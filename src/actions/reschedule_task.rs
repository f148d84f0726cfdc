//! RescheduleTask: marks the bindings that it selects, so that the scheduler places them afresh
//! (R8-R25).
//!
//! A mark sets both triggers in one write per binding: `spec.forceRescheduling`, and the present
//! time as the stamp (C7), with the debt of a pass (C10). The call returns when the marks of all
//! selected bindings are durable (R27). It does not wait for the scheduler (R23).
//!
//! *Invariant:* after an error, some bindings may be marked and others not. That is harmless,
//! because the kind does not promise idempotency (R20): the caller can post again.
//!
//! A task may also name a placement of the Fleet family, which is an addition to the seed. The
//! placement gets a stamp too, and its decision is carried out by its rollout strategy. It must be
//! named by its kind: a task that selects everything selects bindings only.
//!
//! The task leaves an event and a log line with the number of bindings that it marked, and one more
//! event when all of them have been placed afresh.
//!
//! The server does not have the templates, so label selectors look at the labels of the bindings.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::fleet::placement::v1beta1::any::{PlacementKinds, SCOPES};
use crate::api::fleet::placement::v1beta1::trigger;
use crate::api::karmada::policy::v1alpha1::{LoweredSelector, POLICIES, PolicyIds, ResourceSelector};
use crate::api::karmada::task::v1alpha1::{PolicySelector, RescheduleTask, RescheduleTaskSpec};
use crate::api::karmada::work::v1alpha2::{BINDINGS, BindingSketch, ObjectReference, Trigger};
use crate::clock::Clock;
use crate::events::{Note, ObjectReference as EventReference, Recorder, Severity};
use crate::k8s::{Edit, Key, Object, Revision, Status, Time, User};
use crate::registry::{Action, Atomicity, Change, Client};
use crate::resource::Resource;
use crate::watch::View;

/// Bindings marked in one transaction.
const MARKS_PER_COMMIT_MAX: usize = 2_000;
/// How often bindings that change meanwhile are read again.
const ATTEMPTS_MAX: usize = 10;

pub struct RescheduleTasks {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
}

impl RescheduleTasks {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder) -> RescheduleTasks {
        RescheduleTasks { client, clock, recorder: recorder.clone() }
    }
}

#[async_trait]
impl Action for RescheduleTasks {
    async fn create(&self, _caller: &User, object: &mut Map<String, Value>, dry_run: bool) -> Result<(), Status> {
        let task = RescheduleTask::deserialize(&*object).map_err(|error| Status::bad_request(error.to_string()))?;
        let about = reference(&task);
        let view = self.client.view();
        // This reads every binding. It takes milliseconds for thousands of them, which is too long
        // on a thread that serves requests.
        let selected = tokio::task::spawn_blocking(move || selected(task.spec, &view));
        let selected = selected.await.map_err(|_| Status::internal("failed to select bindings"))?;
        if dry_run {
            return Ok(());
        }
        let count = selected.len();
        let marked = self.mark(selected, &about).await;
        let (severity, message) = match &marked {
            Ok(()) => (Severity::Normal, format!("Asked for fresh placements of {count}.")),
            Err(_) => (
                Severity::Warning,
                format!("Asked for fresh placements of some of {count}, and could not ask for all."),
            ),
        };
        tracing::info!(name = about.name, selected = count, is_marked = marked.is_ok(), "RescheduleTask");
        self.recorder.record(Note::new(&self.recorder, about.clone(), severity, "RescheduleAsked", message));
        self.recorder.summed_up(self.recorder.asks().close(&about));
        marked
    }
}

/// The task, for events about it. It is not stored, so its name is all that there is.
fn reference(task: &RescheduleTask) -> EventReference {
    let api_version = format!("{}/{}", RescheduleTask::GROUP, RescheduleTask::VERSION);
    EventReference {
        api_version: Some(api_version),
        kind: Some(RescheduleTask::KIND.to_owned()),
        namespace: task.metadata.namespace.clone(),
        name: task.metadata.name.clone(),
        uid: task.metadata.uid.clone(),
        ..EventReference::default()
    }
}

impl RescheduleTasks {
    async fn mark(&self, mut keys: Vec<Key>, about: &EventReference) -> Result<(), Status> {
        let mut refusal = None;
        for _ in 0..ATTEMPTS_MAX {
            let mut changed = Vec::new();
            for chunk in keys.chunks(MARKS_PER_COMMIT_MAX) {
                let view = self.client.view();
                let now = self.clock.now();
                // A binding that is gone by now needs no mark.
                let mark = |base: &Arc<Object>| {
                    let change = Change::Edit { base: Arc::clone(base), edits: mark(base, now)? };
                    Some(((base.key.clone(), base.revision), (base.key.resource, change)))
                };
                let (marks, changes): (Vec<(Key, Revision)>, Vec<_>) =
                    chunk.iter().filter_map(|key| mark(view.get(key)?)).unzip();
                // The scheduler may answer before this hears that the marks are written.
                let of_bindings = marks.iter().filter(|(key, _)| BINDINGS.contains(&key.resource));
                for overtaken in self.recorder.asks().note(about, of_bindings.map(|(key, owed)| (key, *owed))) {
                    self.recorder.summed_up(Some(overtaken));
                }
                let outcomes = self.client.batch(changes, Atomicity::Each).await?;
                for ((key, _), outcome) in marks.into_iter().zip(outcomes) {
                    let Err(status) = outcome else { continue };
                    self.recorder.asks().withdraw(about, [&key]);
                    match status.code {
                        404 | 409 => changed.push(key),
                        _ => refusal = Some(status),
                    }
                }
            }
            if changed.is_empty() {
                return refusal.map_or(Ok(()), Err);
            }
            keys = changed;
        }
        Err(Status::timeout("some bindings changed at every attempt to mark them", 1))
    }
}

/// The edits that mark the binding or placement. `None` if it cannot be read.
fn mark(object: &Object, now: Time) -> Option<Vec<Edit>> {
    if PlacementKinds::of(object.key.resource).is_some() {
        return Some(vec![trigger::stamp(trigger::next(trigger::triggered_at(object), now))]);
    }
    let stamp = BindingSketch::of(object).ok()?.trigger().stamp(now);
    let mut edits = vec![Edit::set(&["spec", "forceRescheduling"], true)];
    edits.extend(Trigger::accepted(stamp, object.revision));
    Some(edits)
}

/// The bindings and placements that a task selects.
pub fn selected(spec: RescheduleTaskSpec, view: &View) -> Vec<Key> {
    Selection::new(&spec, view).select(view)
}

/// What a task selects, prepared for a look at each binding.
struct Selection<'a> {
    policies: &'a [PolicySelector],
    resources: Vec<LoweredSelector>,
    /// The policy of each permanent id, for bindings that carry only the id.
    ids: PolicyIds,
}

impl<'a> Selection<'a> {
    fn new(spec: &'a RescheduleTaskSpec, view: &View) -> Selection<'a> {
        let ids = match spec.target_ref_policy.as_slice() {
            [] => PolicyIds::default(),
            _ => PolicyIds::of(POLICIES.into_iter().flat_map(|kind| view.list(kind, None)).map(|policy| &**policy)),
        };
        let resources = spec.target_ref_resource.iter().cloned().map(ResourceSelector::lowered).collect();
        Selection { policies: &spec.target_ref_policy, resources, ids }
    }

    /// The union of both lists, each binding once (R16).
    fn select(&self, view: &View) -> Vec<Key> {
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        let bindings = bindings.filter(|object| self.selects(object));
        let placements = SCOPES.into_iter().flat_map(|kinds| view.list(kinds.placements, None));
        let placements = placements.filter(|object| self.selects_placement(object));
        bindings.chain(placements).map(|object| object.key.clone()).collect()
    }

    fn selects_placement(&self, object: &Object) -> bool {
        self.resources.iter().any(|selector| {
            let kinds = trigger::kinds_named(selector.api_version(), selector.kind());
            kinds.is_some_and(|kinds| kinds.placements == object.key.resource)
                && selector.closeness(&object.key.namespace, &object.key.name, &*object.labels).is_some()
        })
    }

    fn selects(&self, object: &Object) -> bool {
        if self.policies.iter().any(|selector| is_empty(&selector.namespace) && is_empty(&selector.name)) {
            return true;
        }
        let Ok(binding) = BindingSketch::of(object) else { return false };
        let by_policy = || {
            let managers = self.ids.managers(object, &binding.annotations());
            managers.iter().any(|policy| self.policies.iter().any(|selector| selects_policy(selector, policy)))
        };
        let by_resource = || {
            let Some(resource) = binding.spec.resource() else { return false };
            self.resources.iter().any(|selector| selects_resource(selector, &resource, object))
        };
        (!self.resources.is_empty() && by_resource()) || (!self.policies.is_empty() && by_policy())
    }
}

/// An empty namespace selects cluster-wide policies and those of every namespace (C6).
fn selects_policy(selector: &PolicySelector, policy: &Key) -> bool {
    let fits = |wanted: &Option<String>, is: &str| is_empty(wanted) || wanted.as_deref() == Some(is);
    fits(&selector.namespace, &policy.namespace) && fits(&selector.name, &policy.name)
}

/// An empty namespace selects cluster-scoped resources and those of every namespace (C6). An empty
/// name selects all names, or those with the labels (R15).
fn selects_resource(selector: &LoweredSelector, resource: &ObjectReference, object: &Object) -> bool {
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    selector.is_of_kind(&resource.api_version, &resource.kind)
        && selector.closeness(namespace, &resource.name, &*object.labels).is_some()
}

fn is_empty(text: &Option<String>) -> bool {
    text.as_deref().unwrap_or_default().is_empty()
}
