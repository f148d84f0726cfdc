//! Decides whether a division by capacity is about as even as a new one (D68).
//!
//! Replicas follow the free capacity of clusters, and each move changes it. So workloads that are
//! decided together would react to each other's moves for ever, over differences of a few replicas
//! in a thousand.

use super::candidate::Candidate;
use super::decision::Placed;
use super::freedom::Freedom;
use super::pass::Pass;
use super::request::{Request, Target};

/// The minimum gain of capacity per replica that justifies a move, in percent.
const WORTH_PERCENT: i128 = 1;

impl Pass {
    /// Returns whether no replica gains more than a hundredth of its capacity by this decision, the
    /// last one of this pass. Always false unless the workload is divided by capacity only, is
    /// complete, and may keep its clusters, and workloads are decided together.
    pub fn is_about_as_even(&self, request: &Request, placed: &Placed) -> bool {
        let is_together = self.profile.reserves && self.profile.deviates();
        let is_by_room = is_together && self.freedom(request) == Some(Freedom::Each) && !self.is_ruled(request);
        let is_of_group = placed.term.as_deref().is_none_or(|term| term == &*request.observed_term);
        let assigned: i64 = request.targets.iter().map(|target| i64::from(target.replicas)).sum();
        let is_complete = assigned == i64::from(request.replicas);
        if !is_by_room || !is_of_group || !is_complete || request.placement_changed {
            return false;
        }
        let there = request.targets.iter().filter(|target| target.replicas > 0);
        let may_stay = |target: &Target| self.listed(target).is_some_and(|candidate| candidate.tier == 0);
        if !there.clone().all(may_stay) {
            return false;
        }
        // By Webster's method, the next replica goes to the cluster with the most capacity per 2 n
        // + 1, and the last one came from the cluster with the least per 2 n - 1.
        let seat =
            |target: &Target, parts: i64| Some((i128::from(self.listed(target)?.available()), i128::from(parts)));
        let gains = placed.targets.iter().filter_map(|target| {
            let before = request.replicas_on(&target.name);
            seat(target, 2 * before + 1).filter(|_| i64::from(target.replicas) > before)
        });
        let losses = there.filter_map(|target| {
            let after = placed.targets.iter().find(|after| after.name == target.name);
            let shrinks = after.is_none_or(|after| after.replicas < target.replicas);
            seat(target, 2 * i64::from(target.replicas) - 1).filter(|_| shrinks)
        });
        let best = gains.max_by(|(a, b), (c, d)| (a * d).cmp(&(c * b)));
        let worst = losses.min_by(|(a, b), (c, d)| (a * d).cmp(&(c * b)));
        match (best, worst) {
            (Some((best, of)), Some((worst, by))) => best * by * 100 <= worst * of * (100 + WORTH_PERCENT),
            _ => false,
        }
    }

    fn listed(&self, target: &Target) -> Option<&Candidate> {
        let index = self.fleet.index_of(&target.name)?;
        self.candidates.iter().find(|candidate| candidate.index() == index)
    }
}
