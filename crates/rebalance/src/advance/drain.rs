//! The end of a drain: plans workloads that arrived on its clusters after the plan, and ends when
//! the clusters are empty, or when each workload that stays has a failed Move with the reason.
//!
//! The clusters are examined whenever no move is pending or in progress. This covers workloads that
//! arrived while the drain waited for its approval, or that were scaled meanwhile. The number of
//! such rounds is bounded ([`DRAIN_ROUNDS_MAX`]).

use std::collections::{HashMap, HashSet};

use super::{PendingEvent, StepRun};
use crate::cordon;
use crate::planned_moves;
use crate::record::{self, DRAIN_ROUNDS_MAX};
use crate::run::PendingMove;
use ballast_api::ballast::v1alpha1::{Drain, MovePhase, MoveReason, MoveSpec, MoveStatus};
use ballast_k8s::Key;
use ballast_scheduler::cause::counted;
use ballast_scheduler::planning::{self, ParsedBinding, PlanningSnapshot};

/// Maximum number of workloads that one round plans.
const ARRIVALS_PER_ROUND_MAX: usize = 2_000;

/// Interval at which all bindings are examined while a drain waits for workloads that leave.
const EXAMINED_EVERY_MS: i64 = 1_000;

/// The workloads on the clusters of a drain without a Move that contains the reason.
#[derive(Default)]
struct Left {
    /// Workloads to plan.
    arrived: Vec<ParsedBinding>,
    /// Workloads that leave without a move, or that the scheduler is about to decide.
    leaving: Vec<(ParsedBinding, (MoveReason, String))>,
    /// The bindings with a Move of this drain.
    known: HashSet<Key>,
}

impl StepRun<'_> {
    fn drain(&self) -> Option<&Drain> {
        self.input.rebalance.spec.drain.as_ref()
    }

    /// Records the clusters that were opened after the drain had closed them.
    pub fn look_at_cordon(&mut self) {
        let Some(drain) = &self.input.rebalance.spec.drain else { return };
        let Some(status) = self.effects.status.drain.as_mut().filter(|status| status.closed) else { return };
        for name in cordon::open_clusters(self.input.view, drain) {
            if !status.opened.contains(&name) {
                status.opened.push(name);
            }
        }
    }

    /// Plans workloads that arrived on the clusters of a drain after its plan, or ends the drain.
    pub fn finish_drain(&mut self, present: &PlanningSnapshot) {
        let is_done = self.run.pending.is_empty() && self.run.moving.is_empty() && !self.has_more;
        let awaits_gates = self.wave().is_some_and(|wave| !wave.passed);
        if self.drain().is_none() || !is_done || awaits_gates {
            return;
        }
        if !self.effects.is_empty() {
            // The view does not contain the writes of this step.
            self.has_more = true;
            return;
        }
        let looks_at_ms = self.run.examined_ms.map_or(0, |at| at.min(self.input.now_ms) + EXAMINED_EVERY_MS);
        if looks_at_ms > self.input.now_ms {
            return self.wake_at(looks_at_ms);
        }
        self.run.examined_ms = None;
        let Left { mut arrived, leaving, known } = self.left();
        let is_cut = arrived.len() > ARRIVALS_PER_ROUND_MAX;
        arrived.truncate(ARRIVALS_PER_ROUND_MAX);
        let status = self.effects.status.drain.get_or_insert_default();
        let is_last = status.rounds >= DRAIN_ROUNDS_MAX;
        if !arrived.is_empty() && !is_last {
            status.rounds += 1;
            let round = status.rounds;
            let moves = self.plan_arrivals(present, arrived, round);
            self.add_moves(moves, &known);
            self.has_more = true;
            return;
        }
        let again = format!("it is on a drained cluster again after {DRAIN_ROUNDS_MAX} rounds of planning");
        let mut stays: Vec<_> = arrived.into_iter().map(|case| (case, (MoveReason::CameBack, again.clone()))).collect();
        if let Some(until_ms) = self.waits_until(!leaving.is_empty() && !is_last)
            && until_ms > self.input.now_ms
        {
            // A change of one of them wakes this rebalance.
            self.run.examined_ms = Some(self.input.now_ms);
            self.run.held_up.extend(leaving.into_iter().map(|(case, _)| case.object.key.clone()));
            return self.wake_at(until_ms);
        }
        stays.extend(leaving);
        let owner = self.input.owner;
        let failed = stays
            .into_iter()
            .map(|(case, why)| planned_moves::failed_arrival(present, owner, &case, why, DRAIN_ROUNDS_MAX + 1));
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            self.add_moves(failed, &known);
        }
        self.effects.status.drain.get_or_insert_default().ended = !is_cut;
        self.has_more |= is_cut;
    }

    /// Returns the Moves of workloads that arrived on the clusters, pending or failed.
    fn plan_arrivals(
        &self,
        present: &PlanningSnapshot,
        arrived: Vec<ParsedBinding>,
        round: i64,
    ) -> Vec<(Key, MoveSpec, MoveStatus)> {
        let (owner, spec) = (self.input.owner, &self.input.rebalance.spec);
        let planned = planned_moves::plan_arrivals(present, owner, spec, arrived.clone(), round);
        let mut moves = planned.moves;
        let moved: HashSet<Key> = moves.iter().map(|(_, spec, _)| record::binding_key(&spec.binding)).collect();
        for case in arrived.iter().filter(|case| !moved.contains(&case.object.key)) {
            let why = (MoveReason::NoClusterFits, "no decision takes it off the cluster".to_owned());
            moves.push(planned_moves::failed_arrival(present, owner, case, why, round));
        }
        moves
    }

    /// Returns the time until which the drain waits for workloads that leave, in milliseconds since
    /// 1970, or `None` if there are none.
    fn waits_until(&mut self, waits: bool) -> Option<i64> {
        let now = self.input.now;
        let status = self.effects.status.drain.get_or_insert_default();
        if !waits {
            status.waiting_since = None;
            return None;
        }
        // If the clock was set back, the time counts from now.
        let since = status.waiting_since.map_or(now, |since| since.min(now));
        status.waiting_since = Some(since);
        let most = self.input.rebalance.spec.rollout.settle.timeout_seconds;
        Some(since.plus_seconds(most).seconds().saturating_mul(1_000))
    }

    /// Returns the workloads that are left on the clusters of the drain.
    fn left(&self) -> Left {
        let mut left = Left::default();
        let Some(drain) = self.drain() else { return left };
        let input = self.input;
        let mut failed: HashMap<(Key, String), bool> = HashMap::new();
        let own = record::moves_of(input.view, &input.owner.key);
        for (_, read) in own.filter(|(_, read)| read.owner().as_ref() == Some(input.owner)) {
            let has_failed = read.status.phase == Some(MovePhase::Failed);
            let binding = (record::binding_key(&read.spec.binding), read.spec.binding.uid);
            *failed.entry(binding).or_default() |= has_failed;
        }
        for case in planning::on_clusters(input.view, &drain.clusters) {
            let binding = (case.object.key.clone(), case.object.uid.to_string());
            if failed.get(&binding).copied().unwrap_or_default() {
                continue;
            }
            let is_on = planned_moves::is_on(&case, drain);
            let why = match &case.request {
                request if request.deleting => "it is being deleted, and is not gone",
                _ if !is_on => "its eviction from the cluster has not ended",
                request if request.is_triggered(input.profile) => "a trigger is pending, and is not served",
                _ => {
                    left.arrived.push(case);
                    continue;
                }
            };
            left.leaving.push((case, (MoveReason::StillLeaving, why.to_owned())));
        }
        left.known = failed.into_keys().map(|(key, _)| key).collect();
        left
    }

    /// Adds Moves to the plan. `known` are the bindings that already have one.
    fn add_moves(&mut self, moves: Vec<(Key, MoveSpec, MoveStatus)>, known: &HashSet<Key>) {
        let (input, count) = (self.input, moves.len() as i64);
        let mut refused = 0;
        let reasons = std::mem::take(&mut self.effects.status.reasons);
        let mut reasons = crate::reasons::Reasons::from_listed(reasons);
        for (key, spec, status) in moves {
            let binding = record::binding_key(&spec.binding);
            let is_failed = status.phase == Some(MovePhase::Failed);
            self.effects.count_arrival(&spec, is_failed, known.contains(&binding));
            self.effects.create(key.resource, record::new_move(input.owner, &key, &spec, &status));
            if is_failed {
                refused += 1;
                if let Some(reason) = status.reason {
                    reasons.add(reason, &status.message, &spec.workload);
                }
                continue;
            }
            let waiting = PendingMove { key, replicas: spec.replicas };
            self.run.add_pending(input.view, input.rebalance.spec.rollout.order, &binding, waiting);
        }
        self.effects.status.reasons = reasons.listed();
        let message = format!(
            "{} on the clusters of the drain not planned before: {} to move, {refused} to stay",
            counted(count, "workload"),
            count - refused
        );
        let about = vec![input.owner.reference()];
        self.effects.events.push(PendingEvent { about, is_warning: false, reason: "ArrivalsPlanned", message });
    }
}
