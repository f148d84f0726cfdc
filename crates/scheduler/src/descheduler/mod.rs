//! Rescues replicas that a cluster cannot schedule: replicas that its estimator reports as
//! unschedulable move to clusters with capacity (RM17), as in upstream's descheduler.
//!
//! A round examines the workloads with replicas that are divided by capacity and not all ready, and
//! queries the estimators of their clusters. Targets change in one commit, and only if there is
//! capacity for all replicas that leave; otherwise the replicas stay, and wait.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};

use self::plan::OnCluster;
use super::asking;
use super::cause::{self, Cause, REPLICAS_MOVED};
use super::cluster_cache::CLUSTERS;
use super::move_annotation::MOVE;
use super::planning::{self, ParsedBinding, PlanBuilder, Planner};
use super::reservations::{GivenRoom, Keeper, Moment};
use ballast_api::karmada::work::v1alpha2::{AnyBinding, BINDINGS};
use ballast_base::clock::Clock;
use ballast_engine::karmada::{Needs, Profile};
use ballast_estimator::{Estimators, Workload};
use ballast_k8s::{GroupResource, Key};
use ballast_registry::{Change, Client};
use ballast_watch::{Event, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work, commit_each, run_blocking};

/// Maximum number of workloads per round. The next round continues after them.
const CANDIDATES_MAX: usize = 10_000;
/// Maximum number of concurrent queries.
const AT_ONCE_MAX: usize = 32;

/// Options of the descheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RescueOptions {
    /// The time between two rounds.
    pub interval: Duration,
    /// The time after which a replica counts as unschedulable.
    pub threshold: Duration,
}

impl Default for RescueOptions {
    /// Returns upstream's times.
    fn default() -> RescueOptions {
        RescueOptions { interval: Duration::from_secs(120), threshold: Duration::from_secs(300) }
    }
}

pub struct Descheduler {
    shared: Arc<Shared>,
    /// The last workload of the previous round. `None`: the round reached the end.
    last: Arc<Mutex<Option<Key>>>,
}

struct Shared {
    client: Client,
    clock: Arc<dyn Clock>,
    profile: Profile,
    planner: Planner,
    recorder: Recorder,
    options: RescueOptions,
}

/// A workload with replicas that are not ready.
struct Candidate {
    key: Key,
    workload: Workload,
    unready: Vec<OnCluster>,
}

impl Descheduler {
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        profile: Profile,
        recorder: &Recorder,
        options: RescueOptions,
    ) -> Descheduler {
        let planner = Planner::new(profile.clone());
        let recorder = recorder.named("descheduler");
        let shared = Arc::new(Shared { client, clock, profile, planner, recorder, options });
        Descheduler { shared, last: Arc::default() }
    }
}

/// Returns the key that queues the next round; it names no object.
fn round() -> Key {
    Key::cluster(CLUSTERS, "")
}

impl Work for Descheduler {
    fn name(&self) -> &'static str {
        "descheduler"
    }

    fn interest(&self) -> Vec<GroupResource> {
        Vec::new()
    }

    fn list(&mut self, _view: &View, queue: &mut Queue) {
        queue.mark(round(), 0);
    }

    fn on_event(&mut self, _event: &Event, _queue: &mut Queue) {}

    fn begin(&mut self, _keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let shared = Arc::clone(&self.shared);
        let Some(estimators) = asking::installed(shared.client.cache()) else {
            return async { KeyOutcome::new(round(), Next::Done).into() }.boxed();
        };
        let place = Arc::clone(&self.last);
        let interval = i64::try_from(shared.options.interval.as_millis()).unwrap_or(i64::MAX);
        async move {
            let last = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            let reached = shared.round(&estimators, last).await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = reached;
            KeyOutcome::new(round(), Next::After(interval)).into()
        }
        .boxed()
    }
}

impl Shared {
    /// Runs one round over the workloads after `last`. Returns where the next one continues.
    async fn round(self: &Arc<Shared>, estimators: &Estimators, last: Option<Key>) -> Option<Key> {
        let view = self.client.view();
        let found = run_blocking(move || candidates(&view, last.as_ref())).await;
        let (candidates, reached) = found?;
        let threshold = self.options.threshold;
        let mut asked: Vec<(Key, Workload, Arc<str>)> = Vec::new();
        for Candidate { key, workload, unready } in &candidates {
            asked.extend(unready.iter().map(|on| (key.clone(), workload.clone(), Arc::clone(&on.cluster))));
        }
        let asking = stream::iter(asked).map(|(key, workload, cluster)| {
            let estimators = estimators.clone();
            async move {
                let replicas = estimators.unschedulable(&cluster, &workload, threshold).await?;
                Some((key, OnCluster { cluster, replicas }))
            }
        });
        let mut unschedulable: HashMap<Key, Vec<OnCluster>> = HashMap::new();
        let mut asking = std::pin::pin!(asking.buffer_unordered(AT_ONCE_MAX));
        while let Some(answer) = asking.next().await {
            answer.into_iter().for_each(|(key, on)| unschedulable.entry(key).or_default().push(on));
        }
        for candidate in &candidates {
            let Some(unschedulable) = unschedulable.get(&candidate.key) else { continue };
            let stuck = plan::stuck(&candidate.unready, unschedulable);
            if !stuck.is_empty() {
                self.rescue(&candidate.key, stuck).await;
            }
        }
        reached
    }

    /// Moves the stuck replicas of one workload, if there is capacity for all of them.
    async fn rescue(self: &Arc<Shared>, key: &Key, stuck: Vec<OnCluster>) {
        let keeper = self.profile.reserves.then(|| Keeper::of(self.client.cache(), &self.profile));
        let turn = match &keeper {
            Some(keeper) => Some(keeper.turn().await),
            None => None,
        };
        let (shared, at, now) = (Arc::clone(self), key.clone(), self.clock.now());
        let planned = run_blocking(move || {
            let present = shared.planner.present(shared.client.cache(), now);
            let object = Arc::clone(present.view.get(&at).filter(|object| !object.deleting)?);
            let (parsed, binding) = ParsedBinding::read(&object)?;
            // Replicas may have become ready since the estimators responded.
            let stuck = plan::stuck(&plan::unready(&parsed.request, &binding), &stuck);
            let is_others =
                parsed.request.is_triggered(&shared.profile) || binding.metadata.annotations.contains_key(MOVE);
            if stuck.is_empty() || is_others {
                return None;
            }
            let placed = plan::rescued(&mut PlanBuilder::new(&present), &parsed, &stuck)?;
            let moment = Moment { now, room: &present.room };
            let diff = cause::difference(&parsed.request.targets, &placed.targets)?;
            let replicas = |it: &OnCluster| (it.cluster.to_string(), it.replicas);
            let cause = Cause::Unschedulable(stuck.iter().map(replicas).collect());
            let edits = planning::edits(&object, &binding, &placed.targets, placed.term.as_deref(), &cause, moment);
            let arrivals = placed.targets.iter().filter_map(|target| {
                let more = i64::from(target.replicas) - parsed.request.replicas_on(&target.name);
                (more > 0).then(|| (Arc::clone(&target.name), more))
            });
            let given = Needs::of(&parsed.request).map(|needs| GivenRoom {
                binding: object.key.clone(),
                base: object.revision,
                needs,
                arrivals: arrivals.collect(),
            });
            let told = cause::sentence(&diff, &cause);
            Some((object, edits, given, binding.subjects(&at), told))
        });
        let Some(Some((object, edits, given, subjects, told))) = planned.await else { return };
        let claim = keeper.as_ref().zip(given).map(|(keeper, given)| keeper.claim(given));
        // The reservations are recorded, so another decision may begin.
        drop(turn);
        let change = (object.key.resource, Change::Edit { base: object, edits });
        for ((), outcome) in commit_each(&self.client, vec![((), change)]).await {
            match outcome {
                Ok(_) => {
                    tracing::info!(%key, "{told}");
                    for about in subjects.clone() {
                        self.recorder.record(Note::new(
                            &self.recorder,
                            about,
                            Severity::Normal,
                            REPLICAS_MOVED,
                            told.clone(),
                        ));
                    }
                }
                // The next round tries again.
                Err(status) => tracing::debug!(%key, %status, "not rescued"),
            }
        }
        drop(claim);
    }
}

/// Returns the workloads after `last` with replicas that are not ready, and the last of them if
/// there are more.
fn candidates(view: &View, last: Option<&Key>) -> (Vec<Candidate>, Option<Key>) {
    let mut found = Vec::new();
    let is_before = |key: &Key| {
        last.is_some_and(|last| {
            (key.resource, &key.namespace, &key.name) <= (last.resource, &last.namespace, &last.name)
        })
    };
    let mut kinds = BINDINGS;
    kinds.sort_unstable();
    for object in kinds.into_iter().flat_map(|kind| view.list(kind, None)) {
        if object.deleting || is_before(&object.key) {
            continue;
        }
        if found.len() == CANDIDATES_MAX {
            let reached = found.last().map(|candidate: &Candidate| candidate.key.clone());
            return (found, reached);
        }
        found.extend(candidate(object));
    }
    (found, None)
}

fn candidate(object: &Arc<ballast_k8s::Object>) -> Option<Candidate> {
    let (parsed, binding): (ParsedBinding, AnyBinding) = ParsedBinding::read(object)?;
    let unready = plan::unready(&parsed.request, &binding);
    if unready.is_empty() {
        return None;
    }
    let workload = parsed.workload;
    let workload = Workload {
        api_version: workload.api_version,
        kind: workload.kind,
        namespace: workload.namespace.unwrap_or_default(),
        name: workload.name,
    };
    Some(Candidate { key: object.key.clone(), workload, unready })
}
