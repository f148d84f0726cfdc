//! Decides the next action for the gates of a wave that has settled (SG14). Pure.

use super::{GateAnswers, WaveId};
use ballast_api::ballast::v1alpha1::Gate;
use ballast_k8s::Time;

/// Minimum time between a response of a gate and the next request to it.
const ASKED_EVERY_MS: i64 = 1_000;

/// The responses of the gates of one wave. They are lost with the process, and requested again.
#[derive(Clone, Debug, Default)]
pub struct GateMemory {
    wave: WaveId,
    gates: Vec<SeenGate>,
}

/// The state of one gate. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default)]
struct SeenGate {
    /// The time of the last response. A request that was not sent does not count.
    answered_ms: Option<i64>,
    /// The time since which it approves without interruption.
    yes_since_ms: Option<i64>,
    has_passed: bool,
    words: String,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateCheck {
    /// Query these gates now.
    Ask(Vec<usize>),
    /// Wait until this time, in milliseconds since 1970.
    Wait(i64),
    /// All gates have approved.
    Passed,
    /// This gate did not approve in time.
    Failed(usize),
}

impl GateMemory {
    /// Returns the memory of this wave, which is empty for a new wave.
    pub fn of(&mut self, wave: WaveId, gates: &[Gate]) -> &mut GateMemory {
        if self.wave != wave || self.gates.len() != gates.len() {
            *self = GateMemory { wave, gates: vec![SeenGate::default(); gates.len()] };
        }
        self
    }

    /// Records responses, if they are about this wave.
    pub fn note(&mut self, gates: &[Gate], answers: &GateAnswers, now_ms: i64) {
        if self.wave != answers.wave {
            return;
        }
        for (index, answer) in &answers.answers {
            let (Some(seen), Some(gate)) = (self.gates.get_mut(*index), gates.get(*index)) else { continue };
            seen.answered_ms = Some(now_ms);
            seen.words.clone_from(&answer.words);
            seen.yes_since_ms = answer.is_yes.then(|| seen.yes_since_ms.unwrap_or(now_ms));
            let hold_ms = i64::try_from(gate.hold().as_millis()).unwrap_or(i64::MAX);
            seen.has_passed |= seen.yes_since_ms.is_some_and(|since| now_ms - since >= hold_ms);
        }
    }

    /// Returns the gates that have not passed, each with its name and a message about its last
    /// response.
    pub fn waiting(&self, gates: &[Gate]) -> Vec<(String, String)> {
        let unseen = SeenGate::default();
        let seen = |index: usize| self.gates.get(index).unwrap_or(&unseen);
        let waiting = gates.iter().enumerate().map(|(index, gate)| (gate, seen(index)));
        let one = |(gate, seen): (&Gate, &SeenGate)| {
            let words = match (&*seen.words, seen.yes_since_ms) {
                ("", _) => format!("{} is asked", gate.name),
                (words, Some(_)) => {
                    let holds_for = gate.holds_for.as_deref().unwrap_or("0s");
                    format!("{} says yes ({words}), and must for {holds_for}", gate.name)
                }
                (words, None) => format!("{}: {words}", gate.name),
            };
            (gate.name.clone(), words)
        };
        waiting.filter(|(_, seen)| !seen.has_passed).map(one).collect()
    }

    /// Returns the message of the last response of a gate.
    pub fn words(&self, index: usize) -> String {
        let words = self.gates.get(index).map(|seen| seen.words.clone()).unwrap_or_default();
        if words.is_empty() { "it has not answered".to_owned() } else { words }
    }
}

/// Decides the next action for the gates of a wave that are queried since `since`.
pub fn check(gates: &[Gate], memory: &GateMemory, since: Time, now_ms: i64) -> GateCheck {
    if memory.gates.iter().all(|seen| seen.has_passed) {
        return GateCheck::Passed;
    }
    // The wave began at some time within that second, or now if the clock was set back.
    let began_ms = (since.seconds().saturating_mul(1_000) + 999).min(now_ms);
    let deadline = |gate: &Gate| began_ms.saturating_add(gate.timeout_seconds.saturating_mul(1_000));
    let waiting = || gates.iter().zip(&memory.gates).enumerate().filter(|(_, (_, seen))| !seen.has_passed);
    if let Some((index, _)) = waiting().find(|(_, (gate, _))| deadline(gate) <= now_ms) {
        return GateCheck::Failed(index);
    }
    let again = |seen: &SeenGate| seen.answered_ms.map_or(now_ms, |at| at.min(now_ms).saturating_add(ASKED_EVERY_MS));
    let due: Vec<usize> = waiting().filter(|(_, (_, seen))| again(seen) <= now_ms).map(|(index, _)| index).collect();
    if due.is_empty() {
        let next = waiting().map(|(_, (gate, seen))| again(seen).min(deadline(gate))).min();
        return GateCheck::Wait(next.unwrap_or(now_ms));
    }
    GateCheck::Ask(due)
}

#[cfg(test)]
mod tests {
    use super::super::GateAnswer;
    use super::*;

    const WAVE: WaveId = (1, None);

    fn gates() -> Vec<Gate> {
        let gate = |name: &str, holds_for: Option<&str>, timeout_seconds| Gate {
            name: name.to_owned(),
            holds_for: holds_for.map(str::to_owned),
            timeout_seconds,
            ..Gate::default()
        };
        vec![gate("once", None, 10), gate("long", Some("2s"), 20)]
    }

    fn answers(answers: &[(usize, bool)]) -> GateAnswers {
        let answer = |is_yes| if is_yes { GateAnswer::yes("so") } else { GateAnswer::no("no") };
        GateAnswers { wave: WAVE, answers: answers.iter().map(|(index, is_yes)| (*index, answer(*is_yes))).collect() }
    }

    #[test]
    fn sg14_all_gates_must_say_yes_and_each_is_asked_at_most_once_a_second() {
        let (gates, mut memory) = (gates(), GateMemory::default());
        let memory = memory.of(WAVE, &gates);
        let since = Time::from_seconds(0);
        assert_eq!(check(&gates, memory, since, 1_000), GateCheck::Ask(vec![0, 1]));
        memory.note(&gates, &answers(&[(0, true), (1, true)]), 1_100);
        assert_eq!(check(&gates, memory, since, 1_100), GateCheck::Wait(2_100), "one has passed, the other must hold");
        let waiting = |memory: &GateMemory| memory.waiting(&gates).into_iter().map(|it| it.1).collect::<Vec<_>>();
        assert_eq!(waiting(memory), ["long says yes (so), and must for 2s"]);
        assert_eq!(check(&gates, memory, since, 2_100), GateCheck::Ask(vec![1]));
        memory.note(&gates, &answers(&[(1, false)]), 2_100);
        assert_eq!(waiting(memory), ["long: no"]);
        for (at, is_passed) in [(3_100, false), (4_100, false), (5_099, false), (5_100, true)] {
            memory.note(&gates, &answers(&[(1, true)]), at);
            assert_eq!(check(&gates, memory, since, at) == GateCheck::Passed, is_passed, "{at}: a break begins anew");
        }
    }

    #[test]
    fn sg14_a_gate_fails_when_its_time_is_over_and_not_before() {
        let (gates, mut memory) = (gates(), GateMemory::default());
        let memory = memory.of(WAVE, &gates);
        let since = Time::from_seconds(100);
        assert_ne!(check(&gates, memory, since, 110_998), GateCheck::Failed(0));
        assert_eq!(check(&gates, memory, since, 110_999), GateCheck::Failed(0));
        memory.note(&gates, &answers(&[(0, true)]), 110_999);
        assert_ne!(check(&gates, memory, since, 112_000), GateCheck::Failed(1), "the other has more time");
        assert_eq!(check(&gates, memory, since, 120_999), GateCheck::Failed(1));
        assert_eq!(memory.words(1), "it has not answered");
        // Responses about another wave are ignored.
        memory.note(&gates, &GateAnswers { wave: (2, None), ..answers(&[(1, true)]) }, 120_999);
        assert_eq!(check(&gates, memory, since, 120_999), GateCheck::Failed(1));
    }
}
