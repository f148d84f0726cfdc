//! Takes one step of a planned rebalance.

use std::sync::Arc;

use super::undo::note_undone;
use super::{Shared, WriteFailure, status_change};
use crate::advance::{PendingEvent, StepRun, StepWrites};
use crate::binding_storage;
use crate::capacity_ledger::CapacityLedger;
use crate::gates::{GateAnswers, GateQuestion};
use crate::intent::Intent;
use crate::record::{AnyRebalance, Owner};
use crate::run::{Run, UnreportedReplicas};
use crate::status::{self, RolloutState};
use crate::step_input::{RefusedWrite, StepInput};
use ballast_api::ballast::v1alpha1::{MovePhase, Phase};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_base::metrics;
use ballast_k8s::{GroupResource, Object, Revision};
use ballast_registry::Change;
use ballast_scheduler::planning::PlanningSnapshot;
use ballast_scheduler::reservations::{Claim, Turn};
use ballast_worker::events::{Note, Severity};
use ballast_worker::{Attempts, Failure, Next, commit_each, edited, run_blocking};

/// Maximum number of bindings of a step that runs on the async thread. For so few, moving the work
/// to another thread costs more.
const INLINE_MAX: usize = 8;

/// The result of a step, split up for the writes.
struct Computed {
    run: Run,
    writes: StepWrites,
    is_new_phase: bool,
    has_more: bool,
    wakes_at_ms: Option<i64>,
    /// The gates to query now.
    asks: Option<GateQuestion>,
    /// The capacity that the step reserves until its writes are over.
    claims: Vec<Claim>,
}

impl Shared {
    pub(super) async fn advance(
        self: Arc<Shared>,
        (present, turn): (PlanningSnapshot, Option<Turn>),
        object: &Arc<Object>,
        rebalance: AnyRebalance,
        attempts: &Attempts<RefusedWrite>,
        question: &mut Option<GateQuestion>,
    ) -> Result<(Next, Option<Revision>), WriteFailure> {
        let owner = Owner::of(object);
        let is_active = status::rollout_state(&rebalance.spec, &rebalance.status, 0) == RolloutState::Active;
        let is_closed = rebalance.status.drain.as_ref().is_some_and(|drain| drain.closed);
        if is_active && rebalance.spec.drain.is_some() && !is_closed {
            // The next step sees all workloads that arrived until now.
            return self.close(&present.view, object, &owner, &rebalance).await;
        }
        let (known, unreported) = self.cache().check_out(&owner);
        let is_small = known.as_ref().is_some_and(|run| run.pending.len() + run.dirty.len() <= INLINE_MAX);
        // Queries to estimators block.
        let is_small = is_small && present.asking.is_none();
        // The end of a drain examines all bindings.
        let is_small = is_small && rebalance.spec.drain.is_none();
        let (shared, of) = (Arc::clone(&self), owner.clone());
        let view = Arc::clone(&present.view);
        let (asked, generation) = (rebalance.clone(), object.generation);
        let attempts = attempts.clone();
        let answers = self.answers().remove(&owner.key);
        let compute = move || {
            let computed =
                shared.compute(&present, &of, generation, &asked, known, (&unreported, answers.as_ref()), &attempts);
            // The reservations are recorded, so another decision may begin.
            drop(turn);
            computed
        };
        let computed = match is_small {
            true => compute(),
            false => run_blocking(compute).await.ok_or_else(WriteFailure::shutting_down)?,
        };
        let Computed { mut run, writes, is_new_phase, has_more, wakes_at_ms, asks, claims } = computed;
        let StepWrites { status, mut changes, upstream_changes, events, ended } = writes;
        let failed = run.failed;
        let mut seen = Some(object.revision);
        if status != rebalance.status || !changes.is_empty() {
            self.check_admission(&changes).await.inspect_err(|_| self.cache().discard())?;
            changes.extend(note_undone(&view, &owner, &rebalance, &status).filter(|_| is_new_phase));
            changes.push(status_change(object, &status));
            // The run does not match the stored state after a refused write.
            let written = self.commit(changes).await.inspect_err(|_| self.cache().discard())?;
            seen = written.map(|object| object.revision);
        }
        self.tell_approval(&owner, &rebalance, &status);
        if is_new_phase && let Some(phase) = status.phase {
            self.tell_phase(&owner, phase, &rebalance, &status, failed);
        }
        for PendingEvent { about, is_warning, reason, message } in events {
            let severity = if is_warning { Severity::Warning } else { Severity::Normal };
            for about in about {
                self.recorder.record(Note::new(&self.recorder, about, severity, reason, message.clone()));
            }
        }
        ended.iter().for_each(|phase| metrics::move_finished(outcome(*phase)));
        let timeout_seconds = rebalance.spec.rollout.settle.timeout_seconds;
        let Sent { has_ended, is_late } = match self.send(upstream_changes, &mut run, timeout_seconds).await {
            Ok(sent) => sent,
            Err(refusal) => {
                // The run is loaded again from the stored objects, which contain the intents.
                self.cache().discard();
                return Err(refusal);
            }
        };
        drop(claims);
        let has_more = has_more || has_ended;
        *question = asks.filter(|_| !has_more);
        let deadline = run.deadlines.first().map(|(at, _)| at.seconds().saturating_mul(1_000));
        let due = deadline.into_iter().chain(wakes_at_ms).min();
        let is_over = status.is_finished();
        // A rebalance that has not begun has no moves in progress, so no binding affects it.
        let has_begun = status.started_at.is_some() || !run.moving.is_empty();
        let waits = status.phase == Some(Phase::Planned) && !has_begun && !has_more;
        let is_changed = match waits {
            true => self.cache().suspend(owner.key.clone()),
            false => self.cache().check_in(owner.key.clone(), run),
        };
        let next = match due {
            _ if has_more || is_changed || is_over => Next::Again,
            // Bindings that could not be written now are dirty.
            _ if is_late => Next::Retry,
            Some(due) => Next::After(due - self.clock.now_ms()),
            None => Next::Done,
        };
        Ok((next, seen))
    }

    #[allow(clippy::too_many_arguments)]
    fn compute(
        &self,
        present: &PlanningSnapshot,
        owner: &Owner,
        generation: i64,
        rebalance: &AnyRebalance,
        known: Option<Run>,
        (unreported, answers): (&[UnreportedReplicas], Option<&GateAnswers>),
        attempts: &Attempts<RefusedWrite>,
    ) -> Computed {
        let (view, now, reserves) = (&present.view, present.now, self.profile.reserves);
        let now_ms = self.clock.now_ms();
        let rollout = &rebalance.spec.rollout;
        let storage = binding_storage::of(self.client.is_remote(BINDINGS[0]));
        let load = || Run::load(view, owner, rollout.order, rollout.settle.timeout_seconds, storage, reserves);
        let mut run = known.unwrap_or_else(load);
        run.drained = rebalance.spec.drain.as_ref().map(|drain| drain.clusters.clone()).unwrap_or_default();
        let present = &rebalance.present(present.clone());
        let mut capacity = CapacityLedger::new(present, unreported.iter().chain([&run.unreported]));
        let (fleet, room, profile) = (&present.clusters, &present.room, &self.profile);
        let (most, refused) = (attempts.size(), attempts.left_out());
        let input = StepInput { view, fleet, room, profile, owner, rebalance, now, now_ms, storage, most, refused };
        let mut step = StepRun::new(&input, &mut run, &mut capacity);
        step.count_deleted_moves();
        step.examine_moves();
        answers.into_iter().for_each(|answers| step.note_answers(answers));
        step.look_at_pause(generation);
        step.look_at_undo();
        step.look_at_cordon();
        match status::rollout_state(&rebalance.spec, step.status(), step.failed()) {
            RolloutState::Active if step.pass_gates(generation) => {
                step.begin();
                step.look_at_wave();
                step.finish_drain(present);
            }
            RolloutState::Active | RolloutState::Held => {}
            RolloutState::Ending => step.abort(),
        }
        let (has_more, wakes_at_ms, asks) = (step.has_more, step.wakes_at_ms, step.question.take());
        let mut writes = step.into_writes();
        let status = &mut writes.status;
        let waits_for = run.gates.waiting(&rollout.gates);
        status::set_gate(&rebalance.spec, status, generation, now, &waits_for);
        let is_new_phase = status::conclude(&rebalance.spec, status, generation, run.failed, now);
        let is_ending = status::rollout_state(&rebalance.spec, status, run.failed) == RolloutState::Ending
            && !run.pending.is_empty();
        let has_more = has_more || is_ending;
        let given = capacity.into_given();
        let claims = self.keeper.iter().flat_map(|keeper| given.iter().map(|given| keeper.claim(given.clone())));
        Computed { run, writes, is_new_phase, has_more, wakes_at_ms, asks, claims: claims.collect() }
    }

    /// Executes the intents that this step has recorded, each in a separate write.
    async fn send(
        &self,
        sends: Vec<(GroupResource, Change)>,
        run: &mut Run,
        timeout_seconds: i64,
    ) -> Result<Sent, WriteFailure> {
        let mut sent = Sent::default();
        let sends = sends.into_iter().filter_map(|send| Some((edited(&send.1)?, send))).collect();
        let deadline = self.clock.now().plus_seconds(timeout_seconds);
        let mut refused: Option<WriteFailure> = None;
        for (key, outcome) in commit_each(&self.client, sends).await {
            let is_marked = run.moving.get(&key).and_then(|moving| moving.intent.as_ref());
            let is_marked = is_marked.is_some_and(Intent::keeps_mark);
            match outcome {
                Ok(_) if is_marked => run.confirm_written(&key, deadline),
                Ok(_) => {
                    run.dirty.insert(key);
                    sent.has_ended = true;
                }
                Err(status) if Failure::of(&status) == Failure::Refused => {
                    let why = (key, RefusedWrite::by(&status));
                    let known = refused.get_or_insert_with(|| WriteFailure::from(status));
                    known.refused.push(why);
                }
                Err(status) => {
                    tracing::debug!(%key, %status, "failed to write to Karmada, looking again");
                    run.dirty.insert(key);
                    sent.is_late = true;
                }
            }
        }
        refused.map_or(Ok(sent), Err)
    }
}

/// The outcome of the intents of a step.
#[derive(Default)]
struct Sent {
    /// Whether moves have ended with the writes.
    has_ended: bool,
    /// Whether some bindings could not be written now.
    is_late: bool,
}

fn outcome(phase: MovePhase) -> &'static str {
    match phase {
        MovePhase::Settled => "settled",
        MovePhase::Unchanged => "unchanged",
        MovePhase::Superseded => "superseded",
        MovePhase::Pending | MovePhase::Moving | MovePhase::Failed => "failed",
    }
}
