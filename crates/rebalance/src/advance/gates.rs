//! The gates of a wave in a step: they are queried when the whole wave has settled, and the next
//! wave begins when all have approved (SG13, SG14, SG19).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{PendingEvent, StepRun};
use crate::gates::{
    ANSWER_MAX, GateAnswers, GateCheck, GateMemory, GateQuestion, WEBHOOK_MOVES_MAX, WaveId, WaveQuestion, body, check,
};
use crate::record::{self, AnyRebalance};
use crate::status;
use ballast_api::ballast::v1alpha1::{CREATED_BY, FailedGate, Gate, OnFailure, UNDOES_LABEL, WaveStatus};
use ballast_k8s::Key;

/// Maximum length of the name of a rebalance.
const NAME_BYTES_MAX: usize = 63;

impl StepRun<'_> {
    fn gates(&self) -> &[Gate] {
        &self.input.rebalance.spec.rollout.gates
    }

    pub(super) fn wave(&self) -> Option<&WaveStatus> {
        self.effects.status.wave.as_ref().filter(|_| !self.gates().is_empty())
    }

    /// Counts a starting move into its wave. Returns the number of the wave, if there are gates.
    pub(super) fn count_into_wave(&mut self) -> Option<i64> {
        if self.gates().is_empty() {
            return None;
        }
        let wave = self.effects.status.wave.get_or_insert_default();
        if wave.number == 0 || wave.passed {
            *wave = WaveStatus { number: wave.number + 1, ..WaveStatus::default() };
        }
        wave.begun += 1;
        Some(wave.number)
    }

    /// Returns whether further moves belong to the current wave.
    pub(super) fn is_amid_wave(&self) -> bool {
        let most = self.input.rebalance.spec.rollout.concurrency(self.to_move()).unwrap_or(i64::MAX);
        let is_open = |wave: &WaveStatus| !wave.passed && wave.asked_since.is_none() && wave.begun < most;
        !self.run.pending.is_empty() && self.wave().is_some_and(is_open)
    }

    /// Returns the number of moves of the current wave that have ended.
    pub(super) fn settled_of_wave(&self) -> i64 {
        let under_way = i64::try_from(self.run.moving.len()).unwrap_or(i64::MAX);
        self.wave().filter(|wave| !wave.passed).map_or(0, |wave| (wave.begun - under_way).max(0))
    }

    fn to_move(&self) -> i64 {
        self.effects.status.summary.unwrap_or_default().to_move
    }

    /// Returns whether the whole wave has settled, and its gates have not approved.
    fn awaits_gates(&self) -> bool {
        let is_over = self.run.moving.is_empty() && !self.is_amid_wave();
        is_over && self.wave().is_some_and(|wave| !wave.passed && wave.failed.is_none())
    }

    /// Resets the gates after a pause by a user, including gates that failed with Pause.
    /// `generation` is that of the rebalance, which reveals a pause that was set and removed
    /// between two steps.
    pub fn look_at_pause(&mut self, generation: i64) {
        let paused = self.input.rebalance.spec.paused;
        let Some(wave) = &mut self.effects.status.wave else { return };
        let is_lifted = wave.failed.as_ref().is_some_and(|failed| {
            failed.on_failure == OnFailure::Pause && (paused || generation >= failed.generation + 2)
        });
        if is_lifted || paused && !wave.passed && wave.failed.is_none() {
            (wave.failed, wave.asked_since) = (None, None);
            self.run.gates = GateMemory::default();
        }
    }

    /// Checks whether the undo of this rebalance has finished.
    pub fn look_at_undo(&mut self) {
        let Some(wave) = &mut self.effects.status.wave else { return };
        let Some(name) = wave.undone_by.as_deref().filter(|_| !wave.undone) else { return };
        let key = Key { name: name.into(), ..self.input.owner.key.clone() };
        let other = self.input.view.get(&key).and_then(|object| AnyRebalance::read(object).ok());
        wave.undone = other.is_none_or(|other| other.status.is_finished());
    }

    /// Records the responses of gates.
    pub fn note_answers(&mut self, answers: &GateAnswers) {
        let input = self.input;
        self.run.gates.note(&input.rebalance.spec.rollout.gates, answers, input.now_ms);
    }

    /// Returns whether the gates allow moves to begin, and otherwise decides the next action.
    pub fn pass_gates(&mut self, generation: i64) -> bool {
        if !self.awaits_gates() {
            return true;
        }
        let gates = self.input.rebalance.spec.rollout.gates.clone();
        let now = self.input.now;
        let Some(wave) = &mut self.effects.status.wave else { return true };
        let number = wave.number;
        let Some(since) = wave.asked_since else {
            wave.asked_since = Some(now);
            let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            self.tell_gates(false, "GatesAsked", format!("wave {number} has settled, and asks {}", names.join(", ")));
            // The next step sends the queries, over a view in which the wave has settled.
            self.has_more = true;
            return false;
        };
        let id = (number, Some(since));
        let memory = self.run.gates.of(id, &gates);
        match check(&gates, memory, since, self.input.now_ms) {
            GateCheck::Passed => {
                wave.passed = true;
                self.tell_gates(false, "GatesPassed", format!("wave {number}: all gates have said yes"));
                return true;
            }
            GateCheck::Failed(index) => {
                let message = memory.words(index);
                self.fail(&gates[index], message, generation);
            }
            GateCheck::Wait(until_ms) => self.wake_at(until_ms),
            GateCheck::Ask(which) => {
                let body = self.question_of(id);
                let left = |gate: &Gate| since.seconds() + gate.timeout_seconds + 1 - now.seconds();
                let least = which.iter().map(|index| left(&gates[*index])).min().unwrap_or_default();
                let within = Duration::from_secs(least.max(1).unsigned_abs()).min(ANSWER_MAX);
                let gates = which.into_iter().map(|index| (index, gates[index].clone())).collect();
                let namespace = Arc::clone(&self.input.owner.key.namespace);
                let about = WaveQuestion { namespace, body, within };
                self.question = Some(GateQuestion { wave: id, gates, about });
            }
        }
        false
    }

    /// Requests another step at once if the last move of a wave ended in this step.
    pub fn look_at_wave(&mut self) {
        let is_settled = self.awaits_gates() && self.wave().is_some_and(|wave| wave.asked_since.is_none());
        self.has_more |= is_settled && !self.input.rebalance.spec.paused;
    }

    fn fail(&mut self, gate: &Gate, message: String, generation: i64) {
        let Some(wave) = &mut self.effects.status.wave else { return };
        let (name, on_failure) = (gate.name.clone(), gate.on_failure);
        let follows = status::follows(on_failure);
        let (number, seconds) = (wave.number, gate.timeout_seconds);
        let told = format!("wave {number}: {name} has not said yes within {seconds} s ({message}); {follows}");
        wave.failed = Some(FailedGate { name, message, on_failure, generation });
        self.tell_gates(true, "GateFailed", told);
        if on_failure == OnFailure::Undo {
            self.undo();
        }
        self.has_more = true;
    }

    /// Creates the undo of this rebalance, in the same transaction.
    fn undo(&mut self) {
        let (owner, rebalance) = (self.input.owner, self.input.rebalance);
        let name = self.name_of_undo();
        let mut rollout = record::written(&rebalance.spec.rollout);
        rollout.as_object_mut().into_iter().for_each(|members| drop(members.remove("gates")));
        let mut spec = json!({"undo": {"name": *owner.key.name}, "rollout": rollout});
        let limits = record::written(&rebalance.spec.limits);
        if limits.as_object().is_some_and(|limits| !limits.is_empty()) {
            spec["limits"] = limits;
        }
        let mut metadata = json!({"name": name, "labels": {UNDOES_LABEL: *owner.key.name}});
        if let Some(namespace) = owner.scope() {
            metadata["namespace"] = json!(namespace);
        }
        if let Some(creator) = rebalance.metadata.annotations.get(CREATED_BY) {
            metadata["annotations"] = json!({CREATED_BY: creator});
        }
        let object: Map<String, Value> = [
            ("apiVersion", json!(record::api_version())),
            ("kind", json!(owner.kind())),
            ("metadata", metadata),
            ("spec", spec),
        ]
        .into_iter()
        .map(|(member, value)| (member.to_owned(), value))
        .collect();
        self.effects.create(owner.key.resource, object);
        if let Some(wave) = &mut self.effects.status.wave {
            wave.undone_by = Some(name);
        }
    }

    /// Returns a name that no rebalance of this kind has.
    fn name_of_undo(&self) -> String {
        let own = &self.input.owner.key;
        let tried = (1..).map(|attempt| {
            let end = if attempt == 1 { "-undo".to_owned() } else { format!("-undo-{attempt}") };
            let start = own.name.floor_char_boundary(NAME_BYTES_MAX - end.len());
            format!("{}{end}", own.name[..start].trim_end_matches('-'))
        });
        let is_free = |name: &String| self.input.view.get(&Key { name: name.as_str().into(), ..own.clone() }).is_none();
        tried.into_iter().find(is_free).unwrap_or_default()
    }

    /// Returns the body for webhooks about the wave. Its moves do not change while its gates are
    /// queried.
    fn question_of(&mut self, wave: WaveId) -> Arc<Value> {
        if let Some((_, known)) = self.run.question.as_ref().filter(|(of, _)| *of == wave) {
            return Arc::clone(known);
        }
        let owner = self.input.owner;
        let of_wave = record::moves_of(self.input.view, &owner.key)
            .filter(|(_, read)| read.owner().as_ref() == Some(owner) && read.status.wave == Some(wave.0));
        let (mut moves, mut remaining) = (Vec::new(), 0);
        for (_, read) in of_wave {
            if moves.len() == WEBHOOK_MOVES_MAX {
                remaining += 1;
                continue;
            }
            let mut told = record::written(&read.spec);
            told.as_object_mut().into_iter().for_each(|members| drop(members.remove("rebalance")));
            told["phase"] = json!(read.status.phase);
            told["reason"] = json!(read.status.reason);
            moves.push(told);
        }
        let rebalance = json!({
            "apiVersion": record::api_version(), "kind": owner.kind(), "namespace": owner.scope(),
            "name": *owner.key.name, "uid": owner.uid,
        });
        let body = Arc::new(body(rebalance, wave.0, moves, remaining));
        self.run.question = Some((wave, Arc::clone(&body)));
        body
    }

    fn tell_gates(&mut self, is_warning: bool, reason: &'static str, message: String) {
        let about = vec![self.input.owner.reference()];
        self.effects.events.push(PendingEvent { about, is_warning, reason, message });
    }
}
