//! A whole system in one process: memory store, registry, all workers, and a clock that only the
//! test advances.
//!
//! A story creates objects with `given`, changes them, calls `settle`, and checks the result.
//! Nothing sleeps: `settle` runs the workers turn by turn until all are idle at the present time.
//! `crash` drops everything but the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use async_trait::async_trait;
use ballast::actions::{MarkingLimits, RescheduleTasks};
use ballast::clock::{Clock, ManualClock};
use ballast::controllers::FailoverOptions;
use ballast::engine::karmada::Profile;
use ballast::estimator::Estimators;
use ballast::events::Recorder;
use ballast::k8s::{Body, GroupResource, Key, Object, Revision, Status, Time, User, WriteOptions};
use ballast::node::assembly::{self, WorkerOptions};
use ballast::node::config::{Controllers, ServeArgs};
use ballast::rebalance::gates::{GateClient, NoGates};
use ballast::registry::{Action, Atomicity, Caller, Change, Client, Locator, Part, Registry, Warnings};
use ballast::scheduler::asking;
use ballast::store::{self, MemoryStore, Store};
use ballast::watch::{self, Limits};
use ballast::worker::Runner;
use futures_util::future::join4;
use serde_json::{Map, Value};
use tokio::sync::RwLock;

use super::doorkeeper::Doorkeeper;
use super::fake_upstream::FakeUpstream;
pub use crate::support::fleet::without_a_rate;
pub use crate::support::kinds::*;

/// A world that is still busy after this many turns never settles.
const TURNS_MAX: usize = 2_000;

pub struct World {
    pub clock: Arc<ManualClock>,
    store: Arc<FaultyStore>,
    profile: Profile,
    failover: FailoverOptions,
    controllers: Controllers,
    /// The admission webhook for placements, if any.
    doorkeeper: Option<Arc<Doorkeeper>>,
    /// The API server of clusters and bindings, unless they are in the log.
    upstream: Option<Arc<FakeUpstream>>,
    /// The estimators of member clusters, if any.
    estimators: Option<Estimators>,
    /// The client for the gates of rollouts.
    gates: Arc<dyn GateClient>,
    /// Limits on marking by RescheduleTasks. Tests set them before a crash or a task.
    pub marking: MarkingLimits,
    limits: Limits,
    live: Option<Live>,
    /// The changes that the log has compacted.
    compacted: Vec<store::Change>,
}

struct Live {
    client: Client,
    registry: Arc<Registry>,
    recorder: Recorder,
    runners: Vec<Runner>,
    writer: watch::Task,
}

impl World {
    pub async fn new() -> World {
        World::with(Profile::ours()).await
    }

    pub async fn with(profile: Profile) -> World {
        World::of(profile, without_a_rate(), Controllers::default()).await
    }

    pub async fn with_failover(failover: FailoverOptions) -> World {
        World::of(Profile::ours(), failover, Controllers::default()).await
    }

    /// Starts as `ballast serve` does with these flags.
    pub async fn with_flags(args: ServeArgs) -> World {
        let args = args.settled().unwrap();
        World::of(Profile::ours(), args.failover.options(), args.controllers.chosen().unwrap()).await
    }

    /// Starts with an admission webhook.
    pub async fn behind(doorkeeper: Arc<Doorkeeper>) -> World {
        World::asking(Some(doorkeeper), Profile::ours(), without_a_rate(), Controllers::default()).await
    }

    async fn of(profile: Profile, failover: FailoverOptions, controllers: Controllers) -> World {
        World::asking(None, profile, failover, controllers).await
    }

    /// Starts as `ballast serve --attach` does, with its upstream.
    pub async fn attached() -> (World, Arc<FakeUpstream>) {
        let profile = Profile { federated_quotas: false, unmanaged: false, ..Profile::ours() };
        let mut args = ServeArgs::default();
        args.controllers.controllers = ["scheduler", "rebalance"].map(|name| name.parse().unwrap()).to_vec();
        let controllers = args.settled().unwrap().controllers.chosen().unwrap();
        let mut world = World::unborn(profile, without_a_rate(), controllers);
        let upstream = FakeUpstream::new(Arc::clone(&world.store.fate));
        world.upstream = Some(Arc::clone(&upstream));
        world.start().await;
        (world, upstream)
    }

    async fn asking(
        doorkeeper: Option<Arc<Doorkeeper>>,
        profile: Profile,
        failover: FailoverOptions,
        controllers: Controllers,
    ) -> World {
        let mut world = World { doorkeeper, ..World::unborn(profile, failover, controllers) };
        world.start().await;
        world
    }

    fn unborn(profile: Profile, failover: FailoverOptions, controllers: Controllers) -> World {
        World {
            clock: ManualClock::at("2024-04-17T15:00:05Z".parse().unwrap()),
            store: Arc::new(FaultyStore::default()),
            profile,
            failover,
            controllers,
            doorkeeper: None,
            upstream: None,
            estimators: None,
            gates: Arc::new(NoGates),
            marking: MarkingLimits::default(),
            limits: Limits::default(),
            live: None,
            compacted: Vec::new(),
        }
    }

    async fn start(&mut self) {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let store: Arc<dyn Store> = self.store.clone();
        let (cache, writer, task) = watch::open(store, Arc::clone(&clock), self.limits.clone()).await.unwrap();
        self.estimators.iter().for_each(|estimators| asking::install(&cache, estimators.clone()));
        let kinds = Arc::new(ballast::api::kinds());
        let recorder = Recorder::new(Arc::clone(&clock));
        let (authorizer, profile) = (Arc::default(), &self.profile);
        let reflector = writer.clone();
        let registry = assembly::registry(kinds, cache.clone(), writer, &authorizer, &clock, &recorder, profile);
        let allowed = ["https://gates.example", "https://gates.example/hooks"].map(|it| it.parse().unwrap());
        let registry = assembly::with_gates(registry, &allowed);
        let registry = match self.doorkeeper.clone() {
            Some(doorkeeper) => registry.with_external_admission(doorkeeper),
            None => registry,
        };
        let registry = Arc::new(match self.upstream.clone() {
            Some(upstream) => {
                upstream.follow(cache.clone(), reflector).await;
                registry.with_remote_store(upstream)
            }
            None => registry,
        });
        let client = registry.client(User::component("story"));
        let options = WorkerOptions {
            recorder: recorder.clone(),
            profile: self.profile.clone(),
            failover: self.failover,
            controllers: self.controllers.clone(),
            rescue: Default::default(),
            marking: self.marking,
            inventory: None,
            sinks: Vec::new(),
            gates: Arc::clone(&self.gates),
        };
        let work = assembly::workers(&registry, &clock, options);
        let runners = work.into_iter().map(|work| Runner::new(work, cache.clone(), Arc::clone(&clock))).collect();
        self.live = Some(Live { client, registry, recorder, runners, writer: task });
    }

    /// Restarts with windows so short that workers constantly miss events.
    pub async fn be_forgetful(&mut self) {
        self.limits = Limits { window_events_max: 4, events_per_turn_max: 3, ..Limits::default() };
        self.crash().await;
    }

    /// Restarts with these estimators.
    pub async fn be_estimated(&mut self, estimators: Estimators) {
        self.estimators = Some(estimators);
        self.crash().await;
    }

    /// Restarts with fake gate servers below `https://gates.example`.
    pub async fn be_gated(&mut self, gates: Arc<dyn GateClient>) {
        self.gates = gates;
        self.crash().await;
    }

    /// Drops everything but the store, and starts again.
    pub async fn crash(&mut self) {
        let Live { writer, .. } = self.live.take().expect("a world is alive between calls");
        writer.abort();
        let _ = writer.await;
        self.store.fate.mend();
        self.start().await;
    }

    /// Writes many objects to the store directly, in the format of the server, then restarts the
    /// server.
    pub async fn stored(&mut self, objects: impl IntoIterator<Item = Value>) -> Vec<Key> {
        let last = self.store.bounds().await.unwrap().last.0;
        let changes: Vec<store::Change> = (last + 1..)
            .zip(objects)
            .map(|(revision, mut object)| {
                let metadata = &mut object["metadata"];
                metadata["resourceVersion"] = revision.to_string().into();
                metadata["uid"] = format!("uid-{revision}").into();
                metadata["generation"] = 1.into();
                metadata["creationTimestamp"] = self.clock.now().to_string().into();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
                let key = Key::namespaced(resource_of(&object), namespace, name);
                store::Change {
                    revision: Revision(revision),
                    created: Revision(revision),
                    previous: Revision::ZERO,
                    operation: store::Operation::Create,
                    key,
                    object: serde_json::to_vec(&object).unwrap().into(),
                    time_ms: self.clock.now_ms(),
                }
            })
            .collect();
        self.store.commit(store::Term::default(), &changes).await.unwrap();
        self.crash().await;
        changes.into_iter().map(|change| change.key).collect()
    }

    /// Writes to the store without validation, then restarts the server.
    pub async fn damage(&mut self, key: &Key, change: impl Fn(&mut Value)) {
        let last = self.store.bounds().await.unwrap().last;
        let states = self.store.page(last, Revision::ZERO, usize::MAX).await.unwrap();
        let stored = states.into_iter().find(|state| state.key == *key).expect("it is there");
        let revision = last.next();
        let mut object: Value = serde_json::from_slice(&stored.object).unwrap();
        change(&mut object);
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        let object = serde_json::to_vec(&object).unwrap().into();
        let operation = store::Operation::Update;
        let change = store::Change { revision, previous: stored.revision, operation, object, ..stored };
        self.store.commit(store::Term::default(), &[change]).await.unwrap();
        self.crash().await;
    }

    /// Makes every commit after the next `commits` fail, until `mend` or `crash`.
    pub fn fail_after(&self, commits: i64) {
        self.store.fate.fail_after(commits);
    }

    /// Returns the fault injection of the commits here and the writes upstream.
    pub fn fate(&self) -> &Arc<Fate> {
        &self.store.fate
    }

    /// Compacts the whole log, including the latest writes.
    pub async fn compact(&mut self) {
        let all = self.written_since(Revision::ZERO).await;
        self.compacted = all;
        let newest = self.client().view().revision;
        while self.store.compact(newest, 1_000).await.unwrap() {}
    }

    pub fn mend(&self) {
        self.store.fate.mend();
    }

    /// Runs all workers until none has work at the present time.
    pub async fn settle(&mut self) {
        self.settle_within(TURNS_MAX).await;
    }

    pub async fn settle_within(&mut self, turns_max: usize) {
        for _ in 0..turns_max {
            if !self.turn().await {
                return;
            }
        }
        let mut busy = Vec::new();
        for runner in &mut self.live().runners {
            if runner.turn().await {
                busy.push(runner.name());
            }
        }
        panic!("does not settle: {busy:?} at revision {}", self.client().view().revision);
    }

    /// Runs one turn of each worker. Returns whether any had work.
    pub async fn turn(&mut self) -> bool {
        let mut busy = false;
        for runner in &mut self.live().runners {
            busy |= runner.turn().await;
        }
        busy
    }

    /// Runs one turn of one worker.
    pub async fn turn_of(&mut self, name: &str) -> bool {
        let runner = self.live().runners.iter_mut().find(|runner| runner.name() == name).expect(name);
        runner.turn().await
    }

    /// Changes `edited` while the store is blocked, then runs one turn of a worker. The worker
    /// decides from the state before the edit, and commits after it.
    pub async fn race(&mut self, edited: &Key, change: impl Fn(&mut Value), held_up: &Key, worker: &str) {
        let runners = &mut self.live().runners;
        let position = runners.iter().position(|runner| runner.name() == worker).expect(worker);
        let mut runner = runners.remove(position);
        let store = Arc::clone(&self.store);
        let gate = store.gate.write().await;
        // Keeps the writer busy, so that later writes wait in its queue.
        let first = self.edit(held_up, |object| object["metadata"]["annotations"]["held"] = "up".into());
        let opened = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            drop(gate);
        };
        // In this order: each is polled until it is queued before the next begins.
        join4(first, self.edit(edited, change), runner.turn(), opened).await;
        self.live().runners.push(runner);
    }

    /// Advances the clock second by second and settles each time, so that everything happens when
    /// it is due.
    pub async fn pass_seconds(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.clock.advance_seconds(1);
            self.settle().await;
        }
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    fn live(&mut self) -> &mut Live {
        self.live.as_mut().expect("a world is alive between calls")
    }

    pub fn client(&self) -> &Client {
        &self.live.as_ref().expect("a world is alive between calls").client
    }

    pub fn registry(&self) -> &Registry {
        &self.live.as_ref().expect("a world is alive between calls").registry
    }

    /// Creates an object, with its status if it has one.
    pub async fn given(&self, object: Value) -> Key {
        self.try_given(object).await.unwrap()
    }

    pub async fn try_given(&self, object: Value) -> Result<Key, Status> {
        let resource = resource_of(&object);
        let Value::Object(tree) = object else { panic!("an object") };
        let status = tree.get("status").cloned();
        let created = self.write(resource, Change::Create(tree)).await?;
        if let Some(status) = status {
            self.try_edit(&created.key, |object| object["status"] = status.clone()).await?;
        }
        Ok(created.key.clone())
    }

    /// Creates many objects of one kind at once.
    pub async fn given_all(&self, objects: Vec<Value>) -> Vec<Key> {
        let changes = objects.into_iter().map(|object| {
            let resource = resource_of(&object);
            let Value::Object(tree) = object else { panic!("an object") };
            (resource, Change::Create(tree))
        });
        let outcomes = self.client().batch(changes.collect(), Atomicity::Each).await.unwrap();
        outcomes.into_iter().map(|outcome| outcome.unwrap().key.clone()).collect()
    }

    /// Updates the newest version of an object, including its status.
    pub async fn edit(&self, key: &Key, change: impl Fn(&mut Value)) -> Arc<Object> {
        self.try_edit(key, change).await.unwrap()
    }

    pub async fn try_edit(&self, key: &Key, change: impl Fn(&mut Value)) -> Result<Arc<Object>, Status> {
        let mut object = self.get(key).unwrap_or_else(|| panic!("{key} is not there"));
        change(&mut object);
        let Value::Object(object) = object else { panic!("an object") };
        self.write(key.resource, Change::Update { part: Part::Whole, object }).await
    }

    /// Updates an object as a client of the API does, without its status.
    pub async fn put(&self, key: &Key, change: impl Fn(&mut Value)) -> Result<(), Status> {
        let mut object = self.get(key).unwrap_or_else(|| panic!("{key} is not there"));
        change(&mut object);
        let Value::Object(object) = object else { panic!("an object") };
        let rows = self.registry().kinds().rows();
        let row = rows.iter().find(|row| row.resource == key.resource).expect("a kind that is served").clone();
        let namespace = (!key.namespace.is_empty()).then(|| key.namespace.to_string());
        let name = Some(key.name.to_string());
        let target = Locator { row, namespace, name, status: false };
        let (user, warnings) = (User::component("operator"), Warnings::default());
        let caller = Caller { user: &user, warnings: &warnings };
        self.registry().update(caller, &target, Body::of(object), &WriteOptions::default()).await.map(drop)
    }

    pub async fn delete(&self, key: &Key) {
        self.try_delete(key).await.unwrap();
    }

    pub async fn try_delete(&self, key: &Key) -> Result<(), Status> {
        self.write(key.resource, Change::Delete { key: key.clone(), revision: None }).await.map(drop)
    }

    pub async fn delete_at(&self, key: &Key, revision: Revision) -> Result<(), Status> {
        let delete = Change::Delete { key: key.clone(), revision: Some(revision) };
        self.write(key.resource, delete).await.map(drop)
    }

    async fn write(&self, resource: GroupResource, change: Change) -> Result<Arc<Object>, Status> {
        let mut outcomes = self.client().batch(vec![(resource, change)], Atomicity::Each).await?;
        outcomes.pop().expect("one outcome per change")
    }

    /// POSTs a RescheduleTask.
    pub async fn task(&self, spec: Value) -> Result<(), Status> {
        self.task_with(spec, false).await.map(drop)
    }

    /// POSTs a RescheduleTask, and returns the warnings of the response.
    pub async fn task_with(&self, spec: Value, dry_run: bool) -> Result<Vec<String>, Status> {
        let object = serde_json::json!({
            "apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
            "metadata": {"name": "demo-task"}, "spec": spec,
        });
        let Value::Object(mut object) = object else { unreachable!() };
        let Live { registry, recorder, .. } = self.live.as_ref().expect("a world is alive between calls");
        let clock: Arc<dyn Clock> = self.clock.clone();
        let action = RescheduleTasks::new(registry.client(User::component("story")), clock, recorder, self.marking);
        action.create(&User::component("story"), &mut object, dry_run).await
    }

    pub fn get(&self, key: &Key) -> Option<Value> {
        let view = self.client().view();
        view.get(key).map(|object| serde_json::from_slice(&object.text.content()).unwrap())
    }

    pub fn revision(&self, key: &Key) -> Revision {
        self.client().view().get(key).expect("is there").revision
    }

    /// Returns every state of an object, oldest first.
    pub async fn history(&self, key: &Key) -> Vec<Value> {
        let changes = self.written_since(Revision::ZERO).await.into_iter().filter(|change| change.key == *key);
        changes.map(|change| serde_json::from_slice(&change.object).unwrap()).collect()
    }

    /// Returns the changes after `revision`, oldest first.
    pub async fn written_since(&self, revision: Revision) -> Vec<store::Change> {
        let compacted = self.store.bounds().await.unwrap().compacted;
        let before = self.compacted.iter().filter(|change| change.revision > revision).cloned();
        let after = self.store.changes(revision.max(compacted), usize::MAX).await.unwrap();
        before.chain(after).collect()
    }

    /// Returns the targets as `member1:2 member2:1`, sorted by name.
    pub fn placed(&self, key: &Key) -> String {
        let binding = self.get(key).unwrap_or_else(|| panic!("{key} is not there"));
        placed(&binding)
    }
}

/// Returns the targets as `member1:2 member2:1`, sorted by name.
pub fn placed(binding: &Value) -> String {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let mut list: Vec<String> = clusters
        .iter()
        .map(|cluster| match cluster["replicas"].as_i64() {
            Some(replicas) => format!("{}:{replicas}", cluster["name"].as_str().unwrap()),
            None => cluster["name"].as_str().unwrap().to_owned(),
        })
        .collect();
    list.sort();
    list.join(" ")
}

/// Returns the condition of this type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Map<String, Value>> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)?.as_object()
}

/// Fault injection: which of the future writes fail.
pub struct Fate {
    /// All writes so far, including failed ones.
    count: AtomicI64,
    /// The first write that fails, and the first later one that succeeds.
    fails: [AtomicI64; 2],
    /// Whether writes are neither counted nor failed.
    rests: AtomicBool,
}

impl Default for Fate {
    fn default() -> Fate {
        let never = || AtomicI64::new(i64::MAX);
        Fate { count: AtomicI64::new(0), fails: [never(), never()], rests: AtomicBool::new(false) }
    }
}

impl Fate {
    /// Counts a write. Returns whether it may succeed.
    pub fn allows(&self) -> bool {
        if self.rests.load(Ordering::SeqCst) {
            return true;
        }
        let at = self.count.fetch_add(1, Ordering::SeqCst);
        let [from, to] = [0, 1].map(|end| self.fails[end].load(Ordering::SeqCst));
        !(from..to).contains(&at)
    }

    pub fn count(&self) -> i64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Makes all writes after the next `writes` fail.
    pub fn fail_after(&self, writes: i64) {
        self.set(self.count().saturating_add(writes), i64::MAX);
    }

    /// Makes one write fail after the next `writes`.
    pub fn fail_once_after(&self, writes: i64) {
        let at = self.count().saturating_add(writes);
        self.set(at, at.saturating_add(1));
    }

    pub fn mend(&self) {
        self.set(i64::MAX, i64::MAX);
    }

    /// Returns whether any write has failed since the last call that set faults.
    pub fn has_failed(&self) -> bool {
        self.count() > self.fails[0].load(Ordering::SeqCst)
    }

    /// Suspends counting and faults until the returned guard is dropped.
    pub fn rest(&self) -> Rest<'_> {
        self.rests.store(true, Ordering::SeqCst);
        Rest(&self.rests)
    }

    fn set(&self, from: i64, to: i64) {
        self.fails[0].store(from, Ordering::SeqCst);
        self.fails[1].store(to, Ordering::SeqCst);
    }
}

pub struct Rest<'a>(&'a AtomicBool);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A memory store with commits that fail or block as the test specifies.
#[derive(Default)]
struct FaultyStore {
    inner: MemoryStore,
    fate: Arc<Fate>,
    /// Locked for writing to block commits.
    gate: RwLock<()>,
}

#[async_trait]
impl Store for FaultyStore {
    async fn commit(&self, term: store::Term, changes: &[store::Change]) -> Result<(), store::Error> {
        let _open = self.gate.read().await;
        if !self.fate.allows() {
            let source = Arc::new(std::io::Error::other("the story says so"));
            return Err(store::Error::Unavailable { action: "commit", source });
        }
        self.inner.commit(term, changes).await
    }

    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<store::Change>, store::Error> {
        self.inner.page(at, after, limit).await
    }

    async fn news(&self, after: Revision) -> Result<(), store::Error> {
        self.inner.news(after).await
    }

    async fn tip(&self, at: Revision) -> Result<store::Tip, store::Error> {
        self.inner.tip(at).await
    }

    async fn mark_lost(&self, term: store::Term, seen: Revision) -> Result<(), store::Error> {
        self.inner.mark_lost(term, seen).await
    }

    async fn losses(&self) -> Result<store::Losses, store::Error> {
        self.inner.losses().await
    }

    async fn accept(&self, term: store::Term) -> Result<(), store::Error> {
        self.inner.accept(term).await
    }

    async fn lead(
        &self,
        candidate: &store::Candidate,
        lease: std::time::Duration,
    ) -> Result<store::ElectionState, store::Error> {
        self.inner.lead(candidate, lease).await
    }

    async fn lead_in(
        &self,
        candidate: &store::Candidate,
        term: store::Term,
        lease: std::time::Duration,
    ) -> Result<store::ElectionState, store::Error> {
        self.inner.lead_in(candidate, term, lease).await
    }

    async fn resign(&self, term: store::Term) -> Result<(), store::Error> {
        self.inner.resign(term).await
    }

    async fn announce(&self, announcement: &store::ReplicaReport) -> Result<Vec<store::KnownReplica>, store::Error> {
        self.inner.announce(announcement).await
    }

    async fn depart(&self, name: &str) -> Result<(), store::Error> {
        self.inner.depart(name).await
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<store::Change>, store::Error> {
        self.inner.changes(after, limit).await
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, store::Error> {
        self.inner.compact(through, limit).await
    }

    async fn history(
        &self,
        of: &store::HistoryOf,
        span: store::Span,
        limit: usize,
    ) -> Result<Vec<store::Replacement>, store::Error> {
        self.inner.history(of, span, limit).await
    }

    async fn replaced(
        &self,
        resource: GroupResource,
        span: store::Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<store::Change>, store::Error> {
        self.inner.replaced(resource, span, after, limit).await
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<store::Change>, store::Error> {
        self.inner.rows(revisions).await
    }

    async fn bump_revision(&self, term: store::Term, to: Revision) -> Result<(), store::Error> {
        self.inner.bump_revision(term, to).await
    }

    async fn probe(&self) -> Result<(), store::Error> {
        self.inner.probe().await
    }

    async fn bounds(&self) -> Result<store::Bounds, store::Error> {
        self.inner.bounds().await
    }

    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, store::Error> {
        self.inner.replaced_bytes(after, limit).await
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, store::Error> {
        self.inner.revision_before(time_ms).await
    }
}
