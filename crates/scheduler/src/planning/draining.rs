//! Takes a binding off the clusters that are drained (RM34): as much of it as finds a place.

use super::plan_builder::stays;
use super::{ParsedBinding, PlanBuilder, PlanOptions, Proposal, Shortfall};
use crate::cause::counted;
use ballast_api::ballast::v1alpha1::{self as api, MoveReason};
use ballast_engine::karmada::{Mode, Outcome, Placed, Request, Target};

impl PlanBuilder {
    /// The replicas on drained clusters leave, and nothing else. Where not all of them find a
    /// place, as many as do.
    pub(super) fn propose_drain(&mut self, parsed: &ParsedBinding, options: &PlanOptions) -> Proposal {
        let options = PlanOptions { mode: api::Mode::Steady, ..*options };
        let request = self.request(parsed, Mode::Steady).into_owned();
        let leaving: Vec<&Target> = parsed
            .request
            .targets
            .iter()
            .filter(|target| request.targets.iter().all(|kept| kept.name != target.name))
            .collect();
        if leaving.is_empty() {
            let message = "each cluster runs it as a whole, so a copy has no other place: includeDuplicated takes it";
            return Proposal::Stay { reason: Some(MoveReason::NoClusterFits), message: message.to_owned() };
        }
        let decision = self.decide(parsed, Mode::Steady);
        match &decision.outcome {
            Outcome::Failed(failed) if request.is_shared() => {
                let why = failed.message.clone();
                self.drained_in_part(parsed, &options, &request, &leaving, &why)
                    .unwrap_or_else(|| self.bounded(parsed, &options, decision))
            }
            Outcome::Skipped(skip) => stays(self.why_skipped(parsed, *skip)),
            _ => self.bounded(parsed, &options, decision),
        }
    }

    /// The move of as many replicas as find a place. `None`: none does.
    fn drained_in_part(
        &mut self,
        parsed: &ParsedBinding,
        options: &PlanOptions,
        request: &Request,
        leaving: &[&Target],
        why: &str,
    ) -> Option<Proposal> {
        let all: i32 = leaving.iter().map(|target| target.replicas.max(0)).sum();
        // The fewest that have to stay: the others fit, and one more of them does not.
        let (mut low, mut high) = (1, all);
        let mut found: Option<(i32, Placed)> = None;
        while low < high {
            let stay = low + (high - low) / 2;
            match self.without(request, stay) {
                Some(placed) => {
                    found = Some((stay, placed));
                    high = stay;
                }
                None => low = stay + 1,
            }
        }
        let (stay, placed) = found?;
        let mut to = placed.targets;
        let mut rest = stay;
        for target in leaving {
            let kept = target.replicas.min(rest);
            rest -= kept;
            if kept > 0 {
                to.push(Target { replicas: kept, ..(*target).clone() });
            }
        }
        to.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let wanted = to.clone();
        let to = match self.within_limits(parsed, &options.limits, &to) {
            Ok(to) => to,
            Err(stays) => return Some(stays),
        };
        let names: Vec<&str> = leaving.iter().map(|target| &*target.name).collect();
        let message = format!("{stay} of {} stay on {}: {why}", counted(all.into(), "replica"), names.join(" and "));
        Some(match self.moves(parsed, to, &wanted, placed.term) {
            Proposal::Move { to, term, arrivals, limited, .. } => {
                let short = Some(Shortfall { reason: MoveReason::NoRoom, message });
                Proposal::Move { to, term, arrivals, limited, short }
            }
            other => other,
        })
    }

    /// A decision spares the clusters that a workload is on, whatever their taints, and may send
    /// more to one that is lost. What a plan takes off clusters goes to those of the decision that
    /// are ready, as far as they have room.
    pub(super) fn off_the_unready(&self, parsed: &ParsedBinding, mut placed: Placed) -> Placed {
        let is_ready = |target: &Target| !self.unready.contains(&target.name);
        if self.clearing.is_none() || !parsed.request.is_divisible() || placed.targets.iter().all(is_ready) {
            return placed;
        }
        let had = |name: &str| parsed.request.targets.iter().find(|it| *it.name == *name).map_or(0, |it| it.replicas);
        let more = |target: &Target| target.replicas - had(&target.name);
        let fits: Vec<i64> = placed.targets.iter().map(|it| self.capacity(&parsed.request, &it.name)).collect();
        let room = |place: usize, target: &Target| fits[place] - i64::from(more(target).max(0));
        while let Some(from) = placed.targets.iter().position(|it| !is_ready(it) && had(&it.name) > 0 && more(it) > 0) {
            let ready = placed.targets.iter().enumerate().filter(|(_, it)| is_ready(it) && it.components.is_empty());
            let roomiest = ready.max_by_key(|(place, it)| room(*place, it));
            let Some((to, _)) = roomiest.filter(|(place, it)| room(*place, it) > 0) else { break };
            placed.targets[from].replicas -= 1;
            placed.targets[to].replicas += 1;
        }
        placed
    }

    /// Where the workload would be with so many fewer replicas.
    fn without(&mut self, request: &Request, fewer: i32) -> Option<Placed> {
        let fewer = Request { replicas: request.replicas - fewer, ..request.clone() };
        match self.pass.decide_as(&fewer, Mode::Steady).outcome {
            Outcome::Placed(placed) if !placed.targets.is_empty() => Some(placed),
            _ => None,
        }
    }
}
