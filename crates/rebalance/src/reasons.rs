//! Why workloads do not move, counted by reason (T5). Pure.

use ballast_api::ballast::v1alpha1::{MoveReason, ReasonCount, WorkloadRef};
use ballast_scheduler::planning::MovePlan;

/// The counts, at most one for each reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(Vec<ReasonCount>);

impl Reasons {
    /// Counts the workloads of a plan that cannot move as requested, and workloads that limits
    /// prevent from moving.
    pub fn of(plan: &MovePlan) -> Reasons {
        let mut reasons = Reasons::default();
        for refused in &plan.unplaceable {
            reasons.add(refused.reason, &refused.message, &refused.parsed.workload);
        }
        plan.stays.iter().for_each(|stays| reasons.add(stays.reason, &stays.message, &stays.parsed.workload));
        reasons
    }

    /// Returns these counts, to add others to them.
    pub fn from_listed(counts: Vec<ReasonCount>) -> Reasons {
        Reasons(counts)
    }

    /// Counts a workload. The first workload of each reason is kept, with its message.
    pub fn add(&mut self, reason: MoveReason, message: &str, workload: &WorkloadRef) {
        match self.0.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => {
                let (message, workload) = (message.to_owned(), Some(workload.clone()));
                self.0.push(ReasonCount { reason, count: 1, message, workload });
            }
        }
    }

    /// Returns the reasons, the most frequent first.
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
            let workload = WorkloadRef { name: message.to_owned(), ..WorkloadRef::default() };
            reasons.add(reason, message, &workload);
        }
        let listed = reasons.listed().into_iter();
        let told: Vec<_> = listed.map(|it| (it.reason, it.count, it.message, it.workload.unwrap().name)).collect();
        let one = |reason, count, message: &str| (reason, count, message.to_owned(), message.to_owned());
        assert_eq!(told, [one(MoveReason::NoRoom, 2, "5 wanted"), one(MoveReason::NoClusterFits, 1, "taint")]);
    }
}
