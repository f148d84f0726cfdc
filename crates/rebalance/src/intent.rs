//! The pending write of a move that starts or ends, for a binding that is stored upstream. Pure.
//!
//! Such a write cannot be in one transaction with the Move. Therefore the Move first records an
//! intent, and counts as in progress from the first intent until the last is done. Then the binding
//! is written upstream, by a write with the decided version as a precondition. After a crash in
//! between, the binding shows the outcome of the intent (`Intent::outcome`), because such a write
//! is applied to that version or never.

use serde::{Deserialize, Serialize};

use ballast_api::Pairs;
use ballast_api::ballast::v1alpha1::{MovePhase, MoveReason, Share};
use ballast_api::karmada::work::v1alpha2::{TargetCluster, TargetComponent};
use ballast_engine::karmada::{self as engine, Target};
use ballast_k8s::Revision;
use ballast_scheduler::planning::{Shortfall, shares};
use ballast_scheduler::target_cluster;

/// The annotation of a Move that contains the intent.
pub const INTENT: &str = "ballast.dev/intent";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The local revision of the binding that was decided on.
    pub revision: i64,
    /// The replicas of the workload, counted as in the move annotation.
    pub replicas: i64,
    /// The targets to write.
    pub targets: Vec<TargetCluster>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The move settles as soon as the binding is written, so the binding gets no move annotation.
    /// The value is whether clusters reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settles: Option<bool>,
    /// The move ends with this write, which removes the move annotation from the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<MoveEnd>,
}

/// The end of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveEnd {
    pub phase: MovePhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<bool>,
}

impl MoveEnd {
    pub fn settled(observed: bool) -> MoveEnd {
        MoveEnd { phase: MovePhase::Settled, reason: None, message: String::new(), observed: Some(observed) }
    }

    /// Returns the end of a partial move, which fails because of the missing part.
    pub fn of_part(self, short: Option<&Shortfall>) -> MoveEnd {
        match short {
            Some(Shortfall { reason, message }) if self.phase == MovePhase::Settled => {
                MoveEnd { phase: MovePhase::Failed, reason: Some(*reason), message: message.clone(), ..self }
            }
            _ => self,
        }
    }

    pub fn of(phase: MovePhase, reason: MoveReason, message: impl Into<String>) -> MoveEnd {
        MoveEnd { phase, reason: Some(reason), message: message.into(), observed: None }
    }
}

/// The outcome of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentOutcome {
    /// It is not written, or the write is not visible here yet. The same write may be sent again.
    Open,
    /// It is written.
    Written,
    /// Other clients changed the binding first, but not its targets or its move annotation. The
    /// same decision may be made again.
    Overtaken,
    /// Other clients changed its targets.
    Lost,
}

/// The part of a binding's state that shows the outcome of an intent.
#[derive(Clone, Copy, Debug)]
pub struct BindingState<'a> {
    pub revision: Revision,
    /// Whether it has the annotation of the move.
    pub is_marked: bool,
    pub targets: &'a [Target],
}

impl Intent {
    pub fn new(
        revision: Revision,
        replicas: i64,
        targets: &[Target],
        term: Option<&str>,
        settles: Option<bool>,
    ) -> Intent {
        let targets = targets.iter().map(target_cluster).collect();
        Intent { revision: revision.0, replicas, targets, term: term.map(str::to_owned), settles, ends: None }
    }

    /// Returns the intent to end a move in this way with these targets.
    pub fn to_end(revision: Revision, replicas: i64, targets: &[Target], end: MoveEnd) -> Intent {
        Intent { ends: Some(end), ..Intent::new(revision, replicas, targets, None, None) }
    }

    /// Returns whether the binding has the move annotation once it is written.
    pub fn keeps_mark(&self) -> bool {
        self.settles.is_none() && self.ends.is_none()
    }

    /// Parses the intent of a Move. An invalid one counts as absent: then the Move is in progress
    /// without a move annotation, and ends as superseded.
    pub fn of(annotations: &Pairs<String>) -> Option<Intent> {
        serde_json::from_str(annotations.get(INTENT)?).ok()
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written")
    }

    pub fn targets(&self) -> Vec<Target> {
        self.targets.iter().map(read).collect()
    }

    /// Returns the outcome. `from` are the targets of the binding that was decided on.
    pub fn outcome(&self, from: &[Share], seen: BindingState<'_>) -> IntentOutcome {
        if self.ends.is_some() {
            // Only this write removes the move annotation, or an earlier pass of the scheduler. In
            // both cases the move is over, and ends as intended, although its targets may differ by
            // now.
            return match (seen.is_marked, seen.revision.0 == self.revision) {
                (false, _) => IntentOutcome::Written,
                (true, true) => IntentOutcome::Open,
                (true, false) => IntentOutcome::Overtaken,
            };
        }
        let now = shares(seen.targets);
        match seen.is_marked {
            true => IntentOutcome::Written,
            false if seen.revision.0 == self.revision => IntentOutcome::Open,
            false if now == from => IntentOutcome::Overtaken,
            // It had no move annotation, or has lost it since.
            false if now == shares(&self.targets()) => IntentOutcome::Written,
            false => IntentOutcome::Lost,
        }
    }
}

fn read(target: &TargetCluster) -> Target {
    let component =
        |part: &TargetComponent| engine::TargetComponent { name: part.name.as_str().into(), replicas: part.replicas };
    Target {
        name: target.name.as_str().into(),
        replicas: target.replicas.unwrap_or_default(),
        components: target.components.iter().map(component).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, replicas: i32) -> Target {
        let components = vec![engine::TargetComponent { name: "part".into(), replicas }];
        Target { name: name.into(), replicas, components }
    }

    #[test]
    fn an_intent_is_read_as_it_was_written() {
        let intent = Intent::new(Revision(7), 4, &[target("m1", 4), target("m2", 0)], Some("near"), None);
        let annotations: Pairs<String> = [(INTENT.to_owned(), intent.text())].into_iter().collect();
        let read = Intent::of(&annotations).expect("it was just written");
        assert_eq!((read.targets(), &read), (vec![target("m1", 4), target("m2", 0)], &intent));
        let odd: Pairs<String> = [(INTENT.to_owned(), "soon".to_owned())].into_iter().collect();
        assert_eq!(Intent::of(&odd), None);
    }

    #[test]
    fn the_binding_tells_what_became_of_it() {
        let (from, to, other) = ([target("m1", 4)], [target("m2", 4)], [target("m3", 4)]);
        let outcome = |settles, revision, is_marked, targets| {
            let intent = Intent::new(Revision(7), 4, &to, None, settles);
            intent.outcome(&shares(&from), BindingState { revision: Revision(revision), is_marked, targets })
        };
        assert_eq!(outcome(None, 7, false, &from), IntentOutcome::Open);
        assert_eq!(outcome(None, 8, true, &to), IntentOutcome::Written);
        assert_eq!(outcome(None, 9, true, &other), IntentOutcome::Written, "who bears the mark is looked at as ever");
        assert_eq!(outcome(None, 8, false, &from), IntentOutcome::Overtaken, "a write on revision 7 comes too late");
        assert_eq!(outcome(None, 8, false, &other), IntentOutcome::Lost);
        assert_eq!(outcome(None, 9, false, &to), IntentOutcome::Written, "the move has ended, and its Move not");
        // The binding gets no move annotation if there is nothing to wait for.
        assert_eq!(outcome(Some(true), 8, false, &to), IntentOutcome::Written);
        assert_eq!(outcome(Some(true), 8, false, &from), IntentOutcome::Overtaken);
        assert_eq!(outcome(Some(true), 7, false, &from), IntentOutcome::Open);
    }

    #[test]
    fn the_mark_tells_what_became_of_an_end() {
        let (to, other) = ([target("m2", 4)], [target("m3", 4)]);
        let end = MoveEnd::of(MovePhase::Failed, MoveReason::SettleTimeout, "too late");
        let intent = Intent::to_end(Revision(7), 4, &to, end);
        let outcome = |revision, is_marked, targets| {
            intent.outcome(&shares(&to), BindingState { revision: Revision(revision), is_marked, targets })
        };
        assert_eq!(outcome(7, true, &to), IntentOutcome::Open);
        assert_eq!(outcome(8, true, &to), IntentOutcome::Overtaken, "somebody reported meanwhile");
        assert_eq!(outcome(8, false, &to), IntentOutcome::Written);
        assert_eq!(outcome(9, false, &other), IntentOutcome::Written, "the scheduler has decided since");
        let annotations: Pairs<String> = [(INTENT.to_owned(), intent.text())].into_iter().collect();
        assert_eq!(Intent::of(&annotations), Some(intent));
    }
}
