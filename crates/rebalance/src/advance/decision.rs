//! Decides moves from observations. Pure.
//!
//! `decide` handles a move in progress, and `first_step` one that starts. Both return an action,
//! which `StepRun` applies.

use super::ObservedBinding;
use super::observation::{pairs, why_superseded};
use crate::intent::MoveEnd;
use crate::run::ActiveMove;
use crate::settle::{self, ClusterReport, SettleLevel, SettleState};
use crate::surge::{self, NextTargets};
use ballast_api::ballast::v1alpha1::{MovePhase, MoveReason};
use ballast_engine::karmada::Target;
use ballast_k8s::Time;
use ballast_scheduler::move_annotation::{Disturbance, MoveAnnotation};
use ballast_scheduler::planning::shares;

/// A move in progress and its binding.
pub struct ObservedMove<'m> {
    pub active: &'m ActiveMove,
    pub binding: ObservedBinding<'m>,
    /// Whether the binding has the annotation that the move wrote.
    pub is_marked: bool,
    /// Whether the annotation was removed without an intent, when the move was about to end.
    pub is_released: bool,
    pub disturbance: Option<Disturbance>,
}

impl ObservedMove<'_> {
    /// Returns whether the rebalance still decides the targets of the binding.
    pub fn goes_on(&self) -> bool {
        self.is_released || (self.is_marked && self.disturbance.is_none())
    }
}

/// The conditions under which a move has settled or failed.
#[derive(Clone, Copy)]
pub struct SettleRules {
    pub level: SettleLevel,
    pub timeout_seconds: i64,
    pub now: Time,
}

pub enum MoveDecision {
    /// Nothing is written, because replicas are still arriving.
    Wait,
    /// These are the next targets of a surge.
    Advance(Vec<Target>),
    End(MoveEnd, BindingEdit),
}

/// The change of the binding at the end of a move.
pub enum BindingEdit {
    Keep,
    RemoveMark,
    /// The targets become these, and the move annotation is removed.
    RollBack(Vec<Target>),
}

/// Decides a move in progress. `next_targets` is called if the move has not reached its last
/// targets.
pub fn decide(
    observed: &ObservedMove<'_>,
    rules: SettleRules,
    reports: &[ClusterReport<'_>],
    next_targets: impl FnOnce() -> NextTargets,
) -> MoveDecision {
    let ObservedMove { active, binding: ObservedBinding { request, .. }, .. } = observed;
    if !observed.goes_on() {
        // Without a move annotation, another pass has decided already. Otherwise the scheduler is
        // about to decide.
        let (reason, message) = why_superseded(observed.disturbance.clone(), request, active);
        let edit = if observed.is_marked { BindingEdit::RemoveMark } else { BindingEdit::Keep };
        return MoveDecision::End(MoveEnd::of(MovePhase::Superseded, reason, message), edit);
    }
    let wait = |reason, what: &str| wait_or_fail(observed, rules, reports, reason, what);
    if MoveAnnotation::listed(&request.targets) != pairs(&active.to) {
        return match next_targets() {
            NextTargets::To(targets) => MoveDecision::Advance(targets),
            NextTargets::Wait => wait(MoveReason::SettleTimeout, "too few of its replicas are ready"),
            NextTargets::NoRoom(why) => {
                MoveDecision::End(MoveEnd::of(MovePhase::Failed, MoveReason::NoRoom, why), BindingEdit::RemoveMark)
            }
        };
    }
    match settle::evaluate(rules.level, replicas_of(&request.targets), reports) {
        SettleState::Settled { observed: true } => MoveDecision::End(MoveEnd::settled(true), BindingEdit::RemoveMark),
        // Clusters did report when the move started.
        SettleState::Settled { observed: false } => wait(MoveReason::SettleTimeout, "nobody reports it any more"),
        SettleState::Missing(what) => wait(MoveReason::SettleTimeout, &what),
        SettleState::Unhealthy(what) => wait(MoveReason::Unhealthy, &what),
    }
}

/// Waits before the deadline of the move, and fails it afterwards.
fn wait_or_fail(
    observed: &ObservedMove<'_>,
    rules: SettleRules,
    reports: &[ClusterReport<'_>],
    reason: MoveReason,
    what: &str,
) -> MoveDecision {
    let ObservedMove { active, binding, .. } = observed;
    if active.deadline > rules.now {
        return MoveDecision::Wait;
    }
    let message = format!("not settled within {} seconds: {what}", rules.timeout_seconds);
    // New replicas that never became ready are removed if old ones still replace them. No ready
    // replica is removed.
    let edit = match surge::rollback_targets(&active.from, binding.request, reports) {
        Some(targets) => BindingEdit::RollBack(targets),
        None => BindingEdit::RemoveMark,
    };
    MoveDecision::End(MoveEnd::of(MovePhase::Failed, reason, message), edit)
}

/// The first targets of a move.
pub struct FirstStep {
    pub targets: Vec<Target>,
    /// The move has settled with them. The value is whether clusters reported it.
    pub settled: Option<bool>,
}

/// Decides the start of a move to `to`. `surge` are the first targets of a surge, if the move
/// surges.
///
/// # Errors
///
/// The move cannot start; the error is its end.
pub fn first_step(
    to: &[Target],
    present: &[Target],
    level: SettleLevel,
    reports: &[ClusterReport<'_>],
    surge: Option<NextTargets>,
) -> Result<FirstStep, MoveEnd> {
    let targets = match surge {
        None => to.to_vec(),
        Some(NextTargets::To(targets)) => targets,
        Some(NextTargets::Wait) => present.to_vec(),
        Some(NextTargets::NoRoom(why)) => {
            return Err(MoveEnd::of(MovePhase::Unchanged, MoveReason::NoRoom, why));
        }
    };
    let settled = match settle::evaluate(level, replicas_of(&targets), reports) {
        SettleState::Settled { observed } if shares(&targets) == shares(to) => Some(observed),
        _ => None,
    };
    Ok(FirstStep { targets, settled })
}

/// Returns the replicas of each target.
pub fn replicas_of(targets: &[Target]) -> impl Iterator<Item = (&str, i64)> {
    targets.iter().map(|target| (&*target.name, i64::from(target.replicas)))
}
