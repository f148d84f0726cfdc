//! Decisions about workloads that leave clusters, or that stay after all.

use super::{ParsedBinding, PlanBuilder};
use crate::convert;
use ballast_api::karmada::work::v1alpha2::TargetCluster;
use ballast_engine::karmada::{Mode, Outcome, Target};

/// Returns the targets of the workload once it has left these clusters, with as few moves as
/// possible. `None`: the scheduler does not manage the binding. The error is the reason why not all
/// replicas fit elsewhere.
pub fn place_without(
    builder: &mut PlanBuilder,
    parsed: &ParsedBinding,
    clusters: &[&str],
) -> Result<Option<Vec<Target>>, String> {
    let mut left = parsed.clone();
    left.request.targets.retain(|target| !clusters.contains(&&*target.name));
    left.request.evicting.extend(clusters.iter().map(|cluster| Box::from(*cluster)));
    match builder.decide(&left, Mode::Steady).outcome {
        Outcome::Skipped(_) => Ok(None),
        Outcome::Failed(failed) => Err(failed.message),
        Outcome::Placed(placed) => match builder.within_quotas(parsed, &placed.targets) {
            Ok(()) => Ok(Some(placed.targets)),
            Err(exceeded) => Err(exceeded.message),
        },
    }
}

/// Returns whether a Steady pass would keep these targets if the workload were no longer evicted
/// from any of them, with capacity for replicas that it does not hold there yet (RM1). More
/// replicas may be missing, which the next pass handles.
pub fn would_keep(builder: &mut PlanBuilder, parsed: &ParsedBinding, targets: &[TargetCluster]) -> bool {
    let mut returned = parsed.clone();
    returned.request.targets = convert::karmada::targets(targets);
    if builder.lacks_room(parsed, &returned.request.targets) {
        return false;
    }
    returned.request.evicting.retain(|cluster| targets.iter().all(|target| target.name != **cluster));
    let holds = |after: &[Target]| {
        returned
            .request
            .targets
            .iter()
            .all(|target| after.iter().any(|other| other.name == target.name && other.replicas >= target.replicas))
    };
    match builder.decide(&returned, Mode::Steady).outcome {
        Outcome::Skipped(_) => true,
        Outcome::Placed(placed) => holds(&placed.targets),
        Outcome::Failed(failed) => failed.meanwhile.is_none_or(|meanwhile| holds(&meanwhile.targets)),
    }
}

impl PlanBuilder {
    /// Returns whether a cluster lacks capacity for replicas that the workload does not hold there
    /// yet. Always false without reservations, because the capacity is unknown.
    fn lacks_room(&mut self, parsed: &ParsedBinding, to: &[Target]) -> bool {
        if !self.profile.reserves {
            return false;
        }
        let mut request = self.request(parsed, Mode::Steady);
        self.learn(parsed, &mut request);
        self.pass.overfilled(&request, to).is_some()
    }
}
