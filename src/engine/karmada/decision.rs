//! What a pass decides about one binding: the change that is safe to make and when to look again.

use super::profile::Profile;
use super::request::{Mode, Target};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub outcome: Outcome,
    pub mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The algorithm did not run.
    Skipped(Skip),
    Placed(Placed),
    Failed(Failed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skip {
    /// Not this scheduler's business: suspended, another scheduler's, or made by no policy.
    Filtered,
    Deleting,
    NoPlacement(Requeue),
    /// Nothing asks for a pass. Only the generation is taken note of.
    Unchanged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Sorted by name, replaces the binding's targets.
    pub targets: Vec<Target>,
    /// The group that was chosen. None: the placement has no groups, and what was observed stays.
    pub term: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub reason: Reason,
    pub message: String,
    pub requeue: Requeue,
    /// What is written all the same. None: the targets stay as they are.
    pub meanwhile: Option<Placed>,
}

/// Reason of the condition `Scheduled` when it is False.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No cluster may take it. Its targets are taken away, but for a Fresh pass
    /// (`Pass::keep_steady`).
    NoClusterFit,
    /// Too little room. Its targets stay.
    Unschedulable,
    /// What is asked for cannot be done. Its targets stay.
    SchedulerError,
}

/// When a binding that was just decided is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requeue {
    /// When something about it changes.
    None,
    /// When there may be room, or after minutes.
    Unschedulable,
    /// Soon, and later each time.
    Backoff,
}

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

impl Failed {
    pub(super) fn new(reason: Reason, message: String, profile: &Profile) -> Failed {
        let requeue = match reason {
            // Differs from Karmada (D3): a binding without a cluster is not forgotten until
            // something happens to it (C19).
            Reason::NoClusterFit if profile.deviates() => Requeue::Unschedulable,
            Reason::NoClusterFit => Requeue::None,
            Reason::Unschedulable => Requeue::Unschedulable,
            Reason::SchedulerError => Requeue::Backoff,
        };
        let nowhere = || Placed { targets: Vec::new(), term: None };
        Failed { reason, message, requeue, meanwhile: (reason == Reason::NoClusterFit).then(nowhere) }
    }

    /// A failure that only an edit of the binding can mend.
    pub(super) fn until_edited(reason: Reason, message: String, profile: &Profile) -> Failed {
        let failed = Failed::new(reason, message, profile);
        // Differs from Karmada (D4), which tries this again every ten seconds (R139).
        if profile.deviates() { Failed { requeue: Requeue::None, ..failed } } else { failed }
    }
}

impl Decision {
    pub(super) fn skipped(why: Skip, mode: Mode) -> Decision {
        Decision { outcome: Outcome::Skipped(why), mode }
    }

    /// Whether the algorithm ran.
    pub fn is_scheduled(&self) -> bool {
        !matches!(self.outcome, Outcome::Skipped(_))
    }

    /// The condition to write. None: leave the one that is there.
    pub fn condition(&self) -> Option<ScheduledCondition<'_>> {
        match &self.outcome {
            Outcome::Skipped(_) => None,
            Outcome::Placed(_) => {
                Some(ScheduledCondition { status: true, reason: SUCCESS_REASON, message: SUCCESS_MESSAGE })
            }
            Outcome::Failed(failed) => {
                Some(ScheduledCondition { status: false, reason: failed.reason.as_str(), message: &failed.message })
            }
        }
    }

    /// The targets to write. None: leave those that are there.
    pub fn targets(&self) -> Option<&[Target]> {
        self.written().map(|placed| &*placed.targets)
    }

    /// The observed group to write. None: leave it.
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

    /// `spec.placement` is noted as applied, which also says that the targets belong to it.
    pub fn applies_placement(&self) -> bool {
        self.targets().is_some()
    }

    /// `status.lastScheduledTime` moves on, which ends a trigger.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Placed(_))
    }

    /// `status.schedulerObservedGeneration` becomes the generation that was decided on.
    pub fn observes_generation(&self) -> bool {
        self.is_success() || self.outcome == Outcome::Skipped(Skip::Unchanged)
    }

    pub fn requeue(&self) -> Requeue {
        match &self.outcome {
            Outcome::Skipped(Skip::NoPlacement(requeue)) => *requeue,
            Outcome::Failed(failed) => failed.requeue,
            _ => Requeue::None,
        }
    }
}
