//! The counts of a whole view.
//!
//! Each version of a binding is parsed once, and cached. So a further count of a fleet costs one
//! look-up per binding, some 100 ns, and parses only changed bindings. The revision identifies a
//! version, because each change has another revision. Equal versions share their data: of a million
//! bindings, the rest takes some 40 bytes each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use ballast_api::core::{Taint, TaintEffect};
use ballast_api::karmada::cluster::v1alpha1::{Cluster, NOT_READY, Stay, UNREACHABLE};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_k8s::{GroupResource, Key, Object, Revision, Time};
use ballast_watch::{Cache, View};

use super::rate::EvictionRate;
use super::served::{Served, ServedShare};

pub const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

/// The most cluster names that are interned. Unused names are removed beyond it, because bindings
/// may name any cluster.
const NAMES_MAX: usize = 10_000;

/// Old versions are removed when their number exceeds that of the current ones, divided by this.
const OLD_SHARE: usize = 4;

/// The rules by which taints evict, as far as counts depend on them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForecastRules {
    /// `None` if taints evict nothing.
    pub rate: Option<EvictionRate>,
    /// The number of seconds after which a cluster that is not ready gets a NoExecute taint. `None`
    /// means never.
    pub evicted_after_seconds: Option<i64>,
}

/// Numbers of workloads and replicas. The sum of `ready` and `missing` is `wanted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaTally {
    pub workloads: i64,
    pub wanted: i64,
    pub ready: i64,
    pub missing: i64,
}

impl ReplicaTally {
    pub fn add(&mut self, other: ReplicaTally) {
        self.workloads += other.workloads;
        self.wanted += other.wanted;
        self.ready += other.ready;
        self.missing += other.missing;
    }
}

/// The counts of one cluster. Clusters that bindings name and that do not exist are included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterTally {
    pub region: Arc<str>,
    /// The status of the condition `Ready`. Empty if the cluster does not exist.
    pub status: String,
    /// The last transition time of the condition.
    pub since: Option<Time>,
    pub replicas: ReplicaTally,
    /// Ready replicas that evictions keep here until their replacement is ready.
    pub leaving: i64,
    /// Replicas that are assigned here, but are still served by other clusters.
    pub arriving: i64,
    /// The number of bindings with a pending or predicted eviction from here.
    pub to_evict: i64,
}

impl ClusterTally {
    pub fn is_reachable(&self) -> bool {
        self.status == "True"
    }

    pub fn exists(&self) -> bool {
        !self.status.is_empty()
    }
}

/// The counts of one view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetTally {
    pub revision: Revision,
    pub total: ReplicaTally,
    /// Desired replicas without a cluster. They also count as missing.
    pub unplaced: i64,
    /// Workloads with replicas that the scheduler found no placement for.
    pub unschedulable: i64,
    pub clusters: BTreeMap<Arc<str>, ClusterTally>,
    /// Counts by region. Empty for clusters without a region. A workload counts once in each of its
    /// regions.
    pub regions: BTreeMap<Arc<str>, ReplicaTally>,
    /// Counts by namespace. Empty for bindings without one.
    pub namespaces: BTreeMap<Arc<str>, ReplicaTally>,
    /// For each binding to evict, the time at which the eviction is or was due.
    pub due: Vec<Time>,
    /// The number of bindings that are leaving clusters without a healthy replacement yet.
    pub leaving: i64,
    /// The start of the oldest eviction in progress.
    pub leaving_since: Option<Time>,
    /// The bindings with desired replicas and without ready ones.
    pub down: Vec<(Key, DownCause)>,
}

/// The reason why a workload has no ready replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownCause {
    /// No cluster is assigned.
    Unplaced,
    /// No assigned cluster is Ready.
    ClustersLost,
    /// An assigned cluster is Ready, and reports no ready replica.
    Unready,
}

impl DownCause {
    pub const ALL: [DownCause; 3] = [DownCause::Unplaced, DownCause::ClustersLost, DownCause::Unready];

    /// Returns the label of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            DownCause::Unplaced => "unplaced",
            DownCause::ClustersLost => "clusters_lost",
            DownCause::Unready => "unready",
        }
    }
}

impl FleetTally {
    /// Returns the number of clusters that exist, and of clusters that report to be not ready.
    pub fn readiness(&self) -> (usize, usize) {
        let clusters = self.clusters.values().filter(|cluster| cluster.exists());
        let unready = clusters.clone().filter(|it| !it.is_reachable() && it.since.is_some()).count();
        (clusters.count(), unready)
    }
}

/// The counts of the newest view, shared by all readers. It is a companion of the cache.
#[derive(Default)]
pub struct Census {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<Revision, Arc<Served>>,
    /// The versions by content, which equal versions share.
    served: HashSet<Arc<Served>>,
    names: HashSet<Arc<str>>,
    /// The newest revision that was counted.
    counted: Revision,
    newest: Option<(ForecastRules, Arc<FleetTally>)>,
}

impl Census {
    pub fn of(cache: &Cache) -> Arc<Census> {
        cache.companion(Census::default)
    }

    /// Returns the counts of this view.
    pub fn count(&self, view: &View, rules: ForecastRules, now: Time) -> Arc<FleetTally> {
        // After a panic, some versions may be missing. They are parsed again.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) =
            state.newest.as_ref().filter(|(by, known)| *by == rules && known.revision == view.revision)
        {
            return Arc::clone(known);
        }
        let counted = Arc::new(state.count(view, None, rules, now));
        state.newest = Some((rules, Arc::clone(&counted)));
        counted
    }

    /// Returns the counts of the bindings of one namespace.
    pub fn count_namespace(&self, view: &View, namespace: &str, rules: ForecastRules, now: Time) -> FleetTally {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count(view, Some(namespace), rules, now)
    }
}

impl State {
    fn count(&mut self, view: &View, namespace: Option<&str>, rules: ForecastRules, now: Time) -> FleetTally {
        if view.revision < self.counted {
            // The log was reset to an earlier revision, and has other changes since.
            self.known.clear();
        }
        self.counted = view.revision;
        let mut tally = FleetTally { revision: view.revision, ..FleetTally::default() };
        let mut taints: HashMap<&str, Vec<Taint>> = HashMap::new();
        for object in view.list(CLUSTERS, None) {
            let cluster = object.typed::<Cluster>().unwrap_or_default();
            let evicting = evicting_taints(&cluster, rules);
            if !evicting.is_empty() {
                taints.insert(&object.key.name, evicting);
            }
            tally.clusters.insert(Arc::clone(&object.key.name), described(&cluster));
        }
        let mut seen = 0;
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, namespace));
        for object in bindings.filter(|object| namespace.is_none_or(|only| *object.key.namespace == *only)) {
            seen += 1;
            let served = self.read(object);
            tally.add(object, &served, &taints, now);
        }
        if namespace.is_none() && self.known.len() > seen + seen / OLD_SHARE {
            self.forget_old(view);
        }
        if self.names.len() > NAMES_MAX {
            self.names.retain(|name| Arc::strong_count(name) > 1);
        }
        tally
    }

    fn read(&mut self, object: &Object) -> Arc<Served> {
        if let Some(served) = self.known.get(&object.revision) {
            return Arc::clone(served);
        }
        let served = Served::of(object, &mut self.names);
        let served = match self.served.get(&served) {
            Some(known) => Arc::clone(known),
            None => Arc::new(served),
        };
        self.served.insert(Arc::clone(&served));
        self.known.insert(object.revision, Arc::clone(&served));
        served
    }

    /// Removes the versions that are not in this view.
    fn forget_old(&mut self, view: &View) {
        let known = &mut self.known;
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        let kept = bindings.filter_map(|object| known.remove_entry(&object.revision)).collect();
        self.known = kept;
        self.served.retain(|served| Arc::strong_count(served) > 1);
    }
}

impl FleetTally {
    fn add(&mut self, object: &Object, served: &Served, taints: &HashMap<&str, Vec<Taint>>, now: Time) {
        let shares = served.shares(|name| self.clusters.get(name).is_some_and(ClusterTally::is_reachable));
        let ready: i64 = shares.by_cluster.iter().map(|share| share.ready).sum();
        let of_binding = ReplicaTally { workloads: 1, wanted: served.wanted, ready, missing: served.wanted - ready };
        self.total.add(of_binding);
        self.unplaced += shares.unplaced;
        if served.wanted > 0 && ready == 0 {
            let is_reachable = |name: &Arc<str>| self.clusters.get(name).is_some_and(ClusterTally::is_reachable);
            let cause = match served.clusters().next() {
                None => DownCause::Unplaced,
                Some(_) if served.clusters().any(is_reachable) => DownCause::Unready,
                Some(_) => DownCause::ClustersLost,
            };
            self.down.push((object.key.clone(), cause));
        }
        self.unschedulable += i64::from(served.is_unschedulable);
        self.namespaces.entry(Arc::clone(&object.key.namespace)).or_default().add(of_binding);
        let mut regions: Vec<Arc<str>> = Vec::new();
        for ServedShare { cluster, ready, missing, leaving, arriving } in shares.by_cluster {
            let on = self.clusters.entry(cluster).or_default();
            on.leaving += leaving;
            on.arriving += arriving;
            let here = ReplicaTally { workloads: 1, wanted: ready + missing, ready, missing };
            on.replicas.add(here);
            let is_first = !regions.contains(&on.region);
            let in_region = ReplicaTally { workloads: i64::from(is_first), ..here };
            self.regions.entry(Arc::clone(&on.region)).or_default().add(in_region);
            if is_first {
                regions.push(Arc::clone(&on.region));
            }
        }
        self.leaving += i64::from(served.is_leaving());
        self.leaving_since = self.leaving_since.into_iter().chain(served.leaving_since).min();
        let Some(tolerations) = served.evictable().filter(|_| !taints.is_empty()) else { return };
        let mut due: Option<Time> = None;
        for cluster in served.clusters() {
            let Some(taints) = taints.get(&**cluster) else { continue };
            let Some(end) = Stay::ends(taints, tolerations, now) else { continue };
            due = Some(due.map_or(end, |other| other.min(end)));
            if let Some(on) = self.clusters.get_mut(cluster) {
                on.to_evict += 1;
            }
        }
        self.due.extend(due);
    }
}

fn described(cluster: &Cluster) -> ClusterTally {
    let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let status = ready.map_or("", |ready| &*ready.status);
    ClusterTally {
        region: cluster.spec.region.as_deref().unwrap_or_default().into(),
        status: if status.is_empty() { "Unknown".to_owned() } else { status.to_owned() },
        since: ready.map(|it| it.last_transition_time.max(cluster.metadata.creation_timestamp.unwrap_or_default())),
        ..ClusterTally::default()
    }
}

/// Returns the NoExecute taints of the cluster, and the one that it will get if its condition does
/// not change.
fn evicting_taints(cluster: &Cluster, rules: ForecastRules) -> Vec<Taint> {
    if rules.rate.is_none() {
        return Vec::new();
    }
    let mut taints: Vec<Taint> =
        cluster.spec.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).cloned().collect();
    let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let lost = ready.filter(|ready| ready.status != "True");
    let is_there = taints.iter().any(|taint| [NOT_READY, UNREACHABLE].contains(&&*taint.key));
    if let Some((seconds, lost)) = rules.evicted_after_seconds.zip(lost).filter(|_| !is_there) {
        let key = if lost.status == "False" { NOT_READY } else { UNREACHABLE };
        taints.push(Taint {
            key: key.to_owned(),
            value: None,
            effect: TaintEffect::NoExecute,
            time_added: Some(lost.last_transition_time.plus_seconds(seconds)),
        });
    }
    taints
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Backlog;
    use ballast_k8s::Key;

    const RULES: ForecastRules = ForecastRules {
        rate: Some(EvictionRate { per_second: 0.5, secondary_per_second: 0.1, unhealthy_share: 0.55, large_fleet: 10 }),
        evicted_after_seconds: Some(300),
    };

    fn object(key: Key, revision: i64, tree: &Value) -> Arc<Object> {
        Arc::new(Object::decode(key, Revision(revision), tree.to_string().into()).unwrap())
    }

    fn cluster(name: &str, region: &str, ready: &str, since: &str) -> Arc<Object> {
        let conditions = json!([{"type": "Ready", "status": ready, "reason": "r", "message": "m",
            "lastTransitionTime": since}]);
        let tree = json!({"metadata": {"name": name}, "spec": {"region": region, "syncMode": "Push"},
            "status": {"conditions": conditions}});
        object(Key::cluster(CLUSTERS, name), 1, &tree)
    }

    fn binding(name: &str, revision: i64, on: &[(&str, i64, i64)]) -> Arc<Object> {
        let clusters: Vec<Value> = on.iter().map(|(name, count, _)| json!({"name": name, "replicas": count})).collect();
        let reports = on.iter().map(
            |(name, _, ready)| json!({"clusterName": name, "status": {"replicas": ready, "readyReplicas": ready}}),
        );
        let wanted: i64 = on.iter().map(|(_, count, _)| count).sum();
        let spec = json!({"replicas": wanted, "clusters": clusters,
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}});
        let tree = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            "status": {"aggregatedStatus": reports.collect::<Vec<_>>()}});
        object(Key::namespaced(BINDINGS[0], "shop", name), revision, &tree)
    }

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn ng1_a_third_of_the_fleet_is_missing_at_once_and_all_numbers_add_up() {
        let census = Census::default();
        let now = at("2026-11-27T03:00:05Z");
        let objects = |ready: &str| {
            let clusters = [
                cluster("a", "eu", ready, "2026-11-27T03:00:00Z"),
                cluster("b", "eu", "True", "2026-11-01T00:00:00Z"),
                cluster("c", "us", "True", "2026-11-01T00:00:00Z"),
            ];
            let bindings = (0..10).map(|number| {
                binding(&format!("w{number}"), number, &[("a", 2, 2), ("b", 2, 2), ("c", 2, 1), ("gone", 1, 1)])
            });
            clusters.into_iter().chain(bindings).collect::<Vec<_>>()
        };
        let mut view = View::of(objects("True"));
        let before = census.count(&view, RULES, now);
        let replicas = |tally: &FleetTally, name: &str| tally.clusters[name].replicas;
        assert_eq!(before.total, ReplicaTally { workloads: 10, wanted: 70, ready: 50, missing: 20 });
        assert_eq!(replicas(&before, "gone"), ReplicaTally { workloads: 10, wanted: 10, ready: 0, missing: 10 });
        assert!(before.due.is_empty() && !before.clusters["gone"].exists());

        view = View::of(objects("Unknown"));
        view.revision = Revision(20);
        let after = census.count(&view, RULES, now);
        assert_eq!(after.total, ReplicaTally { workloads: 10, wanted: 70, ready: 30, missing: 40 });
        assert_eq!(replicas(&after, "a"), ReplicaTally { workloads: 10, wanted: 20, ready: 0, missing: 20 });
        assert_eq!(after.namespaces["shop"], after.total);
        // `a` and `b` are in one region, and each workload counts once there.
        assert_eq!(after.regions["eu"], ReplicaTally { workloads: 10, wanted: 40, ready: 20, missing: 20 });
        assert_eq!(after.regions["us"], replicas(&after, "c"));
        let missing: i64 = after.clusters.values().map(|cluster| cluster.replicas.missing).sum();
        assert_eq!(missing + after.unplaced, after.total.missing);
        assert_eq!((after.readiness(), after.clusters["a"].to_evict), ((3, 1), 10));
        // Evictions are predicted: ten bindings from 03:05:00 on, one per two seconds.
        let backlog = Backlog::of(&after.due, 0.5, now);
        assert_eq!((backlog.foreseen, backlog.ends), (10, Some(at("2026-11-27T03:05:18Z"))));
        assert_eq!(census.count_namespace(&view, "shop", RULES, now).total, after.total);
        assert_eq!(census.count_namespace(&view, "pay", RULES, now).total, ReplicaTally::default());
    }

    #[test]
    fn a_workload_without_a_ready_replica_is_down_for_one_cause() {
        let spec = json!({"replicas": 2, "clusters": [{"name": "a", "replicas": 2}], "placement": {},
            "gracefulEvictionTasks": [{"fromCluster": "b", "creationTimestamp": "2026-11-27T02:00:00Z"},
                {"fromCluster": "c", "creationTimestamp": "2026-11-27T01:00:00Z"}, {"fromCluster": "d"}]});
        let tree = json!({"metadata": {"name": "leaving", "namespace": "shop"}, "spec": spec});
        let leaving = object(Key::namespaced(BINDINGS[0], "shop", "leaving"), 15, &tree);
        let tree = json!({"metadata": {"name": "unplaced", "namespace": "shop"}, "spec": {"replicas": 2}});
        let view = View::of([
            cluster("a", "eu", "True", "2026-11-01T00:00:00Z"),
            cluster("b", "eu", "Unknown", "2026-11-27T03:00:00Z"),
            binding("well", 11, &[("a", 2, 1), ("b", 2, 2)]),
            binding("crashing", 12, &[("a", 2, 0), ("b", 2, 2)]),
            binding("lost", 13, &[("b", 2, 2), ("gone", 2, 2)]),
            binding("idle", 14, &[("b", 0, 0)]),
            leaving,
            object(Key::namespaced(BINDINGS[0], "shop", "unplaced"), 16, &tree),
        ]);
        let tally = Census::default().count(&view, RULES, at("2026-11-27T03:00:05Z"));
        let down: BTreeMap<&str, &str> = tally.down.iter().map(|(key, cause)| (&*key.name, cause.as_str())).collect();
        let expected =
            [("crashing", "unready"), ("leaving", "unready"), ("lost", "clusters_lost"), ("unplaced", "unplaced")];
        assert_eq!(down, BTreeMap::from(expected));
        assert_eq!(tally.leaving_since, Some(at("2026-11-27T01:00:00Z")));
    }

    #[test]
    fn ng1_a_version_that_was_read_is_remembered_and_one_that_is_gone_is_not() {
        let census = Census::default();
        let now = at("2026-11-27T03:00:05Z");
        let count = |revision: i64, objects: Vec<Arc<Object>>| {
            let mut view = View::of(objects);
            view.revision = Revision(revision);
            census.count(&view, ForecastRules::default(), now).total
        };
        let a = cluster("a", "eu", "True", "2026-11-01T00:00:00Z");
        assert_eq!(count(1, vec![a.clone(), binding("w", 1, &[("a", 2, 2)])]).ready, 2);
        assert_eq!(count(2, vec![a.clone(), binding("w", 2, &[("a", 2, 1)])]).ready, 1);
        assert_eq!(count(3, vec![a]), ReplicaTally::default());
        let state = census.state.lock().unwrap();
        assert!(state.known.is_empty() && state.served.is_empty());
    }

    #[test]
    fn ng1_bindings_that_say_the_same_share_it() {
        let census = Census::default();
        let now = at("2026-11-27T03:00:05Z");
        let fleet = |revision: i64| {
            let bindings = (0..100).map(|number| binding(&format!("w{number}"), revision + number, &[("a", 2, 2)]));
            let mut view = View::of([cluster("a", "eu", "True", "2026-11-01T00:00:00Z")].into_iter().chain(bindings));
            view.revision = Revision(revision + 100);
            census.count(&view, ForecastRules::default(), now).total.ready
        };
        let kept = || {
            let state = census.state.lock().unwrap();
            (state.known.len(), state.served.len())
        };
        assert_eq!((fleet(1_000), kept()), (200, (100, 1)));
        assert_eq!((fleet(2_000), kept()), (200, (100, 1)), "the versions before are forgotten");
        assert_eq!((fleet(1_000), kept()), (200, (100, 1)), "the log went back");
    }
}
