//! One pass: decides many bindings against the same clusters, and shares the work they have in
//! common.
//!
//! A pass owns its view of the clusters. The scheduler's passes do not change it. A plan reserves
//! and releases capacity in it, from binding to binding, so that all its moves fit together.

use std::collections::HashMap;
use std::sync::Arc;

use super::answers::{AnsweredRoom, Answers};
use super::assign::Scratch;
use super::attempt::{Attempt, Failure, Seen};
use super::candidate::Candidate;
use super::cluster::Cluster;
use super::cluster_set::ClusterSet;
use super::decision::{Decision, Failed, Outcome, Placed, Reason, Requeue, Skip};
use super::estimate::Estimates;
use super::filters::AttemptContext;
use super::listing::{Counting, FilterCache, counts_capacity, keep_those_with_a_whole_set, list};
use super::placement::{AffinityTerm, Division, Placement};
use super::profile::{DEFAULT_SCHEDULER, Profile};
use super::request::{Mode, Request, Resource, Shared, Target};
use super::search::STEPS_MAX;
use super::specified::Overlap;
use super::trace::{self, AttemptData, Trace};
use super::workloads::Workloads;
use super::{components, refused, settle, specified, zero};
use crate::bits::Bits;

/// One pass over many bindings. Decisions of the same pass share work, and see each other in their
/// workload groups.
pub struct Pass {
    pub(super) fleet: ClusterSet,
    pub(super) profile: Profile,
    /// Kept up to date with the decisions of this pass.
    pub(super) workloads: Workloads,
    kinds: KindNumbers,
    cache_index: HashMap<FilterCacheKey, usize>,
    pub(super) filter_caches: Vec<FilterCache>,
    /// Placements with some of their preferred constraints turned into required ones.
    pub(super) stricter: HashMap<(Shared<Placement>, Vec<bool>), Shared<Placement>>,
    pub(super) estimates: Estimates,
    pub(super) answered: AnsweredRoom,
    scratch: Scratch,
    /// The steps that the searches of one attempt may take together.
    pub(super) steps: usize,
    pub(super) candidates: Vec<Candidate>,
    feasible: Bits,
    /// Feasible clusters that keep their replicas and take no more.
    closed: Bits,
    /// `Some` only if the caller requested an explanation.
    pub(super) trace: Option<Trace>,
}

/// The most affinity groups with failures that a message contains.
const GROUPS_TOLD_MAX: usize = 4;

/// The most closed clusters that a message names.
const CLOSED_NAMED_MAX: usize = 3;

/// The inputs that the results of the shared filters depend on.
#[derive(PartialEq, Eq, Hash)]
struct FilterCacheKey {
    placement: Shared<Placement>,
    /// The position of the affinity group that is tried.
    term: Option<usize>,
    kind: usize,
    /// Overflow tiers count for workloads only.
    workload: bool,
}

/// Numbers for the kinds of resources, which find a cache without copying names.
#[derive(Default)]
struct KindNumbers {
    numbers: HashMap<Box<str>, HashMap<Box<str>, usize>>,
    count: usize,
}

impl KindNumbers {
    fn index(&mut self, resource: &Resource) -> usize {
        let known = self.numbers.get(&resource.api_version).and_then(|kinds| kinds.get(&resource.kind));
        known.copied().unwrap_or_else(|| {
            let kinds = self.numbers.entry(resource.api_version.clone()).or_default();
            kinds.insert(resource.kind.clone(), self.count);
            self.count += 1;
            self.count - 1
        })
    }
}

impl Pass {
    pub fn new(fleet: &ClusterSet, workloads: &Workloads, profile: &Profile) -> Pass {
        Pass {
            fleet: fleet.clone(),
            profile: profile.clone(),
            workloads: workloads.clone(),
            kinds: KindNumbers::default(),
            cache_index: HashMap::new(),
            filter_caches: Vec::new(),
            stricter: HashMap::new(),
            estimates: Estimates::default(),
            answered: AnsweredRoom::new(Answers::default()),
            scratch: Scratch::default(),
            steps: STEPS_MAX,
            candidates: Vec::new(),
            feasible: Bits::default(),
            closed: Bits::default(),
            trace: None,
        }
    }

    /// Decides one binding. Later requests see the result in its workload groups.
    pub fn decide(&mut self, request: &Request) -> Decision {
        let mode = request.mode(&self.profile);
        let placement = match self.asked(request) {
            Ok(placement) => placement,
            Err(skip) => return Decision::skipped(skip, mode),
        };
        let decision = self.decided(request, placement, mode);
        self.record(request, &decision);
        decision
    }

    /// Records the decided targets of this workload for later requests.
    pub fn record(&mut self, request: &Request, decision: &Decision) {
        if let Some(targets) = decision.targets() {
            self.workloads.record(request, targets);
        }
    }

    /// Records the current targets of this workload for later requests, instead of the decided
    /// ones.
    pub fn record_unmoved(&mut self, request: &Request) {
        self.workloads.record(request, &request.targets);
    }

    /// Decides one binding in this mode, whether or not a pass is due. Records nothing: see
    /// `reassign`.
    pub fn decide_as(&mut self, request: &Request, mode: Mode) -> Decision {
        match self.placeable(request) {
            Ok(placement) => self.decided(request, placement, mode),
            Err(skip) => Decision::skipped(skip, mode),
        }
    }

    fn decided(&mut self, request: &Request, placement: &Shared<Placement>, mode: Mode) -> Decision {
        let strict =
            (!placement.wishes.is_empty() && !self.profile.deviates()).then(|| self.with_all_wishes(placement));
        let placement = strict.as_ref().unwrap_or(placement);
        let outcome = match &request.fault {
            Some(fault) => {
                Outcome::Failed(Failed::until_edited(Reason::SchedulerError, fault.to_string(), &self.profile))
            }
            None => match self.settle(request, placement, mode) {
                Outcome::Failed(failed) if mode == Mode::Fresh && self.profile.deviates() => {
                    Outcome::Failed(self.keep_steady(failed, request, placement))
                }
                outcome => outcome,
            },
        };
        Decision { outcome, mode, unkept: None }
    }

    /// Retains the targets that a Steady pass would retain, until a Fresh pass succeeds. Only a
    /// Steady pass spares the current targets, and a request for a better placement must not lose
    /// the current one.
    ///
    /// Differs from Karmada (D2), where Fresh passes spare the same targets as Steady passes.
    fn keep_steady(&mut self, failed: Failed, request: &Request, placement: &Shared<Placement>) -> Failed {
        let trace = self.trace.take();
        let steady = self.settle(request, placement, Mode::Steady);
        self.trace = trace;
        let meanwhile = match steady {
            Outcome::Placed(placed) => Some(placed),
            // A part is placed, and the condition reports it.
            Outcome::Failed(steady) if steady.reason == Reason::PartlyScheduled => return steady,
            Outcome::Failed(steady) => steady.meanwhile,
            Outcome::Skipped(_) => None,
        };
        Failed { meanwhile, ..failed }
    }

    /// Schedules the binding. If that fails, a Steady pass retains the targets that may stay.
    fn settle(&mut self, request: &Request, placement: &Shared<Placement>, mode: Mode) -> Outcome {
        if let Some(why) = contradicts(request, placement) {
            return Outcome::Failed(Failed::until_edited(Reason::Unschedulable, why, &self.profile));
        }
        match self.place(request, placement, mode) {
            Outcome::Failed(failed) if mode == Mode::Steady && self.profile.deviates() => {
                if let Some(kept) = refused::kept(&self.context(request, placement, None, mode)) {
                    if let Some(trace) = &mut self.trace {
                        trace.keep(&kept);
                    }
                    return Outcome::Placed(kept);
                }
                let left = refused::meanwhile(&self.context(request, placement, None, mode));
                let meanwhile = left.or(failed.meanwhile.filter(|_| request.targets.is_empty()));
                Outcome::Failed(self.place_a_part(request, placement, Failed { meanwhile, ..failed }))
            }
            outcome => outcome,
        }
    }

    /// Returns the clusters that several entries specify replicas for. For entries that select by
    /// label or region, the result depends on the clusters that exist.
    pub fn overlaps(&self, request: &Request) -> Vec<Overlap> {
        match request.placement.as_ref().map(|placement| &placement.division) {
            Some(Division::Specified(Some(shares))) => specified::overlaps(shares, &self.fleet),
            _ => Vec::new(),
        }
    }

    /// Decides one binding, and explains the decision.
    pub fn explain(&mut self, request: &Request) -> (Decision, Trace) {
        self.traced(|pass| pass.decide(request))
    }

    /// Decides like `decide_as`, and explains the decision.
    pub fn explain_as(&mut self, request: &Request, mode: Mode) -> (Decision, Trace) {
        self.traced(|pass| pass.decide_as(request, mode))
    }

    fn traced(&mut self, decide: impl FnOnce(&mut Pass) -> Decision) -> (Decision, Trace) {
        self.trace = Some(Trace::default());
        let decision = decide(self);
        let mut trace = self.trace.take().unwrap_or_default();
        trace.mode = decision.is_scheduled().then_some(decision.mode);
        (decision, trace)
    }

    /// Returns the placement, if this scheduler is responsible for the binding.
    pub(super) fn placeable<'r>(&self, request: &'r Request) -> Result<&'r Shared<Placement>, Skip> {
        let scheduler = if request.scheduler_name.is_empty() { DEFAULT_SCHEDULER } else { &request.scheduler_name };
        // Differs from Karmada (D5): a binding with a placement is enough; no policy needs to
        // manage it.
        let managed = request.managed || self.profile.unmanaged;
        if request.suspended || *scheduler != *self.profile.scheduler_name || !managed {
            return Err(Skip::Filtered);
        }
        if request.deleting {
            return Err(Skip::Deleting);
        }
        // Differs from Karmada (D4), which tries again every ten seconds although only an edit can
        // change the result. Bindings of dependencies never get a placement, and there may be many
        // of them.
        let requeue = if self.profile.deviates() { Requeue::None } else { Requeue::Backoff };
        request.placement.as_ref().ok_or(Skip::NoPlacement(requeue))
    }

    /// Returns the placement, if a pass is due.
    pub(super) fn asked<'r>(&self, request: &'r Request) -> Result<&'r Shared<Placement>, Skip> {
        let placement = self.placeable(request)?;
        let asked = request.placement_changed
            || request.has_other_replicas_than(placement)
            || components::changed(request, &self.profile)
            || request.is_triggered(&self.profile)
            || request.is_decided_at_every_chance(placement)
            || (request.targets.is_empty() && zero::is_asked(request, placement, &self.profile))
            || self.sits_on_leaving_cluster(request);
        if asked { Ok(placement) } else { Err(Skip::Unchanged) }
    }

    /// Returns whether the filters allow new replicas of the workload on the cluster.
    pub fn is_open_to(&self, request: &Request, cluster: &Cluster) -> bool {
        let Some(placement) = request.placement.as_deref().filter(|_| !cluster.deleting) else { return false };
        let terms = self.terms_in_order(request, placement, Mode::Fresh);
        let objection = |term| self.context(request, placement, term, Mode::Fresh).objection(cluster);
        terms.into_iter().any(|term| objection(term).is_none())
    }

    fn sits_on_leaving_cluster(&self, request: &Request) -> bool {
        request.targets.iter().any(|target| self.fleet.find(&target.name).is_some_and(|cluster| cluster.deleting))
    }

    /// Tries the affinity groups one at a time. A Steady pass starts from the observed group, a
    /// Fresh pass from the first one (C9).
    fn place(&mut self, request: &Request, placement: &Shared<Placement>, mode: Mode) -> Outcome {
        let mut failures: Vec<(Option<usize>, Failure)> = Vec::new();
        for position in self.terms_in_order(request, placement, mode) {
            match self.attempt(request, placement, position, mode) {
                // A workload of zero replicas gets no targets. Karmada does not treat that as a
                // choice of the group.
                Ok(targets) if targets.is_empty() && !failures.is_empty() && !self.profile.deviates() => {}
                Ok(targets) => {
                    let term = position.map(|position| placement.terms[position].name.clone());
                    let unkept = settle::unkept(&self.context(request, placement, position, mode), &targets);
                    return Outcome::Placed(Placed::with_unkept(targets, term, unkept));
                }
                Err(failure) => failures.push((position, failure)),
            }
        }
        let told = if self.profile.deviates() { GROUPS_TOLD_MAX } else { 1 };
        let mut failed = failures
            .into_iter()
            .take(told)
            .map(|(position, failure)| (position, self.failed(request, placement, position, mode, failure)));
        // The user prefers the first group, so its failure is reported first.
        let (position, first) = failed.next().expect("there is at least one group to try");
        let others: Vec<(Option<usize>, String)> =
            failed.map(|(position, failed)| (position, failed.message)).collect();
        if others.iter().all(|(_, message)| *message == first.message) {
            return Outcome::Failed(first);
        }
        let all = std::iter::once((position, first.message.clone())).chain(others);
        let in_words = |(position, message): (Option<usize>, String)| {
            let name = position.map_or("", |position| &*placement.terms[position].name);
            format!("affinity group {name:?}: {message}")
        };
        let message = all.map(in_words).collect::<Vec<String>>().join("; ");
        Outcome::Failed(Failed { message, ..first })
    }

    /// Returns the positions of the affinity groups in the order in which they are tried. `None`
    /// stands for a placement without groups.
    pub(super) fn terms_in_order(&self, request: &Request, placement: &Placement, mode: Mode) -> Vec<Option<usize>> {
        if placement.terms.is_empty() {
            return vec![None];
        }
        let observed = placement.terms.iter().position(|term| term.name == request.observed_term).unwrap_or(0);
        let start = if mode == Mode::Fresh { 0 } else { observed };
        let all = 0..placement.terms.len();
        // Differs from Karmada (D60), which never returns to a group before the observed one.
        if self.profile.deviates() {
            std::iter::once(start).chain(all.filter(|position| *position != start)).map(Some).collect()
        } else {
            all.skip(start).map(Some).collect()
        }
    }

    pub(super) fn context<'c>(
        &'c self,
        request: &'c Request,
        placement: &'c Placement,
        term: Option<usize>,
        mode: Mode,
    ) -> AttemptContext<'c> {
        let term: Option<&AffinityTerm> = term.map(|term| &placement.terms[term]);
        AttemptContext {
            fleet: &self.fleet,
            workloads: &self.workloads,
            profile: &self.profile,
            request,
            placement,
            term,
            mode,
        }
    }

    /// Lists the candidate clusters for the binding. Returns the position of their cache.
    pub(super) fn list_candidates(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> usize {
        let position = self.cache(request, placement, term, mode);
        let Pass { fleet, profile, workloads, filter_caches, estimates, candidates, feasible, closed, .. } = self;
        let cache = &filter_caches[position];
        let term: Option<&AffinityTerm> = term.map(|term| &placement.terms[term]);
        let context = AttemptContext { fleet, workloads, profile, request, placement, term, mode };
        candidates.clear();
        cache.feasible(&context, feasible, closed);
        if !feasible.is_empty() {
            let answers = self.answered.about(request, components::counts_sets(&context));
            let counting = Counting { estimates, answers: answers.as_ref() };
            list(&context, cache, (feasible, closed), counting, candidates);
        }
        position
    }

    pub(super) fn attempt(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> Result<Vec<Target>, Failure> {
        if !placement.wishes.is_empty() {
            return self.attempt_with_wishes(request, placement, term, mode);
        }
        if zero::is_asked(request, placement, &self.profile) {
            return self.place_nothing(request, placement, term, mode);
        }
        let cache = self.list_candidates(request, placement, term, mode);
        let Pass { fleet, profile, workloads, filter_caches, scratch, steps, candidates, closed, trace, .. } = self;
        let cache = &filter_caches[cache];
        let term: Option<&AffinityTerm> = term.map(|term| &placement.terms[term]);
        let context = AttemptContext { fleet, workloads, profile, request, placement, term, mode };
        let answers = self.answered.about(request, components::counts_sets(&context));
        let mut seen = Seen::default();
        let result = (|| {
            if candidates.is_empty() {
                return Err(Failure::NoClusterFits);
            }
            if trace.is_some() {
                seen.listed.clone_from(candidates);
            }
            keep_those_with_a_whole_set(&context, candidates)?;
            let told = (trace.is_some() || profile.empty_workloads).then_some(&mut seen);
            let (weighted, bounded) = (&*cache.weighted, &*cache.bounded);
            let steps = *steps;
            let mut attempt = Attempt { context: &context, weighted, bounded, scratch, steps, seen: told };
            let mut targets = attempt.targets(candidates)?;
            if profile.empty_workloads {
                zero::attach(&mut targets, &seen.selected, fleet);
            }
            let components = components::assigned(&context);
            if !components.is_empty() {
                targets.iter_mut().for_each(|target| target.components.clone_from(&components));
            }
            Ok(targets)
        })();
        let result = result.map_err(|failure| match failure {
            Failure::Capacity(why) => Failure::Capacity(why + &closed_in_words(&context, closed)),
            other => other,
        });
        if let Some(trace) = trace {
            let outcome = match &result {
                Ok(targets) => Ok(targets.as_slice()),
                Err(Failure::NoClusterFits) => Err("no cluster fits"),
                Err(Failure::Capacity(why) | Failure::Impossible(why)) => Err(why.as_str()),
            };
            let (listed, selected, spread) = (&*seen.listed, &*seen.selected, seen.spread.as_ref());
            let (counted, weighted) = (counts_capacity(&context, cache), &*cache.weighted);
            let answers = answers.as_ref();
            let seen = AttemptData { listed, counted, answers, selected, spread, weighted, outcome, unlisted: None };
            trace.attempts.push(trace::attempt(&context, &seen));
        }
        result
    }

    /// Schedules a workload of zero replicas: it keeps its clusters, or goes where one replica
    /// would.
    ///
    /// Differs from Karmada (D64), where such a workload loses all its clusters or gets all of
    /// them, depending on its resource requests.
    fn place_nothing(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> Result<Vec<Target>, Failure> {
        // Overflow tiers apply to workloads only, and this is one.
        let one = Request { replicas: 1, ..request.clone() };
        let (result, unlisted) = self.cluster_for_nothing(&one, placement, term, mode);
        if self.trace.is_some() {
            let outcome = result.as_deref().map_err(|_| "no cluster fits");
            let (listed, selected, weighted) = (&[][..], &[][..], &[][..]);
            let seen = AttemptData {
                listed,
                counted: false,
                answers: None,
                selected,
                spread: None,
                weighted,
                outcome,
                unlisted: Some(unlisted),
            };
            let attempt = trace::attempt(&self.context(&one, placement, term, mode), &seen);
            if let Some(trace) = &mut self.trace {
                trace.attempts.push(attempt);
            }
        }
        result
    }

    /// Returns the targets of a workload of zero replicas, and the reason why other clusters are
    /// not among them. `one` is the request with one replica.
    fn cluster_for_nothing(
        &mut self,
        one: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> (Result<Vec<Target>, Failure>, &'static str) {
        let nothing = |name: &Arc<str>| Target { name: name.clone(), replicas: 0, components: Vec::new() };
        let context = self.context(one, placement, term, mode);
        let fits = |cluster: &&Arc<Cluster>| !cluster.deleting && context.reason(cluster).is_none();
        let there = one.targets.iter().filter_map(|target| self.fleet.find(&target.name));
        let mut stays: Vec<Target> = there.filter(fits).map(|cluster| nothing(&cluster.name)).collect();
        if !stays.is_empty() {
            stays.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            return (Ok(stays), "a workload of no replicas stays where it is");
        }
        // The workload needs no capacity, and with one cluster no constraint on several can be
        // kept.
        let any = self.fleet.iter().find(fits).map(|cluster| vec![nothing(&cluster.name)]);
        let one = Request { targets: Vec::new(), ..one.clone() };
        let trace = self.trace.take();
        let chosen = match self.attempt(&one, placement, term, mode) {
            Ok(targets) => Ok(targets.iter().take(1).map(|target| nothing(&target.name)).collect()),
            Err(_) => any.ok_or(Failure::NoClusterFits),
        };
        self.trace = trace;
        (chosen, "a workload of no replicas needs one cluster")
    }

    /// Returns the position of the cache for a placement, a group and a kind of resource. The first
    /// call fills the cache.
    pub(super) fn cache(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> usize {
        let kind = self.kinds.index(&request.resource);
        let key = FilterCacheKey { placement: placement.clone(), term, kind, workload: request.is_workload() };
        if let Some(known) = self.cache_index.get(&key) {
            return *known;
        }
        let cache = FilterCache::new(&self.context(request, placement, term, mode));
        self.filter_caches.push(cache);
        self.cache_index.insert(key, self.filter_caches.len() - 1);
        self.filter_caches.len() - 1
    }

    pub(super) fn filter_cache(&self, index: usize) -> &FilterCache {
        &self.filter_caches[index]
    }

    fn failed(
        &self,
        request: &Request,
        placement: &Placement,
        term: Option<usize>,
        mode: Mode,
        failure: Failure,
    ) -> Failed {
        match failure {
            Failure::NoClusterFits => {
                let message = no_cluster_fits(&self.context(request, placement, term, mode));
                self.refusal(Reason::NoClusterFit, message)
            }
            Failure::Capacity(message) => self.refusal(Reason::Unschedulable, message),
            Failure::Impossible(message) => self.refusal(Reason::SchedulerError, message),
        }
    }

    fn refusal(&self, reason: Reason, message: String) -> Failed {
        Failed::new(reason, message, &self.profile)
    }
}

/// Returns an error message if the specified replicas do not add up to the workload's replicas.
/// Such a workload is not scheduled (R139).
fn contradicts(request: &Request, placement: &Placement) -> Option<String> {
    let Division::Specified(Some(shares)) = &placement.division else { return None };
    let (specified, wanted) = (specified::total(shares), i64::from(request.replicas.max(0)));
    (request.is_divisible() && specified != wanted).then(|| {
        format!("the specified replicas sum up to {specified}, but the workload has {wanted}: it is scheduled when both are equal")
    })
}

/// Returns the end of a message that names the clusters which take no more replicas. Empty if there
/// are none.
fn closed_in_words(context: &AttemptContext<'_>, closed: &Bits) -> String {
    let mut named: Vec<&Cluster> = closed.iter().map(|index| &**context.fleet.cluster(index)).collect();
    if named.is_empty() {
        return String::new();
    }
    named.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let more = named.len().saturating_sub(CLOSED_NAMED_MAX);
    named.truncate(CLOSED_NAMED_MAX);
    let in_words = |cluster: &Cluster| {
        let (_, why) = context.objection(cluster).unwrap_or_default();
        format!("{} ({})", cluster.name, why.strip_prefix("cluster(s) ").unwrap_or(&why))
    };
    let named: Vec<String> = named.into_iter().map(in_words).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; no more replicas go to {}{more}", named.join(", "))
}

/// Returns the message of `NoClusterFit`: the number of rejected clusters by reason.
fn no_cluster_fits(context: &AttemptContext<'_>) -> String {
    let mut reasons: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for cluster in context.fleet.iter().filter(|cluster| !cluster.deleting) {
        if let Some((_, reason)) = context.reason(cluster) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let all = context.fleet.len();
    if reasons.is_empty() {
        return format!("0/{all} clusters are available: no cluster exists.");
    }
    let mut counts: Vec<String> = reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counts.sort_unstable();
    format!("0/{all} clusters are available: {}.", counts.join(", "))
}
