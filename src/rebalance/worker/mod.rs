//! The loop that carries out rebalances: it plans, goes step by step, and cleans up.
//!
//! One rebalance is worked on at a time, a bounded step of it, and then the next: so each knows
//! what the others have under way. A write that finds that it is out of date is thrown away with
//! what was remembered, and the step is made again from the newest view, half as large.

mod board;
mod end;
mod planning;
mod steps;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};

use self::board::Board;
use super::advance::BINDINGS_PER_STEP_MAX;
use super::record::{self, AnyMove, AnyRebalance, BOTH_MOVES, BOTH_REBALANCES, Owner};
use super::status;
use crate::api::ballast::v1alpha1::{Phase, RebalanceStatus};
use crate::api::fleet::placement::v1beta1::any as fleet;
use crate::api::karmada::work::v1alpha2::BINDINGS;
use crate::clock::Clock;
use crate::engine::karmada::Profile;
use crate::events::{Note, Recorder, Severity};
use crate::k8s::{Edit, GroupResource, Key, Object, Status};
use crate::registry::{Atomicity, Change, Client};
use crate::scheduler::planning::Planner;
use crate::watch::{Event, EventKind, View};
use crate::worker::{Failure, Handled, Next, Queue, Work, Worked};

/// Moves that one transaction writes of a plan, or deletes.
const MOVES_PER_COMMIT_MAX: usize = 2_000;
/// Attempts before a rebalance yields to others: enough to halve a step down to one binding.
const ATTEMPTS_MAX: usize = 12;

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

impl Rebalances {
    /// `profile` is that of the scheduler.
    pub fn new(client: Client, clock: Arc<dyn Clock>, profile: Profile, recorder: &Recorder) -> Rebalances {
        let recorder = recorder.named("rebalance");
        let planner = Planner::new(profile.clone());
        let shared = Shared { client, clock, recorder, profile, planner, board: Mutex::default() };
        Rebalances { shared: Arc::new(shared) }
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

fn status_change(rebalance: &Arc<Object>, status: &RebalanceStatus) -> (GroupResource, Change) {
    let edits = vec![Edit::set(&["status"], record::written(status))];
    (rebalance.key.resource, Change::Edit { base: Arc::clone(rebalance), edits })
}
