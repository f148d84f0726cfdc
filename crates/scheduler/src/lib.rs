//! The shell around the engine: it selects the bindings that need a pass, collects the engine's
//! input, and writes the results.
//!
//! ```text
//!   events ──► dirty, binding_index ──► queue of dirty bindings
//!                                           │ up to 1,000 keys, one view
//!   ClusterCache, Workloads ───────────►  Pass ──► engine (pure)
//!                                           │ a PassResult for each binding
//!                                           ▼
//!                                      PassCommitter ── most of them ─────────► one transaction
//!                                           │                                       ▲
//!                                           └─ a webhook matches ─► admission check ┘
//!                                                              (approved, or refused)
//! ```
//!
//! A pass takes many bindings from the queue, decides all of them from one view, and commits the
//! results as one batch. A large pass is decided away from the async threads. Each write has the
//! revision that was decided on as a precondition. If a client changes the binding meanwhile, the
//! write conflicts, and the binding is decided again from the new state.
//!
//! *Invariant:* after every accepted trigger, a Fresh pass begins. A trigger makes its binding
//! dirty. A success that was decided without the trigger conflicts when it is written. Only a
//! success removes the trigger. After a start, every binding gets a pass.
//!
//! *Invariant:* a binding that is not dirty would get the same decision again. Therefore a change
//! of a cluster is handled like a change of a binding: its event wakes the bindings that it can
//! affect (`binding_index`), unless it is only a heartbeat. When a pass begins, the cluster cache
//! is brought to the pass's view, which may be newer than the events seen so far.
//!
//! Reservations also expire by time, without an event. The loop wakes at the next expiry while
//! bindings wait (`Work::on_time`).
//!
//! A binding that a quota refuses reports the refusal in its condition, and waits until the quota
//! has more capacity (`refused`). A placement that a webhook matches is checked outside the passes,
//! so that a slow webhook delays no other binding (`pass_committer`).
//!
//! `planning` decides without writing: for reviews and rebalances, and for the count of displaced
//! workloads.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Shared by both API families:
//! - `cause`: why replicas move, as a sentence
//! - `convert`: turns API objects into the engine's types
//! - `cluster_cache`: the clusters that passes decide on
//! - `reservations`: the capacity of clusters that is left
//!
//! - `asking`: queries the estimators in member clusters
//!
//! The Karmada family:
//! - `move_annotation`: the annotation of a binding that a rebalance is moving
//! - `home`: the annotation of a binding that is not where it was before a failure
//! - `commit`: turns a decision into one write
//! - `dirty`: whether a change of a binding needs a pass
//! - `events`: the Kubernetes events of a pass
//! - `binding_index`: the bindings that a changed cluster can affect
//! - `together`: a joint decision for several triggered bindings
//! - `pass`: decides many bindings from one view
//! - `refused`: placements that a quota or a webhook refuses
//! - `approved`: placements that admission checks have approved
//! - `pass_committer`: writes the results of a pass
//! - `planning`: decides without writing
//! - `descheduler`: rescues replicas that a cluster cannot schedule
//! - `fleet_metrics`: counts workloads, replicas and displaced workloads
//!
//! The KubeFleet family:
//! - `fleet`: its scheduler

mod approved;
pub mod asking;
pub mod cause;
pub mod fleet_metrics;
mod commit;
mod descheduler;
mod dirty;
mod fleet;
mod binding_index;
pub mod convert;
mod cluster_cache;
mod events;
mod pass;
pub mod planning;
mod refused;
mod together;
pub mod reservations;
pub mod home;
pub mod move_annotation;
mod pass_committer;

pub use self::commit::target_cluster;
pub use self::descheduler::{Descheduler, RescueOptions};
pub use self::fleet::FleetScheduler;
pub use self::fleet_metrics::FleetMetrics;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

use self::approved::ApprovedBatch;
use self::binding_index::BindingIndex;
use self::cluster_cache::{CLUSTERS, ClusterCache};
use self::pass::Pass;
use self::pass_committer::PassCommitter;
use self::reservations::{Keeper, Room};
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::policy::v1alpha1::FEDERATED_RESOURCE_QUOTAS;
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding, PartialSpec, differ_in_trigger};
use ballast_base::clock::Clock;
use ballast_engine::karmada::{self as engine, Answers, Difference, Profile, Target, WorkloadGroups, Workloads};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_quota as quota;
use ballast_registry::Client;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::Recorder;
use ballast_worker::{BatchOutcome, Queue, Work};

/// Users wait for placements, so the scheduler has a shorter debounce than other workers.
const REST: Duration = Duration::from_millis(3);

/// Maximum number of bindings decided from one view and committed in one batch. Large enough to
/// amortize a durable write, and small enough that a pass takes milliseconds and a conflict costs
/// little.
const BINDINGS_PER_PASS_MAX: usize = 1_000;

/// The number of term checks (affinity terms times clusters) that take about as long as the
/// decision of a usual binding. A binding with more checks or conditions counts as several, so that
/// a pass takes a fraction of a second for any placements.
const TERM_CHECKS_PER_WEIGHT: usize = 500;
const CONDITIONS_PER_WEIGHT: usize = 100;

pub struct Scheduler {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    profile: Arc<Profile>,
    clusters: ClusterCache,
    index: BindingIndex,
    workloads: Workloads,
    /// The workload groups of each binding when it was last indexed.
    groups: HashMap<Key, WorkloadGroups>,
    /// Queued bindings that no event made dirty, because they existed at the start.
    initial: HashSet<Key>,
    approved: Arc<ApprovedBatch>,
    /// `None`: nothing is reserved.
    keeper: Option<Arc<Keeper>>,
}

impl Scheduler {
    /// Creates the scheduler. Events are recorded under the scheduler's name, as upstream's are.
    pub fn new(client: Client, clock: Arc<dyn Clock>, profile: Profile, recorder: &Recorder) -> Scheduler {
        let keeper = profile.reserves.then(|| Keeper::of(client.cache(), &profile));
        Scheduler {
            keeper,
            client,
            clock,
            recorder: recorder.named(&profile.scheduler_name),
            profile: Arc::new(profile),
            clusters: ClusterCache::default(),
            index: BindingIndex::default(),
            workloads: Workloads::default(),
            groups: HashMap::new(),
            initial: HashSet::new(),
            approved: Arc::default(),
        }
    }

    /// Updates the indexes with the placement and the targets of a binding. Queues nothing.
    fn note(&mut self, object: &Object, spec: &PartialSpec<'_>) {
        self.index.upsert(&object.key, spec);
        let Key { namespace, name, .. } = &object.key;
        let was = self.groups.remove(&object.key).unwrap_or_default();
        let groups = spec.groups().map_or_else(WorkloadGroups::default, |groups| WorkloadGroups {
            affinity: groups.affinity_group.as_str().into(),
            anti_affinity: groups.anti_affinity_group.as_str().into(),
        });
        if was == WorkloadGroups::default() && groups == was {
            return;
        }
        let on = |name: &str| Target { name: name.into(), replicas: 0, components: Vec::new() };
        let targets: Vec<Target> = spec.clusters().iter().map(|target| on(&target.name)).collect();
        self.workloads.upsert(namespace, name, &was, &groups, &targets);
        if groups != WorkloadGroups::default() {
            self.groups.insert(object.key.clone(), groups);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.index.remove(key);
        self.initial.remove(key);
        if let Some(was) = self.groups.remove(key) {
            self.workloads.remove(&key.namespace, &key.name, &was);
        }
    }

    /// Wakes the unschedulable bindings in the same groups, because the placement of one member
    /// decides where the others may go.
    fn wake_group_members(&self, of: &Key, queue: &mut Queue) {
        let Some(groups) = self.groups.get(of) else { return };
        let is_same = |one: &str, other: &str| !one.is_empty() && one == other;
        queue.wake_unschedulable(|key| {
            let theirs = self.groups.get(key).filter(|_| key.namespace == of.namespace);
            theirs.is_some_and(|theirs| {
                is_same(&theirs.affinity, &groups.affinity) || is_same(&theirs.anti_affinity, &groups.anti_affinity)
            })
        });
    }

    /// Wakes the unschedulable bindings that can use capacity that other bindings have released, or
    /// that an expired reservation has freed. No cluster event reports either.
    fn notice_room(&self, queue: &mut Queue) {
        let Some(keeper) = self.keeper.as_ref().filter(|_| queue.waiting() > 0) else { return };
        for name in keeper.grown(self.client.cache(), self.clock.now()) {
            let cluster = self.clusters.fleet.find(&name).cloned();
            let affected = self.index.affected(&name, cluster.as_deref(), None);
            queue.wake_unschedulable(|key| self.index.concerns(&affected, key));
        }
    }

    /// Wakes the bindings that the change of a cluster can affect.
    fn notice_cluster(&mut self, event: &Event, queue: &mut Queue) {
        let old = event.previous.as_deref().and_then(converted);
        let new = (event.kind != EventKind::Deleted).then(|| converted(&event.object)).flatten();
        let difference = Difference::between(old.as_ref(), new.as_ref());
        if difference.is_none() {
            return;
        }
        let affected = self.index.affected(&event.object.key.name, old.as_ref(), new.as_ref());
        if difference.is_of_fit() {
            for (key, priority) in self.index.unsettled(&affected) {
                self.initial.remove(key);
                queue.mark(key.clone(), priority);
            }
            queue.mark_working(|key| self.index.concerns(&affected, key));
        }
        queue.wake_unschedulable(|key| self.index.concerns(&affected, key));
    }
}

/// Wakes the bindings that wait for capacity, when a quota of their namespace has more.
fn notice_quota(event: &Event, queue: &mut Queue) {
    let after = (event.kind != EventKind::Deleted).then_some(&*event.object);
    if quota::has_more_capacity(event.previous.as_deref(), after) {
        let namespace = &event.object.key.namespace;
        queue.wake_unschedulable(|key| key.namespace == *namespace);
    }
}

/// Parses the indexed part of a binding; empty if it is invalid. The pass that decides the binding
/// reports the error.
fn partial(content: &[u8]) -> PartialSpec<'_> {
    PartialBinding::of(content).map(|binding| binding.spec).unwrap_or_default()
}

/// Converts a Cluster object. `None` if it is invalid, which `ClusterCache` reports.
fn converted(object: &Object) -> Option<engine::Cluster> {
    Some(convert::karmada::cluster(&*object.typed::<Cluster>().ok()?).0)
}

impl Work for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn interest(&self) -> Vec<GroupResource> {
        [CLUSTERS, FEDERATED_RESOURCE_QUOTAS].into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        self.clusters.sync(view);
        let mut asked = Vec::new();
        for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
            let content = object.text.content();
            let binding = PartialBinding::of(&content).ok();
            asked.extend(binding.as_ref().and_then(|binding| {
                let (pending_pass, requester) = binding.pending_request()?;
                Some((object.key.clone(), pending_pass, requester))
            }));
            let spec = binding.map(|binding| binding.spec).unwrap_or_default();
            self.note(object, &spec);
            self.initial.insert(object.key.clone());
            queue.mark(object.key.clone(), spec.priority());
        }
        self.recorder.triggers().resume(asked);
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let object = &event.object;
        if object.key.resource == CLUSTERS {
            return self.notice_cluster(event, queue);
        }
        if object.key.resource == FEDERATED_RESOURCE_QUOTAS {
            return notice_quota(event, queue);
        }
        if event.kind == EventKind::Deleted {
            self.wake_group_members(&object.key, queue);
            return self.forget(&object.key);
        }
        if dirty::is_dirtied(event.previous.as_deref(), object) {
            self.initial.remove(&object.key);
            let is_same = event.is_alike(differ_in_trigger);
            // Most writes of passes are such changes; they need no parsing.
            if is_same && queue.mark_overtaken(&object.key, event.revision) {
                return;
            }
            let content = object.text.content();
            let binding = PartialBinding::of(&content);
            // A pass skips a binding of another scheduler. It is queued only if a requester waits
            // for a result.
            let is_of_another = binding.as_ref().is_ok_and(|binding| {
                binding.spec.scheduler_name() != &*self.profile.scheduler_name && binding.pending_pass().is_none()
            });
            let spec = binding.map(|binding| binding.spec).unwrap_or_default();
            // A trigger alone changes no target, so the indexes stay valid.
            if !is_same {
                self.note(object, &spec);
                self.wake_group_members(&object.key, queue);
            }
            if !is_of_another {
                queue.mark_changed(object.key.clone(), spec.priority(), event.revision);
            }
        } else if dirty::is_let_go(event.previous.as_deref(), object) && self.index.is_unsettled(&object.key) {
            queue.mark_changed(object.key.clone(), partial(&object.text.content()).priority(), event.revision);
        }
    }

    fn on_time(&mut self, queue: &mut Queue) -> Option<i64> {
        // Must precede `next_end`, so that reservations that have expired by now are noticed, too.
        self.notice_room(queue);
        let keeper = self.keeper.as_ref().filter(|_| queue.waiting() > 0)?;
        let end = keeper.next_end(self.clock.now())?;
        Some(end.saturating_mul(1_000).saturating_sub(self.clock.now_ms()))
    }

    fn on_due_count(&self, keys: usize) {
        self.recorder.triggers().set_due(keys);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let view = self.client.view();
        self.clusters.sync(&view);
        let initial = keys.iter().filter_map(|key| self.initial.take(key)).collect();
        if self.initial.is_empty() {
            // Frees memory: at the start, all bindings were in the set.
            self.initial = HashSet::new();
        }
        let pass = Pass {
            view,
            fleet: self.clusters.fleet.clone(),
            room: Room::default(),
            keeper: self.keeper.clone(),
            estimators: asking::installed(self.client.cache()),
            asked: Arc::default(),
            answers: Answers::default(),
            no_execute: Arc::clone(&self.clusters.no_execute),
            workloads: self.workloads.clone(),
            profile: Arc::clone(&self.profile),
            now: self.clock.now(),
            records_successes: self.recorder.has_room(),
            triggers: self.recorder.triggers().clone(),
            initial,
        };
        let (client, recorder) = (self.client.clone(), self.recorder.clone());
        let committer = PassCommitter { client, recorder, approved: Some(Arc::clone(&self.approved)) };
        let waits = !self.groups.is_empty();
        committer.work(pass, keys, waits).boxed()
    }

    fn debounce(&self) -> Duration {
        REST
    }

    fn batch(&self) -> usize {
        BINDINGS_PER_PASS_MAX
    }

    fn weight(&self, key: &Key) -> usize {
        let price = self.index.price(key);
        1 + price.terms.saturating_sub(1) * self.clusters.fleet.len() / TERM_CHECKS_PER_WEIGHT
            + price.conditions / CONDITIONS_PER_WEIGHT
    }

    /// Users control the priority of their bindings and the rate of their triggers, so the queue
    /// must be fair.
    fn takes_turns(&self) -> bool {
        true
    }

    /// Allows two passes, so that one is decided while the other commits. With workload groups, a
    /// pass depends on the result of the previous pass, so only one runs.
    fn concurrency(&self) -> usize {
        if self.groups.is_empty() { 2 } else { 1 }
    }
}
