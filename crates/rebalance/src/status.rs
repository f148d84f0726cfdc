//! The phase and the conditions of a rebalance. Pure.

use ballast_api::ballast::v1alpha1::{
    Approval, FailedGate, ObjectiveStatus, OnFailure, Phase, RebalanceSpec, RebalanceStatus, Summary, WaveStatus,
};
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_k8s::Time;
use ballast_scheduler::cause::counted;

/// The reason of the condition `Selected` if nothing is selected because a name is unknown.
pub const UNKNOWN_NAMES: &str = "UnknownNames";

/// The permitted actions of a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// Moves may begin.
    Active,
    /// It waits for approval, or is paused by a user or by a gate.
    Held,
    /// No further move begins.
    Ending,
}

/// Returns the state of the rollout. `failed` is the number of moves that failed when or after they
/// were due.
pub fn rollout_state(spec: &RebalanceSpec, status: &RebalanceStatus, failed: i64) -> RolloutState {
    let summary = status.summary.unwrap_or_default();
    let fails = spec.rollout.failures_that_abort(summary.to_move).is_some_and(|most| failed >= most);
    let gate = failed_gate(status).map(|gate| gate.on_failure);
    let is_opened = status.drain.as_ref().is_some_and(|drain| !drain.opened.is_empty());
    match spec {
        _ if spec.abort || fails || is_opened => RolloutState::Ending,
        _ if matches!(gate, Some(OnFailure::Abort | OnFailure::Undo)) => RolloutState::Ending,
        _ if spec.awaits_approval() || spec.paused || gate == Some(OnFailure::Pause) => RolloutState::Held,
        _ => RolloutState::Active,
    }
}

/// Returns the gate that did not approve in time.
fn failed_gate(status: &RebalanceStatus) -> Option<&FailedGate> {
    status.wave.as_ref()?.failed.as_ref()
}

/// Returns the current wave, if its gates have not approved it.
fn waiting_wave<'s>(spec: &RebalanceSpec, status: &'s RebalanceStatus) -> Option<&'s WaveStatus> {
    status.wave.as_ref().filter(|wave| !spec.rollout.gates.is_empty() && !wave.passed)
}

/// Returns whether a drain has to examine its clusters again.
fn is_draining(spec: &RebalanceSpec, status: &RebalanceStatus) -> bool {
    spec.drain.is_some() && !status.drain.as_ref().is_some_and(|drain| drain.ended)
}

/// Returns whether no further move begins, and none is in progress.
pub fn has_stopped(spec: &RebalanceSpec, status: &RebalanceStatus) -> bool {
    let is_done = status.summary.is_some_and(|summary| summary.pending == 0 && summary.moving == 0);
    status.is_finished() || is_done && rollout_state(spec, status, 0) == RolloutState::Ending
}

/// Returns the phase that follows from the counts.
pub fn phase(spec: &RebalanceSpec, status: &RebalanceStatus, failed: i64) -> Phase {
    let summary = status.summary.unwrap_or_default();
    let state = rollout_state(spec, status, failed);
    let is_done = summary.pending == 0 && summary.moving == 0;
    let is_undoing = status.wave.as_ref().is_some_and(|wave| wave.undone_by.is_some() && !wave.undone);
    match state {
        RolloutState::Ending if is_done && !is_undoing => Phase::Aborted,
        RolloutState::Ending => Phase::Running,
        _ if is_done && waiting_wave(spec, status).is_none() && !is_draining(spec, status) => Phase::Completed,
        _ if spec.awaits_approval() && summary.moving == 0 => Phase::Planned,
        // Moves in progress continue to settle, and are counted separately (SG9).
        RolloutState::Held if spec.paused || failed_gate(status).is_some() => Phase::Paused,
        _ => Phase::Running,
    }
}

/// Sets the phase and the conditions that follow from it. Returns whether the phase has changed.
pub fn conclude(spec: &RebalanceSpec, status: &mut RebalanceStatus, generation: i64, failed: i64, now: Time) -> bool {
    let before = status.phase;
    let phase = phase(spec, status, failed);
    status.phase = Some(phase);
    status.observed_generation = Some(generation);
    if status.is_finished() {
        status.finish_time.get_or_insert(now);
    }
    if let Some(objective) = &mut status.objective {
        objective.moved = status.summary.unwrap_or_default().replicas_moved;
        objective.undone |= status.wave.as_ref().is_some_and(|wave| wave.undone);
    }
    let summary = status.summary.unwrap_or_default();
    let told_now = told(phase, spec, status, failed);
    let (is_approved, reason, message) = match spec.approval {
        Approval::NotRequired => ("True", "NotRequired", "the plan needs no approval"),
        Approval::Required if spec.approved => ("True", "Approved", "the plan is approved"),
        Approval::Required => ("False", "WaitsForApproval", "nothing moves until spec.approved is true"),
    };
    let mut set = |type_: &str, status_: &str, reason: &str, message: &str| {
        let told = ConditionUpdate { type_, status: status_, reason, message };
        conditions::set(&mut status.conditions, Some(generation), now, told);
    };
    set("Approved", is_approved, reason, message);
    let (progressing, why) = match phase {
        Phase::Running => ("True", "Moving"),
        Phase::Paused => ("False", "Paused"),
        Phase::Planned | Phase::Planning => ("False", "Waiting"),
        Phase::Completed => ("False", "Completed"),
        Phase::Aborted => ("False", "Aborted"),
    };
    set("Progressing", progressing, why, &told_now);
    let (completed, why) = match phase {
        Phase::Completed if summary.selected == 0 && spec.drain.is_none() => ("True", "NothingSelected"),
        Phase::Completed if summary.to_move == 0 && summary.failed == 0 && spec.objective.is_some() => {
            ("True", "NothingToGain")
        }
        Phase::Completed if summary.to_move == 0 => ("True", "NothingToMove"),
        Phase::Completed if summary.failed > 0 => ("True", "SomeFailed"),
        Phase::Completed if summary.settled < summary.to_move => ("True", "SomeNotMoved"),
        Phase::Completed => ("True", "AllMoved"),
        Phase::Aborted => ("False", "Aborted"),
        _ => ("False", "NotYet"),
    };
    set("Completed", completed, why, &told_now);
    before != Some(phase)
}

/// Returns a message about the state.
pub fn told(phase: Phase, spec: &RebalanceSpec, status: &RebalanceStatus, failed: i64) -> String {
    let summary = status.summary.unwrap_or_default();
    let gate = failed_gate(status);
    let undone_by = status.wave.as_ref().and_then(|wave| wave.undone_by.as_deref());
    let refused_by = |gate: &FailedGate| format!("the gate {} has not said yes ({})", gate.name, gate.message);
    let Summary { selected, to_move, pending, moving, settled, unchanged, superseded, failed: refused, .. } = summary;
    let opened = status.drain.as_ref().map_or(&[][..], |drain| &drain.opened);
    let waits_for_leaving = status.drain.as_ref().is_some_and(|drain| drain.waiting_since.is_some());
    let cannot = if spec.undo.is_some() { "cannot return yet" } else { "failed" };
    let moves = |count: i64| counted(count, "move");
    let workloads = |count: i64| counted(count, "workload");
    let replicas = |count: i64| counted(count, "replica");
    let counts = || {
        format!(
            "{settled} of {} settled with {}, {refused} failed, {superseded} superseded, {} unchanged",
            moves(to_move),
            replicas(summary.replicas_moved),
            workloads(unchanged),
        )
    };
    match phase {
        Phase::Planning => "the plan is being made".to_owned(),
        Phase::Planned => format!(
            "{} selected: {to_move} to move with {}, {unchanged} to stay, {refused} {cannot}",
            workloads(selected),
            replicas(summary.replicas_to_move),
        ),
        Phase::Running if spec.abort || !opened.is_empty() => format!("aborting: {} under way", moves(moving)),
        Phase::Running => match (gate, undone_by, waiting_wave(spec, status)) {
            (Some(gate), Some(name), _) => {
                format!("{name} takes back what was moved, because {}", refused_by(gate))
            }
            (_, _, Some(wave)) if wave.asked_since.is_some() => {
                format!("wave {} waits for its gates: {pending} pending, {settled} settled", wave.number)
            }
            _ if waits_for_leaving => format!("{settled} settled; waits for workloads that are leaving the clusters"),
            _ => format!("{} under way, {pending} pending, {settled} settled", moves(moving)),
        },
        Phase::Paused if moving > 0 => {
            format!("paused: {} under way, {pending} pending, {settled} settled", moves(moving))
        }
        Phase::Paused => {
            let why = gate.map_or_else(String::new, |gate| format!(" because {}", refused_by(gate)));
            format!("paused{why}: {} pending, {settled} settled", moves(pending))
        }
        Phase::Completed if selected == 0 && spec.drain.is_some() => "the clusters were empty".to_owned(),
        Phase::Completed if selected == 0 && spec.undo.is_some() => "nothing was moved that could go back".to_owned(),
        Phase::Completed if selected == 0 => "nothing is selected".to_owned(),
        Phase::Completed if to_move == 0 && refused == 0 && spec.objective.is_some() => {
            let why = status.objective.as_ref().and_then(ObjectiveStatus::within_tolerance);
            let why = why.map_or_else(String::new, |why| format!(", every gain is {why}"));
            format!("there is nothing to gain: {} to stay{why}", workloads(unchanged))
        }
        Phase::Completed if to_move == 0 => {
            format!("nothing is to move: {} to stay, {refused} {cannot}", workloads(unchanged))
        }
        Phase::Completed => counts(),
        Phase::Aborted if spec.abort => format!("aborted as asked: {}{}", counts(), stay_closed(spec, status)),
        Phase::Aborted if !opened.is_empty() => {
            let (names, were) = (opened.join(", "), if opened.len() == 1 { "was" } else { "were" });
            format!("aborted because {names} {were} opened: {}{}", counts(), stay_closed(spec, status))
        }
        Phase::Aborted => match gate {
            Some(gate) => {
                let back = undone_by.map_or_else(String::new, |name| format!("; {name} has taken it back"));
                format!("aborted because {}: {}{back}{}", refused_by(gate), counts(), stay_closed(spec, status))
            }
            None => {
                format!("aborted because {} failed: {}{}", moves(failed), counts(), stay_closed(spec, status))
            }
        },
    }
}

/// Returns a message about the clusters that an aborted drain leaves closed. Empty if there are
/// none.
fn stay_closed(spec: &RebalanceSpec, status: &RebalanceStatus) -> String {
    let (Some(drain), Some(known)) = (&spec.drain, status.drain.as_ref().filter(|known| known.closed)) else {
        return String::new();
    };
    let closed: Vec<&str> =
        drain.clusters.iter().filter(|name| !known.opened.contains(name)).map(String::as_str).collect();
    match closed[..] {
        [] => String::new(),
        [name] => format!("; {name} stays closed to new workloads: `ballast uncordon {name}` opens it"),
        _ => {
            let names = closed.join(" ");
            format!("; {} stay closed to new workloads: `ballast uncordon {names}` opens them", closed.join(", "))
        }
    }
}

/// Returns a message about the consequence if a gate does not approve in time.
pub fn follows(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Abort => "the rebalance ends",
        OnFailure::Pause => "the rebalance pauses",
        OnFailure::Undo => "what was moved goes back",
    }
}

/// Sets the condition of the gates. `waits_for` are the gates that have not approved, each with its
/// last response.
pub fn set_gate(
    spec: &RebalanceSpec,
    status: &mut RebalanceStatus,
    generation: i64,
    now: Time,
    waits_for: &[(String, String)],
) {
    let Some(wave) = status.wave.as_ref().filter(|_| !spec.rollout.gates.is_empty()) else { return };
    let number = wave.number;
    let next = wave.asked_since.and_then(|since| {
        let gates = spec.rollout.gates.iter().filter(|gate| waits_for.iter().any(|(name, _)| *name == gate.name));
        let first = gates.min_by_key(|gate| gate.timeout_seconds)?;
        let (at, follows) = (since.plus_seconds(first.timeout_seconds + 1), follows(first.on_failure));
        Some(format!("; without a yes of {} before {at}, {follows}", first.name))
    });
    let words: Vec<&str> = waits_for.iter().map(|(_, words)| words.as_str()).collect();
    let (said, reason, message) = match (&wave.failed, wave.asked_since) {
        (Some(failed), _) => {
            let (name, words, follows) = (&failed.name, &failed.message, follows(failed.on_failure));
            ("False", "Failed", format!("wave {number}: {name} has not said yes in time: {words}; {follows}"))
        }
        _ if wave.passed => ("True", "Passed", format!("wave {number}: all gates have said yes")),
        (None, Some(_)) => {
            let next = next.unwrap_or_default();
            ("False", "Waiting", format!("wave {number} waits for {}{next}", words.join("; ")))
        }
        (None, None) if spec.paused => (
            "Unknown",
            "Paused",
            format!("wave {number}: the rebalance is paused, and gates are asked when it goes on"),
        ),
        (None, None) => {
            ("Unknown", "NotAsked", format!("wave {number} is under way, and its gates are asked when it has settled"))
        }
    };
    let told = ConditionUpdate { type_: "Gate", status: said, reason, message: &message };
    conditions::set(&mut status.conditions, Some(generation), now, told);
}

/// Sets the condition that an undo has reverted the moves.
pub fn set_undone(status: &mut RebalanceStatus, generation: i64, now: Time, (reason, message): (&str, &str)) {
    let told = ConditionUpdate { type_: "Undone", status: "True", reason, message };
    conditions::set(&mut status.conditions, Some(generation), now, told);
    if let Some(objective) = &mut status.objective {
        objective.undone = true;
    }
}

/// Sets the condition of the plan. `not_made` is the reason why there is none.
pub fn set_planned(status: &mut RebalanceStatus, generation: i64, now: Time, not_made: Option<(&str, &str)>) {
    let summary = status.summary.unwrap_or_default();
    let selected = counted(summary.selected, "workload");
    let message = format!("{selected} selected, {} to move", summary.to_move);
    let told = match not_made {
        None => ConditionUpdate { type_: "Planned", status: "True", reason: "Planned", message: &message },
        Some((reason, message)) => ConditionUpdate { type_: "Planned", status: "False", reason, message },
    };
    conditions::set(&mut status.conditions, Some(generation), now, told);
}

/// Sets the condition of the selection. `unknown` are its unknown names.
pub fn set_selected(status: &mut RebalanceStatus, generation: i64, now: Time, unknown: &[String]) {
    let selected = status.summary.unwrap_or_default().selected;
    let (is_selected, reason, message) = match (selected, unknown) {
        (0, []) => ("False", "NothingMatches", "no workload matches the selection".to_owned()),
        (0, unknown) => ("False", UNKNOWN_NAMES, unknown.join("; ")),
        _ => ("True", "WorkloadsSelected", format!("{} selected", counted(selected, "workload"))),
    };
    let told = ConditionUpdate { type_: "Selected", status: is_selected, reason, message: &message };
    conditions::set(&mut status.conditions, Some(generation), now, told);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::ballast::v1alpha1::{AbortOn, IntOrPercent};

    fn summary(pending: i64, moving: i64) -> RebalanceStatus {
        let summary = Summary { selected: 9, to_move: 4, pending, moving, ..Summary::default() };
        RebalanceStatus { summary: Some(summary), ..RebalanceStatus::default() }
    }

    #[test]
    fn bd7_abort_and_pause_let_what_has_begun_settle() {
        let aborted = RebalanceSpec { abort: true, ..RebalanceSpec::default() };
        assert_eq!(phase(&aborted, &summary(0, 1), 0), Phase::Running);
        assert_eq!(phase(&aborted, &summary(0, 0), 0), Phase::Aborted);
        let paused = RebalanceSpec { paused: true, ..RebalanceSpec::default() };
        assert_eq!(phase(&paused, &summary(2, 1), 0), Phase::Paused, "SG9: as soon as it is seen");
        assert_eq!(phase(&paused, &summary(0, 1), 0), Phase::Paused);
        assert_eq!(phase(&paused, &summary(2, 0), 0), Phase::Paused);
        assert_eq!(phase(&paused, &summary(0, 0), 0), Phase::Completed);
    }

    #[test]
    fn bd8_a_plan_waits_for_approval_and_can_be_aborted_without() {
        let required = RebalanceSpec { approval: Approval::Required, ..RebalanceSpec::default() };
        assert_eq!(phase(&required, &summary(4, 0), 0), Phase::Planned);
        assert_eq!(rollout_state(&required, &summary(4, 0), 0), RolloutState::Held);
        let approved = RebalanceSpec { approved: true, ..required.clone() };
        assert_eq!(phase(&approved, &summary(4, 0), 0), Phase::Running);
        let aborted = RebalanceSpec { abort: true, ..required };
        assert_eq!(rollout_state(&aborted, &summary(4, 0), 0), RolloutState::Ending);
    }

    #[test]
    fn sg19_a_wave_whose_gates_are_not_passed_is_not_completed() {
        let gate = |on_failure| {
            let mut status = summary(0, 0);
            let failed = Some(FailedGate { name: "smoke".into(), on_failure, ..FailedGate::default() });
            status.wave = Some(WaveStatus { number: 1, failed, ..WaveStatus::default() });
            status
        };
        let mut spec = RebalanceSpec::default();
        spec.rollout.gates = vec![ballast_api::ballast::v1alpha1::Gate::default()];
        let mut status = summary(0, 0);
        status.wave = Some(WaveStatus { number: 1, ..WaveStatus::default() });
        assert_eq!(phase(&spec, &status, 0), Phase::Running);
        assert_eq!(told(Phase::Running, &spec, &status, 0), "0 moves under way, 0 pending, 0 settled");
        status.wave.as_mut().unwrap().asked_since = Some(Time::default());
        assert!(told(Phase::Running, &spec, &status, 0).starts_with("wave 1 waits for its gates"));
        status.wave.as_mut().unwrap().passed = true;
        assert_eq!(phase(&spec, &status, 0), Phase::Completed);
        assert_eq!(phase(&spec, &gate(OnFailure::Abort), 0), Phase::Aborted);
        assert_eq!(phase(&spec, &gate(OnFailure::Pause), 0), Phase::Paused);
        let mut undoing = gate(OnFailure::Undo);
        undoing.wave.as_mut().unwrap().undone_by = Some("home-undo".into());
        assert_eq!(phase(&spec, &undoing, 0), Phase::Running);
        assert!(told(Phase::Running, &spec, &undoing, 0).starts_with("home-undo takes back"));
        undoing.wave.as_mut().unwrap().undone = true;
        assert_eq!(phase(&spec, &undoing, 0), Phase::Aborted);
    }

    #[test]
    fn one_is_told_as_one() {
        let summary = Summary { selected: 1, to_move: 1, replicas_to_move: 1, settled: 1, ..Summary::default() };
        let status = RebalanceStatus { summary: Some(summary), ..RebalanceStatus::default() };
        let told = |phase| told(phase, &RebalanceSpec::default(), &status, 1);
        assert_eq!(told(Phase::Planned), "1 workload selected: 1 to move with 1 replica, 0 to stay, 0 failed");
        let counts = "1 of 1 move settled with 0 replicas, 0 failed, 0 superseded, 0 workloads unchanged";
        assert_eq!(told(Phase::Completed), counts);
        assert_eq!(told(Phase::Aborted), format!("aborted because 1 move failed: {counts}"));
    }

    #[test]
    fn as_many_failures_as_abort_on_says_end_it() {
        let mut spec = RebalanceSpec::default();
        spec.rollout.abort_on = Some(AbortOn { failed: IntOrPercent::Percent(50) });
        assert_eq!(rollout_state(&spec, &summary(3, 0), 1), RolloutState::Active);
        assert_eq!(rollout_state(&spec, &summary(2, 0), 2), RolloutState::Ending);
    }

    #[test]
    fn nothing_to_gain_is_told_only_of_an_objective_that_moves_and_refuses_nothing() {
        let told = |failed, has_objective: bool| {
            let summary = Summary { selected: 2, unchanged: 2, failed, ..Summary::default() };
            let status = RebalanceStatus { summary: Some(summary), ..RebalanceStatus::default() };
            let objective = serde_json::from_value(serde_json::json!({"goal": "Balance"})).unwrap();
            let objective = has_objective.then_some(objective);
            let spec = RebalanceSpec { objective, ..RebalanceSpec::default() };
            told(Phase::Completed, &spec, &status, 0)
        };
        assert_eq!(told(0, true), "there is nothing to gain: 2 workloads to stay");
        let summary = Summary { selected: 2, unchanged: 2, ..Summary::default() };
        let within_tolerance = Some(IntOrPercent::Percent(2));
        let objective = Some(ObjectiveStatus { within_tolerance, ..ObjectiveStatus::default() });
        let status = RebalanceStatus { summary: Some(summary), objective, ..RebalanceStatus::default() };
        let objective = serde_json::from_value(serde_json::json!({"goal": "Balance"})).unwrap();
        let spec = RebalanceSpec { objective: Some(objective), ..RebalanceSpec::default() };
        assert_eq!(
            super::told(Phase::Completed, &spec, &status, 0),
            "there is nothing to gain: 2 workloads to stay, every gain is within the tolerance of 2%"
        );
        assert_eq!(told(1, true), "nothing is to move: 2 workloads to stay, 1 failed");
        assert_eq!(told(0, false), "nothing is to move: 2 workloads to stay, 0 failed");
    }
}
