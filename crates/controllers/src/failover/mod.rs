//! Moves bindings off the clusters that they may not stay on (see `plan`). The scheduler then
//! notices the missing replicas and schedules them on other clusters.
//!
//! The loop handles two kinds of keys. For a cluster, it queues the bindings on it
//! (`bindings_by_cluster`). For a binding, it evicts the binding from the clusters that it must
//! leave, and checks it again when the next toleration expires. Every decision uses the newest
//! view, so neither the order of events nor a restart in between matters. For that reason, the time
//! of a taint is stored on the cluster, and a cluster that is being deleted stays until its
//! bindings have left (`cluster_finalizer`).
//!
//! A binding leaves a tainted cluster by an eviction task, which `graceful_eviction` ends. The rate
//! of such evictions is limited (see `rate_limiter`). A binding leaves a deleted cluster
//! immediately and without a task, but only if this scheduler owns the binding. Differs from
//! Karmada (D49): it leaves even if no other cluster has free capacity.
//!
//! A binding with suspended scheduling is not evicted, because no scheduler would replace its
//! replicas. A condition reports that the eviction is pending (`suspended`). Differs from Karmada
//! (D87), except in the profile `karmada`.
//!
//! With purge mode `Directly`, no task keeps the workload running. Such an eviction therefore
//! starts only when another cluster can take the workload (RM27).
//!
//! *Invariant:* a target without a cluster object is kept. The cluster may be created
//! later, for example when bindings are restored before clusters.

mod rate_limiter;
mod plan;
mod suspended;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use self::plan::{EvictionPlan, EvictionReason, HostCluster};
use self::rate_limiter::{EvictionRateLimiter, Turns, Urgency};
use super::bindings_by_cluster::BindingsByCluster;
use super::clusters::{CLUSTERS, cluster_key, taints_changed};
use super::commit::{commit_each, commit_edits};
use super::eviction_task::{evict, evicted_from, preserve, record_change, remember_home};
use super::places::{FreePlaces, Places, kept_notes};
use ballast_api::ballast::v1alpha1::{EvictionLimit, SET_BY};
use ballast_api::karmada::cluster::v1alpha1::{Cluster, is_no_execute};
use ballast_api::karmada::policy::v1alpha1::{ClusterPurgeMode, PurgeMode};
use ballast_api::karmada::work::v1alpha2::{
    AnyBinding, BINDINGS, GracefulEvictionTask, HAS_CLUSTERS, LEFT_CLUSTERS, LeftClusters, PartialBinding, PartialSpec,
    PartialTarget, differ_in_trigger,
};
use ballast_api::tree;
use ballast_base::clock::Clock;
use ballast_census::{EVICTION_LIMITS, EvictionRate, RateInForce};
use ballast_k8s::{Edit, GroupResource, Key, Object, Time, read_json};
use ballast_registry::Client;
use ballast_resource::Resource;
use ballast_scheduler::cause::Cause;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, ObjectReference, Recorder, Severity};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Maximum number of keys in a batch, and so of bindings that one batch writes.
const BATCH_MAX: usize = 1_000;

/// Interval between two searches for another cluster for a workload with purge mode `Directly`.
/// Each search costs a scheduling decision, some 10 µs.
const NOWHERE_LOOK_AGAIN_MS: i64 = 60_000;

/// Maximum wait between two calls of the rate limiter. An EvictionLimit may expire while the next
/// turn is far away.
const RATE_LOOK_AGAIN_MS: i64 = 10_000;

/// Clusters are processed first, because they queue the bindings. Granted evictions have the same
/// priority.
const CLUSTER_PRIORITY: i32 = 1;
const BINDING_PRIORITY: i32 = 0;
/// Turns are granted after all bindings that may be evicted are known. Otherwise the first bindings
/// of a lost cluster would be evicted before more urgent ones.
const TURN_PRIORITY: i32 = -1;

/// Returns the key of the timer that grants turns.
fn turn_key() -> Key {
    Key::cluster(GroupResource::new("eviction-turns"), "next")
}

/// Whether NoExecute taints evict bindings, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaintEviction {
    Off,
    By {
        /// The purge mode of bindings that do not specify one.
        purge_mode: PurgeMode,
        rate: EvictionRate,
    },
}

pub struct Failover {
    client: Client,
    clock: Arc<dyn Clock>,
    /// The name of the scheduler. Only its bindings leave deleted clusters.
    scheduler_name: Arc<str>,
    taints: TaintEviction,
    /// Whether bindings with suspended scheduling are exempt from eviction.
    holds_suspended: bool,
    recorder: Recorder,
    places: Option<Arc<Places>>,
    limiter: Arc<Mutex<EvictionRateLimiter>>,
    /// The bindings as of their last evaluation. Bindings that have changed since are in the queue.
    by_cluster: Arc<Mutex<BindingsByCluster>>,
    /// The bindings with pending evictions because their scheduling is suspended.
    waiting: Arc<Mutex<HashSet<Key>>>,
}

impl Failover {
    /// Creates the controller. Without `places`, purge mode `Directly` evicts without a search for
    /// another cluster.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        recorder: &Recorder,
        scheduler_name: &str,
        taints: TaintEviction,
        holds_suspended: bool,
        places: Option<Arc<Places>>,
    ) -> Failover {
        Failover {
            client,
            clock,
            scheduler_name: scheduler_name.into(),
            taints,
            holds_suspended,
            recorder: recorder.named("taint-manager"),
            places,
            limiter: Arc::default(),
            by_cluster: Arc::default(),
            waiting: Arc::default(),
        }
    }
}

impl Failover {
    /// Records the author, expiry and reason of a changed eviction rate in the log.
    fn record_limit(&self, event: &Event) {
        let limit = |object: &Object| object.typed::<EvictionLimit>().unwrap_or_default();
        let now = limit(&event.object);
        let is_deleted = event.kind == EventKind::Deleted;
        let before = event.previous.as_deref().filter(|_| !is_deleted).map(limit);
        if before.is_some_and(|before| before.spec == now.spec) {
            return;
        }
        let about = ObjectReference {
            api_version: Some(format!("{}/{}", EvictionLimit::GROUP, EvictionLimit::VERSION)),
            kind: Some(EvictionLimit::KIND.to_owned()),
            name: Some(event.object.key.name.to_string()),
            uid: Some(event.object.uid.to_string()),
            ..ObjectReference::default()
        };
        let message = match is_deleted {
            true => "The flags of the server set the rate of evictions again.".to_owned(),
            false => {
                let rate = now.spec.bindings_per_second.text();
                let by = now.metadata.annotations.get(SET_BY).map_or("a user of an earlier version", String::as_str);
                let until = now.spec.expires_at.map_or_else(String::new, |end| format!(" until {end}"));
                let note = now.spec.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
                format!("{by} set the rate of evictions to {rate} a second{until}{note}.")
            }
        };
        let severity = if is_deleted { Severity::Normal } else { Severity::Warning };
        self.recorder.record(Note::new(&self.recorder, about, severity, "EvictionRateSet", message));
    }
}

impl Work for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn interest(&self) -> Vec<GroupResource> {
        [CLUSTERS, EVICTION_LIMITS].into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        let mut by_cluster = lock(&self.by_cluster);
        for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
            if let Ok(binding) = PartialBinding::of(&object.text.content()) {
                file(&mut by_cluster, &object.key, &binding.spec);
                if binding.spec.is_suspended() {
                    queue.mark(object.key.clone(), 0);
                }
            }
        }
        // Processing a cluster finds the bindings on it.
        for object in view.list(CLUSTERS, None).filter(|object| may_evict(object)) {
            queue.mark(object.key.clone(), CLUSTER_PRIORITY);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let key = event.object.key.clone();
        if key.resource == EVICTION_LIMITS {
            self.record_limit(event);
            // A different rate changes the time of the next turn.
            return queue.mark(turn_key(), TURN_PRIORITY);
        }
        if key.resource != CLUSTERS {
            if event.kind == EventKind::Deleted {
                lock(&self.by_cluster).forget(&key);
            }
            let is_judged = match event.previous.as_deref() {
                // Most bindings are created without targets, and have no cluster to leave.
                None => event.object.has(&HAS_CLUSTERS),
                Some(before) => before.generation != event.object.generation && !event.is_alike(differ_in_trigger),
            };
            if event.kind != EventKind::Deleted && is_judged {
                queue.mark_changed(key, 0, event.revision);
            }
            return;
        }
        let was_deleting = event.previous.as_ref().is_some_and(|object| object.deleting);
        if event.object.deleting != was_deleting || taints_changed(event) {
            queue.mark(key, CLUSTER_PRIORITY);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, now_ms) = (self.client.clone(), self.clock.now_ms());
        let now = self.clock.now();
        let (taints, limiter, scheduler_name) =
            (self.taints, Arc::clone(&self.limiter), Arc::clone(&self.scheduler_name));
        let (holds_suspended, recorder, places) = (self.holds_suspended, self.recorder.clone(), self.places.clone());
        let (by_cluster, waiting) = (Arc::clone(&self.by_cluster), Arc::clone(&self.waiting));
        async move {
            let turn = keys.iter().any(|key| *key == turn_key());
            let keys = keys.into_iter().filter(|key| *key != turn_key());
            let (clusters, bindings): (Vec<Key>, Vec<Key>) = keys.partition(|key| key.resource == CLUSTERS);
            let mut worked = BatchOutcome::default();
            let view = client.view();
            let writes = {
                let (mut limiter, mut by_cluster) = (lock(&limiter), lock(&by_cluster));
                let mut waiting = lock(&waiting);
                for key in clusters {
                    let all = view.get(&key).is_some_and(|object| may_evict(object));
                    let concerned = by_cluster.on(&key.name).filter(|key| all || waiting.contains(*key));
                    worked.found.extend(concerned.map(|key| (key.clone(), BINDING_PRIORITY)));
                    worked.outcomes.push(KeyOutcome::new(key, Next::Done));
                }
                let (limiter, by_cluster) = (&mut *limiter, &mut *by_cluster);
                let mut batch = EvictionBatch {
                    view: &view,
                    scheduler_name: &scheduler_name,
                    taints,
                    recorder: &recorder,
                    places: places.as_deref(),
                    free: None,
                    limiter,
                    by_cluster,
                    waiting: &mut waiting,
                    holds_suspended,
                    told: Vec::new(),
                    now,
                    now_ms,
                };
                let writes = batch.plan_all(bindings, &mut worked);
                if turn {
                    batch.give_turns(&mut worked);
                }
                (writes, batch.told)
            };
            let (writes, told) = writes;
            commit_each(&client, writes, &mut worked).await;
            commit_edits(&client, told, &mut worked).await;
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// The state that a batch of bindings is decided from.
struct EvictionBatch<'a> {
    view: &'a Arc<View>,
    scheduler_name: &'a str,
    taints: TaintEviction,
    recorder: &'a Recorder,
    places: Option<&'a Places>,
    /// Created when the first workload of the batch needs a search.
    free: Option<FreePlaces>,
    limiter: &'a mut EvictionRateLimiter,
    by_cluster: &'a mut BindingsByCluster,
    waiting: &'a mut HashSet<Key>,
    holds_suspended: bool,
    /// Changes of the condition about pending evictions, per binding.
    told: Vec<(Arc<Object>, Vec<Edit>, Next)>,
    now: Time,
    now_ms: i64,
}

impl EvictionBatch<'_> {
    /// Plans all keys and returns the bindings to write.
    fn plan_all(&mut self, keys: Vec<Key>, worked: &mut BatchOutcome) -> Vec<(Key, Map<String, Value>, Next)> {
        let per_second = self.per_second();
        let mut writes = Vec::new();
        let mut is_any_queued = false;
        for key in keys {
            let Some(object) = self.view.get(&key).filter(|object| !object.deleting) else {
                self.limiter.forget(&key);
                self.by_cluster.forget(&key);
                self.waiting.remove(&key);
                worked.outcomes.push(KeyOutcome::new(key, Next::Done));
                continue;
            };
            let content = object.text.content();
            let Ok(binding) = PartialBinding::of(&content) else {
                self.by_cluster.forget(&key);
                worked.outcomes.push(KeyOutcome::new(key, Next::Unschedulable));
                continue;
            };
            file(self.by_cluster, &key, &binding.spec);
            // A binding that references a workload of another namespace has no effect (WH7).
            let mut plan = match binding.is_elsewhere(&key) {
                true => EvictionPlan::default(),
                false => self.plan(&binding.spec),
            };
            let waits = match self.holds_suspended {
                true => suspended::held_back(&binding.spec, &mut plan),
                false => Vec::new(),
            };
            let mut next = match plan.next_check {
                Some(end) => Next::After((end.seconds() - self.now.seconds()).saturating_mul(1_000)),
                None => Next::Done,
            };
            if plan.evicts() && self.is_stranded(object, &content, &plan) {
                self.limiter.forget(&key);
                plan.leave.retain(|(_, why)| *why == EvictionReason::Deleted);
                next = Next::After(NOWHERE_LOOK_AGAIN_MS);
            } else if !plan.evicts() {
                self.limiter.forget(&key);
            } else if !self.limiter.acquire(&key, urgency(&binding.spec, &plan), self.now_ms, per_second) {
                plan.leave.retain(|(_, why)| *why == EvictionReason::Deleted);
                next = Next::Done;
                is_any_queued = true;
            }
            match waits.is_empty() {
                true => drop(self.waiting.remove(&key)),
                false => drop(self.waiting.insert(key.clone())),
            }
            let condition = suspended::edit(object, &binding, &waits, self.now);
            if let Some(condition) = condition.filter(|_| plan.leave.is_empty()) {
                self.told.push((Arc::clone(object), vec![condition], next));
                continue;
            }
            let left = match plan.leave.is_empty() {
                true => Ok(None),
                false => self.without(object, &plan).map(Some),
            };
            match left {
                Ok(None) => {
                    worked.outcomes.push(KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(key, next) })
                }
                Ok(Some(tree)) => {
                    let leaves: Vec<&str> = plan.leave.iter().map(|(cluster, _)| &**cluster).collect();
                    tracing::info!(%key, leaves = leaves.join(", "), "leaves clusters");
                    writes.push((key, tree, next));
                }
                Err(why) => {
                    tracing::warn!(%key, why, "not evicted, trying again");
                    worked.outcomes.push(KeyOutcome::new(key, Next::Retry));
                }
            }
        }
        worked.found.extend(is_any_queued.then(|| (turn_key(), TURN_PRIORITY)));
        writes
    }

    /// Returns whether the eviction would remove the workload immediately although no other cluster
    /// can take it. In this case it emits a Warning.
    fn is_stranded(&mut self, object: &Arc<Object>, content: &[u8], plan: &EvictionPlan) -> bool {
        let Some(places) = self.places else { return false };
        let is_default = matches!(self.taints, TaintEviction::By { purge_mode: PurgeMode::Directly, .. });
        if !is_default && memchr::memmem::find(content, b"\"Directly\"").is_none() {
            return false;
        }
        let Ok(binding) = read_json::<AnyBinding>(content) else { return false };
        if self.purge_mode(&binding) != PurgeMode::Directly {
            return false;
        }
        let tainted = plan.leave.iter().filter(|(_, why)| *why == EvictionReason::Tainted);
        let clusters: Vec<&str> = tainted.map(|(cluster, _)| &**cluster).collect();
        let free = self.free.get_or_insert_with(|| places.in_view(self.view, self.now));
        let why = match free.find_other(object, &clusters) {
            Ok(place) => {
                free.take(&place);
                return false;
            }
            Err(why) => why,
        };
        tracing::info!(key = %object.key, clusters = clusters.join(", "), why, "not evicted: there is no other place");
        kept_notes(self.recorder, object, &binding, &clusters).into_iter().for_each(|note| self.recorder.record(note));
        true
    }

    fn purge_mode(&self, binding: &AnyBinding) -> PurgeMode {
        let behavior = binding.spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
        match (behavior, self.taints) {
            (Some(behavior), _) if behavior.purge_mode == Some(ClusterPurgeMode::Directly) => PurgeMode::Directly,
            (None, TaintEviction::By { purge_mode, .. }) => purge_mode,
            _ => PurgeMode::Gracefully,
        }
    }

    /// Queues the bindings that the rate limiter grants a turn.
    fn give_turns(&mut self, worked: &mut BatchOutcome) {
        let per_second = self.per_second();
        let mut limiter = std::mem::take(self.limiter);
        let Turns { granted, again_ms } = limiter.grant(self.now_ms, per_second, |key| self.evicts(key));
        *self.limiter = limiter;
        worked.found.extend(granted.into_iter().map(|key| (key, CLUSTER_PRIORITY)));
        let again = again_ms.map_or(Next::Done, |wait| Next::After(wait.min(RATE_LOOK_AGAIN_MS)));
        worked.outcomes.push(KeyOutcome::new(turn_key(), again));
    }

    /// Returns whether a taint still evicts the binding.
    fn evicts(&self, key: &Key) -> bool {
        let Some(object) = self.view.get(key).filter(|object| !object.deleting) else { return false };
        let content = object.text.content();
        PartialBinding::of(&content).is_ok_and(|binding| {
            let is_held_back = binding.is_elsewhere(key) || (self.holds_suspended && binding.spec.is_suspended());
            !is_held_back && self.plan(&binding.spec).evicts()
        })
    }

    fn per_second(&self) -> f64 {
        let TaintEviction::By { rate, .. } = self.taints else { return 0.0 };
        let (mut clusters, mut unready) = (0, 0);
        for cluster in self.view.list(CLUSTERS, None).filter_map(|object| object.typed::<Cluster>().ok()) {
            clusters += 1;
            let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
            unready += usize::from(ready.is_some_and(|ready| ready.status != "True"));
        }
        RateInForce::of(self.view, rate, clusters, unready, self.now).per_second
    }

    fn plan(&self, spec: &PartialSpec<'_>) -> EvictionPlan {
        let may_leave = self.holds_suspended || !spec.is_suspended();
        let is_ours = spec.scheduler_name() == self.scheduler_name && may_leave;
        let evicts = self.taints != TaintEviction::Off;
        let known = |name: &str| self.view.get(&cluster_key(name));
        // A cluster that cannot be parsed still exists, and evicts nothing.
        let typed = |object: &Arc<Object>| object.typed::<Cluster>().unwrap_or_default();
        let targets = spec.clusters();
        let names = targets.iter().map(|target| &*target.name);
        let objects = names.map(|name| (name, known(name)));
        let clusters: Vec<_> = objects.map(|(name, object)| (name, object, object.map(typed))).collect();
        let hosts = clusters.iter().map(|(name, object, cluster)| match (object, cluster) {
            (Some(object), _) if object.deleting && is_ours => (*name, HostCluster::Deleted),
            (_, Some(cluster)) if evicts => (*name, HostCluster::There { taints: &cluster.spec.taints }),
            (_, Some(_)) => (*name, HostCluster::There { taints: &[] }),
            (_, None) => (*name, HostCluster::Unknown),
        });
        // Tolerations are parsed from the placement, and most clusters have no taint.
        let is_tainted =
            clusters.iter().filter_map(|(.., cluster)| cluster.as_ref()).any(|it| !it.spec.taints.is_empty());
        let tolerations = if is_tainted { spec.tolerations() } else { Vec::new() };
        plan::plan(hosts, &tolerations, self.now)
    }

    /// Returns the binding without the clusters that it leaves.
    fn without(&self, object: &Object, plan: &EvictionPlan) -> Result<Map<String, Value>, String> {
        let mut tree = object.value().map_err(|error| error.to_string())?;
        let binding: AnyBinding = read_json(&object.text.content()).map_err(|error| error.to_string())?;
        let behavior = binding.spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
        let purge_mode = self.purge_mode(&binding);
        remember_home(&mut tree, &binding, &object.key, self.view, self.now);
        let deleted = plan.leave.iter().filter(|(_, why)| *why == EvictionReason::Deleted);
        let deleted: HashSet<&str> = deleted.map(|(name, _)| &**name).collect();
        if !deleted.is_empty()
            && let Some(Value::Array(clusters)) = tree.get_mut("spec").and_then(|spec| spec.get_mut("clusters"))
        {
            clusters.retain(|target| target["name"].as_str().is_none_or(|name| !deleted.contains(name)));
        }
        for (cluster, _) in plan.leave.iter().filter(|(_, why)| *why != EvictionReason::Deleted) {
            let rules = behavior.and_then(|behavior| behavior.state_preservation.as_ref());
            let mut task = GracefulEvictionTask {
                from_cluster: cluster.clone(),
                purge_mode: Some(purge_mode),
                creation_timestamp: Some(self.now),
                ..GracefulEvictionTask::by_taint()
            };
            preserve(rules, &binding, &mut task)?;
            evict(&mut tree, task).ok_or("it is not there any more")?;
        }
        let deleted = plan.leave.iter().filter(|(_, why)| *why == EvictionReason::Deleted).map(|(name, _)| &**name);
        let mut deleted = deleted.peekable();
        if deleted.peek().is_some() {
            let left = LeftClusters::after(LeftClusters::of(&binding.metadata.annotations), deleted, self.now);
            if let Some(annotations) = tree::object_or_new(&mut tree, &["metadata", "annotations"]) {
                annotations.insert(LEFT_CLUSTERS.to_owned(), left.text().into());
            }
        }
        record_change(&mut tree, &binding, &cause(&binding, plan), self.now);
        Ok(tree)
    }
}

/// Returns the cause of a plan, to be recorded on the binding.
fn cause(binding: &AnyBinding, plan: &EvictionPlan) -> Cause {
    if plan.leave.iter().all(|(_, why)| *why == EvictionReason::Deleted) {
        return Cause::ClustersLost(plan.leave.iter().map(|(name, _)| name.clone()).collect());
    }
    let reason = GracefulEvictionTask::by_taint().reason;
    let leaves = plan.leave.iter().map(|(name, why)| match why {
        EvictionReason::Deleted => (&**name, "the cluster is deleted"),
        _ => (&**name, &*reason),
    });
    evicted_from(binding, leaves)
}

/// Computes the urgency of an eviction from the priority of the binding and the share of the
/// workload on clusters that it does not leave.
fn urgency(spec: &PartialSpec<'_>, plan: &EvictionPlan) -> Urgency {
    // A workload that is not divided counts its copies.
    let count = |target: &PartialTarget<'_>| i64::from(target.replicas.unwrap_or(1).max(0));
    let targets = spec.clusters();
    let leaving: HashSet<&str> = plan.leave.iter().map(|(cluster, _)| &**cluster).collect();
    let is_left = |target: &&PartialTarget<'_>| leaving.contains(&*target.name);
    let left = targets.iter().filter(|target| !is_left(target)).map(count).sum();
    Urgency::new(spec.priority(), left, targets.iter().map(count).sum())
}

fn file(by_cluster: &mut BindingsByCluster, key: &Key, spec: &PartialSpec<'_>) {
    by_cluster.file(key, spec.clusters().iter().map(|target| &*target.name));
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no holder of this lock can panic")
}

/// Returns whether bindings may have to leave the cluster.
fn may_evict(cluster: &Object) -> bool {
    let has_no_execute_taint = |cluster: Arc<Cluster>| cluster.spec.taints.iter().any(is_no_execute);
    cluster.deleting || cluster.typed::<Cluster>().is_ok_and(has_no_execute_taint)
}
