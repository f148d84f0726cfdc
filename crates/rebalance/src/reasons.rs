//! Why workloads do not move, counted by reason (T5). Pure.

use ballast_api::ballast::v1alpha1::{MoveReason, ReasonCount};
use ballast_scheduler::planning::MovePlan;

/// The counts. There are as many as there are reasons, at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(Vec<ReasonCount>);

impl Reasons {
    /// The workloads of a plan that fit nowhere, and those that the limits keep.
    pub fn of(plan: &MovePlan) -> Reasons {
        let mut reasons = Reasons::default();
        plan.unplaceable.iter().for_each(|refused| reasons.add(refused.reason, &refused.message));
        plan.stays.iter().for_each(|stays| reasons.add(stays.reason, &stays.message));
        reasons
    }

    /// Counts a workload. The first message of each reason is kept.
    pub fn add(&mut self, reason: MoveReason, message: &str) {
        match self.0.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => self.0.push(ReasonCount { reason, count: 1, message: message.to_owned() }),
        }
    }

    /// The reasons, those of most workloads first.
    pub fn listed(mut self) -> Vec<ReasonCount> {
        self.0.sort_by_key(|known| std::cmp::Reverse(known.count));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t5_reasons_are_counted_and_each_has_an_example() {
        let mut reasons = Reasons::default();
        for (reason, message) in
            [(MoveReason::NoClusterFits, "taint"), (MoveReason::NoRoom, "5 wanted"), (MoveReason::NoRoom, "9 wanted")]
        {
            reasons.add(reason, message);
        }
        let told: Vec<_> = reasons.listed().into_iter().map(|it| (it.reason, it.count, it.message)).collect();
        let one = |reason, count, message: &str| (reason, count, message.to_owned());
        assert_eq!(told, [one(MoveReason::NoRoom, 2, "5 wanted"), one(MoveReason::NoClusterFits, 1, "taint")]);
    }
}
