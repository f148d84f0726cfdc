//! Queries the estimators in member clusters before decisions (RM10 to RM16).
//!
//! A pass queries for all its bindings at once, before its turn to decide. Plans query on threads
//! that may block: for all bindings of a plan at once, and for further bindings on demand. The
//! engine receives the estimates as an input, together with the reservations made since.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::cluster_cache::CLUSTERS;
use super::convert;
use super::reservations::{Keeper, Present, Room};
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, ResourceBindingSpec};
use ballast_engine::karmada::{
    self as engine, Amounts, Needs, Profile, Question, Questions, Request, Shared, Shortlist,
};
use ballast_estimator::{Assumed, Estimators, Held, ToAsk};
use ballast_k8s::{Key, Time, read_json};
use ballast_watch::{Cache, View};

/// Maximum number of workloads that a query lists as assumed in a cluster; it keeps a query below a
/// megabyte. Pending replicas of further workloads are deducted from the estimate, as without the
/// flag.
const ASSUMED_MAX: usize = 2_000;

/// The estimators of a process, attached to its cache.
#[derive(Default)]
struct Installed(OnceLock<Estimators>);

/// Installs the estimators for all decisions with this cache. Must be called once, before the first
/// decision.
pub fn install(cache: &Cache, estimators: Estimators) {
    let _is_first = cache.companion(Installed::default).0.set(estimators);
}

/// Returns the installed estimators, if any.
pub fn installed(cache: &Cache) -> Option<Estimators> {
    cache.companion(Installed::default).0.get().cloned()
}

/// Returns the newest state.
pub fn present(cache: &Cache, profile: &Profile, now: Time) -> Present {
    Keeper::of(cache, profile).present(cache, now)
}

/// Returns the resources that bindings hold on each cluster, and the pending replicas on the
/// queried clusters.
pub fn held_with_assumed(present: &Present, to_ask: &ToAsk, estimators: &Estimators) -> Held {
    let mut held = present.room.held();
    if estimators.tells_assumed() {
        held.assumed = assumed(&present.view, &present.room, &held, to_ask);
    }
    held
}

/// Returns the pending workloads on the queried clusters.
fn assumed(view: &View, room: &Room, held: &Held, to_ask: &ToAsk) -> HashMap<Arc<str>, Assumed> {
    let clusters: BTreeSet<&Arc<str>> = to_ask.iter().flat_map(|(_, clusters)| clusters).collect();
    let of_cluster = |cluster: &Arc<str>| {
        let reported = held.reported.get(cluster).map(|amounts| Amounts::clone(amounts));
        let (mut seen, mut workloads) = (reported.unwrap_or_default(), Vec::new());
        for (key, copies) in room.on_its_way(cluster).take(ASSUMED_MAX) {
            let Some(object) = view.get(&key) else { continue };
            let Ok(AnyBinding { metadata, spec, status }) = read_json(&object.text.content()) else { continue };
            let request = convert::karmada::request(&metadata, &spec, &status);
            let Some(needs) = Needs::of(&request) else { continue };
            let of_sets = matches!(needs, Needs::Set(_));
            workloads.push(ballast_estimator::assumed_workload(&spec, &request.resource.namespace, of_sets, copies));
            seen.add(&needs.amounts(), copies);
        }
        (Arc::clone(cluster), Assumed { workloads: Arc::new(workloads), seen: Arc::new(seen) })
    };
    clusters.into_iter().map(of_cluster).collect()
}

/// Returns the possible queries for a binding.
pub fn questions(spec: &ResourceBindingSpec, request: &Request) -> Questions {
    ballast_estimator::questions(spec, &request.resource.namespace)
}

/// Parses a binding, and returns the possible queries for it.
pub fn questions_of(content: &[u8], request: &Request) -> Option<Questions> {
    let binding: AnyBinding = read_json(content).ok()?;
    Some(questions(&binding.spec, request))
}

/// Returns the clusters on the list to query.
pub fn to_ask(pass: &engine::Pass, list: &Shortlist, view: &View, estimators: &Estimators) -> ToAsk {
    if estimators.len() > view.count(CLUSTERS, None) {
        estimators.keep_only(|name| view.get(&Key::cluster(CLUSTERS, name)).is_some());
    }
    let mut to_ask = pass.named(list);
    if !estimators.asks_pull_mode() {
        let mut known: HashMap<Arc<str>, bool> = HashMap::new();
        let mut is_asked =
            |name: &Arc<str>| *known.entry(Arc::clone(name)).or_insert_with(|| !is_in_pull_mode(view, name));
        to_ask.iter_mut().for_each(|(_, clusters)| clusters.retain(&mut is_asked));
    }
    to_ask
}

fn is_in_pull_mode(view: &View, name: &str) -> bool {
    let cluster = view.get(&Key::cluster(CLUSTERS, name)).and_then(|object| object.typed::<Cluster>().ok());
    cluster.is_some_and(|cluster| cluster.spec.sync_mode == "Pull")
}

/// The state with which a plan queries estimators. Cheap to clone.
#[derive(Clone)]
pub struct Asking {
    estimators: Estimators,
    view: Arc<View>,
    held: Arc<Held>,
    room: Room,
    /// Hypothetical clusters. The estimators of the real ones have no information about them.
    supposed: BTreeSet<Arc<str>>,
    /// The queries sent for this plan.
    asked: HashMap<Shared<Question>, HashSet<Arc<str>>>,
}

impl Asking {
    /// Returns `None` if no estimators are installed.
    pub fn new(cache: &Cache, view: &Arc<View>, room: impl FnOnce() -> Room) -> Option<Asking> {
        let (estimators, room) = (installed(cache)?, room());
        let (view, held) = (Arc::clone(view), Arc::new(room.held()));
        Some(Asking { estimators, view, held, room, supposed: BTreeSet::new(), asked: HashMap::new() })
    }

    /// Excludes a cluster that the plan replaces by a hypothetical one.
    pub fn leave_out(&mut self, cluster: &Arc<str>) {
        self.supposed.insert(Arc::clone(cluster));
    }

    /// Sends the queries that were not sent before, waits, and adds the responses to the pass.
    pub fn learn(&mut self, pass: &mut engine::Pass, list: &Shortlist) {
        if list.is_empty() {
            return;
        }
        let mut to_ask = to_ask(pass, list, &self.view, &self.estimators);
        for (question, clusters) in &mut to_ask {
            let asked = self.asked.entry(question.clone()).or_default();
            clusters.retain(|cluster| !self.supposed.contains(cluster) && asked.insert(Arc::clone(cluster)));
        }
        to_ask.retain(|(_, clusters)| !clusters.is_empty());
        if to_ask.is_empty() {
            return;
        }
        let to_ask = Arc::new(to_ask);
        let mut held = Arc::clone(&self.held);
        if self.estimators.tells_assumed() {
            let assumed = assumed(&self.view, &self.room, &held, &to_ask);
            Arc::make_mut(&mut held).assumed = assumed;
        }
        self.estimators.ask_and_wait(&to_ask, &held);
        pass.add_answers(self.estimators.answers(&to_ask, &self.held));
    }
}
