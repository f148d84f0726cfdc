//! Metrics of all clusters for operators: the gauges about workloads, clusters and evictions, and
//! the number of displaced and drifted workloads.
//!
//! Counts follow the events. Only a start walks all objects.
//!
//! The standing of a workload depends on all clusters, so no event reports it. A sweep decides a
//! few bindings in each step: first the changed ones, then the others in turn. After each step it
//! pauses for two hundred times the duration of the step, so it uses half a percent of a core.
//! While objects change it pauses less: a round takes half a minute if that needs at most a tenth
//! of a core. A gauge shows the duration of the last round, which bounds the age of the number.
//!
//! The replicas that the loss of a cluster, zone or region would strand also depend on all
//! clusters. They are computed as a whole, at most every half minute, with a tenth of a core (half
//! of one if a computation takes more than a minute), and not again while nothing changes. A gauge
//! shows when the computation began, and reviews that would take too long return its result.
//!
//! The number of workloads that are down is independent of the sweep: it is counted at most five
//! seconds after the last count.
//!
//! *Invariant:* this worker writes nothing and delays no other work. Its decisions are discarded.

mod counts;
mod health;
mod rebalances;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use futures_util::future::{BoxFuture, FutureExt};

use self::counts::{BindingCounts, FleetCounts, NAMED_CLUSTERS_MAX, RecentCounts, ReplicaChange};
use self::health::Health;
use super::cluster_cache::CLUSTERS;
use super::planning::{
    self, Clearing, Haste, KnownAnswer, KnownSurvival, ParsedBinding, PlanBuilder, Planner, PlanningSnapshot,
    Selection, Standing, standing,
};
use super::reservations::Account;
use ballast_api::ballast::v1alpha1::{FailureDomain, SelectEntry};
use ballast_api::fleet::placement::v1beta1::any::{PlacementKinds, SCOPES};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, differ_in_trigger};
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_census::{Census, ForecastRules};
use ballast_engine::karmada::Profile;
use ballast_k8s::{GroupResource, Key, Object, Revision};
use ballast_registry::Client;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work, run_blocking};

/// Maximum number of bindings decided in one step, which takes some ten milliseconds.
pub const STEP_BINDINGS_MAX: usize = 500;
/// The pause after a step is this many times the duration of the step,
const REST_TIMES: i64 = 200;
/// and at least this many milliseconds.
const REST_MIN_MS: i64 = 500;
/// While objects change, the pauses of a round together are at most this long,
const ROUND_MS: i64 = 20_000;
/// and otherwise a change is seen after this time,
const IDLE_REST_MAX_MS: i64 = 15_000;
/// unless the sweep would use more than a tenth of a core.
const BUSY_REST_TIMES: i64 = 9;

/// Maximum pause between two counts of ready and missing replicas, however long a count took.
const HEALTH_REST_MAX_MS: i64 = 5_000;

/// Minimum pause after a computation of survival, which covers all bindings.
const SURVIVAL_REST_MIN_MS: i64 = 30_000;
/// The pause is this many times the duration of the computation,
const SURVIVAL_REST_TIMES: i64 = 9;
/// and at most the larger of this and the duration: during the loss of a region, a computation for
/// a thousand clusters takes a minute, and its result must not be old.
const SURVIVAL_REST_MAX_MS: i64 = 60_000;
/// Maximum age of a result. Changes without an event, such as the end of a toleration, are seen
/// after this time.
const SURVIVAL_AGE_MAX_MS: i64 = 300_000;
/// The domains for which the metric computes survival.
const DOMAINS: [FailureDomain; 3] = [FailureDomain::Cluster, FailureDomain::Zone, FailureDomain::Region];

pub struct FleetMetrics {
    client: Client,
    clock: Arc<dyn Clock>,
    planner: Arc<Planner>,
    counts: FleetCounts,
    recent: RecentCounts,
    sweep: Arc<Mutex<Sweep>>,
    health: Arc<Mutex<Health>>,
    survival: Arc<Mutex<SurvivalLook>>,
    rules: ForecastRules,
    /// Whether the loop has ended, which also ends the computation of survival.
    is_over: Arc<AtomicBool>,
}

/// The progress of the sweep. Each set contains every binding at most once.
#[derive(Default)]
struct Sweep {
    /// Bindings that changed since their last decision.
    changed: BTreeSet<Key>,
    displaced: HashSet<Key>,
    drifted: HashSet<Key>,
    /// The clusters with series of reserved capacity.
    reserved: BTreeSet<Arc<str>>,
    /// The last binding of this round that was decided. `None`: the round begins.
    last: Option<Key>,
    round_began_ms: i64,
    /// The view at the start of the round, and whether it had changes since the previous round.
    round_began_at: Revision,
    has_news: bool,
}

/// The last computation of survival.
#[derive(Default)]
struct SurvivalLook {
    of: Revision,
    began_ms: i64,
}

impl FleetMetrics {
    /// Creates the worker. The profile must be the scheduler's, because the sweep predicts its
    /// decisions, and the rules must be those of the eviction controllers.
    pub fn new(client: Client, clock: Arc<dyn Clock>, profile: Profile, rules: ForecastRules) -> FleetMetrics {
        let planner = Arc::new(Planner::new(profile));
        let (counts, recent) = (FleetCounts::default(), RecentCounts::default());
        let (sweep, health, survival, is_over) = Default::default();
        FleetMetrics { client, clock, planner, counts, recent, sweep, health, survival, rules, is_over }
    }

    fn publish(&self, changes: Vec<ReplicaChange>) {
        for changes in changes {
            match changes {
                ReplicaChange::Replicas(cluster, replicas) => metrics::cluster_replicas(&cluster, Some(replicas)),
                ReplicaChange::Gone(cluster) => metrics::cluster_replicas(&cluster, None),
                ReplicaChange::Others(replicas) => metrics::cluster_replicas(metrics::OTHER_CLUSTERS, Some(replicas)),
            }
        }
        let counts = self.counts.totals;
        metrics::workloads("scheduled", counts.scheduled);
        metrics::workloads("unschedulable", counts.unschedulable);
        metrics::workloads("waiting", counts.waiting);
        let reasons = metrics::UNSCHEDULABLE_REASONS.into_iter().chain([metrics::OTHER_REASON]);
        for (reason, count) in reasons.zip(counts.reasons) {
            metrics::workloads_unschedulable(reason, count);
        }
        metrics::evictions_waiting(counts.evictions);
        metrics::clusters("true", counts.ready_clusters);
        metrics::clusters("false", counts.unready_clusters);
    }
}

/// Returns the key that queues the next step of the sweep; it names no object.
fn turn() -> Key {
    Key::cluster(CLUSTERS, "")
}

/// Returns the key that queues the next computation of survival; it names no object.
fn survival_turn() -> Key {
    Key::namespaced(CLUSTERS, "survival", "")
}

/// Returns the key that queues the next count of ready and missing replicas; it names no object.
fn health_turn() -> Key {
    Key::namespaced(CLUSTERS, "health", "")
}

/// Returns the pause after work of this kind that took `took_ms`. `steps` is the number of steps of
/// a round, while objects change.
fn rest_ms(turn: &Key, took_ms: i64, steps: Option<i64>) -> i64 {
    let rest = took_ms.saturating_mul(REST_TIMES);
    match turn {
        _ if *turn == survival_turn() => {
            let rest = took_ms.saturating_mul(SURVIVAL_REST_TIMES);
            rest.clamp(SURVIVAL_REST_MIN_MS, SURVIVAL_REST_MAX_MS.max(took_ms))
        }
        _ if *turn == health_turn() => rest.clamp(REST_MIN_MS, HEALTH_REST_MAX_MS),
        _ => {
            let most = steps.map_or(IDLE_REST_MAX_MS, |steps| ROUND_MS / steps.max(1));
            rest.min(most.max(took_ms.saturating_mul(BUSY_REST_TIMES))).max(REST_MIN_MS)
        }
    }
}

impl SurvivalLook {
    /// Sets the metrics about the worst single loss of each kind of domain (SG22), if something may
    /// have changed. Does nothing for more bindings than a review may select.
    fn look(&mut self, present: &PlanningSnapshot, known: &KnownSurvival, now_ms: i64, is_over: &AtomicBool) {
        let is_old = !(0..SURVIVAL_AGE_MAX_MS).contains(&(now_ms - self.began_ms));
        if self.of == present.view.revision && !is_old {
            return metrics::survival_time(now_ms / 1_000);
        }
        let present = &present.clone().clearing(Clearing::dead());
        let all = Selection::new(&[SelectEntry::everything()], &[], None, &present.view);
        let Some(bindings) = all.ok().and_then(|all| all.find(present).ok()) else { return };
        for by in DOMAINS {
            let answers = planning::survival(present, &bindings, by, Haste::Background, is_over);
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            metrics::survival(by.as_str(), answers.first().map(|worst| worst.stranded_replicas));
            let (revision, time, workloads) = (present.view.revision, present.now, bindings.len() as i64);
            known.put(by, KnownAnswer { revision, time, workloads, domains: answers });
        }
        *self = SurvivalLook { of: present.view.revision, began_ms: now_ms };
        metrics::survival_time(now_ms / 1_000);
    }
}

impl Work for FleetMetrics {
    fn name(&self) -> &'static str {
        "census"
    }

    fn interest(&self) -> Vec<GroupResource> {
        let placements = SCOPES.into_iter().map(|kinds| kinds.placements);
        [CLUSTERS].into_iter().chain(BINDINGS).chain(placements).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(CLUSTERS, None) {
            self.counts.cluster(None, Some(counts::is_ready(object)));
        }
        for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
            self.counts.binding(None, Some(&BindingCounts::of(object)));
        }
        for object in SCOPES.into_iter().flat_map(|kinds| view.list(kinds.placements, None)) {
            self.counts.binding(None, Some(&BindingCounts::of_placement(object)));
        }
        metrics::forget_clusters();
        *lock(&self.health) = Health::default();
        self.publish(self.counts.all());
        [health_turn(), turn(), survival_turn()].into_iter().for_each(|turn| queue.mark(turn, 0));
    }

    fn on_event(&mut self, event: &Event, _queue: &mut Queue) {
        let after = (event.kind != EventKind::Deleted).then_some(&*event.object);
        let before = event.previous.as_deref();
        if event.object.key.resource == CLUSTERS {
            self.counts.cluster(before.map(counts::is_ready), after.map(counts::is_ready));
            return self.publish(Vec::new());
        }
        if PlacementKinds::of(event.object.key.resource).is_some() {
            let counted = |object: &Object| BindingCounts::of_placement(object);
            let changes = self.counts.binding(before.map(counted).as_ref(), after.map(counted).as_ref());
            return self.publish(changes);
        }
        if let Some((before, after)) = before.zip(after).filter(|_| event.is_alike(differ_in_trigger)) {
            // The counts and the standing are the same.
            return self.recent.renew(before, after);
        }
        let (were, are) = (before.map(|object| self.recent.take(object)), after.map(BindingCounts::of));
        let changes = self.counts.binding(were.as_ref(), are.as_ref());
        if let Some(counted) = are {
            self.recent.put(&event.object, counted);
        }
        self.publish(changes);
        let mut sweep = lock(&self.sweep);
        match after {
            Some(object) => drop(sweep.changed.insert(object.key.clone())),
            None => {
                sweep.changed.remove(&event.object.key);
                sweep.displaced.remove(&event.object.key);
                sweep.drifted.remove(&event.object.key);
            }
        }
    }

    fn end(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Allows the three kinds of work to run concurrently.
    fn concurrency(&self) -> usize {
        3
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, clock) = (self.client.clone(), Arc::clone(&self.clock));
        let (planner, sweep) = (Arc::clone(&self.planner), Arc::clone(&self.sweep));
        let (health, rules) = (Arc::clone(&self.health), self.rules);
        let (survival, is_over) = (Arc::clone(&self.survival), Arc::clone(&self.is_over));
        async move {
            // Each batch has one key.
            let of = keys.into_iter().next().unwrap_or_else(turn);
            let (now, now_ms, looked) = (clock.now(), clock.now_ms(), of.clone());
            let looked = run_blocking(move || {
                let (began, mut steps) = (Instant::now(), None);
                if looked == health_turn() {
                    let cache = client.cache();
                    lock(&health).tell(&Census::of(cache), &cache.view(), rules, now);
                } else {
                    // The metrics are computed continuously, so they do not query estimators.
                    let present = PlanningSnapshot { asking: None, ..planner.present(client.cache(), now) };
                    match looked == survival_turn() {
                        true => {
                            let known = KnownSurvival::of(client.cache());
                            // The writer waits at its end for all holders of a client.
                            drop(client);
                            lock(&survival).look(&present, &known, now_ms, &is_over);
                        }
                        false => steps = step(&present, &sweep, now_ms),
                    }
                }
                (i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX), steps)
            });
            let (took_ms, steps) = looked.await.unwrap_or_default();
            let rest = rest_ms(&of, took_ms, steps);
            KeyOutcome::new(of, Next::After(rest)).into()
        }
        .boxed()
    }
}

/// Decides some bindings, and publishes the number of displaced ones. Returns the number of steps
/// of a round if objects have changed since the last round began.
fn step(present: &PlanningSnapshot, sweep: &Mutex<Sweep>, now_ms: i64) -> Option<i64> {
    let keys = lock(sweep).next_keys(&present.view, now_ms);
    let looked = look(present, &keys);
    let mut sweep = lock(sweep);
    for (key, standing) in keys.into_iter().zip(looked) {
        sweep.displaced.remove(&key);
        sweep.drifted.remove(&key);
        match standing {
            Standing::Displaced => drop(sweep.displaced.insert(key)),
            Standing::Drifted => drop(sweep.drifted.insert(key)),
            Standing::Well => {}
        }
    }
    metrics::standing(sweep.displaced.len(), sweep.drifted.len());
    sweep.tell_reserved(present);
    let is_news = sweep.has_news || !sweep.changed.is_empty() || sweep.round_began_at != present.view.revision;
    let bindings: usize = BINDINGS.into_iter().map(|kind| present.view.count(kind, None)).sum();
    is_news.then(|| i64::try_from(bindings.div_ceil(STEP_BINDINGS_MAX)).unwrap_or(i64::MAX))
}

/// Returns the standing of each of these bindings; deleted ones are `Well`. This is the work of the
/// sweep: parsing and deciding a binding, some 30 µs for each.
pub fn look(snapshot: &PlanningSnapshot, keys: &[Key]) -> Vec<Standing> {
    let mut builder = PlanBuilder::new(snapshot);
    let parsed = |key: &Key| snapshot.view.get(key).filter(|object| !object.deleting).and_then(ParsedBinding::of);
    keys.iter().map(|key| parsed(key).map_or(Standing::Well, |parsed| standing(&mut builder, &parsed))).collect()
}

impl Sweep {
    /// Publishes the reserved capacity of each cluster (RM6).
    fn tell_reserved(&mut self, present: &PlanningSnapshot) {
        let amount = |account: &Account, resource: &str| {
            let unit = if resource == "cpu" { 1_000.0 } else { 1.0 };
            account.promised.get(resource) as f64 / unit
        };
        let told: BTreeSet<Arc<str>> = present
            .room
            .accounts()
            .filter(|(name, _)| present.clusters.find(name).is_some())
            .take(NAMED_CLUSTERS_MAX)
            .map(|(name, account)| {
                let amounts = metrics::RESERVED_RESOURCES.map(|resource| amount(account, resource));
                metrics::cluster_reserved(name, Some((account.copies, amounts)));
                Arc::clone(name)
            })
            .collect();
        self.reserved.difference(&told).for_each(|name| metrics::cluster_reserved(name, None));
        self.reserved = told;
    }

    /// Returns the duration of this round, or zero if the clock was set back.
    fn round_seconds(&self, now_ms: i64) -> i64 {
        (now_ms - self.round_began_ms).max(0) / 1_000
    }

    /// Returns the bindings of the next step.
    fn next_keys(&mut self, view: &View, now_ms: i64) -> Vec<Key> {
        let mut keys = Vec::new();
        while keys.len() < STEP_BINDINGS_MAX
            && let Some(key) = self.changed.pop_first()
        {
            keys.push(key);
        }
        let capacity = STEP_BINDINGS_MAX - keys.len();
        if capacity == 0 {
            return keys;
        }
        if self.last.is_none() {
            self.has_news = self.round_began_at != view.revision;
            (self.round_began_ms, self.round_began_at) = (now_ms, view.revision);
        }
        let round = after(view, self.last.as_ref(), capacity);
        match round.last() {
            Some(last) if round.len() == capacity => self.last = Some(last.clone()),
            // The round is over.
            _ => {
                (self.last, self.has_news) = (None, false);
                // Bindings that were deleted while a step decided them.
                self.displaced.retain(|key| view.get(key).is_some());
                self.drifted.retain(|key| view.get(key).is_some());
                metrics::displaced_age(self.round_seconds(now_ms));
            }
        }
        keys.extend(round);
        keys
    }
}

/// Returns at most `limit` bindings after `last`, in key order.
fn after(view: &View, last: Option<&Key>, limit: usize) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for kind in BINDINGS {
        let capacity = limit - keys.len();
        match last {
            Some(last) if last.resource == kind => {
                let rest = view.list_after(kind, None, (&last.namespace, &last.name));
                keys.extend(rest.take(capacity).map(|object| object.key.clone()));
            }
            // The last binding was of the second kind, so the first kind is done.
            Some(last) if kind == BINDINGS[0] && last.resource == BINDINGS[1] => {}
            _ => keys.extend(view.list(kind, None).take(capacity).map(|object| object.key.clone())),
        }
    }
    keys
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no holder of this lock can panic")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reservations::{Names, Room};
    use ballast_api::karmada::work::v1alpha2::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
    use ballast_engine::karmada::{Cluster, ClusterCapacity, ClusterSet};
    use ballast_k8s::Object;

    /// Returns a cluster that accepts Deployments if it has their API.
    fn cluster(name: &str, has_api: bool) -> Cluster {
        let apis = has_api.then(|| ("apps/v1".into(), "Deployment".into()));
        Cluster {
            name: name.into(),
            deleting: false,
            labels: [].into(),
            provider: "".into(),
            region: "".into(),
            zones: [].into(),
            taints: [].into(),
            apis: apis.into_iter().collect(),
            capacity: Some(ClusterCapacity { pods: 10_000, free: [].into(), grades: None }),
        }
    }

    fn binding(key: Key, on: &str) -> Arc<Object> {
        let tree = json!({
            "metadata": {"uid": &*key.name, "generation": 1, "name": &*key.name, "namespace": &*key.namespace},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "replicas": 2,
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Aggregated"}},
                "clusters": [{"name": on, "replicas": 2}],
            },
            "status": {"lastScheduledTime": "2024-04-17T15:00:00Z"},
        });
        Arc::new(Object::decode(key, Revision(1), tree.to_string().into_bytes().into()).unwrap())
    }

    fn key(number: usize) -> Key {
        match number % 2 {
            0 => Key::namespaced(RESOURCE_BINDINGS, "shop", format!("b{number}").as_str()),
            _ => Key::cluster(CLUSTER_RESOURCE_BINDINGS, format!("b{number}").as_str()),
        }
    }

    fn present(objects: Vec<Arc<Object>>) -> PlanningSnapshot {
        PlanningSnapshot {
            view: Arc::new(View::of(objects)),
            clusters: ClusterSet::new([cluster("good", true), cluster("bad", false)]),
            room: Room::default(),
            asking: None,
            names: Names::default(),
            no_execute: Arc::default(),
            unready: Arc::default(),
            profile: Arc::new(Profile::ours()),
            now: "2024-04-17T15:00:05Z".parse().unwrap(),
            clearing: None,
            supposed: Default::default(),
        }
    }

    #[test]
    fn ng1_what_is_down_is_counted_again_soon_however_long_a_look_took() {
        assert_eq!(rest_ms(&health_turn(), 1, None), REST_MIN_MS);
        assert_eq!(rest_ms(&health_turn(), 10_000, None), HEALTH_REST_MAX_MS);
    }

    #[test]
    fn the_sweep_hurries_while_the_fleet_changes() {
        assert_eq!(rest_ms(&turn(), 30, None), 6_000, "nothing has changed");
        assert_eq!(rest_ms(&turn(), 600, None), IDLE_REST_MAX_MS);
        assert_eq!(rest_ms(&turn(), 60, Some(20)), 1_000, "10,000 bindings in half a minute");
        assert_eq!(rest_ms(&turn(), 100, Some(2_000)), 900, "a million: a tenth of a core");
        assert_eq!(rest_ms(&turn(), 1, Some(1)), REST_MIN_MS);
    }

    #[test]
    fn a_look_at_losses_takes_a_tenth_of_a_core_and_half_of_one_if_it_is_long() {
        assert_eq!(rest_ms(&survival_turn(), 1, None), SURVIVAL_REST_MIN_MS);
        assert_eq!(rest_ms(&survival_turn(), 5_000, None), 45_000);
        assert_eq!(rest_ms(&survival_turn(), 20_000, None), SURVIVAL_REST_MAX_MS);
        assert_eq!(rest_ms(&survival_turn(), 200_000, None), 200_000);
    }

    #[test]
    fn rm38_drifted_is_who_would_be_placed_otherwise_today_and_displaced_who_lost_something() {
        let on = |number: usize| if number < 3 { "bad" } else { "good" };
        let objects = (0..7).map(|number| binding(key(number), on(number))).collect();
        let sweep = Mutex::default();
        step(&present(objects), &sweep, 0);
        let drifted: BTreeSet<Key> = lock(&sweep).drifted.iter().cloned().collect();
        assert_eq!(drifted, (0..3).map(key).collect());
        assert!(lock(&sweep).displaced.is_empty());
        // One returned, and one was deleted.
        let objects = [(0, "good"), (1, "bad")].map(|(number, on)| binding(key(number), on));
        step(&present(objects.into()), &sweep, 0);
        assert_eq!(lock(&sweep).drifted.iter().collect::<Vec<_>>(), [&key(1)]);
    }

    #[test]
    fn the_age_of_the_counts_is_in_seconds_and_never_negative() {
        let sweep = Sweep { round_began_ms: 5_000, ..Sweep::default() };
        assert_eq!([12_999, 5_000, 0].map(|now_ms| sweep.round_seconds(now_ms)), [7, 0, 0]);
    }

    #[test]
    fn a_round_looks_at_each_binding_once_and_what_changed_goes_first() {
        let count = 2 * STEP_BINDINGS_MAX + 7;
        let view = View::of((0..count).map(|number| binding(key(number), "good")));
        let mut sweep = Sweep::default();
        let mut seen: Vec<Key> = Vec::new();
        let mut steps = 0;
        while steps == 0 || sweep.last.is_some() {
            seen.extend(sweep.next_keys(&view, 0));
            steps += 1;
        }
        assert_eq!(steps, 3);
        seen.sort_unstable();
        let mut all: Vec<Key> = (0..count).map(key).collect();
        all.sort_unstable();
        assert!(seen == all, "{} of {count}", seen.len());
        sweep.changed.insert(key(count - 1));
        let keys = sweep.next_keys(&view, 0);
        assert_eq!((keys.len(), &keys[0]), (STEP_BINDINGS_MAX, &key(count - 1)));
        assert!(sweep.changed.is_empty());
    }
}
