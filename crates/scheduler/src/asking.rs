//! Asks the estimators in member clusters before decisions (RM10 to RM16).
//!
//! Passes ask for all their bindings at once, before their turn to decide. Plans ask on threads
//! that may wait: for all bindings of a plan at once, and for others as they come. The engine gets
//! the answers as an input, together with what was given away since.

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

/// Bindings that a question assumes in a cluster. What others have on their way there is deducted
/// from the answer, as without the flag. It keeps a question below a megabyte.
const ASSUMED_MAX: usize = 2_000;

/// The estimators of a process, which are kept with its cache.
#[derive(Default)]
struct Installed(OnceLock<Estimators>);

/// Lets all who decide with this cache ask these estimators. Call it once, before anything decides.
pub fn install(cache: &Cache, estimators: Estimators) {
    let _is_first = cache.companion(Installed::default).0.set(estimators);
}

/// The estimators that are asked, if any are.
pub fn installed(cache: &Cache) -> Option<Estimators> {
    cache.companion(Installed::default).0.get().cloned()
}

/// The newest state.
pub fn present(cache: &Cache, profile: &Profile, now: Time) -> Present {
    Keeper::of(cache, profile).present(cache, now)
}

/// What bindings hold on each cluster, and what is on its way to those that are asked.
pub fn held_with_assumed(present: &Present, to_ask: &ToAsk, estimators: &Estimators) -> Held {
    let mut held = present.room.held();
    if estimators.tells_assumed() {
        held.assumed = assumed(&present.view, &present.room, &held, to_ask);
    }
    held
}

/// What is on its way to the clusters that are asked.
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

/// What can be asked about a binding.
pub fn questions(spec: &ResourceBindingSpec, request: &Request) -> Questions {
    ballast_estimator::questions(spec, &request.resource.namespace)
}

/// What can be asked about a binding that has this text.
pub fn questions_of(content: &[u8], request: &Request) -> Option<Questions> {
    let binding: AnyBinding = read_json(content).ok()?;
    Some(questions(&binding.spec, request))
}

/// The clusters on the list that are to be asked.
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

/// What a plan needs to ask. Cheap to clone.
#[derive(Clone)]
pub struct Asking {
    estimators: Estimators,
    view: Arc<View>,
    held: Arc<Held>,
    room: Room,
    /// Clusters that are supposed to be other than they are. Their estimators know nothing of it.
    supposed: BTreeSet<Arc<str>>,
    /// What was asked for this plan.
    asked: HashMap<Shared<Question>, HashSet<Arc<str>>>,
}

impl Asking {
    /// `None`: no estimator is asked.
    pub fn new(cache: &Cache, view: &Arc<View>, room: impl FnOnce() -> Room) -> Option<Asking> {
        let (estimators, room) = (installed(cache)?, room());
        let (view, held) = (Arc::clone(view), Arc::new(room.held()));
        Some(Asking { estimators, view, held, room, supposed: BTreeSet::new(), asked: HashMap::new() })
    }

    /// Leaves out a cluster that is supposed to be another one.
    pub fn leave_out(&mut self, cluster: &Arc<str>) {
        self.supposed.insert(Arc::clone(cluster));
    }

    /// Asks what was not asked before, waits, and adds the answers to the pass.
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
