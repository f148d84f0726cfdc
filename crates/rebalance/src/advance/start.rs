//! Starts the moves of a step.

use std::ops::Bound;
use std::sync::Arc;

use super::decision::{FirstStep, first_step};
use super::observation::{now, reports};
use super::{ObservedBinding, PendingEvent, StepRun, placement_edits};
use crate::intent::{INTENT, MoveEnd};
use crate::record::{self, AnyMove, AnyRebalance, Owner};
use crate::run::{self, ActiveMove, Needs, PendingMove};
use crate::waves::{self, Arrivals, RolloutBounds, WaveDecision, Waves};
use crate::{placement_moves, surge};
use ballast_api::ballast::v1alpha1::{Mode, MovePhase, MoveReason, MoveStatus, RebalanceSpec, Rollout, Strategy};
use ballast_api::fleet::placement::v1beta1::any::PlacementKinds;
use ballast_api::karmada::work::v1alpha2::{AIM, Aim, AnyBinding, HOME, Home};
use ballast_engine::karmada::Target;
use ballast_k8s::{Edit, Key, Object};
use ballast_scheduler::cause::{Cause, counted};
use ballast_scheduler::home;
use ballast_scheduler::move_annotation::{MOVE, MoveAnnotation};
use ballast_scheduler::planning::{self, MoveRank, ParsedBinding, Proposal, Shortfall, shares};
use ballast_scheduler::reservations::Moment;
use ballast_worker::placements;

/// Maximum number of blocked moves that one step examines.
const BLOCKED_MOVES_MAX: usize = 1_000;

/// Maximum time until the capacity that a move has left is reported. Agents report several times a
/// minute.
const ROOM_REPORTED_WITHIN_SECONDS: i64 = 60;
/// Interval of checks for such capacity, about the interval of agents' reports.
const ROOM_LOOKED_FOR_MS: i64 = 10_000;

/// The decision about a pending move.
enum StartDecision<'a> {
    /// The Move was deleted, so it never starts. The Moves are counted again soon.
    MoveDeleted,
    /// It ends without having started.
    End(MoveEnd),
    /// Another rebalance moves the binding, or there is no capacity before moves in progress end.
    HeldUp,
    /// There is no capacity while other moves are in progress.
    AwaitsRoom,
    /// A placement of the KubeFleet family starts by its trigger, if the rollout allows it.
    TriggerPlacement(&'a Arc<Object>, &'static PlacementKinds),
    /// The binding moves to these targets, if the rollout allows it.
    Move {
        object: &'a Arc<Object>,
        case: Box<ParsedBinding>,
        binding: Box<AnyBinding>,
        to: Vec<Target>,
        term: Option<Box<str>>,
        short: Option<Shortfall>,
    },
}

impl<'a> StepRun<'a> {
    /// Ends the moves that have not begun, as Aborted.
    pub fn abort(&mut self) {
        while let Some((rank, _)) = self.run.pending.first_key_value() {
            if self.is_full() {
                self.has_more = true;
                return;
            }
            let rank = rank.clone();
            self.examined += 1;
            self.end_pending(
                &rank,
                MoveEnd::of(MovePhase::Unchanged, MoveReason::Aborted, "the rebalance was aborted"),
            );
        }
    }

    /// Starts moves in their order, as far as the rollout allows.
    pub fn begin(&mut self) {
        let spec = &self.input.rebalance.spec;
        self.run.held_up.clear();
        if self.run.pending.is_empty() {
            return;
        }
        let interval = spec.rollout.interval_seconds;
        if interval > 0 && !self.run.is_wave_open && !self.is_amid_wave() {
            if !self.run.moving.is_empty() {
                return;
            }
            // If the clock was set back, the pause counts from now.
            self.run.wave_ended_ms = self.run.wave_ended_ms.map(|ended| ended.min(self.input.now_ms));
            if let Some(begins) = waves::pause_until(interval, self.run.wave_ended_ms, self.input.now_ms) {
                return self.wake_at(begins);
            }
        }
        let concurrent = spec.rollout.concurrency(self.effects.status.summary.unwrap_or_default().to_move);
        let mut waves = Waves::new(RolloutBounds { concurrent, ..replica_bounds(&spec.rollout) });
        self.run.moving.values().for_each(|moving| waves.count(&moving.arriving));
        // Settled moves still count in their wave.
        (0..self.settled_of_wave()).for_each(|_| waves.count(&Arrivals::default()));
        self.run.is_wave_open = false;
        let mut after: Option<MoveRank> = None;
        let mut blocked = 0;
        while waves.is_open() && blocked < BLOCKED_MOVES_MAX {
            let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((rank, waiting)) = self.run.pending.range((from, Bound::Unbounded)).next() else { break };
            if self.is_full() {
                (self.has_more, self.run.is_wave_open) = (true, true);
                break;
            }
            let (rank, waiting) = (rank.clone(), waiting.clone());
            after = Some(rank.clone());
            if self.withdrawn.contains(&planning::ranked(&rank)) {
                // Its Move is already written in this step, and is considered in the next one.
                (self.has_more, self.run.is_wave_open) = (true, true);
                continue;
            }
            self.examined += 1;
            match self.consider(&rank, &waiting, &mut waves) {
                WaveDecision::Begin => {}
                WaveDecision::Wait => blocked += 1,
                WaveDecision::WaitAll => break,
            }
        }
    }

    /// Starts a pending move, if possible. Returns whether it was handled.
    fn consider(&mut self, rank: &MoveRank, waiting: &PendingMove, waves: &mut Waves) -> WaveDecision {
        match self.decide_start(rank, waiting) {
            StartDecision::MoveDeleted => {
                self.run.pending.remove(rank);
                self.summary().pending -= 1;
                self.count_end(MovePhase::Unchanged, 0);
                WaveDecision::Begin
            }
            StartDecision::End(end) => {
                self.end_pending(rank, end);
                WaveDecision::Begin
            }
            StartDecision::HeldUp => {
                self.run.held_up.insert(planning::ranked(rank));
                WaveDecision::Wait
            }
            StartDecision::AwaitsRoom => WaveDecision::Wait,
            StartDecision::TriggerPlacement(object, kinds) => {
                let decision = waves.try_begin(&Arrivals::default());
                if decision == WaveDecision::Begin {
                    self.start_placement(rank, waiting, object, kinds);
                }
                decision
            }
            StartDecision::Move { object, case, binding, to, term, short } => {
                let (from, wanted) = (shares(&case.request.targets), shares(&to));
                let decision = waves.try_begin(&run::arrivals(&from, &wanted));
                if decision == WaveDecision::Begin {
                    let found = ObservedBinding { object, binding: &binding, request: &case.request };
                    if let Some(first) = self.start(rank, waiting, found, &to, term.as_deref(), short) {
                        self.capacity.accept(&case, &first, &to);
                    }
                }
                decision
            }
        }
    }

    /// Decides a pending move over the view of this step (BD2), without changes.
    fn decide_start(&mut self, rank: &MoveRank, waiting: &PendingMove) -> StartDecision<'a> {
        let input = self.input;
        if input.view.get(&waiting.key).is_none() {
            return StartDecision::MoveDeleted;
        }
        let at = planning::ranked(rank);
        if let Some(end) = self.refusal(&at) {
            return StartDecision::End(end);
        }
        let object = input.view.get(&at).filter(|object| !object.deleting);
        if let (Some(kinds), Some(object)) = (PlacementKinds::of(at.resource), object) {
            return StartDecision::TriggerPlacement(object, kinds);
        }
        let Some((object, (case, binding))) = object.and_then(|object| Some((object, ParsedBinding::read(object)?)))
        else {
            let end = MoveEnd::of(MovePhase::Superseded, MoveReason::BindingGone, "the binding is gone");
            return StartDecision::End(end);
        };
        if self.is_held_up(&binding) {
            return StartDecision::HeldUp;
        }
        if case.request.is_triggered(input.profile) {
            let message = "a trigger is pending, and comes first";
            return StartDecision::End(MoveEnd::of(MovePhase::Superseded, MoveReason::TriggeredMeanwhile, message));
        }
        match self.capacity.propose(input, &waiting.key, &case) {
            Proposal::Move { to, term, short, .. } => {
                let (case, binding) = (Box::new(case), Box::new(binding));
                StartDecision::Move { object, case, binding, to, term, short }
            }
            Proposal::Stay { reason, message } => {
                StartDecision::End(MoveEnd { phase: MovePhase::Unchanged, reason, message, observed: None })
            }
            Proposal::Unplaceable { reason: MoveReason::NoRoom, .. } if self.may_get_room(waiting) => {
                StartDecision::AwaitsRoom
            }
            Proposal::Unplaceable { reason, message } => {
                StartDecision::End(MoveEnd::of(MovePhase::Failed, reason, message))
            }
        }
    }

    /// Returns whether other moves may free capacity for a pending one: they are in progress, or
    /// have recently left one of its new clusters, which does not report it yet.
    fn may_get_room(&mut self, waiting: &PendingMove) -> bool {
        if !self.run.moving.is_empty() {
            return true;
        }
        let now = self.input.now;
        self.run.vacated.retain(|_, at| at.plus_seconds(ROOM_REPORTED_WITHIN_SECONDS) > now);
        let planned = self.input.view.get(&waiting.key).and_then(|object| record::AnyMove::read(object));
        let goes_to = planned.map(|read| run::arrivals(&read.spec.from, &read.spec.to)).unwrap_or_default();
        let waits = goes_to.0.keys().any(|cluster| self.run.vacated.contains_key(cluster));
        if waits {
            self.wake_at(self.input.now_ms + ROOM_LOOKED_FOR_MS);
        }
        waits
    }

    /// Returns whether another rebalance moves the binding. The annotation of a deleted or finished
    /// rebalance is ignored.
    fn is_held_up(&self, binding: &AnyBinding) -> bool {
        let Some(mark) = MoveAnnotation::of(&binding.metadata.annotations) else { return false };
        if mark.by == self.input.owner.by() {
            return false;
        }
        let other = record::named_by(&mark.by).and_then(|key| self.input.view.get(&key));
        let other = other.and_then(|object| AnyRebalance::read(object).ok());
        other.is_some_and(|other| !other.status.is_finished())
    }

    fn end_pending(&mut self, rank: &MoveRank, end: MoveEnd) {
        let Some(waiting) = self.run.pending.remove(rank) else { return };
        let status = MoveStatus {
            phase: Some(end.phase),
            reason: end.reason,
            message: end.message,
            finished_at: Some(self.input.now),
            ..MoveStatus::default()
        };
        self.effects.change_move(&waiting.key, vec![Edit::set(&["status"], record::written(&status))]);
        self.summary().pending -= 1;
        self.count_end(end.phase, 0);
    }

    /// Starts a move. Returns its first targets, or `None` if it ended instead.
    fn start(
        &mut self,
        rank: &MoveRank,
        waiting: &PendingMove,
        found: ObservedBinding<'_>,
        to: &[Target],
        term: Option<&str>,
        short: Option<Shortfall>,
    ) -> Option<Vec<Target>> {
        let ObservedBinding { object, binding, request } = found;
        let reports = reports(&binding.status.aggregated_status);
        let (from, wanted) = (shares(&request.targets), shares(to));
        let rollout = &self.input.rebalance.spec.rollout;
        let surge = (rollout.strategy == Strategy::SurgeFirst && !reports.is_empty()).then(|| {
            let capacity = &mut *self.capacity;
            let left = capacity.left_by_quotas(object, request);
            let room = |cluster: &str, _: i64| capacity.capacity_besides(request, cluster, 0);
            surge::next_targets(rollout, &from, &wanted, request, &reports, left, room)
        });
        let why_whole = match &surge {
            Some(_) => "it is not divided within a cluster",
            None if rollout.strategy == Strategy::SurgeFirst => "no cluster reports its replicas",
            None => "the strategy Direct moves it in one step",
        };
        let level = self.settle_rules().level;
        let FirstStep { targets: first, settled: observed } =
            match first_step(to, &request.targets, level, &reports, surge) {
                Ok(first) => first,
                Err(end) => {
                    self.end_pending(rank, end);
                    return None;
                }
            };
        let note = replica_bounds(rollout).exceeded(&run::arrivals(&from, &shares(&first)), why_whole);
        let mut note = note.unwrap_or_default();
        let mut short = short;
        if let Some(short) = short.as_mut().filter(|_| !note.is_empty()) {
            short.message = format!("{}; {}", short.message, std::mem::take(&mut note));
        }
        self.run.pending.remove(rank);
        let wave = self.count_into_wave();
        let replicas = run::arrivals(&from, &wanted).total();
        let mark = MoveAnnotation {
            by: self.input.owner.by(),
            name: waiting.key.name.to_string(),
            replicas: MoveAnnotation::replicas_of(request),
            at: MoveAnnotation::listed(&first),
        };
        self.capacity.charge(object, request, &first);
        let (cause, moment) = (self.cause(), self.input.moment());
        let mut edits = start_edits(object, binding, &first, term, (observed.is_none(), &mark), &cause, moment);
        edits.extend(match self.home_before(object, binding) {
            Some(home) => home::edit_of_undo(binding, &home, request, &first),
            None => home::edit_of_move(binding, request, &first, self.decides_anew()),
        });
        edits.extend(self.aim(waiting, binding, to));
        let intent = self.input.storage.start_intent(object.revision, mark.replicas, &first, term, observed);
        // A write upstream has not settled before it is confirmed.
        let observed = observed.filter(|_| intent.is_none());
        match &intent {
            None => self.effects.change_object(object, edits),
            Some(_) => self.effects.change_upstream(object, edits),
        }
        self.effects.correct_plan(waiting, &from, &wanted, replicas);
        let arrived = if short.is_some() { MovePhase::Failed } else { MovePhase::Settled };
        let status = MoveStatus {
            phase: Some(if observed.is_some() { arrived } else { MovePhase::Moving }),
            started_at: Some(self.input.now),
            finished_at: observed.map(|_| self.input.now),
            observed,
            wave,
            now: now(&first, &reports),
            ..record::moving_status(short.as_ref(), &note)
        };
        let mut edits = vec![Edit::set(&["status"], record::written(&status))];
        edits.extend(intent.iter().map(|intent| Edit::set(&["metadata", "annotations", INTENT], intent.text())));
        // An undo restores it, too.
        let home = binding.metadata.annotations.get(HOME);
        edits.extend(home.map(|home| Edit::set(&["metadata", "annotations", HOME], home.clone())));
        self.effects.change_move(&waiting.key, edits);
        self.effects.recount(&from, &shares(&first));
        let message = format!(
            "{} {}, {} -> {}, because of {}",
            counted(replicas, "replica"),
            if replicas == 1 { "moves" } else { "move" },
            record::listed(&from),
            record::listed(&wanted),
            self.input.owner.title(),
        );
        self.effects.tell(object, binding, false, "Rebalanced", message);
        let needs = Needs::of(request);
        let summary = self.summary();
        summary.pending -= 1;
        summary.replicas_to_move += replicas - waiting.replicas;
        self.effects.status.started_at.get_or_insert(self.input.now);
        if let Some(observed) = observed {
            if !observed {
                self.run.note_unobserved(&needs, &from, &wanted);
            }
            self.run.wave_ended_ms = Some(self.input.now_ms);
            // It blocks no move behind it.
            self.has_more |= !self.run.pending.is_empty();
            self.count_arrival(short.is_some(), replicas);
            return Some(first);
        }
        self.summary().moving += 1;
        let (key, uid) = (waiting.key.clone(), object.uid.to_string());
        let (started, deadline, arriving) = (self.input.now, self.deadline(), run::arrivals(&from, &wanted));
        let moving = ActiveMove {
            key,
            uid,
            mark,
            intent,
            from,
            to: wanted,
            replicas,
            started,
            deadline,
            arriving,
            needs,
            short,
            note,
            told: (status.now, self.input.now_ms),
            wave,
        };
        self.run.insert(object.key.clone(), moving);
        self.note_arrivals(&object.key, &reports);
        Some(first)
    }

    /// Returns the edit that records a plan with an objective in the binding.
    fn aim(&self, waiting: &PendingMove, binding: &AnyBinding, to: &[Target]) -> Option<Edit> {
        let planned = AnyMove::read(self.input.view.get(&waiting.key)?)?;
        let aim: Aim = serde_json::from_str(planned.metadata.annotations.get(AIM)?).ok()?;
        Some(Edit::set(&["metadata", "annotations", AIM], planning::aim_at(aim, binding, to).text()))
    }

    /// Returns the former placement of the binding before the undone move. For a binding without
    /// one then that has lost targets since, this is its placement before that move.
    fn home_before(&self, object: &Object, binding: &AnyBinding) -> Option<Home> {
        let undo = self.input.rebalance.spec.undo.as_ref()?;
        let key = Key { name: undo.name.as_str().into(), ..self.input.owner.key.clone() };
        let other = Owner::of(self.input.view.get(&key)?);
        let undone = record::first_move(&other, object, self.input.view)?;
        let present = || {
            let present = Home::of(&binding.metadata.annotations)?;
            Some(Home { targets: undone.spec.from.clone(), ..present }).filter(|home| !home.targets.is_empty())
        };
        Home::of(&undone.metadata.annotations).or_else(present)
    }

    /// Returns whether the rebalance decides new placements, which replace the former ones. A drain
    /// only removes replicas from its clusters, in any mode.
    fn decides_anew(&self) -> bool {
        let RebalanceSpec { mode, undo, drain, .. } = &self.input.rebalance.spec;
        *mode == Mode::Fresh && undo.is_none() && drain.is_none()
    }

    fn start_placement(
        &mut self,
        rank: &MoveRank,
        waiting: &PendingMove,
        object: &Arc<Object>,
        kinds: &PlacementKinds,
    ) {
        self.run.pending.remove(rank);
        let wave = self.count_into_wave();
        let requester = self.input.owner.reference();
        self.effects.change_object(object, placement_moves::trigger(object, self.input.now, &requester).into());
        let (phase, started_at) = (Some(MovePhase::Moving), Some(self.input.now));
        let status = MoveStatus { phase, started_at, wave, ..MoveStatus::default() };
        self.effects.change_move(&waiting.key, vec![Edit::set(&["status"], record::written(&status))]);
        let message = format!("a fresh decision is asked for, because of {}", self.input.owner.title());
        let about = vec![placements::reference(kinds, object)];
        self.effects.events.push(PendingEvent { about, is_warning: false, reason: "Rebalanced", message });
        self.effects.status.started_at.get_or_insert(self.input.now);
        let summary = self.summary();
        summary.pending -= 1;
        summary.moving += 1;
        let moving = ActiveMove {
            key: waiting.key.clone(),
            uid: object.uid.to_string(),
            mark: MoveAnnotation::default(),
            intent: None,
            from: Vec::new(),
            to: Vec::new(),
            replicas: 0,
            started: self.input.now,
            deadline: self.deadline(),
            arriving: Arrivals::default(),
            needs: Needs::default(),
            short: None,
            note: String::new(),
            told: (Vec::new(), self.input.now_ms),
            wave,
        };
        self.run.insert(object.key.clone(), moving);
    }
}

/// Returns the bounds of a rollout that count replicas.
fn replica_bounds(rollout: &Rollout) -> RolloutBounds {
    RolloutBounds {
        concurrent: None,
        replicas: rollout.max_moving_replicas,
        incoming_per_cluster: rollout.max_incoming_per_cluster,
    }
}

/// Returns the edits of a binding with a starting move. They set the move annotation, if the move
/// continues (`mark.0`).
pub(super) fn start_edits(
    object: &Object,
    binding: &AnyBinding,
    first: &[Target],
    term: Option<&str>,
    mark: (bool, &MoveAnnotation),
    cause: &Cause,
    moment: Moment<'_>,
) -> Vec<Edit> {
    let mut edits = placement_edits(object, binding, first, term, cause, moment);
    match mark {
        (true, mark) => edits.push(Edit::set(&["metadata", "annotations", MOVE], mark.text())),
        (false, _) if binding.metadata.annotations.contains_key(MOVE) => {
            edits.push(Edit::remove(&["metadata", "annotations", MOVE]));
        }
        (false, _) => {}
    }
    edits
}
