//! One pass: decides many bindings against the same clusters, and shares the work they have in
//! common.
//!
//! A pass owns its view of the clusters. The scheduler's passes leave it as it is. A plan takes and
//! gives back capacity in it, from binding to binding, so that all its moves fit together.

use std::collections::HashMap;

use super::affinity::Affinity;
use super::assign::{Assigner, Scratch, Shortage};
use super::candidate::Candidate;
use super::cluster_set::ClusterSet;
use super::decision::{Decision, Failed, Outcome, Placed, Reason, Requeue, Skip};
use super::estimate::{Estimates, UNLIMITED};
use super::filters::{AttemptContext, FILTERS};
use super::placement::{AffinityTerm, Division, Placement};
use super::profile::{DEFAULT_SCHEDULER, Profile};
use super::request::{Mode, Request, Resource, Shared, Target};
use super::select;
use super::specified::Overlap;
use super::trace::{self, AttemptData, Trace};
use super::workloads::Workloads;
use super::{components, specified};
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
    filter_caches: Vec<FilterCache>,
    pub(super) estimates: Estimates,
    scratch: Scratch,
    candidates: Vec<Candidate>,
    feasible: Bits,
    /// Some only if a caller asked for an explanation.
    trace: Option<Trace>,
}

/// What the answers of the shared filters depend on.
#[derive(PartialEq, Eq, Hash)]
struct FilterCacheKey {
    placement: Shared<Placement>,
    /// The position of the affinity group that is tried.
    term: Option<usize>,
    kind: usize,
    /// Overflow tiers count for workloads only.
    workload: bool,
}

/// A number for each kind of resource, so that a cache is found without copying names.
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

/// What bindings with equal placements share.
struct FilterCache {
    /// Clusters that pass every shared filter.
    open: Bits,
    /// Clusters that pass the shared filters that do not spare current targets.
    open_to_targets: Bits,
    weighted: Vec<(Bits, i64)>,
    /// The clusters of the group itself and of each overflow tier. Empty if there are no tiers.
    tiers: Vec<Bits>,
}

/// Why one attempt failed.
enum Failure {
    NoClusterFits,
    Capacity(String),
    Impossible(String),
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
            estimates: Estimates::default(),
            scratch: Scratch::default(),
            candidates: Vec::new(),
            feasible: Bits::default(),
            trace: None,
        }
    }

    /// Decides one binding. The decision counts for the workload groups of later requests.
    pub fn decide(&mut self, request: &Request) -> Decision {
        let mode = request.mode(&self.profile);
        let placement = match self.asked(request) {
            Ok(placement) => placement,
            Err(skip) => return Decision::skipped(skip, mode),
        };
        let decision = self.decided(request, placement, mode);
        if let Some(targets) = decision.targets() {
            self.workloads.record(request, targets);
        }
        decision
    }

    /// Makes later requests see this workload where it was, and not where it was decided to go.
    pub fn record_unmoved(&mut self, request: &Request) {
        self.workloads.record(request, &request.targets);
    }

    /// Decides one binding in this mode, whether or not there is a reason for a pass.
    /// Nothing is recorded: see `reassign`.
    pub fn decide_as(&mut self, request: &Request, mode: Mode) -> Decision {
        match self.placeable(request) {
            Ok(placement) => self.decided(request, placement, mode),
            Err(skip) => Decision::skipped(skip, mode),
        }
    }

    fn decided(&mut self, request: &Request, placement: &Shared<Placement>, mode: Mode) -> Decision {
        let outcome = match &request.fault {
            Some(fault) => {
                Outcome::Failed(Failed::until_edited(Reason::SchedulerError, fault.to_string(), &self.profile))
            }
            None => match self.place(request, placement, mode) {
                Outcome::Failed(failed) if mode == Mode::Fresh && self.profile.deviates() => {
                    Outcome::Failed(self.keep_steady(failed, request, placement))
                }
                outcome => outcome,
            },
        };
        Decision { outcome, mode }
    }

    /// Keeps the binding as a Steady pass would, until a Fresh pass succeeds. Only a Steady pass
    /// spares the present targets, and a request for a better place must not lose the present one.
    ///
    /// Differs from Karmada (D2), where Fresh passes spare the same targets as Steady passes.
    fn keep_steady(&mut self, failed: Failed, request: &Request, placement: &Shared<Placement>) -> Failed {
        let trace = self.trace.take();
        let steady = self.place(request, placement, Mode::Steady);
        self.trace = trace;
        let meanwhile = match steady {
            Outcome::Placed(placed) => Some(placed),
            Outcome::Failed(steady) => steady.meanwhile,
            Outcome::Skipped(_) => None,
        };
        Failed { meanwhile, ..failed }
    }

    /// The clusters that several entries specify replicas for. For entries that select by label or
    /// region, the answer depends on the clusters that exist.
    pub fn overlaps(&self, request: &Request) -> Vec<Overlap> {
        match request.placement.as_ref().map(|placement| &placement.division) {
            Some(Division::Specified(Some(shares))) => specified::overlaps(shares, &self.fleet),
            _ => Vec::new(),
        }
    }

    /// Decides, and explains the decision.
    pub fn explain(&mut self, request: &Request) -> (Decision, Trace) {
        self.traced(|pass| pass.decide(request))
    }

    /// `decide_as` with an explanation.
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

    /// The placement, if the binding is one for this scheduler.
    fn placeable<'r>(&self, request: &'r Request) -> Result<&'r Shared<Placement>, Skip> {
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

    /// The placement, if there is a reason for a pass.
    fn asked<'r>(&self, request: &'r Request) -> Result<&'r Shared<Placement>, Skip> {
        let placement = self.placeable(request)?;
        let asked = request.placement_changed
            || request.has_other_replicas_than(placement)
            || components::changed(request, &self.profile)
            || request.is_triggered(&self.profile)
            || request.is_decided_at_every_chance(placement)
            || self.sits_on_leaving_cluster(request);
        if asked { Ok(placement) } else { Err(Skip::Unchanged) }
    }

    fn sits_on_leaving_cluster(&self, request: &Request) -> bool {
        request.targets.iter().any(|target| self.fleet.find(&target.name).is_some_and(|cluster| cluster.deleting))
    }

    /// Tries the affinity groups one at a time. A Steady pass starts from the observed group, a
    /// Fresh pass from the first (C9).
    fn place(&mut self, request: &Request, placement: &Shared<Placement>, mode: Mode) -> Outcome {
        if let Some(why) = contradicts(request, placement) {
            return Outcome::Failed(Failed::until_edited(Reason::Unschedulable, why, &self.profile));
        }
        if placement.terms.is_empty() {
            return match self.attempt(request, placement, None, mode) {
                Ok(targets) => Outcome::Placed(Placed { targets, term: None }),
                Err(failure) => Outcome::Failed(self.failed(request, placement, None, mode, failure)),
            };
        }
        let observed = placement.terms.iter().position(|term| term.name == request.observed_term).unwrap_or(0);
        let start = if mode == Mode::Fresh { 0 } else { observed };
        let mut first = None;
        for position in start..placement.terms.len() {
            match self.attempt(request, placement, Some(position), mode) {
                // A workload of no replicas gets no targets. Karmada does not count that as a
                // choice of the group.
                Ok(targets) if targets.is_empty() && first.is_some() && !self.profile.deviates() => {}
                Ok(targets) => {
                    let term = Some(placement.terms[position].name.clone());
                    return Outcome::Placed(Placed { targets, term });
                }
                Err(failure) if first.is_none() => {
                    first = Some(self.failed(request, placement, Some(position), mode, failure));
                }
                Err(_) => {}
            }
        }
        // The user prefers the first group, so its failure is reported.
        Outcome::Failed(first.expect("there is at least one group to try"))
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

    fn attempt(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> Result<Vec<Target>, Failure> {
        let cache = self.cache(request, placement, term, mode);
        let Pass { fleet, profile, workloads, filter_caches, estimates, scratch, candidates, feasible, trace, .. } =
            self;
        let cache = &filter_caches[cache];
        let term: Option<&AffinityTerm> = term.map(|term| &placement.terms[term]);
        let context = AttemptContext { fleet, workloads, profile, request, placement, term, mode };
        candidates.clear();
        cache.feasible(&context, feasible);
        let mut listed = Vec::new();
        let mut selected = Vec::new();
        let mut spread = None;
        let result = (|| {
            if feasible.is_empty() {
                return Err(Failure::NoClusterFits);
            }
            list(&context, cache, feasible, estimates, candidates);
            if trace.is_some() {
                listed.clone_from(candidates);
            }
            select::select(&context, candidates, trace.is_some().then_some(&mut spread))
                .map_err(|why| Failure::Impossible(format!("failed to select clusters: {why}")))?;
            if candidates.is_empty() {
                let why = "failed to assign replicas: no clusters available to schedule";
                return Err(Failure::Impossible(why.to_owned()));
            }
            if trace.is_some() {
                selected.clone_from(candidates);
            }
            let mut assigner = Assigner { context: &context, weighted: &cache.weighted, scratch };
            let mut targets = match assigner.assign(candidates) {
                Ok(targets) => targets,
                Err(Shortage::Capacity(why)) => {
                    return Err(Failure::Capacity(format!("failed to assign replicas: {why}")));
                }
                Err(Shortage::Impossible(why)) => {
                    return Err(Failure::Impossible(format!("failed to assign replicas: {why}")));
                }
            };
            let components = components::assigned(request, placement, profile);
            if !components.is_empty() {
                targets.iter_mut().for_each(|target| target.components.clone_from(&components));
            }
            Ok(targets)
        })();
        if let Some(trace) = trace {
            let outcome = match &result {
                Ok(targets) => Ok(targets.as_slice()),
                Err(Failure::NoClusterFits) => Err("no cluster fits"),
                Err(Failure::Capacity(why) | Failure::Impossible(why)) => Err(why.as_str()),
            };
            let (listed, selected, weighted) = (&listed, &selected, &cache.weighted);
            let counted = counts_capacity(&context, cache);
            let spread = spread.as_ref();
            let seen = AttemptData { listed, counted, selected, spread, weighted, outcome };
            trace.attempts.push(trace::attempt(&context, &seen));
        }
        result
    }

    /// The cache for a placement, a group and a kind of resource. The first call fills it.
    fn cache(&mut self, request: &Request, placement: &Shared<Placement>, term: Option<usize>, mode: Mode) -> usize {
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

/// Specified replicas that do not add up to the workload's replicas are not scheduled (R139).
fn contradicts(request: &Request, placement: &Placement) -> Option<String> {
    let Division::Specified(Some(shares)) = &placement.division else { return None };
    let (specified, wanted) = (specified::total(shares), i64::from(request.replicas.max(0)));
    (request.is_divisible() && specified != wanted).then(|| {
        format!("the specified replicas sum up to {specified}, but the workload has {wanted}: it is scheduled when both are equal")
    })
}

impl FilterCache {
    fn new(context: &AttemptContext<'_>) -> FilterCache {
        let mut open_to_targets = context.fleet.attributes().live.clone();
        FILTERS.iter().filter(|f| f.shared && !f.spares_targets).for_each(|f| (f.keep)(context, &mut open_to_targets));
        let mut open = open_to_targets.clone();
        FILTERS.iter().filter(|f| f.shared && f.spares_targets).for_each(|f| (f.keep)(context, &mut open));
        let weighted = match &context.placement.division {
            Division::Static(Some(weights)) => {
                weights.iter().map(|weight| (weight.target.select(context.fleet), weight.weight)).collect()
            }
            Division::Specified(Some(shares)) => {
                shares.iter().map(|share| (share.target.select(context.fleet), share.replicas)).collect()
            }
            // Each binding brings its own number of replicas.
            Division::Together(affinities) => vec![(together(affinities, context.fleet), 0)],
            _ => Vec::new(),
        };
        let tiers = match context.affinity() {
            Some((affinity, overflow)) if !overflow.is_empty() => {
                std::iter::once(affinity).chain(overflow).map(|tier| tier.select(context.fleet)).collect()
            }
            _ => Vec::new(),
        };
        FilterCache { open, open_to_targets, weighted, tiers }
    }

    /// Collects the clusters that this binding may go to.
    fn feasible(&self, context: &AttemptContext<'_>, feasible: &mut Bits) {
        feasible.copy_from(&self.open);
        let own = || FILTERS.iter().filter(|filter| !filter.shared);
        let sparing = own().filter(|filter| filter.spares_targets);
        sparing.for_each(|filter| (filter.keep)(context, feasible));
        if context.remembers_targets() {
            let there = context.request.targets.iter().filter_map(|target| context.fleet.index_of(&target.name));
            there.filter(|index| self.open_to_targets.contains(*index)).for_each(|index| feasible.insert(index));
        }
        own().filter(|filter| !filter.spares_targets).for_each(|filter| (filter.keep)(context, feasible));
    }

    fn tier(&self, index: usize) -> u16 {
        let tier = self.tiers.iter().position(|members| members.contains(index)).unwrap_or(0);
        u16::try_from(tier).unwrap_or(u16::MAX)
    }
}

/// The score of a cluster that the workload runs on already.
const LOCALITY: u16 = 100;

/// The clusters that any of the affinities selects. Without affinities, all clusters.
fn together(affinities: &[Affinity], fleet: &ClusterSet) -> Bits {
    let Some((first, others)) = affinities.split_first() else { return fleet.attributes().live.clone() };
    let mut selected = first.select(fleet);
    others.iter().for_each(|affinity| selected.union_with(&affinity.select(fleet)));
    selected
}

/// Lists the feasible clusters, with everything that selection and division need to know about
/// them.
fn list(
    context: &AttemptContext<'_>,
    cache: &FilterCache,
    feasible: &Bits,
    estimates: &mut Estimates,
    candidates: &mut Vec<Candidate>,
) {
    let AttemptContext { fleet, request, placement, .. } = *context;
    candidates.clear();
    let mut add = |index: usize, fits: i32| {
        let free = if fits == UNLIMITED { request.replicas } else { fits };
        let (rank, tier) = (fleet.rank(index), cache.tier(index));
        candidates.push(Candidate { index: index as u32, rank, score: 0, tier, free, own: 0, standing: 0 });
    };
    if !counts_capacity(context, cache) || (request.replicas == 0 && request.components.is_empty()) {
        feasible.iter().for_each(|index| add(index, UNLIMITED));
    } else if components::counts_sets(request, placement, context.profile) {
        feasible.iter().for_each(|index| add(index, components::sets(fleet.cluster(index), &request.components)));
    } else {
        estimates.each(fleet, request.requirements.as_ref(), feasible.iter(), add);
    }
    // Differs from Karmada (D12): the set of components that is placed needs no capacity for a
    // second one.
    let holds_set = context.profile.deviates() && components::counts_sets(request, placement, context.profile);
    for target in &request.targets {
        let Some(index) = fleet.index_of(&target.name) else { continue };
        if let Ok(position) = candidates.binary_search_by_key(&index, Candidate::index) {
            candidates[position].own = if holds_set { target.replicas.max(1) } else { target.replicas };
            candidates[position].score = if context.remembers_targets() { LOCALITY } else { 0 };
        }
    }
    // The order matters only for a choice among clusters.
    if placement.division == Division::Aggregated || !placement.spread.is_empty() {
        candidates.iter_mut().for_each(Candidate::rate);
    }
}

/// Whether the result depends on the free resources.
fn counts_capacity(context: &AttemptContext<'_>, cache: &FilterCache) -> bool {
    let spreads = !context.placement.spread.is_empty() && !context.placement.ignores_spread();
    matches!(context.placement.division, Division::Dynamic | Division::Aggregated) || spreads || !cache.tiers.is_empty()
}

/// The message of `NoClusterFit`: how many clusters are out, by reason.
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
