//! The events of a pass: one about the binding and one about the object that it binds, in
//! upstream's words (R73). If two entries specify replicas for one cluster, a warning names the
//! effective one (C22). If replicas move, an additional event about the binding reports the reason
//! (`cause`).

use super::cause::REPLICAS_MOVED;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, RESOURCE_BINDINGS};
use ballast_engine::karmada::{Decision, Outcome, Overlap, SUCCESS_MESSAGE, Target};
use ballast_k8s::Key;
use ballast_worker::events::{Note, ObjectReference, Recorder, Severity};

#[derive(Debug)]
pub struct PassEvents {
    subjects: [ObjectReference; 2],
    severity: Severity,
    reason: &'static str,
    message: String,
    is_repeated: bool,
    warning: Option<String>,
    /// The replicas that move, and the reason. Only the binding has this event.
    moved: Option<String>,
}

const OVERLAP_REASON: &str = "SpecifiedReplicasOverlap";
/// Maximum number of clusters that a warning names. There may be thousands.
const OVERLAPS_TOLD_MAX: usize = 3;

/// Returns the events of a decision. A pass that changed nothing has an event only if it failed
/// again. A success has one only if `records_successes` is true.
pub fn of(
    key: &Key,
    binding: AnyBinding,
    decision: &Decision,
    changed: bool,
    records_successes: bool,
) -> Option<PassEvents> {
    let (severity, reason, message) = match &decision.outcome {
        Outcome::Skipped(_) => return None,
        Outcome::Placed(_) if !changed || !records_successes => return None,
        Outcome::Placed(placed) => {
            // Upstream writes the colon for one kind and not for the other.
            let colon = if key.resource == RESOURCE_BINDINGS { ":" } else { "" };
            let message = format!("{SUCCESS_MESSAGE} Result{colon} {}", result(&placed.targets));
            (Severity::Normal, "ScheduleBindingSucceed", message)
        }
        Outcome::Failed(failed) => (Severity::Warning, "ScheduleBindingFailed", failed.message.clone()),
    };
    Some(PassEvents {
        subjects: binding.subjects(key),
        severity,
        reason,
        message,
        is_repeated: !changed,
        warning: None,
        moved: None,
    })
}

/// Returns the event of a placement that was refused.
pub fn of_refusal(key: &Key, binding: AnyBinding, message: String, is_repeated: bool) -> PassEvents {
    PassEvents {
        subjects: binding.subjects(key),
        severity: Severity::Warning,
        reason: "ScheduleBindingFailed",
        message,
        is_repeated,
        warning: None,
        moved: None,
    }
}

impl PassEvents {
    /// Adds a warning about clusters for which several entries specify replicas.
    pub fn warning_of(self, overlaps: &[Overlap]) -> PassEvents {
        let told = overlaps.iter().take(OVERLAPS_TOLD_MAX).map(|Overlap { cluster, entries }| {
            format!("cluster {cluster:?} is in entries {entries:?} of staticSpecifyList")
        });
        let told: Vec<String> = told.collect();
        let more = match overlaps.len().saturating_sub(told.len()) {
            0 => String::new(),
            more => format!(", and {more} more are alike"),
        };
        let message = format!("{}{more}: the first entry alone counts", told.join(", "));
        PassEvents { warning: (!overlaps.is_empty()).then_some(message), ..self }
    }

    /// Adds the event about the replicas that move (BD11).
    pub fn of_move(self, moved: Option<String>) -> PassEvents {
        PassEvents { moved, ..self }
    }

    pub fn record(self, recorder: &Recorder) {
        let PassEvents { subjects, severity, reason, message, is_repeated, warning, moved } = self;
        if let Some(moved) = moved {
            recorder.record(Note::new(recorder, subjects[0].clone(), Severity::Normal, REPLICAS_MOVED, moved));
        }
        for about in subjects {
            if let Some(warning) = warning.clone() {
                recorder.record(Note::new(recorder, about.clone(), Severity::Warning, OVERLAP_REASON, warning));
            }
            recorder.record(Note { is_repeated, ..Note::new(recorder, about, severity, reason, message.clone()) });
        }
    }
}

/// Formats targets as `{member2:2, member1:1}`.
fn result(targets: &[Target]) -> String {
    let list: Vec<String> = targets.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    format!("{{{}}}", list.join(", "))
}
