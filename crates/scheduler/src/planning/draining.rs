//! Removes a binding from drained clusters (RM34), as far as other clusters have capacity.

use super::parsed_binding::Common;
use super::plan_builder::stays;
use super::{ParsedBinding, PlanBuilder, PlanOptions, Proposal, Shortfall};
use crate::cause::counted;
use ballast_api::ballast::v1alpha1::{self as api, MoveReason};
use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding};
use ballast_engine::karmada::{Mode, Outcome, Placed, Request, Target};
use ballast_k8s::Key;
use ballast_watch::View;

/// Returns the bindings that are on one of these clusters, or are being evicted from one, in key
/// order. Includes placements of the KubeFleet family on a MemberCluster with the name of one of
/// the clusters.
pub fn on_clusters(view: &View, clusters: &[String]) -> Vec<ParsedBinding> {
    let is_one = |name: &str| clusters.iter().any(|cluster| *cluster == *name);
    let objects = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
    let on_one = objects.filter(|object| {
        let content = object.text.content();
        PartialBinding::of(&content).is_ok_and(|partial| {
            let there = partial.spec.clusters().into_iter().chain(partial.spec.leaving());
            there.into_iter().any(|target| is_one(&target.name))
        })
    });
    let mut common = Common::default();
    let parsed = |object| Some(ParsedBinding::of(object)?.shared(&mut common));
    let mut found: Vec<ParsedBinding> = on_one.filter_map(parsed).collect();
    let is_member = |name: &String| view.get(&Key::cluster(MEMBER_CLUSTERS, &**name)).is_some();
    if clusters.iter().any(is_member) {
        let all = SCOPES.into_iter().flat_map(|kinds| view.list(kinds.placements, None).map(move |it| (kinds, it)));
        let placements = all.map(|(kinds, object)| ParsedBinding::of_placement(view, object, kinds));
        found.extend(placements.filter(|it| it.request.targets.iter().any(|target| is_one(&target.name))));
    }
    found
}

impl PlanBuilder {
    /// Proposes that the replicas on drained clusters leave, and nothing else. If not all of them
    /// fit elsewhere, as many as possible leave. If none can, the proposal contains the reason.
    pub(super) fn propose_drain(&mut self, parsed: &ParsedBinding, options: &PlanOptions) -> Proposal {
        let drained = self.clearing.as_ref().map(|clearing| clearing.drained().clone()).unwrap_or_default();
        let there: Vec<&Target> =
            parsed.request.targets.iter().filter(|target| drained.contains(&target.name)).collect();
        if there.is_empty() {
            return stays("it is not on a drained cluster".to_owned());
        }
        if parsed.is_placement() {
            let message = "its own scheduler places it, so trigger it once the cluster takes nothing new";
            return Proposal::Unplaceable { reason: MoveReason::OtherScheduler, message: message.to_owned() };
        }
        match self.propose_leaving(parsed, options) {
            Proposal::Stay { message, .. } if parsed.request.deleting => stays(message),
            Proposal::Stay { reason, message } => {
                Proposal::Unplaceable { reason: reason.unwrap_or(MoveReason::NoClusterFits), message }
            }
            Proposal::Move { to, term, arrivals, limited, short: None } => {
                let kept = to.iter().filter(|target| drained.contains(&target.name));
                let kept = kept.fold((0, 0), |(sum, count), target| (sum + i64::from(target.replicas), count + 1));
                let names: Vec<&str> = there.iter().map(|target| &*target.name).collect();
                let short = (kept.1 > 0).then(|| Shortfall {
                    reason: MoveReason::LimitReached,
                    message: format!(
                        "{} stay on {}, because the limits allow no more to move",
                        counted(kept.0, "replica"),
                        names.join(" and ")
                    ),
                });
                Proposal::Move { to, term, arrivals, limited, short }
            }
            other => other,
        }
    }

    /// Returns the move off the drained clusters, or the reason why the workload stays.
    fn propose_leaving(&mut self, parsed: &ParsedBinding, options: &PlanOptions) -> Proposal {
        let options = PlanOptions { mode: api::Mode::Steady, ..*options };
        let request = self.request(parsed, Mode::Steady).into_owned();
        let leaving: Vec<&Target> = parsed
            .request
            .targets
            .iter()
            .filter(|target| request.targets.iter().all(|kept| kept.name != target.name))
            .collect();
        let decision = self.decide(parsed, Mode::Steady);
        if let Outcome::Skipped(skip) = &decision.outcome {
            return Proposal::Stay { reason: self.held_by(parsed, *skip), message: self.why_skipped(parsed, *skip) };
        }
        if leaving.is_empty() {
            let message = "each cluster runs it as a whole, so a copy has no other place: includeDuplicated takes it";
            return Proposal::Stay { reason: Some(MoveReason::Duplicated), message: message.to_owned() };
        }
        match &decision.outcome {
            Outcome::Failed(failed) if request.is_shared() => {
                let why = failed.message.clone();
                self.drained_in_part(parsed, &options, &request, &leaving, &why)
                    .unwrap_or_else(|| self.bounded(parsed, &options, decision))
            }
            _ => self.bounded(parsed, &options, decision),
        }
    }

    /// Returns the move of as many replicas as fit elsewhere, or `None` if none does.
    fn drained_in_part(
        &mut self,
        parsed: &ParsedBinding,
        options: &PlanOptions,
        request: &Request,
        leaving: &[&Target],
        why: &str,
    ) -> Option<Proposal> {
        let all: i32 = leaving.iter().map(|target| target.replicas.max(0)).sum();
        // The smallest number that must stay: the others fit, and one more does not.
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

    /// Redirects additional replicas on clusters that are not ready to the other clusters of the
    /// decision, as far as they have capacity. A decision keeps the present clusters of a workload
    /// whatever their taints, and may add replicas to a lost cluster.
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

    /// Decides the workload with `fewer` replicas less.
    fn without(&mut self, request: &Request, fewer: i32) -> Option<Placed> {
        let fewer = Request { replicas: request.replicas - fewer, ..request.clone() };
        match self.pass.decide_as(&fewer, Mode::Steady).outcome {
            Outcome::Placed(placed) if !placed.targets.is_empty() => Some(placed),
            _ => None,
        }
    }
}
