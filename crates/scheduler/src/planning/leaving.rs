//! Decisions about workloads that leave clusters, or that stay after all.

use super::{ParsedBinding, PlanBuilder};
use crate::convert;
use ballast_api::karmada::work::v1alpha2::TargetCluster;
use ballast_engine::karmada::{Mode, Outcome, Target};

/// The targets of the workload once it has left these clusters, with as few moves as possible.
/// `None`: the scheduler leaves the binding to others. The error says why not all of it has another
/// place.
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

/// Whether a Steady pass would leave the workload on these targets, if it were there and no longer
/// evicted from any of them, and whether there is room for what it does not hold there yet (RM1).
/// More may be missing: that is the next pass's concern.
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
    /// Whether a cluster has no room for what the workload would have there beyond what it holds.
    /// Without reservations, nobody knows.
    fn lacks_room(&mut self, parsed: &ParsedBinding, to: &[Target]) -> bool {
        if !self.profile.reserves {
            return false;
        }
        let mut request = self.request(parsed, Mode::Steady);
        self.learn(parsed, &mut request);
        self.pass.overfilled(&request, to).is_some()
    }
}
