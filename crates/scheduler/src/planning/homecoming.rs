//! The return of a binding to its former placement (RM36, RM37), and its standing until then
//! (RM38).
//!
//! The former placement is read from the binding's annotation, and does not depend on today's free
//! capacity. The filters, the rules and the capacity of today apply. A return that they do not
//! allow goes as far as it can with the fewest moves: cluster by cluster where capacity or filters
//! object, and by parts where a rule about all targets together, such as a spread constraint,
//! objects to the whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cutting::{in_all, weight};
use super::plan_builder::{of_placement, refused, stays, unplaceable};
use super::{Clearing, ParsedBinding, PlanBuilder, PlanOptions, Proposal, Shortfall};
use crate::cause::counted;
use crate::home::{is_home, share_out};
use ballast_api::ballast::v1alpha1::{self as api, Limits, MoveReason, Share};
use ballast_engine::karmada::{Mode, Outcome, Placed, Refusal, Request, Target, TargetIndex};

/// The standing of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is where a Fresh decision would place it, or it fits nowhere else, or a plan with an
    /// objective has placed it there.
    Well,
    /// It runs where a rule of its placement is violated; or it lost targets to a failure and has
    /// not returned; or it uses a later affinity group although an earlier one has capacity.
    Displaced,
    /// No rule is violated, and a Fresh decision would divide it differently, by more than next to
    /// nothing (S8).
    Drifted,
}

/// Returns the standing of the binding in the present state.
///
/// The cost is one or two decisions, some 10 µs each. Parsing the binding (`ParsedBinding::of`)
/// costs about as much again, so callers should use one builder for many bindings, and parse each
/// binding once.
pub fn standing(builder: &mut PlanBuilder, parsed: &ParsedBinding) -> Standing {
    if parsed.is_placement() || parsed.request.targets.is_empty() && parsed.home.is_none() {
        return Standing::Well;
    }
    if builder.is_away(parsed) || builder.breaks_rules(parsed) {
        return Standing::Displaced;
    }
    if parsed.is_aimed() {
        return Standing::Well;
    }
    match builder.decide(parsed, Mode::Fresh).outcome {
        Outcome::Placed(placed) => {
            let placement = parsed.request.placement.as_ref();
            let position = |name: &str| placement.and_then(|it| it.terms.iter().position(|term| *term.name == *name));
            let chosen = placed.term.as_deref().and_then(position);
            if chosen.zip(position(&parsed.request.observed_term)).is_some_and(|(chosen, used)| chosen < used) {
                return Standing::Displaced;
            }
            let drifts = !parsed.is_at(&placed.targets)
                && !builder.is_about_as_even(parsed, &placed)
                && builder.within_quotas(parsed, &placed.targets).is_ok();
            if drifts { Standing::Drifted } else { Standing::Well }
        }
        _ => Standing::Well,
    }
}

/// Returns whether the binding is displaced.
pub fn is_displaced(builder: &mut PlanBuilder, parsed: &ParsedBinding) -> bool {
    standing(builder, parsed) == Standing::Displaced
}

impl PlanBuilder {
    /// Returns whether the binding lost targets and has not returned.
    fn is_away(&self, parsed: &ParsedBinding) -> bool {
        let request = &parsed.request;
        let is_asked = request.placement.is_some() && !request.deleting;
        is_asked
            && parsed.home.as_ref().is_some_and(|home| {
                !has_no_replicas(&home.targets, request) && !is_home(home, request, &request.targets)
            })
    }

    /// Calls `Pass::is_about_as_even`. Must be called after the Fresh decision.
    fn is_about_as_even(&self, parsed: &ParsedBinding, placed: &Placed) -> bool {
        self.pass.is_about_as_even(&self.request(parsed, Mode::Fresh), placed)
    }

    /// Returns whether a rule of the placement is violated where the binding runs: a Steady pass
    /// that clears dead clusters would move it, or finds no capacity for the replicas that must
    /// leave.
    fn breaks_rules(&mut self, parsed: &ParsedBinding) -> bool {
        let clearing = self.clearing.replace(Arc::new(Clearing::dead()));
        let has_to_leave = {
            let request = self.request(parsed, Mode::Steady);
            request.targets.len() < parsed.request.targets.len()
                || request.targets.iter().any(|target| self.clusters.is_gone(&target.name))
        };
        let outcome = self.decide(parsed, Mode::Steady).outcome;
        self.clearing = clearing;
        match outcome {
            // Growing or shrinking alone violates no rule; the scheduler is about to do it.
            Outcome::Placed(placed) => has_to_leave || leaves(&parsed.request, &placed.targets),
            Outcome::Failed(failed) => {
                has_to_leave || failed.meanwhile.is_some_and(|kept| leaves(&parsed.request, &kept.targets))
            }
            Outcome::Skipped(_) => false,
        }
    }

    /// Proposes a return to the former placement or to `past`, as far as today's rules and capacity
    /// allow.
    pub fn propose_home(&mut self, parsed: &ParsedBinding, past: Option<&[Share]>, limits: &Limits) -> Proposal {
        if parsed.is_placement() {
            return of_placement(parsed);
        }
        self.know_groups(&parsed.request);
        let request = self.request(parsed, Mode::Fresh).into_owned();
        if let Outcome::Skipped(skip) = self.pass.decide_as(&request, Mode::Steady).outcome {
            return stays(self.why_skipped(parsed, skip));
        }
        let known = parsed.home.as_ref().map(|home| home.targets.clone());
        let Some(targets) = past.map(<[Share]>::to_vec).or(known) else {
            return self.propose_mended(parsed, limits);
        };
        if has_no_replicas(&targets, &request) {
            return stays("it has no replicas to return".to_owned());
        }
        let home = targets_of(parsed, &share_out(&targets, &request));
        let is_home = || Proposal::Stay { reason: None, message: "it is home".to_owned() };
        if parsed.is_at(&home) {
            return is_home();
        }
        let (to, refusals) = self.as_far_as_it_fits(&request, &home);
        if parsed.is_at(&to) {
            return refusals.first().map_or_else(is_home, |refusal| self.not_home(refusal));
        }
        let cut = match self.within_limits(parsed, limits, &to) {
            Ok(cut) => cut,
            Err(stays) => return stays,
        };
        let is_cut = cut != to;
        let Return { to, term, refusals } = match self.within_rules(parsed, &request, &home, cut, refusals) {
            Ok(found) => found,
            Err(Proposal::Unplaceable { message, .. }) if is_cut => {
                let message = format!("the limits allow only a part of the return, and so {message}");
                return Proposal::Stay { reason: Some(MoveReason::LimitReached), message };
            }
            Err(refused) => return refused,
        };
        if limits.most(in_all(parsed, &to)).is_some_and(|most| weight(parsed, &to) > most) {
            let message = "a return that keeps all rules moves more replicas than the limits allow".to_owned();
            return Proposal::Stay { reason: Some(MoveReason::LimitReached), message };
        }
        if parsed.is_at(&to) {
            return refusals.first().map_or_else(is_home, |refusal| self.not_home(refusal));
        }
        match self.moves(parsed, to, &home, term) {
            Proposal::Move { to, term, arrivals, limited, .. } => {
                let short = (!refusals.is_empty()).then(|| shortfall(&home, &to, &refusals));
                Proposal::Move { limited: limited && short.is_none(), to, term, arrivals, short }
            }
            other => other,
        }
    }

    /// Returns the reason why the binding does not return. A lost cluster is waited for: its taint
    /// is set by the server itself.
    fn not_home(&self, refusal: &Refusal) -> Proposal {
        match refusal {
            Refusal::Unfit { cluster, .. } if self.unready.contains(&**cluster) => Proposal::Unplaceable {
                reason: MoveReason::NoClusterFits,
                message: format!("it waits for cluster {cluster}, which is not ready"),
            },
            refusal => unplaceable(refusal),
        }
    }

    /// Proposes a move for a binding without a known former placement: off clusters that its rules
    /// exclude, or to an earlier affinity group.
    fn propose_mended(&mut self, parsed: &ParsedBinding, limits: &Limits) -> Proposal {
        let mode = match self.breaks_rules(parsed) {
            true => Mode::Steady,
            false if standing(self, parsed) == Standing::Displaced => Mode::Fresh,
            false => return Proposal::Stay { reason: None, message: "it has lost nothing".to_owned() },
        };
        let clearing = self.clearing.replace(Arc::new(Clearing::dead()));
        let decision = self.decide(parsed, mode);
        let mode = if mode == Mode::Fresh { api::Mode::Fresh } else { api::Mode::Steady };
        let proposal = self.bounded(parsed, &PlanOptions { mode, limits: *limits }, decision);
        self.clearing = clearing;
        proposal
    }

    /// Returns the targets nearest to `home` that filters and capacity allow, with the fewest
    /// moves, and the reasons for the difference. Replicas without capacity elsewhere stay.
    fn as_far_as_it_fits(&self, request: &Request, home: &[Target]) -> (Vec<Target>, Vec<Refusal>) {
        let mut refusals = Vec::new();
        let mut reach: BTreeMap<Arc<str>, Target> = BTreeMap::new();
        let known = TargetIndex::new(&request.targets);
        for target in home {
            let present = known.find(&target.name);
            let there = present.map_or(0, |present| present.replicas);
            // Nothing arrives there, so there is nothing to admit.
            if present == Some(target) {
                reach.insert(Arc::clone(&target.name), target.clone());
                continue;
            }
            let Err(refusal) = self.pass.admit_each(request, std::slice::from_ref(target)) else {
                reach.insert(Arc::clone(&target.name), target.clone());
                continue;
            };
            let fitting = match &refusal {
                Refusal::NoCapacity { capacity, .. } if request.is_shared() => {
                    i32::try_from(*capacity).unwrap_or(i32::MAX).max(0)
                }
                _ => 0,
            };
            let replicas = there.saturating_add(fitting).min(target.replicas.max(there));
            if present.is_some() || replicas > 0 {
                reach.insert(Arc::clone(&target.name), Target { replicas, ..target.clone() });
            }
            refusals.push(refusal);
        }
        keep_the_rest(request, home, &mut reach, false);
        (reach.into_values().collect(), refusals)
    }

    /// Returns to `to`, or as far towards `home` as the rules about all targets together allow.
    /// `refusals` are the reasons why `to` is not `home`. Fails with the refusal if nothing can
    /// return.
    fn within_rules(
        &mut self,
        parsed: &ParsedBinding,
        request: &Request,
        home: &[Target],
        to: Vec<Target>,
        mut refusals: Vec<Refusal>,
    ) -> Result<Return, Proposal> {
        let broken = match self.pass.admit(request, &to) {
            Ok(term) => {
                let (to, term) = self.settled(parsed, request, to, term)?;
                return Ok(Return { to, term, refusals });
            }
            Err(broken @ Refusal::Breaks { .. }) => broken,
            Err(refusal) => return Err(unplaceable(&refusal)),
        };
        let mut best: Option<(i64, Vec<Target>, Option<Box<str>>)> = None;
        let mut consider = |to: Vec<Target>, term: Option<Box<str>>| {
            let missing = missing_from(home, &to);
            let least = best.as_ref().map_or_else(|| missing_from(home, &request.targets), |(least, ..)| *least);
            if missing < least {
                best = Some((missing, to, term));
            }
        };
        for part in self.parts_within_rules(request, home, &to) {
            if let Ok(term) = self.pass.admit(request, &part)
                && let Ok((part, term)) = self.settled(parsed, request, part, term)
            {
                consider(part, term);
            }
        }
        // A Steady decision keeps as much as it can of targets that violate a rule.
        if let Ok(term) = self.pass.admit_each(request, &to)
            && let Ok((kept, term)) = self.settled(parsed, request, to, term)
            && self.pass.admit(request, &kept).is_ok()
        {
            consider(kept, term);
        }
        let first = refusals.first().unwrap_or(&broken);
        let Some((_, to, term)) = best else { return Err(unplaceable(first)) };
        refusals.push(broken);
        Ok(Return { to, term, refusals })
    }

    /// Returns variants of `to` that may violate no rule: the same clusters with the rest also at
    /// the former placement, all but one of the clusters, and one cluster after the other for as
    /// long as each keeps the rules.
    fn parts_within_rules(&self, request: &Request, home: &[Target], to: &[Target]) -> Vec<Vec<Target>> {
        let (present, former) = (TargetIndex::new(&request.targets), TargetIndex::new(home));
        let arrives = |target: &&Target| {
            let there = present.find(&target.name);
            former.find(&target.name).is_some() && there.is_none_or(|there| there.replicas < target.replicas)
        };
        let arriving: Vec<&Target> = to.iter().filter(arrives).collect();
        if arriving.len() > PARTS_MAX {
            return Vec::new();
        }
        let part = |clusters: &[&Target]| {
            let stays = |target: &&Target| arriving.iter().all(|other| other.name != target.name);
            let at_home = to.iter().filter(|target| home.iter().any(|known| known.name == target.name));
            let mut reach: BTreeMap<Arc<str>, Target> =
                at_home.filter(stays).map(|target| (Arc::clone(&target.name), target.clone())).collect();
            // Clusters that nothing returns to keep their replicas.
            let kept = arriving.iter().filter(|target| clusters.iter().all(|other| other.name != target.name));
            let kept = kept.filter_map(|target| request.targets.iter().find(|known| known.name == target.name));
            let all = clusters.iter().copied().chain(kept);
            reach.extend(all.map(|target| (Arc::clone(&target.name), target.clone())));
            keep_the_rest(request, home, &mut reach, true);
            reach.into_values().collect::<Vec<Target>>()
        };
        let without = |left: usize| {
            let others: Vec<&Target> = (0..arriving.len()).filter(|at| *at != left).map(|at| arriving[at]).collect();
            part(&others)
        };
        let mut parts = vec![part(&arriving)];
        parts.extend((0..arriving.len()).map(without));
        let mut returned: Vec<&Target> = Vec::new();
        for target in &arriving {
            returned.push(target);
            if self.pass.admit(request, &part(&returned)).is_err() {
                returned.pop();
            }
        }
        if !returned.is_empty() {
            parts.push(part(&returned));
        }
        parts
    }

    /// Returns the Steady decision for the targets, with the fewest moves, and the affinity group
    /// of the result.
    fn settled(
        &mut self,
        parsed: &ParsedBinding,
        request: &Request,
        to: Vec<Target>,
        term: Option<Box<str>>,
    ) -> Result<(Vec<Target>, Option<Box<str>>), Proposal> {
        let asked = Request { targets: to.clone(), observed_term: term.clone().unwrap_or_default(), ..request.clone() };
        // Arriving replicas take their capacity before the decision is made.
        self.pass.move_capacity(request, &request.targets, &to);
        let outcome = self.pass.decide_as(&asked, Mode::Steady).outcome;
        self.pass.move_capacity(request, &to, &request.targets);
        match outcome {
            Outcome::Placed(placed) => Ok((placed.targets, placed.term.or(term))),
            Outcome::Skipped(skip) => Err(stays(self.why_skipped(parsed, skip))),
            // A rule that is violated at the present placement does not prevent the return.
            Outcome::Failed(_) if !self.pass.decide_as(request, Mode::Steady).is_success() => Ok((to, term)),
            Outcome::Failed(failed) => {
                let reason = MoveReason::NoClusterFits;
                Err(Proposal::Unplaceable { reason, message: failed.message })
            }
        }
    }
}

/// A return that the rules allow.
struct Return {
    to: Vec<Target>,
    term: Option<Box<str>>,
    /// The reasons why it is incomplete.
    refusals: Vec<Refusal>,
}

/// Maximum number of clusters of a return for which parts are tried one by one.
const PARTS_MAX: usize = 32;

/// Returns the number of replicas of `home` that these targets lack there. For copies, clusters
/// count.
fn missing_from(home: &[Target], to: &[Target]) -> i64 {
    let there = TargetIndex::new(to);
    let missing = |target: &Target| match there.find(&target.name) {
        Some(there) => i64::from((target.replicas - there.replicas).max(0)),
        None => i64::from(target.replicas.max(1)),
    };
    home.iter().map(missing).sum()
}

/// Keeps the replicas that do not reach the former placement on their clusters: those with most of
/// them, or first those of the former placement.
fn keep_the_rest(request: &Request, home: &[Target], reach: &mut BTreeMap<Arc<str>, Target>, at_home_first: bool) {
    let unit = |target: &Target| if request.is_shared() { i64::from(target.replicas) } else { 1 };
    let wanted: i64 = home.iter().map(unit).sum();
    let placed: i64 = reach.values().map(unit).sum();
    let mut rest = wanted - placed;
    let mut others: Vec<(i64, &Target)> = request
        .targets
        .iter()
        .map(|target| (unit(target) - reach.get(&*target.name).map_or(0, unit), target))
        .filter(|(more, _)| *more > 0)
        .collect();
    others.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.name.cmp(&other.1.name)));
    if at_home_first {
        let home = TargetIndex::new(home);
        others.sort_by_cached_key(|(_, target)| home.find(&target.name).is_none());
    }
    for (more, target) in others {
        let kept = more.min(rest);
        if kept <= 0 {
            break;
        }
        rest -= kept;
        let entry = reach.entry(Arc::clone(&target.name)).or_insert_with(|| Target { replicas: 0, ..target.clone() });
        match request.is_shared() {
            true => entry.replicas += i32::try_from(kept).unwrap_or(i32::MAX),
            false => entry.replicas = target.replicas,
        }
    }
}

/// Returns whether the workload had replicas at its former placement and has none now.
fn has_no_replicas(former: &[Share], request: &Request) -> bool {
    request.replicas <= 0 && former.iter().any(|share| share.replicas > 0)
}

/// Returns whether replicas leave a cluster for another one.
fn leaves(request: &Request, to: &[Target]) -> bool {
    let after = TargetIndex::new(to);
    let stays = |target: &Target| after.find(&target.name).is_some_and(|known| known.replicas >= target.replicas);
    let wanted: i64 = to.iter().map(|target| i64::from(target.replicas)).sum();
    let there: i64 = request.targets.iter().map(|target| i64::from(target.replicas)).sum();
    wanted >= there && !request.targets.iter().all(stays)
}

fn targets_of(parsed: &ParsedBinding, home: &[Share]) -> Vec<Target> {
    let present = &parsed.request.targets;
    let components = present.iter().map(|target| &target.components).find(|parts| !parts.is_empty());
    let known = TargetIndex::new(present);
    let name = |share: &Share| {
        let known = known.find(&share.name);
        known.map_or_else(|| share.name.as_str().into(), |target| Arc::clone(&target.name))
    };
    let target = |share: &Share| Target {
        name: name(share),
        replicas: share.replicas,
        components: components.cloned().unwrap_or_default(),
    };
    home.iter().map(target).collect()
}

fn shortfall(home: &[Target], to: &[Target], refusals: &[Refusal]) -> Shortfall {
    let missing = missing_from(home, to);
    let (reason, first) = refused(&refusals[0]);
    let rule = refusals.iter().skip(1).find(|refusal| matches!(refusal, Refusal::Breaks { .. }));
    let rule = rule.map_or_else(String::new, |rule| format!("; {}", refused(rule).1));
    let more = match refusals.len() - 1 - usize::from(!rule.is_empty()) {
        0 => rule,
        more => format!("; and {} more{rule}", counted(more as i64, "cluster")),
    };
    let what = counted(missing, "replica");
    let message = format!("{what} {} not home: {first}{more}", if missing == 1 { "is" } else { "are" });
    Shortfall { reason, message }
}
