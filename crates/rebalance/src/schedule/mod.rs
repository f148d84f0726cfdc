//! Creates the ClusterRebalances of RebalanceSchedules: by time, or when clusters have recovered.
//!
//! The new ClusterRebalance and the status of the schedule are one transaction, with the revision
//! of the schedule as a precondition. Therefore a time is served once, even if the process is
//! killed. Recoveries are also recorded in the status: after a restart, clusters that are lost, or
//! recovered for less than the stable time, are still followed.
//!
//! The owner reference of a ClusterRebalance names its schedule. There is no garbage collector, so
//! this worker deletes the ClusterRebalances of a deleted schedule.
//!
//! Not supported: recoveries of KubeFleet's MemberClusters. An outage that begins and ends within
//! some milliseconds, before this loop runs, is not detected.

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use self::plan::{NewRebalance, Observed, ObservedCluster, OwnedRebalance, OwnedState, ScheduleActions};
use super::record::CLUSTER_REBALANCES;
use super::record::CLUSTERS;
use super::takeover::take_over;
use ballast_api::Pairs;
use ballast_api::ballast::v1alpha1::{
    APPROVED_BY, CHANGED_BY, CREATED_BY, GROUP, Phase, RECOVERED, RESERVED_PREFIX, RebalanceSchedule, SCHEDULE_LABEL,
    SCHEDULED_FOR, Summary, writers,
};
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::meta::{Condition, ObjectMeta};
use ballast_base::clock::Clock;
use ballast_k8s::{Edit, GroupResource, Key, Object, Revision, Status, Time, read_json};
use ballast_registry::{Atomicity, Change, Client};
use ballast_watch::{self as watch, EventKind, View};
use ballast_worker::events::{Note, ObjectReference, Recorder, Severity};
use ballast_worker::{BatchOutcome, Failure, KeyOutcome, Next, Queue, Work, commit_together};

const SCHEDULES: GroupResource = GroupResource::new("rebalanceschedules.ballast.dev");

/// Maximum number of ClusterRebalances of a deleted schedule that are deleted in one step.
const DELETED_AT_ONCE_MAX: usize = 100;

pub struct Schedules {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    /// The schedules that wait for clusters. A change of a cluster affects no others.
    waiting: BTreeSet<Key>,
}

impl Schedules {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder) -> Schedules {
        Schedules { client, clock, recorder: recorder.named("rebalance-schedule"), waiting: BTreeSet::new() }
    }

    /// Records whether the schedule waits for clusters.
    fn note(&mut self, schedule: &Object) {
        match read::<RebalanceSchedule>(schedule).is_some_and(|schedule| schedule.spec.on.is_some()) {
            true => self.waiting.insert(schedule.key.clone()),
            false => self.waiting.remove(&schedule.key),
        };
    }
}

impl Work for Schedules {
    fn name(&self) -> &'static str {
        "rebalance-schedule"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![SCHEDULES, CLUSTER_REBALANCES, CLUSTERS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        self.waiting.clear();
        for object in view.list(SCHEDULES, None) {
            self.note(object);
            queue.mark(object.key.clone(), 0);
        }
        // ClusterRebalances of a schedule that was deleted meanwhile.
        for schedule in view.list(CLUSTER_REBALANCES, None).filter_map(|object| schedule_of(object)) {
            queue.mark(schedule, 0);
        }
    }

    fn on_event(&mut self, event: &watch::Event, queue: &mut Queue) {
        let object = &event.object;
        if object.key.resource == CLUSTERS {
            if !self.waiting.is_empty() && readiness_changed(event) {
                self.waiting.iter().for_each(|key| queue.mark(key.clone(), 0));
            }
            return;
        }
        if object.key.resource == CLUSTER_REBALANCES {
            return schedule_of(object).into_iter().for_each(|schedule| queue.mark(schedule, 0));
        }
        match event.kind {
            EventKind::Deleted => drop(self.waiting.remove(&object.key)),
            _ => self.note(object),
        }
        queue.mark_changed(object.key.clone(), 0, event.revision);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, recorder, now) = (self.client.clone(), self.recorder.clone(), self.clock.now());
        async move { BatchOutcome::one_by_one(keys, |key| look(&client, &recorder, key, now)).await }.boxed()
    }
}

fn read<T: for<'a> Deserialize<'a>>(object: &Object) -> Option<T> {
    let read = read_json(&object.text.content());
    read.inspect_err(|error| tracing::warn!(key = %object.key, %error, "cannot be read")).ok()
}

/// Returns the schedule in the label of the ClusterRebalance.
fn schedule_of(rebalance: &Object) -> Option<Key> {
    Some(Key::cluster(SCHEDULES, rebalance.label(SCHEDULE_LABEL)?))
}

fn readiness_changed(event: &watch::Event) -> bool {
    let Some(previous) = event.previous.as_ref().filter(|_| event.kind != EventKind::Deleted) else { return true };
    previous.labels != event.object.labels || ready(previous) != ready(&event.object)
}

/// Returns whether the cluster is Ready, and since when. `None`: it has no Ready condition.
fn ready(cluster: &Object) -> Option<(bool, Time)> {
    let cluster = cluster.typed::<Cluster>().ok()?;
    let is_ready = |condition: &&Condition| condition.type_ == "Ready";
    let condition = cluster.status.conditions.iter().find(is_ready)?;
    Some((condition.status == "True", condition.last_transition_time))
}

/// The fields of a ClusterRebalance that its schedule reads.
#[derive(Deserialize)]
struct PartialRebalance {
    metadata: ObjectMeta,
    spec: PartialSpec,
    #[serde(default)]
    status: PartialStatus,
}

#[derive(Deserialize)]
struct PartialSpec {
    #[serde(default)]
    abort: bool,
}

#[derive(Default, Deserialize)]
struct PartialStatus {
    phase: Option<Phase>,
    summary: Option<Summary>,
    objective: Option<IgnoredAny>,
}

impl PartialRebalance {
    /// Returns the uid of the schedule that created it.
    fn maker(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.iter();
        let mut makers = owners.filter(|owner| owner.kind == "RebalanceSchedule" && owner.controller == Some(true));
        makers.next().map(|owner| owner.uid.as_str())
    }

    fn made(&self, object: &Object) -> OwnedRebalance {
        let PartialStatus { phase, summary, objective } = &self.status;
        let state = match phase {
            Some(Phase::Aborted) => OwnedState::Failed,
            Some(Phase::Completed) if summary.is_some_and(|summary| summary.failed > 0) => OwnedState::Failed,
            Some(Phase::Completed) => OwnedState::Successful,
            None | Some(Phase::Planning | Phase::Planned | Phase::Running | Phase::Paused) => OwnedState::Active,
        };
        let created = self.metadata.creation_timestamp.unwrap_or_default();
        let is_idle = state == OwnedState::Successful
            && objective.is_some()
            && summary.is_some_and(|summary| summary.to_move == 0 && summary.selected > 0);
        OwnedRebalance { name: object.key.name.to_string(), created, state, is_aborting: self.spec.abort, is_idle }
    }
}

async fn look(client: &Client, recorder: &Recorder, key: Key, now: Time) -> KeyOutcome {
    let view = client.view();
    let schedule = view.get(&key);
    let uid = schedule.map(|schedule| schedule.uid.to_string());
    let (mut made, mut orphans) = (Vec::new(), Vec::new());
    for object in view.list(CLUSTER_REBALANCES, None).filter(|object| object.label(SCHEDULE_LABEL) == Some(&key.name)) {
        let Some(partial) = read::<PartialRebalance>(object) else { continue };
        match partial.maker() {
            _ if object.deleting => {}
            Some(maker) if Some(maker) == uid.as_deref() => made.push(partial.made(object)),
            Some(_) => orphans.push(object.key.clone()),
            None => {}
        }
    }
    if !orphans.is_empty() {
        let next = delete(client, orphans).await;
        return KeyOutcome::new(key, next);
    }
    let Some(schedule) = schedule.filter(|schedule| !schedule.deleting) else {
        return KeyOutcome::new(key, Next::Done);
    };
    let Some(typed) = read::<RebalanceSchedule>(schedule) else { return KeyOutcome::new(key, Next::Unschedulable) };
    let clusters = match typed.spec.on {
        Some(_) => view.list(CLUSTERS, None).filter(|cluster| !cluster.deleting).map(|it| seen(it)).collect(),
        None => Vec::new(),
    };
    let plan = plan::plan(&Observed {
        name: &key.name,
        generation: schedule.generation,
        created: typed.metadata.creation_timestamp.unwrap_or(now),
        spec: &typed.spec,
        status: &typed.status,
        made: &made,
        clusters: &clusters,
        is_taken: &|name| view.get(&Key::cluster(CLUSTER_REBALANCES, name)).is_some(),
        now,
    });
    let mut handled = KeyOutcome { seen: Some(schedule.revision), ..KeyOutcome::new(key.clone(), Next::Done) };
    let refused = match commit(client, &view, schedule, &typed, &plan).await {
        Ok(written) => {
            handled.seen = written.or(handled.seen);
            None
        }
        Err(status) => Some(status),
    };
    handled.next = match &refused {
        None => plan.look_again.map_or(Next::Done, |due| Next::After((due.seconds() - now.seconds()).max(1) * 1_000)),
        Some(status) if Failure::of(status) == Failure::Refused => {
            let message = format!("failed to make a ClusterRebalance: {}", status.message);
            recorder.record(Note::new(recorder, reference(schedule), Severity::Warning, "FailedCreate", message));
            Next::Unschedulable
        }
        Some(status) => {
            tracing::info!(%key, %status, "not written, looking again");
            Failure::of(status).into()
        }
    };
    if refused.is_none() {
        for event in plan.events {
            tracing::info!(%key, reason = event.reason, "{}", event.message);
            recorder.record(Note::new(recorder, reference(schedule), event.severity, event.reason, event.message));
        }
    }
    handled
}

fn seen(cluster: &Object) -> ObservedCluster<'_> {
    let ready = ready(cluster);
    ObservedCluster {
        name: &cluster.key.name,
        labels: &cluster.labels,
        ready: ready.map(|(is_ready, _)| is_ready),
        since: ready.map_or(Time::default(), |(_, since)| since),
    }
}

async fn delete(client: &Client, keys: Vec<Key>) -> Next {
    let keys = keys.into_iter().take(DELETED_AT_ONCE_MAX);
    let changes = keys.map(|key| (CLUSTER_REBALANCES, Change::Delete { key, revision: None })).collect();
    match client.batch(changes, Atomicity::Each).await {
        // There may be more, and there may be a new schedule of this name.
        Ok(outcomes) if outcomes.iter().any(Result::is_ok) => Next::Again,
        Ok(_) => Next::Retry,
        Err(status) => {
            tracing::warn!(%status, "what a deleted schedule made was not deleted");
            Next::Retry
        }
    }
}

/// Writes the plan, all or nothing. Returns the new revision of the schedule, if it changed.
async fn commit(
    client: &Client,
    view: &View,
    schedule: &Arc<Object>,
    typed: &RebalanceSchedule,
    plan: &ScheduleActions,
) -> Result<Option<Revision>, Status> {
    let find = |name: &str| {
        let key = Key::cluster(CLUSTER_REBALANCES, name);
        view.get(&key).cloned().ok_or_else(|| Status::not_found(CLUSTER_REBALANCES, name))
    };
    let mut changes = Vec::new();
    if plan.status != typed.status {
        let status = serde_json::to_value(&plan.status).map_err(Status::internal)?;
        let edits = vec![Edit::set(&["status"], status)];
        changes.push((SCHEDULES, Change::Edit { base: Arc::clone(schedule), edits }));
    }
    let has_status = !changes.is_empty();
    for name in &plan.abort {
        let edits = vec![Edit::set(&["spec", "abort"], true)];
        changes.push((CLUSTER_REBALANCES, Change::Edit { base: find(name)?, edits }));
    }
    if let Some(make) = &plan.make {
        changes.push((CLUSTER_REBALANCES, Change::Create(made_of(view, schedule, typed, make)?)));
    }
    for name in &plan.delete {
        let object = find(name)?;
        let delete = Change::Delete { key: object.key.clone(), revision: Some(object.revision) };
        changes.push((CLUSTER_REBALANCES, delete));
    }
    let written = commit_together(client, changes, |_| false).await.map_err(|failed| *failed.status)?;
    Ok(written.into_iter().next().filter(|_| has_status).map(|schedule| schedule.revision))
}

/// Returns the ClusterRebalance, as a client would create it.
fn made_of(
    view: &View,
    schedule: &Object,
    typed: &RebalanceSchedule,
    make: &NewRebalance,
) -> Result<Map<String, Value>, Status> {
    let template = &typed.spec.template;
    let own = |pairs: &Pairs<String>| -> Pairs<String> {
        let pairs = pairs.iter().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX));
        pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let mut labels = own(&template.metadata.labels);
    labels.insert(SCHEDULE_LABEL.to_owned(), schedule.key.name.to_string());
    let mut annotations = own(&template.metadata.annotations);
    annotations.insert(SCHEDULED_FOR.to_owned(), make.due.to_string());
    // The users who wrote the schedule count as its authors, and an approval of the template is an
    // approval of its ClusterRebalances.
    let of_schedule = |name: &str| typed.metadata.annotations.get(name).map(String::as_str);
    let approver = of_schedule(APPROVED_BY).filter(|_| template.spec.approved).map(str::to_owned);
    let changers = of_schedule(CHANGED_BY).map(str::to_owned);
    for (name, value) in [(CREATED_BY, writers(of_schedule).pop()), (CHANGED_BY, changers), (APPROVED_BY, approver)] {
        value.into_iter().for_each(|value| drop(annotations.insert(name.to_owned(), value)));
    }
    if !make.clusters.is_empty() {
        annotations.insert(RECOVERED.to_owned(), make.recovered());
    }
    let api_version = format!("{GROUP}/v1alpha1");
    // In the stored form: an undo inherits fields that the template omits.
    let tree = schedule.value().map_err(Status::internal)?;
    let mut spec = tree["spec"]["template"]["spec"].as_object().cloned().unwrap_or_default();
    take_over(view, &Key::cluster(CLUSTER_REBALANCES, &*make.name), &mut spec);
    let object = json!({
        "apiVersion": api_version,
        "kind": "ClusterRebalance",
        "metadata": {
            "name": make.name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": api_version,
                "kind": "RebalanceSchedule",
                "name": &*schedule.key.name,
                "uid": &*schedule.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    });
    let Value::Object(object) = object else { return Err(Status::internal("made of members")) };
    Ok(object)
}

fn reference(schedule: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{GROUP}/v1alpha1")),
        kind: Some("RebalanceSchedule".to_owned()),
        name: Some(schedule.key.name.to_string()),
        uid: Some(schedule.uid.to_string()),
        ..ObjectReference::default()
    }
}
