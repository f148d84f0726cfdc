//! The loop that carries out rebalances: it plans, goes step by step, and cleans up.
//!
//! One rebalance is worked on at a time, a bounded step of it, and then the next: so each knows
//! what the others have under way. A write that finds that it is out of date is thrown away with
//! what was remembered, and the step is made again from the newest view, half as large.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};

use super::advance::{BINDINGS_PER_STEP_MAX, Scene, Step, Told};
use super::decide::Table;
use super::plans::{self, Made, NotMade};
use super::record::{self, AnyMove, AnyRebalance, BOTH_MOVES, BOTH_REBALANCES, Owner};
use super::run::{Ledger, Run};
use super::status::{self, May};
use crate::api::ballast::v1alpha1::{MovePhase, Phase, RebalanceStatus};
use crate::api::fleet::placement::v1beta1::any as fleet;
use crate::api::karmada::work::v1alpha2::{BINDINGS, BindingSketch};
use crate::clock::Clock;
use crate::engine::karmada::Profile;
use crate::events::{Note, Recorder, Severity};
use crate::k8s::{Edit, GroupResource, Key, Object, Revision, Status};
use crate::metrics;
use crate::registry::{Atomicity, Change, Client};
use crate::scheduler::planning::{Planner, Present};
use crate::scheduler::underway::{MOVE, UnderWay};
use crate::watch::{Event, EventKind, View};
use crate::worker::{Failure, Handled, Next, Queue, Work, Worked};

/// Moves that one transaction writes of a plan, or deletes.
const MOVES_PER_COMMIT_MAX: usize = 2_000;
/// Attempts before a rebalance yields to others: enough to halve a step down to one binding.
const ATTEMPTS_MAX: usize = 12;
/// Smaller steps are made on the async thread, because moving them to another costs more.
const INLINE_MAX: usize = 8;

pub struct Rebalances {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    profile: Profile,
    planner: Planner,
    board: Mutex<Board>,
}

/// What the loop remembers between two steps.
#[derive(Default)]
struct Board {
    /// By rebalance. The one that is worked on is not here.
    runs: HashMap<Key, Run>,
    /// Bindings that changed while a rebalance was worked on.
    changed: HashSet<Key>,
    is_working: bool,
}

impl Rebalances {
    /// `profile` is that of the scheduler.
    pub fn new(client: Client, clock: Arc<dyn Clock>, profile: Profile, recorder: &Recorder) -> Rebalances {
        let recorder = recorder.named("rebalance");
        let planner = Planner::new(profile.clone());
        let shared = Shared { client, clock, recorder, profile, planner, board: Mutex::default() };
        Rebalances { shared: Arc::new(shared) }
    }
}

impl Board {
    /// Notes that a binding changed. Returns the rebalances that have to look at it.
    fn note(&mut self, binding: &Key) -> Vec<Key> {
        if self.is_working {
            self.changed.insert(binding.clone());
        }
        let mut concerned = Vec::new();
        for (key, run) in &mut self.runs {
            if run.moving.contains_key(binding) {
                run.dirty.insert(binding.clone());
                concerned.push(key.clone());
            } else if run.held_up.contains(binding) {
                concerned.push(key.clone());
            }
        }
        concerned
    }

    /// Puts back what was worked on. Returns whether something of it changed meanwhile.
    fn put_back(&mut self, key: Key, mut run: Run) -> bool {
        let is_freed = self.changed.iter().any(|key| run.held_up.contains(key));
        let changed: BTreeSet<Key> = self.changed.drain().filter(|key| run.moving.contains_key(key)).collect();
        let is_changed = is_freed || !changed.is_empty();
        run.dirty.extend(changed);
        self.is_working = false;
        self.runs.insert(key, run);
        is_changed
    }
}

impl Work for Rebalances {
    fn name(&self) -> &'static str {
        "rebalance"
    }

    fn interest(&self) -> Vec<GroupResource> {
        let placements =
            fleet::SCOPES.into_iter().flat_map(|kinds| [kinds.placements, kinds.policy_snapshots, kinds.bindings]);
        BOTH_REBALANCES.into_iter().chain(BINDINGS).chain(placements).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        *self.shared.board() = Board::default();
        for object in BOTH_REBALANCES.into_iter().flat_map(|resource| view.list(resource, None)) {
            queue.mark(object.key.clone(), 0);
        }
        // Moves whose rebalance is gone are collected under its name.
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

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        let key = &event.object.key;
        let moved = match BINDINGS.contains(&key.resource) {
            true => Some(key.clone()),
            false => fleet::placement_of(&event.object),
        };
        if let Some(moved) = moved {
            for concerned in self.shared.board().note(&moved) {
                queue.mark(concerned, 0);
            }
            return;
        }
        if event.kind == EventKind::Deleted {
            self.shared.board().runs.remove(key);
            return queue.mark(key.clone(), 0);
        }
        queue.mark_changed(key.clone(), 0, event.revision);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let shared = Arc::clone(&self.shared);
        async move {
            let mut worked = Worked::default();
            for key in keys {
                worked.outcomes.push(Arc::clone(&shared).work(key).await);
            }
            worked
        }
        .boxed()
    }
}

/// Everything that a step computes, taken apart for the write.
struct Computed {
    run: Run,
    changes: Vec<(GroupResource, Change)>,
    status: RebalanceStatus,
    told: Vec<Told>,
    ended: Vec<MovePhase>,
    is_new_phase: bool,
    has_more: bool,
    wakes_at: Option<crate::k8s::Time>,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        // What a panic leaves is made again from the objects.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(self: Arc<Shared>, key: Key) -> Handled {
        let mut most = BINDINGS_PER_STEP_MAX;
        for _ in 0..ATTEMPTS_MAX {
            let view = self.client.view();
            let Some(object) = view.get(&key).cloned() else {
                let next = self.clean(&view, &key, None).await.unwrap_or(Next::Done);
                return Handled::new(key, next);
            };
            if object.deleting {
                return Handled { seen: Some(object.revision), ..Handled::new(key, Next::Done) };
            }
            let rebalance = match AnyRebalance::read(&object) {
                Ok(rebalance) => rebalance,
                Err(error) => {
                    tracing::warn!(%key, %error, "cannot be read as a rebalance");
                    return Handled::new(key, Next::Park);
                }
            };
            let done = match rebalance.status.phase {
                None | Some(Phase::Planning) => {
                    // What one of the same name has left goes first.
                    if let Some(next) = self.clean(&view, &key, Some(&object.uid)).await {
                        return Handled::new(key, next);
                    }
                    Arc::clone(&self).plan(&view, &object, rebalance).await
                }
                Some(Phase::Planned | Phase::Running | Phase::Paused) => {
                    Arc::clone(&self).advance(&view, &object, rebalance, most).await
                }
                Some(Phase::Completed | Phase::Aborted) => {
                    self.board().runs.remove(&key);
                    self.expire(&object, &rebalance).await
                }
            };
            match done {
                Ok((next, seen)) => return Handled { seen, ..Handled::new(key, next) },
                Err(status) => {
                    tracing::debug!(%key, %status, "not written, looking again");
                    match Failure::of(&status) {
                        Failure::Changed => most = (most / 2).max(1),
                        Failure::Unavailable | Failure::Refused => return Handled::new(key, Next::Retry),
                    }
                }
            }
        }
        Handled::new(key, Next::Retry)
    }

    // ---- planning ----

    async fn plan(
        self: Arc<Shared>,
        view: &Arc<View>,
        object: &Arc<Object>,
        rebalance: AnyRebalance,
    ) -> Result<(Next, Option<Revision>), Status> {
        let owner = Owner::of(object);
        let now = self.clock.now();
        let (shared, at, of, asked) = (Arc::clone(&self), Arc::clone(view), owner.clone(), rebalance.clone());
        let made = apart(move || {
            let present = shared.planner.present(Arc::clone(&at), now);
            let made = plans::make(&present, &of, &asked)?;
            let changes = plans::changes(&at, &of, &made);
            Ok::<_, NotMade>((made, changes))
        });
        let (made, changes, not_made) = match made.await? {
            Ok((made, changes)) => (made, changes, None),
            Err(not_made) => (Made::default(), plans::changes(view, &owner, &Made::default()), Some(not_made)),
        };
        let mut base = Arc::clone(object);
        let mut rest = changes;
        while rest.len() > MOVES_PER_COMMIT_MAX {
            let mut chunk = rest;
            rest = chunk.split_off(MOVES_PER_COMMIT_MAX);
            if base.revision == object.revision && rebalance.status.phase.is_none() {
                let status = RebalanceStatus {
                    phase: Some(Phase::Planning),
                    observed_generation: Some(base.generation),
                    ..RebalanceStatus::default()
                };
                chunk.push(status_change(&base, &status));
                base = self.commit(chunk).await?.expect("the status is among the changes");
            } else {
                self.commit(chunk).await?;
            }
        }
        let mut status = RebalanceStatus {
            planned_at: Some(now),
            planned_revision: Some(view.revision.to_string()),
            summary: Some(made.summary),
            clusters: made.clusters,
            conditions: rebalance.status.conditions.clone(),
            ..RebalanceStatus::default()
        };
        let why = not_made.as_ref().map(|not_made| (not_made.reason, not_made.message.as_str()));
        status::set_planned(&mut status, base.generation, now, why);
        let spec = &rebalance.spec;
        if not_made.is_some() {
            (status.phase, status.finish_time) = (Some(Phase::Aborted), Some(now));
            status.observed_generation = Some(base.generation);
        } else {
            status::conclude(spec, &mut status, base.generation, 0, now);
            if status.phase == Some(Phase::Running) {
                // The next step begins the first moves.
                status.phase = Some(Phase::Planned);
            }
        }
        rest.push(status_change(&base, &status));
        let written = self.commit(rest).await?.expect("the status is among the changes");
        let phase = status.phase.unwrap_or(Phase::Planned);
        match &not_made {
            Some(NotMade { message, .. }) => {
                self.tell(&owner, Severity::Warning, "NotPlanned", format!("nothing is planned: {message}"));
            }
            None => {
                self.tell_phase(&owner, Phase::Planned, &rebalance, &status, 0);
                if phase != Phase::Planned {
                    self.tell_phase(&owner, phase, &rebalance, &status, 0);
                }
            }
        }
        tracing::info!(key = %owner.key, to_move = made.summary.to_move, phase = phase.as_str(), "planned");
        Ok((Next::Again, Some(written.revision)))
    }

    // ---- steps ----

    async fn advance(
        self: Arc<Shared>,
        view: &Arc<View>,
        object: &Arc<Object>,
        rebalance: AnyRebalance,
        most: usize,
    ) -> Result<(Next, Option<Revision>), Status> {
        let owner = Owner::of(object);
        let (known, ledgers) = self.take(&owner.key);
        let is_small = known.as_ref().is_some_and(|run| run.pending.len() + run.dirty.len() <= INLINE_MAX);
        let (shared, at, of) = (Arc::clone(&self), Arc::clone(view), owner.clone());
        let (asked, generation) = (rebalance.clone(), object.generation);
        let compute = move || shared.compute(&at, &of, generation, &asked, known, &ledgers, most);
        let computed = if is_small { compute() } else { apart(compute).await? };
        let Computed { run, mut changes, status, told, ended, is_new_phase, has_more, wakes_at } = computed;
        let failed = run.failed;
        let mut seen = Some(object.revision);
        if status != rebalance.status || !changes.is_empty() {
            changes.push(status_change(object, &status));
            // What was remembered is lost with a write that is refused.
            let written = self.commit(changes).await.inspect_err(|_| self.board().is_working = false)?;
            seen = written.map(|object| object.revision);
        }
        if is_new_phase && let Some(phase) = status.phase {
            self.tell_phase(&owner, phase, &rebalance, &status, failed);
        }
        for Told { about, is_warning, reason, message } in told {
            let severity = if is_warning { Severity::Warning } else { Severity::Normal };
            for about in about {
                self.recorder.record(Note::new(&self.recorder, about, severity, reason, message.clone()));
            }
        }
        ended.iter().for_each(|phase| metrics::move_finished(outcome(*phase)));
        let due = run.deadlines.first().map(|(at, _)| *at).into_iter().chain(wakes_at).min();
        let is_over = status.is_finished();
        let is_changed = self.board().put_back(owner.key.clone(), run);
        let next = match due {
            _ if has_more || is_changed || is_over => Next::Again,
            Some(due) => Next::After(due.seconds().saturating_mul(1_000) - self.clock.now_ms()),
            None => Next::Done,
        };
        Ok((next, seen))
    }

    /// Takes what is remembered of a rebalance, and what all others have under way.
    fn take(&self, key: &Key) -> (Option<Run>, Vec<Ledger>) {
        let mut board = self.board();
        board.is_working = true;
        board.changed.clear();
        let known = board.runs.remove(key);
        (known, board.runs.values().map(|run| run.ledger.clone()).collect())
    }

    #[allow(clippy::too_many_arguments)]
    fn compute(
        &self,
        view: &Arc<View>,
        owner: &Owner,
        generation: i64,
        rebalance: &AnyRebalance,
        known: Option<Run>,
        ledgers: &[Ledger],
        most: usize,
    ) -> Computed {
        let now = self.clock.now();
        let rollout = &rebalance.spec.rollout;
        let load = || Run::load(view, owner, rollout.order, rollout.settle.timeout_seconds);
        let mut run = known.unwrap_or_else(load);
        let present: Present = self.planner.present(Arc::clone(view), now);
        let mut table = Table::new(&present, ledgers.iter().chain([&run.ledger]));
        let (fleet, profile) = (&present.clusters, &self.profile);
        let scene = Scene { view, fleet, profile, owner, rebalance, now, most };
        let mut step = Step::new(&scene, &mut run, &mut table);
        step.look();
        match status::may(&rebalance.spec, *step.summary(), step.failed()) {
            May::Begin => step.begin(),
            May::Wait => {}
            May::End => step.abort(),
        }
        let mut status = step.finished();
        let (changes, told, ended) = (step.changes, step.told, step.ended);
        let (has_more, wakes_at) = (step.has_more, step.wakes_at);
        let is_new_phase = status::conclude(&rebalance.spec, &mut status, generation, run.failed, now);
        let summary = status.summary.unwrap_or_default();
        let is_ending = status::may(&rebalance.spec, summary, run.failed) == May::End && !run.pending.is_empty();
        let has_more = has_more || is_ending;
        Computed { run, changes, status, told, ended, is_new_phase, has_more, wakes_at }
    }

    // ---- the end ----

    /// Deletes a rebalance whose time to live is over.
    async fn expire(&self, object: &Arc<Object>, rebalance: &AnyRebalance) -> Result<(Next, Option<Revision>), Status> {
        let (Some(ttl), Some(finished)) = (rebalance.spec.ttl_seconds_after_finished, rebalance.status.finish_time)
        else {
            return Ok((Next::Done, Some(object.revision)));
        };
        // A clock that was set back does not lengthen a life beyond the time to live.
        let now = self.clock.now();
        let left = finished.plus_seconds(i64::from(ttl)).seconds() - now.seconds();
        let left = left.min(i64::from(ttl));
        if left > 0 {
            return Ok((Next::After(left * 1_000), Some(object.revision)));
        }
        let key = object.key.clone();
        let delete = Change::Delete { key: key.clone(), revision: Some(object.revision) };
        self.commit(vec![(key.resource, delete)]).await?;
        Ok((Next::Again, None))
    }

    /// Deletes the Moves of a rebalance that is gone, and takes its marks off the bindings. `uid`
    /// is that of the rebalance that has its name now, if any. `None`: nothing was left.
    async fn clean(&self, view: &Arc<View>, key: &Key, uid: Option<&str>) -> Option<Next> {
        let is_left = |read: &AnyMove| uid.is_none() || read.owner().is_some_and(|owner| uid != Some(&*owner.uid));
        let mut changes = Vec::new();
        let left = record::moves_of(view, key).filter(|(_, read)| is_left(read));
        for (at, read) in left.take(MOVES_PER_COMMIT_MAX) {
            if read.status.phase == Some(MovePhase::Moving)
                && let Some(object) = view.get(&record::binding_key(&read.spec.binding))
                && is_marked(object, &at)
            {
                let edits = vec![Edit::remove(&["metadata", "annotations", MOVE])];
                changes.push((object.key.resource, Change::Edit { base: Arc::clone(object), edits }));
            }
            changes.push((at.resource, Change::Delete { key: at.clone(), revision: None }));
        }
        if changes.is_empty() {
            return None;
        }
        // Together: a mark whose Move is gone would stay for ever.
        match self.commit(changes).await {
            Ok(_) => Some(Next::Again),
            Err(status) => {
                tracing::debug!(%key, %status, "the Moves of a rebalance that is gone were not deleted");
                Some(Next::Retry)
            }
        }
    }

    // ---- writing and telling ----

    /// Commits all or nothing. Returns the last object that was written: put the rebalance last.
    async fn commit(&self, changes: Vec<(GroupResource, Change)>) -> Result<Option<Arc<Object>>, Status> {
        let outcomes = self.client.batch(changes, Atomicity::All).await?;
        let mut last = None;
        let mut refusal: Option<Status> = None;
        for outcome in outcomes {
            match outcome {
                Ok(object) => last = Some(object),
                // What refuses the others is what was refused by itself.
                Err(status) => {
                    let is_better = refusal.as_ref().is_none_or(|known| Failure::of(known) == Failure::Changed);
                    if is_better {
                        refusal = Some(status);
                    }
                }
            }
        }
        refusal.map_or(Ok(last), Err)
    }

    fn tell(&self, owner: &Owner, severity: Severity, reason: &'static str, message: String) {
        self.recorder.record(Note::new(&self.recorder, owner.reference(), severity, reason, message));
    }

    fn tell_phase(&self, owner: &Owner, phase: Phase, rebalance: &AnyRebalance, status: &RebalanceStatus, failed: i64) {
        let message = status::told(phase, &rebalance.spec, status.summary.unwrap_or_default(), failed);
        let severity = if phase == Phase::Aborted { Severity::Warning } else { Severity::Normal };
        tracing::info!(key = %owner.key, phase = phase.as_str(), %message, "rebalance");
        self.tell(owner, severity, phase.as_str(), message);
    }
}

fn outcome(phase: MovePhase) -> &'static str {
    match phase {
        MovePhase::Settled => "settled",
        MovePhase::Unchanged => "unchanged",
        MovePhase::Superseded => "superseded",
        MovePhase::Pending | MovePhase::Moving | MovePhase::Failed => "failed",
    }
}

fn is_marked(binding: &Object, by: &Key) -> bool {
    let sketch = BindingSketch::of(binding).ok();
    let mark = sketch.and_then(|sketch| UnderWay::of(&sketch.annotations().into_iter().collect()));
    mark.is_some_and(|mark| mark.name == *by.name)
}

fn status_change(rebalance: &Arc<Object>, status: &RebalanceStatus) -> (GroupResource, Change) {
    let edits = vec![Edit::set(&["status"], record::written(status))];
    (rebalance.key.resource, Change::Edit { base: Arc::clone(rebalance), edits })
}

/// Runs a long computation away from the async threads. A panic in it is passed on.
async fn apart<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    match tokio::task::spawn_blocking(compute).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(computed) => Ok(computed),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, and nothing was decided.
        Err(Err(_)) => Err(Status::unavailable("shutting down")),
    }
}
