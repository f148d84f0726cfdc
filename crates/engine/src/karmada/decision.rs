//! The decision for one binding: the change to write, and when to try again.

use super::profile::Profile;
use super::request::{Mode, Target};

/// The decision for one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub outcome: Outcome,
    pub mode: Mode,
    /// The message of the condition if the targets violate rules that the division ignores (T4).
    pub unkept: Option<String>,
}

/// The outcome of a pass for one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The algorithm did not run.
    Skipped(Skip),
    Placed(Placed),
    Failed(Failed),
}

/// Why the algorithm did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skip {
    /// The binding is not for this scheduler: it is suspended, names another scheduler, or was not
    /// created by a policy.
    Filtered,
    Deleting,
    NoPlacement(Requeue),
    /// There is no reason for a pass. Only the observed generation is written.
    Unchanged,
}

/// The result of a successful pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The new targets of the binding, sorted by name.
    pub targets: Vec<Target>,
    /// The affinity group that was chosen. `None` if the placement has no groups, and the observed
    /// name stays.
    pub term: Option<Box<str>>,
    /// The message of the condition, if it contains more than the success of the pass.
    pub message: Option<String>,
}

/// The result of a failed pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub reason: Reason,
    pub message: String,
    pub requeue: Requeue,
    /// The targets that are written although the pass failed. `None` keeps the current targets.
    pub meanwhile: Option<Placed>,
}

/// The reason of the condition `Scheduled` when its status is False.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No cluster passes the filters. The binding loses its targets, unless the pass was Fresh (see
    /// `Pass::keep_steady`).
    NoClusterFit,
    /// There is too little capacity. The targets stay.
    Unschedulable,
    /// The placement is invalid. The targets stay.
    SchedulerError,
    /// A part of the replicas is placed, because not all of them fit and the placement allows that.
    PartlyScheduled,
}

/// When the binding is decided again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requeue {
    /// When something about the binding changes.
    None,
    /// When there may be capacity again, and at the latest after some minutes.
    Unschedulable,
    /// Soon, with a growing delay.
    Backoff,
}

/// Reason and message of the condition `Scheduled` when it is True, in upstream's words.
pub const SUCCESS_REASON: &str = "Success";
pub const SUCCESS_MESSAGE: &str = "Binding has been scheduled successfully.";

/// The condition `Scheduled` that a pass writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledCondition<'a> {
    pub status: bool,
    pub reason: &'a str,
    pub message: &'a str,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::NoClusterFit => "NoClusterFit",
            Reason::Unschedulable => "Unschedulable",
            Reason::SchedulerError => "SchedulerError",
            Reason::PartlyScheduled => "PartlyScheduled",
        }
    }
}

impl Skip {
    pub fn as_str(self) -> &'static str {
        match self {
            Skip::Filtered => "filtered",
            Skip::Deleting => "deleting",
            Skip::NoPlacement(_) => "noPlacement",
            Skip::Unchanged => "unchanged",
        }
    }
}

impl Requeue {
    pub fn as_str(self) -> &'static str {
        match self {
            Requeue::None => "none",
            Requeue::Unschedulable => "unschedulable",
            Requeue::Backoff => "backoff",
        }
    }
}

impl Placed {
    /// Creates a placement with a condition that names the violated rules, if there are any.
    pub(super) fn with_unkept(targets: Vec<Target>, term: Option<Box<str>>, unkept: Option<String>) -> Placed {
        Placed { targets, term, message: unkept.map(|what| format!("{SUCCESS_MESSAGE} But {what}.")) }
    }
}

impl Failed {
    pub(super) fn new(reason: Reason, message: String, profile: &Profile) -> Failed {
        let requeue = match reason {
            // Differs from Karmada (D3): a binding that no cluster fits is tried again, not only
            // after a change (C19).
            Reason::NoClusterFit if profile.deviates() => Requeue::Unschedulable,
            Reason::NoClusterFit => Requeue::None,
            Reason::Unschedulable | Reason::PartlyScheduled => Requeue::Unschedulable,
            Reason::SchedulerError => Requeue::Backoff,
        };
        let nowhere = || Placed { targets: Vec::new(), term: None, message: None };
        Failed { reason, message, requeue, meanwhile: (reason == Reason::NoClusterFit).then(nowhere) }
    }

    /// Creates a failure that lasts until the binding is edited.
    pub(super) fn until_edited(reason: Reason, message: String, profile: &Profile) -> Failed {
        let failed = Failed::new(reason, message, profile);
        // Differs from Karmada (D4), which tries again every ten seconds although the result cannot
        // change (R139).
        if profile.deviates() { Failed { requeue: Requeue::None, ..failed } } else { failed }
    }
}

impl Decision {
    pub fn skipped(why: Skip, mode: Mode) -> Decision {
        Decision { outcome: Outcome::Skipped(why), mode, unkept: None }
    }

    /// Adds the violated rules of the placement to the message of the condition.
    pub fn tell_unkept(&mut self, sentence: &str) {
        self.unkept = Some(format!("{SUCCESS_MESSAGE} But {sentence}."));
    }

    /// Returns whether the algorithm ran.
    pub fn is_scheduled(&self) -> bool {
        !matches!(self.outcome, Outcome::Skipped(_))
    }

    /// Returns the condition to write. `None` keeps the current one.
    pub fn condition(&self) -> Option<ScheduledCondition<'_>> {
        match &self.outcome {
            Outcome::Skipped(_) => None,
            Outcome::Placed(placed) => {
                let told = self.unkept.as_deref().or(placed.message.as_deref());
                let message = told.unwrap_or(SUCCESS_MESSAGE);
                Some(ScheduledCondition { status: true, reason: SUCCESS_REASON, message })
            }
            Outcome::Failed(failed) => {
                Some(ScheduledCondition { status: false, reason: failed.reason.as_str(), message: &failed.message })
            }
        }
    }

    /// Returns the targets to write. `None` keeps the current ones.
    pub fn targets(&self) -> Option<&[Target]> {
        self.written().map(|placed| &*placed.targets)
    }

    /// Returns the observed affinity name to write. `None` keeps the current one.
    pub fn term(&self) -> Option<&str> {
        self.written().and_then(|placed| placed.term.as_deref())
    }

    fn written(&self) -> Option<&Placed> {
        match &self.outcome {
            Outcome::Placed(placed) => Some(placed),
            Outcome::Failed(failed) => failed.meanwhile.as_ref(),
            Outcome::Skipped(_) => None,
        }
    }

    /// Returns whether `spec.placement` is written as the applied placement, which marks the
    /// targets as computed for it.
    pub fn applies_placement(&self) -> bool {
        self.targets().is_some()
    }

    /// Returns whether `status.lastScheduledTime` is written. That ends a trigger.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Placed(_))
    }

    /// Returns whether `status.schedulerObservedGeneration` is written.
    pub fn observes_generation(&self) -> bool {
        self.is_success() || self.outcome == Outcome::Skipped(Skip::Unchanged)
    }

    /// Returns when the binding is decided again.
    pub fn requeue(&self) -> Requeue {
        match &self.outcome {
            Outcome::Skipped(Skip::NoPlacement(requeue)) => *requeue,
            Outcome::Failed(failed) => failed.requeue,
            _ => Requeue::None,
        }
    }
}
