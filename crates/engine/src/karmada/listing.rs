//! Lists the candidates of an attempt: the feasible clusters, with the data for selection and
//! division.

use super::affinity::Affinity;
use super::answers::AnswersAbout;
use super::attempt::Failure;
use super::bounds::{self, Bounded};
use super::candidate::{Candidate, goes_whole_to_one_cluster, lacks_room_for_a_set};
use super::cluster_set::ClusterSet;
use super::components;
use super::estimate::{Estimates, UNLIMITED};
use super::filters::{AttemptContext, FILTERS};
use super::placement::Division;
use crate::bits::Bits;

/// Filter results that bindings with equal placements share.
pub(super) struct FilterCache {
    /// Clusters that pass every shared filter.
    open: Bits,
    /// Clusters that pass the shared filters that do not spare current targets.
    open_to_targets: Bits,
    pub weighted: Vec<(Bits, i64)>,
    pub bounded: Vec<Bounded>,
    /// The clusters of the group itself and of each overflow tier. Empty if there are no tiers.
    tiers: Vec<Bits>,
}

impl FilterCache {
    pub fn new(context: &AttemptContext<'_>) -> FilterCache {
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
            // The number of replicas differs per binding.
            Division::Together(affinities) => vec![(together(affinities, context.fleet), 0)],
            _ => Vec::new(),
        };
        let tiers = match context.affinity() {
            Some((affinity, overflow)) if !overflow.is_empty() => {
                std::iter::once(affinity).chain(overflow).map(|tier| tier.select(context.fleet)).collect()
            }
            _ => Vec::new(),
        };
        let bounded = bounds::of_placement(context);
        FilterCache { open, open_to_targets, weighted, bounded, tiers }
    }

    /// Collects the clusters that this binding may use, and the closed ones among them, which pass
    /// only because filters spare current targets.
    pub fn feasible(&self, context: &AttemptContext<'_>, feasible: &mut Bits, closed: &mut Bits) {
        feasible.copy_from(&self.open);
        closed.clear();
        let own = || FILTERS.iter().filter(|filter| !filter.shared);
        let sparing = own().filter(|filter| filter.spares_targets);
        sparing.for_each(|filter| (filter.keep)(context, feasible));
        if context.remembers_targets() {
            let there = context.request.targets.iter().filter_map(|target| context.fleet.index_of(&target.name));
            for index in there.filter(|index| self.open_to_targets.contains(*index)) {
                if !feasible.contains(index) {
                    closed.insert(index);
                    feasible.insert(index);
                }
            }
        }
        // Differs from Karmada (D128), where these clusters get more replicas like all others.
        if !context.profile.deviates() {
            closed.clear();
        }
        own().filter(|filter| !filter.spares_targets).for_each(|filter| (filter.keep)(context, feasible));
    }

    fn tier(&self, index: usize) -> u16 {
        let tier = self.tiers.iter().position(|members| members.contains(index)).unwrap_or(0);
        u16::try_from(tier).unwrap_or(u16::MAX)
    }
}

/// The score of a cluster that the workload runs on already.
const LOCALITY: u8 = 100;

/// Returns the clusters that any of the affinities selects. Without affinities, all clusters.
fn together(affinities: &[Affinity], fleet: &ClusterSet) -> Bits {
    let Some((first, others)) = affinities.split_first() else { return fleet.attributes().live.clone() };
    let mut selected = first.select(fleet);
    others.iter().for_each(|affinity| selected.union_with(&affinity.select(fleet)));
    selected
}

/// The inputs that determine how many replicas fit.
pub(super) struct Counting<'a> {
    pub estimates: &'a mut Estimates,
    pub answers: Option<&'a AnswersAbout<'a>>,
}

/// Lists the feasible clusters, with the data for selection and division.
pub(super) fn list(
    context: &AttemptContext<'_>,
    cache: &FilterCache,
    (feasible, closed): (&Bits, &Bits),
    counting: Counting<'_>,
    candidates: &mut Vec<Candidate>,
) {
    let AttemptContext { fleet, request, placement, .. } = *context;
    candidates.clear();
    let mut add = |index: usize, fits: i32| {
        let free = if fits == UNLIMITED { request.replicas } else { fits };
        candidates.push(Candidate { tier: cache.tier(index), free, ..Candidate::of(fleet, index) });
    };
    let counts_sets = components::counts_sets(context);
    let Counting { estimates, answers } = counting;
    let mut add_least = |index: usize, fits: i32| {
        add(index, answers.map_or(fits, |answers| answers.least(&fleet.cluster(index).name, fits)));
    };
    if !counts_capacity(context, cache) || (request.replicas == 0 && request.components.is_empty()) {
        feasible.iter().for_each(|index| add(index, UNLIMITED));
    } else if counts_sets {
        let sets = |index: usize| components::sets(fleet.cluster(index), &request.components);
        feasible.iter().for_each(|index| add_least(index, sets(index)));
    } else {
        estimates.each(fleet, request.requirements.as_ref(), feasible.iter(), add_least);
    }
    // Replicas being evicted from a cluster count as free capacity for the same workload there.
    let comes_back = context.profile.reserves && counts_capacity(context, cache) && request.replicas > 0;
    for target in request.leaving.iter().filter(|_| comes_back) {
        let Some(index) = fleet.index_of(&target.name) else { continue };
        if let Ok(position) = candidates.binary_search_by_key(&index, Candidate::index) {
            let own = i32::try_from(request.own_leaving(&target.name)).unwrap_or(UNLIMITED);
            let candidate = &mut candidates[position];
            candidate.free = candidate.free.max(0).saturating_add(own);
        }
    }
    for target in &request.targets {
        let Some(index) = fleet.index_of(&target.name) else { continue };
        if let Ok(position) = candidates.binary_search_by_key(&index, Candidate::index) {
            let is_closed = closed.contains(index);
            // Differs from Karmada (D12): the current set of components needs capacity only for its
            // growth.
            let own = match context.profile.deviates() {
                true if counts_sets => {
                    let cluster = (!is_closed).then(|| &**fleet.cluster(index));
                    components::held(cluster, target, &request.components)
                }
                true if !request.components.is_empty() => components::pods(&request.components),
                // Without replicas, capacity is ignored.
                true if request.replicas == 0 => 0,
                _ => target.replicas,
            };
            let candidate = &mut candidates[position];
            candidate.own = own;
            candidate.score = if context.remembers_targets() { LOCALITY } else { 0 };
            if is_closed {
                (candidate.is_closed, candidate.free) = (true, 0);
            }
        }
    }
    // The order matters only for a choice among clusters.
    if placement.division == Division::Aggregated || !placement.spread.is_empty() || !placement.bounds.is_empty() {
        candidates.iter_mut().for_each(Candidate::rate);
        // Differs from Karmada (D86), which ignores suspended dispatching.
        let paused = request.paused.iter().filter(|_| context.profile.deviates());
        for index in paused.filter_map(|name| fleet.index_of(name)) {
            if let Ok(position) = candidates.binary_search_by_key(&index, Candidate::index) {
                candidates[position].defer();
            }
        }
    }
}

/// Keeps the candidates with capacity for a whole set, if one cluster has to hold all components.
///
/// Differs from Karmada (D63), which ignores capacity unless the set is divided.
pub(super) fn keep_those_with_a_whole_set(
    context: &AttemptContext<'_>,
    candidates: &mut Vec<Candidate>,
) -> Result<(), Failure> {
    // Nothing else walks over all candidates here, and there may be thousands.
    if !goes_whole_to_one_cluster(context) {
        return Ok(());
    }
    candidates.retain(|candidate| !lacks_room_for_a_set(context, candidate));
    if candidates.is_empty() {
        let why = "failed to assign replicas: no cluster has room for the whole set of components";
        return Err(Failure::Capacity(why.to_owned()));
    }
    Ok(())
}

/// Returns whether the result depends on the free resources.
pub(super) fn counts_capacity(context: &AttemptContext<'_>, cache: &FilterCache) -> bool {
    let spreads = !context.placement.spread.is_empty() && !context.placement.ignores_spread();
    matches!(context.placement.division, Division::Dynamic | Division::Aggregated)
        || spreads
        || !cache.tiers.is_empty()
        || components::counts_sets(context)
}
