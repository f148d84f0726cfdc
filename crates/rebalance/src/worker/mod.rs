//! The loop that executes rebalances: it plans, proceeds step by step, and cleans up.
//!
//! The worker takes one bounded step of one rebalance, and then of the next, so each step sees the
//! moves in progress of the others. If a write conflicts, the step is dropped together with its
//! `Run`, and is repeated from the newest view, smaller (`ballast_worker::Attempts`).

mod admission;
mod run_cache;
mod cleanup;
mod phases;
mod planning;
mod step;
mod undo;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};

use self::phases::Phases;
use self::run_cache::RunCache;
use super::binding_storage;
use super::gates::{GateAnswers, GateClient, GateQuestion, NoGates};
use super::record::{self, AnyMove, AnyRebalance, BOTH_MOVES, BOTH_REBALANCES, CLUSTERS, Owner};
use super::status;
use super::step_input::RefusedWrite;
use ballast_api::ballast::v1alpha1::{APPROVED_BY, MoveReason, Phase, REBALANCE_LABEL, RebalanceStatus, UNDOES_LABEL};
use ballast_api::fleet::placement::v1beta1::any as fleet;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_base::clock::Clock;
use ballast_engine::karmada::Profile;
use ballast_k8s::{Edit, GroupResource, Key, Object, Status};
use ballast_quota as quota;
use ballast_registry::{Change, Client};
use ballast_scheduler::planning::Planner;
use ballast_scheduler::reservations::Keeper;
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{
    Attempts, BatchOutcome, Changes, CommitFailure, DeferredWork, Failure, KeyOutcome, Next, Queue, Work,
    commit_together,
};

/// Maximum number of Moves that one transaction of a plan writes or deletes.
const MOVES_PER_COMMIT_MAX: usize = 2_000;

pub struct Rebalances {
    shared: Arc<Shared>,
    phases: Phases,
}

struct Shared {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    profile: Profile,
    planner: Planner,
    /// The keeper that serializes decisions. `None`: nothing is reserved.
    keeper: Option<Arc<Keeper>>,
    cache: Mutex<RunCache>,
    gates: Arc<dyn GateClient>,
    /// The responses of gates, by rebalance, until the next step records them.
    answers: Mutex<HashMap<Key, GateAnswers>>,
}

impl Rebalances {
    /// Creates the worker. `profile` must be the scheduler's.
    pub fn new(client: Client, clock: Arc<dyn Clock>, profile: Profile, recorder: &Recorder) -> Rebalances {
        let recorder = recorder.named("rebalance");
        let planner = Planner::new(profile.clone());
        let keeper = profile.reserves.then(|| Keeper::of(client.cache(), &profile));
        let (cache, answers, gates) = (Mutex::default(), Mutex::default(), Arc::new(NoGates));
        let shared = Shared { client, clock, recorder, profile, planner, keeper, cache, gates, answers };
        Rebalances { shared: Arc::new(shared), phases: Phases::default() }
    }

    /// Sets the client for gates. Must be called before the work begins.
    #[must_use]
    pub fn with_gates(mut self, gates: Arc<dyn GateClient>) -> Rebalances {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.gates = gates;
        }
        self
    }
}

impl Work for Rebalances {
    fn name(&self) -> &'static str {
        "rebalance"
    }

    fn interest(&self) -> Vec<GroupResource> {
        let placements =
            fleet::SCOPES.into_iter().flat_map(|kinds| [kinds.placements, kinds.policy_snapshots, kinds.bindings]);
        BOTH_REBALANCES.into_iter().chain(BOTH_MOVES).chain(BINDINGS).chain(placements).chain([CLUSTERS]).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        self.phases.count_all(BOTH_REBALANCES.into_iter().flat_map(|resource| view.list(resource, None)));
        for object in BOTH_REBALANCES.into_iter().flat_map(|resource| view.list(resource, None)) {
            queue.mark(object.key.clone(), 0);
        }
        // Moves of a deleted rebalance are collected under its name.
        let mut seen = HashSet::new();
        for object in BOTH_MOVES.into_iter().flat_map(|resource| view.list(resource, None)) {
            let owner = AnyMove::read(object).and_then(|read| read.owner());
            if let Some(owner) = owner.filter(|owner| seen.insert(owner.key.clone()))
                && view.get(&owner.key).is_none()
            {
                queue.mark(owner.key, 0);
            }
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let key = &event.object.key;
        let is_deleted = event.kind == EventKind::Deleted;
        if BOTH_REBALANCES.contains(&key.resource) {
            self.phases.count(event.previous.as_deref(), (!is_deleted).then_some(&event.object));
            // A rebalance that waits for its undo checks whether the undo is finished.
            if let Some(undone) = event.object.label(UNDOES_LABEL) {
                queue.mark(Key { name: undone.into(), ..key.clone() }, 0);
            }
            let waiting = self.shared.cache().take_waiting(key);
            waiting.into_iter().for_each(|undo| queue.mark(undo, 0));
            if is_deleted {
                self.shared.cache().forget(key);
                self.shared.answers().remove(key);
                return queue.mark(key.clone(), 0);
            }
            return queue.mark_changed(key.clone(), 0, event.revision);
        }
        if BOTH_MOVES.contains(&key.resource) {
            if is_deleted {
                self.notice_loss(&event.object, queue);
            }
            return;
        }
        if key.resource == CLUSTERS {
            // Most changes are reports.
            let is_reselected = event.previous.as_deref().is_some_and(|before| {
                before.labels != event.object.labels || before.generation != event.object.generation
            });
            let concerned = if is_reselected { self.shared.cache().note_cluster(&key.name) } else { Vec::new() };
            return concerned.into_iter().for_each(|concerned| queue.mark(concerned, 0));
        }
        // A KubeFleet binding or snapshot without the label of its placement affects no rebalance.
        let moved = match BINDINGS.contains(&key.resource) {
            true => Some(key.clone()),
            false => fleet::placement_of(&event.object),
        };
        for concerned in moved.into_iter().flat_map(|moved| self.shared.cache().note(&moved)) {
            queue.mark(concerned, 0);
        }
    }

    /// Drops the run of the rebalance, which is loaded again from its Moves.
    fn invalidate(&mut self, key: &Key) {
        self.shared.cache().forget(key);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let shared = Arc::clone(&self.shared);
        let work = async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                let mut question = None;
                let outcome = Arc::clone(&shared).work(key.clone(), &mut question).await;
                match question {
                    None => worked.outcomes.push(outcome),
                    Some(question) => worked.deferred.push(Arc::clone(&shared).ask(key, question)),
                }
            }
            worked
        };
        work.boxed()
    }
}

impl Rebalances {
    /// Handles the deletion of a Move. If its rebalance is running, its run is loaded again from
    /// the remaining Moves.
    fn notice_loss(&mut self, lost: &Object, queue: &mut Queue) {
        let Some(name) = lost.label(REBALANCE_LABEL) else { return };
        let owners = [
            Key::namespaced(record::REBALANCES, Arc::clone(&lost.key.namespace), name),
            Key::cluster(record::CLUSTER_REBALANCES, name),
        ];
        let mut cache = self.shared.cache();
        for owner in owners {
            if cache.forget(&owner) {
                queue.mark(owner, 0);
            }
        }
    }
}

/// The reason why nothing was written.
struct WriteFailure {
    status: Box<Status>,
    /// The refused bindings and placements with the reasons, if they are the cause.
    refused: Vec<(Key, RefusedWrite)>,
}

impl WriteFailure {
    fn shutting_down() -> WriteFailure {
        Status::unavailable("shutting down").into()
    }
}

impl From<Status> for WriteFailure {
    fn from(status: Status) -> WriteFailure {
        WriteFailure { status: Box::new(status), refused: Vec::new() }
    }
}

impl From<CommitFailure> for WriteFailure {
    fn from(failed: CommitFailure) -> WriteFailure {
        let refused = failed.refused.into_iter().map(|(key, status)| (key, RefusedWrite::by(&status)));
        WriteFailure { status: failed.status, refused: refused.collect() }
    }
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, RunCache> {
        // State after a panic is loaded again from the objects.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<Key, GateAnswers>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queries gates concurrently with the work on other rebalances. The next step records the
    /// responses.
    fn ask(self: Arc<Shared>, key: Key, question: GateQuestion) -> DeferredWork {
        let of = key.clone();
        let gates = Arc::clone(&self.gates);
        let answer = async move { question.ask(&*gates).await }.map(move |answers| {
            let rest = async move {
                self.answers().insert(of.clone(), answers);
                BatchOutcome::from(KeyOutcome::new(of, Next::Again))
            };
            rest.boxed()
        });
        DeferredWork { key, answer: answer.boxed() }
    }

    /// Works on a rebalance. `question` receives the gates to query, if there are any.
    async fn work(self: Arc<Shared>, key: Key, question: &mut Option<GateQuestion>) -> KeyOutcome {
        let mut attempts = Attempts::new(self.most_at_once());
        let mut is_overtaken = false;
        let knows_quotas = binding_storage::of(self.client.is_remote(BINDINGS[0])).knows_quotas();
        while attempts.begin() {
            let turn = match &self.keeper {
                Some(keeper) => Some(keeper.turn().await),
                None => None,
            };
            let present = self.planner.present(self.client.cache(), self.clock.now());
            let view = Arc::clone(&present.view);
            let Some(object) = view.get(&key).cloned() else {
                drop(turn);
                let next = self.clean(&view, &key, None).await.unwrap_or(Next::Done);
                return KeyOutcome::new(key, next);
            };
            let mut rebalance = match AnyRebalance::read(&object) {
                Ok(rebalance) => rebalance,
                Err(error) => {
                    tracing::warn!(%key, %error, "cannot be read as a rebalance");
                    return KeyOutcome::new(key, Next::Unschedulable);
                }
            };
            // Only a step reserves capacity; a plan and cleanup do not.
            let is_step = matches!(rebalance.status.phase, Some(Phase::Planned | Phase::Running | Phase::Paused));
            let turn = turn.filter(|_| is_step);
            // While a finalizer keeps the rebalance, moves in progress settle, and no other starts.
            rebalance.spec.abort |= object.deleting;
            let done = match rebalance.status.phase {
                None | Some(Phase::Planning) if object.deleting => Ok((Next::Done, Some(object.revision))),
                None | Some(Phase::Planning) => {
                    // Moves of a former rebalance with this name are deleted first.
                    if let Some(next) = self.clean(&view, &key, Some(&object.uid)).await {
                        return KeyOutcome::new(key, next);
                    }
                    Arc::clone(&self).plan(present, &object, rebalance).await
                }
                Some(Phase::Planned | Phase::Running | Phase::Paused) => {
                    Arc::clone(&self).advance((present, turn), &object, rebalance, &attempts, question).await
                }
                Some(Phase::Completed | Phase::Aborted) if object.deleting => Ok((Next::Done, Some(object.revision))),
                Some(Phase::Completed | Phase::Aborted) => {
                    self.cache().forget_run(&key);
                    self.expire(&object, &rebalance).await
                }
            };
            match done {
                Ok((next, seen)) => return KeyOutcome { seen, ..KeyOutcome::new(key, next) },
                Err(WriteFailure { status, refused }) => {
                    tracing::debug!(%key, %status, "not written, looking again");
                    if knows_quotas && is_over_quota(&status) && !is_overtaken {
                        // Another write has used the headroom of the quota. The newest view
                        // contains it, unless the quotas are stored upstream.
                        is_overtaken = true;
                    } else if !attempts.adapt(Failure::of(&status), refused) {
                        break;
                    }
                }
            }
        }
        KeyOutcome::new(key, Next::Retry)
    }

    /// Commits all or nothing. Returns the last written object, so the rebalance should be the
    /// last.
    async fn commit(&self, changes: Changes) -> Result<Option<Arc<Object>>, WriteFailure> {
        Ok(commit_together(&self.client, changes, is_moved).await?.pop())
    }

    fn tell(&self, owner: &Owner, severity: Severity, reason: &'static str, message: String) {
        self.recorder.record(Note::new(&self.recorder, owner.reference(), severity, reason, message));
    }

    /// Records an event with the name of the approving user, once.
    fn tell_approval(&self, owner: &Owner, rebalance: &AnyRebalance, status: &RebalanceStatus) {
        let is_approved = |status: &RebalanceStatus| {
            let mut conditions = status.conditions.iter();
            conditions.any(|known| known.type_ == "Approved" && known.reason == "Approved")
        };
        if is_approved(status) && !is_approved(&rebalance.status) {
            let who = rebalance.metadata.annotations.get(APPROVED_BY).map_or("somebody", String::as_str);
            self.tell(owner, Severity::Normal, "Approved", format!("approved by {who}"));
        }
    }

    fn tell_phase(&self, owner: &Owner, phase: Phase, rebalance: &AnyRebalance, status: &RebalanceStatus, failed: i64) {
        let message = status::told(phase, &rebalance.spec, status, failed);
        let severity = if phase == Phase::Aborted { Severity::Warning } else { Severity::Normal };
        tracing::info!(key = %owner.key, phase = phase.as_str(), %message, "rebalance");
        self.tell(owner, severity, phase.as_str(), message);
    }
}

fn is_over_quota(status: &Status) -> bool {
    status.reason == quota::QUOTA_EXCEEDED
}

impl RefusedWrite {
    /// Returns the refusal; its reason is NoRoom if a quota refused the write, here or upstream.
    fn by(status: &Status) -> RefusedWrite {
        let reason = is_over_quota(status).then_some(MoveReason::NoRoom);
        RefusedWrite { message: status.message.clone(), reason, is_by_others: false }
    }
}

/// Returns whether the object is a binding or placement that moves.
fn is_moved(key: &Key) -> bool {
    BINDINGS.contains(&key.resource) || fleet::PlacementKinds::of(key.resource).is_some()
}

fn status_change(rebalance: &Arc<Object>, status: &RebalanceStatus) -> (GroupResource, Change) {
    let edits = vec![Edit::set(&["status"], record::written(status))];
    (rebalance.key.resource, Change::Edit { base: Arc::clone(rebalance), edits })
}
