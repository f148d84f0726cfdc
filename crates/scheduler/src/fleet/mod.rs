//! The scheduler of the KubeFleet family. Its keys are the placements of both scopes. All cycles of
//! a placement end in one commit.
//!
//! *Invariants:* Only this loop creates bindings of a placement, one cycle at a time, so a
//! placement never gets two live bindings on a cluster. A commit contains the revision of
//! everything that it read and changes, and is atomic. A placement that is being deleted keeps its
//! finalizer until the scheduler holds none of its bindings.

mod dirty;
mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use serde::Serialize;

use self::dirty::Reach;
use super::cause::REPLICAS_MOVED;
use super::cluster_cache::SeenRevisions;
use super::convert::fleet::{self as convert, BindingParts, PlacementObjects, Settled, SnapshotParts, settle};
use ballast_api::fleet::cluster::v1beta1::MemberCluster;
use ballast_api::fleet::placement::v1beta1::any::{
    AnyBinding, AnyPlacement, AnyPolicySnapshot, PlacementKinds, SCOPES, placement_of,
};
use ballast_api::fleet::placement::v1beta1::names::{
    MEMBER_CLUSTERS, SCHEDULER_CLEANUP, SCHEDULER_FINALIZER, binding_name,
};
use ballast_api::fleet::placement::v1beta1::strays::Strays;
use ballast_api::fleet::placement::v1beta1::{BindingState, ResourceBindingSpec};
use ballast_api::meta::ObjectMeta;
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_engine::fleet::MemberClusters;
use ballast_k8s::{GroupResource, Key, Object, Revision};
use ballast_registry::{Change, Client, Part};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity, TriggerResult};
use ballast_worker::placements::{self, children, commit, is_latest, read};
use ballast_worker::{BatchOutcome, Changes, KeyOutcome, Next, Queue, Work};

const NAME: &str = "fleet-scheduler";
/// Maximum number of concurrent placements (R164). Each has a separate commit; the writer groups
/// them.
const CONCURRENCY: usize = 8;
/// Clusters go first, because they affect placements.
const CLUSTER_PRIORITY: i32 = i32::MAX;

pub struct FleetScheduler {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    fleet: MemberClusters,
    known: SeenRevisions,
    /// The changed clusters, with the placements that each change can affect.
    changed: BTreeMap<Arc<str>, Reach>,
    strays: Strays,
    own_marks: OwnMarks,
}

/// The bindings that a pass is unscheduling. The event of such a write is no edit, and starts no
/// pass. An entry is removed with its event, or when its commit fails.
#[derive(Clone, Default)]
struct OwnMarks(Arc<Mutex<BTreeSet<Key>>>);

impl OwnMarks {
    fn add(&self, keys: &[Key]) {
        self.keys().extend(keys.iter().cloned());
    }

    fn forget(&self, keys: &[Key]) {
        self.keys().retain(|known| !keys.contains(known));
    }

    fn take(&self, key: &Key) -> bool {
        self.keys().remove(key)
    }

    fn clear(&self) {
        self.keys().clear();
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FleetScheduler {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder) -> FleetScheduler {
        let (fleet, known, changed, strays, own_marks) = Default::default();
        FleetScheduler { client, clock, recorder: recorder.named(NAME), fleet, known, changed, strays, own_marks }
    }

    /// Updates the set of clusters to the state of a view.
    fn sync(&mut self, view: &View) {
        let (changed, gone) = self.known.sync(view, MEMBER_CLUSTERS);
        // The last valid state stays in use.
        for cluster in changed.into_iter().filter_map(read::<MemberCluster>) {
            self.fleet.upsert(convert::cluster(&cluster));
        }
        for name in gone {
            self.fleet.remove(&name);
        }
    }

    fn task(&mut self, key: &Key) -> Task {
        if key.resource == MEMBER_CLUSTERS {
            return Task::Wake(self.changed.remove(&key.name));
        }
        Task::Schedule { strays: self.strays.of(key) }
    }

    fn notice_cluster(&mut self, event: &Event, queue: &mut Queue) {
        let name = &event.object.key.name;
        let previous = event.previous.as_ref().and_then(read::<MemberCluster>);
        let reach = match (event.kind, previous, read::<MemberCluster>(&event.object)) {
            (EventKind::Deleted, ..) => Some(Reach::All),
            (_, Some(previous), Some(current)) => dirty::reach(&previous, &current, self.clock.now()),
            // As upstream, a new cluster becomes eligible with its first report, which it may
            // already have.
            (_, None, Some(current)) => {
                let is_eligible = convert::cluster(&current).eligibility(self.clock.now()).is_ok();
                is_eligible.then_some(Reach::Unsatisfied)
            }
            (_, _, None) => None,
        };
        if let Some(reach) = reach {
            let known = self.changed.entry(Arc::clone(name)).or_insert(reach);
            *known = reach.max(*known);
            queue.mark(event.object.key.clone(), CLUSTER_PRIORITY);
        }
    }
}

impl Work for FleetScheduler {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interest(&self) -> Vec<GroupResource> {
        let of_scope = |kinds: &&PlacementKinds| [kinds.placements, kinds.policy_snapshots, kinds.bindings];
        std::iter::once(MEMBER_CLUSTERS).chain(SCOPES.iter().flat_map(of_scope)).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        self.changed.clear();
        self.own_marks.clear();
        let children = SCOPES.into_iter().flat_map(|kinds| [kinds.policy_snapshots, kinds.bindings]);
        self.strays.list(children.flat_map(|kind| view.list(kind, None)).map(Arc::as_ref));
        let asked =
            all_placements(view).filter_map(|object| events::unanswered(view, object, &self.strays.of(&object.key)));
        self.recorder.triggers().resume(asked.collect());
        for object in all_placements(view) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let (object, previous) = (&event.object, event.previous.as_ref());
        if object.key.resource == MEMBER_CLUSTERS {
            return self.notice_cluster(event, queue);
        }
        if event.kind != EventKind::Deleted {
            self.strays.note(object);
        }
        let Some(kinds) = PlacementKinds::of(object.key.resource) else { return };
        let is_dirty = if event.kind == EventKind::Deleted {
            self.strays.forget(object);
            object.key.resource == kinds.bindings && !object.deleting
        } else if object.key.resource == kinds.policy_snapshots {
            let previous = previous.and_then(read::<AnyPolicySnapshot>);
            read::<AnyPolicySnapshot>(object).is_some_and(|current| {
                dirty::is_policy_news(previous.as_ref().map(|previous| &previous.metadata), &current.metadata)
            })
        } else {
            dirty::began_to_go(previous, object)
                || (was_edited(kinds, previous, object) && !self.own_marks.take(&object.key))
        };
        if let Some(key) = placement_of(object).filter(|_| is_dirty) {
            queue.mark(key, 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let view = self.client.view();
        self.sync(&view);
        let (client, clock, fleet) = (self.client.clone(), Arc::clone(&self.clock), self.fleet.clone());
        let pass =
            Pass { client, clock, recorder: self.recorder.clone(), fleet, view, own_marks: self.own_marks.clone() };
        let tasks: Vec<(Key, Task)> = keys.into_iter().map(|key| (key.clone(), self.task(&key))).collect();
        async move {
            let mut worked = BatchOutcome::default();
            for (key, task) in tasks {
                let next = match task {
                    Task::Wake(reach) => {
                        worked.found.extend(pass.reached(reach));
                        Next::Done
                    }
                    Task::Schedule { strays } => pass.schedule(&key, &strays).await,
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

fn was_edited(kinds: &PlacementKinds, previous: Option<&Arc<Object>>, current: &Arc<Object>) -> bool {
    // A report on a binding does not change its generation.
    let Some(previous) = previous.filter(|previous| previous.generation != current.generation) else { return false };
    current.key.resource == kinds.bindings
        && read::<AnyBinding>(previous)
            .zip(read::<AnyBinding>(current))
            .is_some_and(|(previous, current)| dirty::was_edited(&previous.spec, &current.spec))
}

fn all_placements(view: &View) -> impl Iterator<Item = &Arc<Object>> {
    SCOPES.into_iter().flat_map(|kinds| view.list(kinds.placements, None))
}

/// The work on a key.
enum Task {
    /// A cluster changed: find the placements that the change can affect.
    Wake(Option<Reach>),
    /// A placement is dirty.
    Schedule { strays: Vec<Key> },
}

/// The input of the work on a batch.
struct Pass {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    fleet: MemberClusters,
    view: Arc<View>,
    own_marks: OwnMarks,
}

impl Pass {
    fn reached(&self, reach: Option<Reach>) -> Vec<(Key, i32)> {
        let Some(reach) = reach else { return Vec::new() };
        let is_reached = |object: &&Arc<Object>| reach == Reach::All || self.is_unsatisfied(object);
        all_placements(&self.view).filter(is_reached).map(|object| (object.key.clone(), 0)).collect()
    }

    /// Returns whether the placement is unsatisfied, according to its own status, which the
    /// placement controller writes, or to the snapshot's, which is newer.
    fn is_unsatisfied(&self, object: &Arc<Object>) -> bool {
        let Some(placement) = read::<AnyPlacement>(object) else { return false };
        let latest = || {
            let kinds = PlacementKinds::of(object.key.resource)?;
            let snapshot =
                children(&self.view, kinds.policy_snapshots, &object.key, &[]).find(|object| is_latest(object));
            read::<AnyPolicySnapshot>(snapshot?)
        };
        dirty::is_unsatisfied(&placement, object.generation)
            || latest().is_some_and(|snapshot| !dirty::is_fulfilled(&snapshot.status))
    }

    async fn schedule(&self, key: &Key, strays: &[Key]) -> Next {
        let Some(object) = self.view.get(key) else {
            self.record_result(key, Some((Revision(i64::MAX), TriggerResult::LeftAlone)));
            return Next::Done;
        };
        let Some(kinds) = PlacementKinds::of(key.resource) else { return Next::Done };
        let Some(placement) = read::<AnyPlacement>(object) else { return Next::Done };
        let bindings: Vec<AnyBinding> = children(&self.view, kinds.bindings, key, strays)
            .filter_map(read::<AnyBinding>)
            .map(|binding| AnyBinding::clone(&binding))
            .collect();
        if object.deleting {
            self.record_result(key, Some((Revision(i64::MAX), TriggerResult::LeftAlone)));
            let (changes, next) = clear_away(kinds, &placement, &bindings);
            return commit(NAME, &self.client, key, changes, next).await;
        }
        let mut active = children(&self.view, kinds.policy_snapshots, key, strays)
            .filter(|object| is_latest(object))
            .filter_map(read::<AnyPolicySnapshot>);
        let Some(snapshot) = active.next() else { return Next::Done };
        if active.next().is_some() {
            tracing::warn!(%key, "two policy snapshots are in force; waiting until one is");
            return Next::Done;
        }
        let AnyPolicySnapshot { metadata, spec, status, .. } = AnyPolicySnapshot::clone(&snapshot);
        let parts =
            |binding: &AnyBinding| BindingParts { metadata: binding.metadata.clone(), spec: binding.spec.clone() };
        let objects = PlacementObjects {
            snapshot: SnapshotParts { metadata, spec, status },
            bindings: bindings.iter().map(parts).collect(),
        };
        let mut name = |cluster: &str| binding_name(&key.name, cluster, self.clock.random());
        let settled = settle(&self.fleet, objects, self.clock.now(), &mut name).keeping_reasons(&snapshot.status);
        for fault in settled.cycles.iter().filter_map(|decision| decision.fault.as_ref()) {
            tracing::warn!(%key, fault = telemetry::with_causes(fault), "the policy cannot be carried out");
        }
        let changes = changes(kinds, &placement, &snapshot, &bindings, &settled);
        let is_fulfilled = dirty::is_fulfilled(&settled.objects.snapshot.status);
        let is_news = !changes.is_empty() && !is_fulfilled;
        let moved = events::of(&self.view, kinds, object, &placement, &snapshot, &bindings, &settled);
        let answer = events::answer(&snapshot, &bindings, &settled);
        let marked = newly_unscheduled(kinds, &bindings, &settled);
        self.own_marks.add(&marked);
        let next = commit(NAME, &self.client, key, changes, Next::Done).await;
        if !matches!(next, Next::Done) {
            self.own_marks.forget(&marked);
        }
        if matches!(next, Next::Done) {
            self.record_result(key, answer);
            metrics::scheduled(if is_fulfilled { "scheduled" } else { "unschedulable" });
            if let Some(message) = moved {
                let about = placements::reference(kinds, object);
                self.recorder.record(Note::new(&self.recorder, about, Severity::Normal, REPLICAS_MOVED, message));
            }
        }
        match next {
            // A cluster that changed meanwhile woke the placements that were unsatisfied then. This
            // placement became unsatisfied only now.
            Next::Done if is_news && self.clusters_changed() => Next::Again,
            next => next,
        }
    }

    /// Records the result for the requester of this pass.
    fn record_result(&self, key: &Key, answer: Option<(Revision, TriggerResult)>) {
        if let Some((pending_pass, answer)) = answer {
            self.recorder.record_summary(self.recorder.triggers().record_result(key, Some(pending_pass), &answer));
        }
    }

    /// Returns whether a cluster changed after the view was taken.
    fn clusters_changed(&self) -> bool {
        let newest = self.client.view();
        newest.list(MEMBER_CLUSTERS, None).any(|cluster| cluster.revision > self.view.revision)
    }
}

/// Returns all changes of the cycles, including the placement's finalizer.
fn changes(
    kinds: &PlacementKinds,
    placement: &AnyPlacement,
    snapshot: &AnyPolicySnapshot,
    before: &[AnyBinding],
    settled: &Settled,
) -> Changes {
    let mut changes = Changes::new();
    if !placement.metadata.finalizers.iter().any(|finalizer| finalizer == SCHEDULER_CLEANUP) {
        let mut held = placement.clone();
        held.metadata.finalizers.push(SCHEDULER_CLEANUP.to_owned());
        changes.push(update(kinds, Part::Main, kinds.placements, &held));
    }
    let after: BTreeMap<Option<&String>, &BindingParts> =
        settled.objects.bindings.iter().map(|parts| (parts.metadata.name.as_ref(), parts)).collect();
    for binding in before {
        match after.get(&binding.metadata.name.as_ref()) {
            Some(parts) if parts.metadata == binding.metadata && parts.spec == binding.spec => {}
            Some(BindingParts { metadata, spec }) => {
                let (metadata, spec) = (metadata.clone(), spec.clone());
                let changed = AnyBinding { metadata, spec, ..binding.clone() };
                changes.push(update(kinds, Part::Main, kinds.bindings, &changed));
            }
            // Nothing holds the binding any more, and it is deleted once it has no finalizers.
            None => changes.push(released(kinds, binding)),
        }
    }
    for BindingParts { metadata, spec } in &settled.objects.bindings {
        if metadata.uid.is_none() {
            let created = AnyBinding { metadata: metadata.clone(), spec: spec.clone(), ..Default::default() };
            changes.push((kinds.bindings, Change::Create(kinds.tree(kinds.bindings, &created))));
        }
    }
    if settled.objects.snapshot.status != snapshot.status {
        let status = settled.objects.snapshot.status.clone();
        let reported = AnyPolicySnapshot { status, ..snapshot.clone() };
        changes.push(update(kinds, Part::Status, kinds.policy_snapshots, &reported));
    }
    changes
}

/// Returns the bindings that the cycles unscheduled.
fn newly_unscheduled(kinds: &PlacementKinds, before: &[AnyBinding], settled: &Settled) -> Vec<Key> {
    let is_unscheduled = |spec: &ResourceBindingSpec| spec.state == BindingState::Unscheduled;
    let was = |name: &Option<String>| before.iter().find(|binding| binding.metadata.name == *name);
    let marked = settled.objects.bindings.iter().filter(|parts| {
        is_unscheduled(&parts.spec) && was(&parts.metadata.name).is_some_and(|it| !is_unscheduled(&it.spec))
    });
    marked.map(|parts| binding_key(kinds, &parts.metadata)).collect()
}

fn binding_key(kinds: &PlacementKinds, metadata: &ObjectMeta) -> Key {
    Key {
        resource: kinds.bindings,
        namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
        name: metadata.name.as_deref().unwrap_or_default().into(),
    }
}

/// Deletes the bindings, then removes their finalizers. The placement's own finalizer is removed
/// when the scheduler holds no more bindings.
fn clear_away(kinds: &PlacementKinds, placement: &AnyPlacement, bindings: &[AnyBinding]) -> (Changes, Next) {
    let mut changes = Changes::new();
    for binding in bindings {
        if binding.metadata.deletion_timestamp.is_none() {
            let key = binding_key(kinds, &binding.metadata);
            changes.push((key.resource, Change::Delete { key, revision: None }));
        } else if binding.metadata.finalizers.iter().any(|finalizer| finalizer == SCHEDULER_FINALIZER) {
            changes.push(released(kinds, binding));
        }
    }
    if !changes.is_empty() {
        return (changes, Next::Again);
    }
    if placement.metadata.finalizers.iter().any(|finalizer| finalizer == SCHEDULER_CLEANUP) {
        let mut released = placement.clone();
        released.metadata.finalizers.retain(|finalizer| finalizer != SCHEDULER_CLEANUP);
        changes.push(update(kinds, Part::Main, kinds.placements, &released));
    }
    (changes, Next::Done)
}

fn released(kinds: &PlacementKinds, binding: &AnyBinding) -> (GroupResource, Change) {
    let mut released = binding.clone();
    released.metadata.finalizers.retain(|finalizer| finalizer != SCHEDULER_FINALIZER);
    update(kinds, Part::Main, kinds.bindings, &released)
}

fn update(
    kinds: &PlacementKinds,
    part: Part,
    resource: GroupResource,
    object: &impl Serialize,
) -> (GroupResource, Change) {
    (resource, Change::Update { part, object: kinds.tree(resource, object) })
}
