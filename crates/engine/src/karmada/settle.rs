//! Makes sure that a result keeps all spread constraints together (S4, S5), moves as few replicas
//! as possible in a Steady pass, and uses as few clusters as possible if replicas are aggregated.
//!
//! Differs from Karmada (D62), which chooses groups by one constraint, before replicas are divided.
//!
//! Most results of `select` and `assign` are correct already, and the check is cheap. Only if a
//! result is not, or there is none, a search over all candidates follows.

use std::collections::HashMap;

use super::bounds::{self, Bounded, Limit};
use super::candidate::Candidate;
use super::cluster::Cluster;
use super::cluster_set::PlaceNumbers;
use super::filters::AttemptContext;
use super::placement::{Division, SpreadBy, SpreadConstraint};
use super::question::{Bounds, Question, Site};
use super::request::{Mode, Target};
use super::search::Found;
use super::spread::bounded;
use super::zero;

/// The most violated rules that a message names. Each target may violate its bounds.
const BROKEN_NAMED_MAX: usize = 4;

/// Returns whether there are constraints that `select` alone does not enforce.
pub(super) fn applies(context: &AttemptContext<'_>) -> bool {
    let placement = context.placement;
    context.profile.deviates()
        && !placement.spread.is_empty()
        && !placement.ignores_spread()
        && !matches!(placement.division, Division::Unsupported { .. })
}

/// Names the preferred constraints that these targets violate. `None` if they keep all of them.
pub(super) fn unkept(context: &AttemptContext<'_>, targets: &[Target]) -> Option<String> {
    not_kept(&broken_spread(context, &context.placement.wishes, targets))
}

/// Names the rules about all targets together that these targets violate: spread constraints,
/// required and preferred, and bounds. `None` if they violate no required rule.
pub(super) fn broken(context: &AttemptContext<'_>, targets: &[Target]) -> Option<String> {
    let mut broken = broken_spread(context, context.placement.spread_in_force(), targets);
    broken.extend(targets.iter().filter(|target| is_out_of_bounds(context, target)).map(bounds_of));
    if broken.is_empty() {
        return None;
    }
    broken.truncate(BROKEN_NAMED_MAX);
    broken.extend(broken_spread(context, &context.placement.wishes, targets));
    not_kept(&broken)
}

fn not_kept(broken: &[String]) -> Option<String> {
    let verb = if broken.len() > 1 { "are" } else { "is" };
    (!broken.is_empty()).then(|| format!("{} {verb} not kept", broken.join(" and ")))
}

/// Returns descriptions of the constraints in `spread` that the targets violate.
fn broken_spread<'p>(
    context: &AttemptContext<'_>,
    spread: impl IntoIterator<Item = &'p SpreadConstraint>,
    targets: &[Target],
) -> Vec<String> {
    let AttemptContext { request, placement, profile, .. } = context;
    // A workload without replicas is subject to no constraint (D64).
    let binds = !placement.ignores_spread() && !zero::is_asked(request, placement, profile);
    if !binds || targets.is_empty() || !profile.deviates() {
        return Vec::new();
    }
    let is_broken = |one: &&SpreadConstraint| !Settlement::keeps_one(context, one, targets);
    spread.into_iter().filter(is_broken).map(|one| in_words(context, one)).collect()
}

fn in_words(context: &AttemptContext<'_>, spread: &SpreadConstraint) -> String {
    format!("the spread constraint by {}", constraint(context, spread))
}

/// Returns whether the target has fewer or more replicas than its bounds allow.
fn is_out_of_bounds(context: &AttemptContext<'_>, target: &Target) -> bool {
    let Some(cluster) = context.fleet.find(&target.name).filter(|_| bounds::apply(context)) else { return false };
    let (limit, replicas) = (bounds::limit_of(context, cluster), i64::from(target.replicas));
    replicas < limit.min || replicas > limit.max
}

fn bounds_of(target: &Target) -> String {
    format!("clusterBounds of cluster {}", target.name)
}

/// Names a spread constraint or bound that the targets `to` violate and the targets `from` keep. A
/// rule that is violated already is no reason to reject a change.
pub(super) fn newly_broken(context: &AttemptContext<'_>, from: &[Target], to: &[Target]) -> Option<String> {
    if !context.profile.deviates() || to.is_empty() {
        return None;
    }
    let is_same =
        |target: &Target| from.iter().any(|before| before.name == target.name && before.replicas == target.replicas);
    let beyond = || to.iter().find(|target| !is_same(target) && is_out_of_bounds(context, target)).map(bounds_of);
    newly_broken_spread(context, from, to).or_else(beyond)
}

/// Names a spread constraint that the targets `to` violate and the targets `from` keep.
pub(super) fn newly_broken_spread(context: &AttemptContext<'_>, from: &[Target], to: &[Target]) -> Option<String> {
    let breaks = |spread: &&SpreadConstraint| !broken_spread(context, [*spread], to).is_empty();
    let kept = |spread: &&SpreadConstraint| Settlement::keeps_one(context, spread, from);
    let broken = context.placement.spread_in_force().filter(breaks).find(kept)?;
    Some(in_words(context, broken))
}

/// The candidates of one attempt, with the constraints that apply to them.
pub(super) struct Settlement<'a, 'b> {
    pub(super) context: &'b AttemptContext<'a>,
    /// Ascending by index.
    pub(super) candidates: &'b [Candidate],
    /// Empty if bounds do not apply.
    pub(super) bounded: &'b [Bounded],
    constraints: Vec<Constraint>,
}

struct Constraint {
    by: SpreadBy,
    bounds: Bounds,
}

/// The result of a search.
pub(super) enum Settled {
    /// The candidates that may be used, and the core of them that must be used.
    Use { open: Vec<Candidate>, core: Vec<Candidate> },
    /// The given result cannot be improved.
    AsItWas,
    /// There is no solution. This is a proof only if the search was exact.
    Nothing { exact: bool },
}

impl<'a, 'b> Settlement<'a, 'b> {
    pub fn new(
        context: &'b AttemptContext<'a>,
        candidates: &'b [Candidate],
        bounded: &'b [Bounded],
    ) -> Settlement<'a, 'b> {
        let constraints = context.placement.spread_in_force().map(|spread| constraint(context, spread)).collect();
        Settlement { context, candidates, bounded, constraints }
    }

    /// Returns whether these targets keep a constraint.
    fn keeps_one(context: &AttemptContext<'_>, spread: &SpreadConstraint, targets: &[Target]) -> bool {
        let has_group = |cluster: &Cluster| match &spread.by {
            SpreadBy::Cluster => true,
            SpreadBy::Region => !cluster.region.is_empty(),
            SpreadBy::Provider => !cluster.provider.is_empty(),
            SpreadBy::Zone => cluster.zones.iter().any(|zone| !zone.is_empty()),
            SpreadBy::Label(key) => cluster.label(key).is_some(),
        };
        let indexes = targets.iter().filter_map(|target| context.fleet.index_of(&target.name));
        let used: Vec<Candidate> = indexes.map(|index| Candidate::of(context.fleet, index)).collect();
        let all_have = used.iter().all(|candidate| has_group(context.fleet.cluster(candidate.index())));
        let constraints = vec![constraint(context, spread)];
        all_have && Settlement { context, candidates: &used, bounded: &[], constraints }.keeps_constraints(&used)
    }

    /// Returns whether each used cluster gets all replicas.
    pub fn copies(&self) -> bool {
        !self.context.request.is_divisible() || self.context.placement.division == Division::Duplicated
    }

    pub(super) fn is_steady(&self) -> bool {
        self.context.mode == Mode::Steady
    }

    pub(super) fn wanted(&self) -> i64 {
        i64::from(self.context.request.replicas.max(0))
    }

    /// Returns the replicas that the candidate holds and that this pass tries to keep.
    pub(super) fn own(&self, candidate: &Candidate) -> i64 {
        match (self.is_steady(), self.copies()) {
            (false, _) => 0,
            (true, true) => i64::from(candidate.score > 0),
            (true, false) => i64::from(candidate.own.max(0)).min(self.limit(candidate).max),
        }
    }

    pub(super) fn room(&self, candidate: &Candidate) -> i64 {
        self.free(candidate).min(self.limit(candidate).max - self.own(candidate))
    }

    /// Returns the free capacity, ignoring per-cluster bounds.
    pub(super) fn free(&self, candidate: &Candidate) -> i64 {
        let free = i64::from(candidate.free.max(0));
        if self.is_steady() { free } else { free + i64::from(candidate.own.max(0)) }
    }

    pub(super) fn limit(&self, candidate: &Candidate) -> Limit {
        bounds::limit(self.bounded, candidate.index())
    }

    /// Returns whether the candidate has the capacity for its minimum of replicas.
    pub(super) fn has_enough(&self, candidate: &Candidate) -> bool {
        self.bounded.is_empty() || self.own(candidate).saturating_add(self.room(candidate)) >= self.limit(candidate).min
    }

    /// Returns the candidates of the current targets if this pass has no reason to move replicas.
    /// If replicas are duplicated, it adds the candidates that open no further group.
    pub fn as_it_is(&self) -> Option<Vec<Candidate>> {
        if !self.is_steady() {
            return None;
        }
        let there: Vec<Candidate> =
            self.candidates.iter().filter(|candidate| self.own(candidate) > 0).copied().collect();
        let complete = self.copies() || there.iter().map(|candidate| self.own(candidate)).sum::<i64>() == self.wanted();
        if there.is_empty() || !complete || !self.keeps_constraints(&there) {
            return None;
        }
        Some(if self.copies() { self.with_neighbours(there) } else { there })
    }

    /// Returns whether the result keeps the constraints, and no other keeps more replicas or needs
    /// fewer clusters. The result may be falsely negative.
    ///
    /// `selected` are the candidates of the division. If replicas are duplicated, each of them is a
    /// target.
    pub fn is_right(&self, targets: &[Target], selected: &[Candidate]) -> bool {
        let used = if self.copies() { selected.to_vec() } else { self.used(targets) };
        if used.len() != targets.len() || !self.keeps_constraints(&used) {
            return false;
        }
        let own: i64 = self.candidates.iter().map(|candidate| self.own(candidate)).sum();
        let ideal = if self.copies() { own } else { own.min(self.wanted()) };
        self.kept(&used, targets) == ideal && !(self.aggregates() && self.fewer_might_do(&used))
    }

    pub(super) fn aggregates(&self) -> bool {
        self.context.placement.division == Division::Aggregated && !self.copies()
    }

    /// Returns the candidates of the targets, in the order of the targets.
    fn used(&self, targets: &[Target]) -> Vec<Candidate> {
        let find = |target: &Target| {
            let index = self.context.fleet.index_of(&target.name)?;
            let at = self.candidates.binary_search_by_key(&index, Candidate::index).ok()?;
            Some(self.candidates[at])
        };
        targets.iter().filter_map(find).collect()
    }

    fn kept(&self, used: &[Candidate], targets: &[Target]) -> i64 {
        let kept = |(candidate, target): (&Candidate, &Target)| {
            let own = self.own(candidate);
            if self.copies() { own } else { own.min(i64::from(target.replicas)) }
        };
        used.iter().zip(targets).map(kept).sum()
    }

    fn keeps_constraints(&self, used: &[Candidate]) -> bool {
        let each_alone = |groups: usize| !self.copies() && groups as i64 == self.wanted();
        self.constraints.iter().all(|Constraint { by, bounds }| {
            if bounds.min <= 1 && bounds.max >= used.len() {
                return !used.is_empty();
            }
            let groups = self.numbers(by, used).1;
            groups <= bounds.max && (groups >= bounds.min || each_alone(groups))
        })
    }

    /// Returns whether one cluster fewer has enough capacity, regardless of the constraints.
    fn fewer_might_do(&self, used: &[Candidate]) -> bool {
        let own: i64 = self.candidates.iter().map(|candidate| self.own(candidate)).sum();
        let wanted = self.wanted();
        let most = |values: &mut Vec<i64>, count: usize| -> i64 {
            if count > 0 && count < values.len() {
                values.select_nth_unstable_by_key(count - 1, |value| std::cmp::Reverse(*value));
            }
            values.iter().take(count).sum()
        };
        if own > wanted {
            let mut held = self.candidates.iter().map(|candidate| self.own(candidate)).collect();
            return used.len() > 1 && most(&mut held, used.len() - 1) >= wanted;
        }
        let new = used.iter().filter(|candidate| self.own(candidate) == 0).count();
        if new == 0 || (new == 1 && own == 0) {
            return false;
        }
        let (there, other): (Vec<_>, Vec<_>) = self.candidates.iter().partition(|candidate| self.own(candidate) > 0);
        let beside: i64 = there.iter().map(|candidate| self.room(candidate)).sum();
        let mut rooms = other.iter().map(|candidate| self.room(candidate)).collect();
        own + beside + most(&mut rooms, new - 1) >= wanted
    }

    /// Returns the group of each candidate as a number, and the number of groups. Numbers start at
    /// 0 and have no gaps.
    fn numbers(&self, by: &SpreadBy, candidates: &[Candidate]) -> (Vec<u32>, usize) {
        let attributes = self.context.fleet.attributes();
        let cluster = |candidate: &Candidate| self.context.fleet.cluster(candidate.index());
        match by {
            SpreadBy::Cluster => ((0..candidates.len() as u32).collect(), candidates.len()),
            SpreadBy::Region => by_place(&attributes.region_of, candidates),
            SpreadBy::Provider => by_place(&attributes.provider_of, candidates),
            SpreadBy::Zone => {
                let zone = |c| cluster(c).zones.iter().find(|zone| !zone.is_empty());
                dense(candidates.iter().map(zone))
            }
            SpreadBy::Label(key) => dense(candidates.iter().map(|candidate| cluster(candidate).label(key))),
        }
    }

    /// Adds the candidates in groups that are all in use, preferred ones first, up to the maximum
    /// number of clusters. So the existing copies bring no other group with them.
    fn with_neighbours(&self, chosen: Vec<Candidate>) -> Vec<Candidate> {
        let by_cluster = self.constraints.iter().find(|constraint| constraint.by == SpreadBy::Cluster);
        let most = by_cluster.map_or(usize::MAX, |constraint| constraint.bounds.max);
        if chosen.len() >= most.min(self.candidates.len()) {
            return chosen;
        }
        let is_chosen: Vec<bool> = self
            .candidates
            .iter()
            .map(|candidate| chosen.binary_search_by_key(&candidate.index, |chosen| chosen.index).is_ok())
            .collect();
        let mut can_join = vec![true; self.candidates.len()];
        for constraint in self.constraints.iter().filter(|constraint| constraint.by != SpreadBy::Cluster) {
            let (numbers, count) = self.numbers(&constraint.by, self.candidates);
            let mut open = vec![false; count];
            numbers.iter().zip(&is_chosen).for_each(|(number, chosen)| open[*number as usize] |= chosen);
            numbers.iter().zip(&mut can_join).for_each(|(number, can)| *can &= open[*number as usize]);
        }
        let joins = self.candidates.iter().zip(is_chosen.iter().zip(&can_join));
        let mut joining: Vec<Candidate> =
            joins.filter(|(_, (chosen, can))| !**chosen && **can).map(|(candidate, _)| *candidate).collect();
        joining.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.standing));
        joining.truncate(most.saturating_sub(chosen.len()));
        let mut all = chosen;
        all.append(&mut joining);
        all
    }

    pub(super) fn question(&self) -> (Vec<Candidate>, Question) {
        let useful = |candidate: &&Candidate| {
            self.copies() || ((self.own(candidate) > 0 || self.room(candidate) > 0) && self.has_enough(candidate))
        };
        let mut order: Vec<Candidate> = self.candidates.iter().filter(useful).copied().collect();
        order.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.standing));
        let site = |candidate: &Candidate| {
            let least = self.limit(candidate).min;
            Site { own: self.own(candidate), room: self.room(candidate), least }
        };
        let width = self.constraints.len();
        let mut groups = vec![0; order.len() * width];
        let mut counts = Vec::with_capacity(width);
        for (dimension, constraint) in self.constraints.iter().enumerate() {
            let (numbers, count) = self.numbers(&constraint.by, &order);
            counts.push(count);
            for (position, number) in numbers.into_iter().enumerate() {
                groups[position * width + dimension] = number;
            }
        }
        let mut question = Question {
            sites: order.iter().map(site).collect(),
            dimensions: self.constraints.iter().map(|constraint| constraint.bounds).collect(),
            groups,
            counts,
            replicas: (!self.copies()).then(|| self.wanted()),
        };
        if question.has_least() {
            self.cluster_dimension(&mut question);
        }
        (order, question)
    }

    /// Searches for a better result than `answer`. `steps` is the remaining budget of this attempt.
    pub fn search(&self, answer: Option<&[Target]>, steps: &mut usize) -> Settled {
        let (order, mut question) = self.question();
        let result = question.answer(steps);
        // The value of the given result, if it is allowed.
        let known = answer.and_then(|targets| {
            let used = self.used(targets);
            let allowed = used.len() == targets.len() && self.keeps_constraints(&used);
            allowed.then(|| (self.kept(&used, targets), used.len()))
        });
        let Some(mut found) = result.found else {
            return if known.is_some() { Settled::AsItWas } else { Settled::Nothing { exact: result.exact } };
        };
        let improves = known.is_none_or(|(kept, _)| found.kept > kept);
        if self.aggregates() {
            let cluster = self.cluster_dimension(&mut question);
            let most = known.filter(|_| !improves).map_or(found.open.len(), |(_, used)| used);
            let kept = known.map_or(found.kept, |(kept, _)| kept.max(found.kept));
            match question.fewest(cluster, kept, most, steps) {
                Some(fewest) => found = fewest,
                None if !improves => return Settled::AsItWas,
                None => {}
            }
        } else if !improves {
            return Settled::AsItWas;
        }
        let Found { open, core, .. } = found;
        let pick = |sites: Vec<usize>| -> Vec<Candidate> { sites.into_iter().map(|site| order[site]).collect() };
        let (mut open, core) = (pick(open), pick(core));
        if self.copies() {
            open.sort_unstable_by_key(|candidate| candidate.index);
            open = self.with_neighbours(open);
        }
        Settled::Use { open, core }
    }

    /// Returns the dimension of clusters. Adds it if no constraint is about clusters.
    pub(super) fn cluster_dimension(&self, question: &mut Question) -> usize {
        if let Some(known) = self.constraints.iter().position(|constraint| constraint.by == SpreadBy::Cluster) {
            return known;
        }
        let width = self.constraints.len();
        if question.dimensions.len() > width {
            return width;
        }
        let groups = |site: usize| question.groups[site * width..][..width].iter().copied();
        let with_cluster =
            (0..question.sites.len()).flat_map(|site| groups(site).chain(std::iter::once(site as u32))).collect();
        question.groups = with_cluster;
        question.dimensions.push(Bounds { min: 0, max: usize::MAX });
        question.counts.push(question.sites.len());
        width
    }

    /// Returns descriptions of the constraints without which the workload could be placed, each
    /// alone. Empty if no single constraint is the reason.
    pub fn to_blame(&self, steps: &mut usize) -> Vec<String> {
        let (_, question) = self.question();
        let without = |dimension: &usize| {
            let mut other = question.clone();
            other.dimensions[*dimension] = Bounds { min: 0, max: usize::MAX };
            other.answer(steps).found.is_some()
        };
        (0..self.constraints.len()).filter(without).map(|at| self.constraints[at].to_string()).collect()
    }

    /// Returns descriptions of all constraints.
    pub fn constraints(&self) -> Vec<String> {
        self.constraints.iter().map(Constraint::to_string).collect()
    }

    /// Returns whether candidates with unlimited capacity would be enough, so that capacity is
    /// missing.
    pub fn lacks_room(&self, steps: &mut usize) -> bool {
        if self.copies() {
            return false;
        }
        let roomy: Vec<Candidate> =
            self.candidates.iter().map(|candidate| Candidate { free: i32::MAX, ..*candidate }).collect();
        Settlement::new(self.context, &roomy, self.bounded).question().1.answer(steps).found.is_some()
    }
}

fn constraint(context: &AttemptContext<'_>, spread: &SpreadConstraint) -> Constraint {
    let bounded = bounded(context, spread);
    let number = |bound: i64| usize::try_from(bound).unwrap_or(usize::MAX);
    let max = if bounded.max == i64::MAX { usize::MAX } else { number(bounded.max) };
    Constraint { by: bounded.by, bounds: Bounds { min: number(bounded.min), max } }
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Bounds { min, max } = self.bounds;
        write!(f, "{} (at least {min}", self.by)?;
        if max < usize::MAX { write!(f, ", at most {max})") } else { write!(f, ")") }
    }
}

/// Numbers the topology domains of the candidates from 0, without gaps. Returns the number of each
/// candidate, and the number of domains.
fn by_place(places: &PlaceNumbers, candidates: &[Candidate]) -> (Vec<u32>, usize) {
    let mut known = vec![u32::MAX; places.count()];
    let mut count = 0;
    let number = |candidate: &Candidate| {
        let number = &mut known[places.number(candidate.index()) as usize];
        if *number == u32::MAX {
            *number = count;
            count += 1;
        }
        *number
    };
    let numbers = candidates.iter().map(number).collect();
    (numbers, count as usize)
}

/// Numbers equal values alike, from 0, without gaps. Returns the number of each value, and the
/// number of distinct values.
fn dense<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> (Vec<u32>, usize) {
    let mut known = HashMap::new();
    let number = |value: T| {
        let next = known.len() as u32;
        *known.entry(value).or_insert(next)
    };
    let numbers: Vec<u32> = values.map(number).collect();
    let count = known.len();
    (numbers, count)
}

/// Gives one replica to each cluster of the core that has none. It comes from a cluster with
/// arriving replicas, or else from the cluster with the most replicas.
pub(super) fn give_to_core(
    targets: &mut Vec<Target>,
    open: &[Candidate],
    core: &[Candidate],
    context: &AttemptContext<'_>,
) {
    let name = |candidate: &Candidate| context.fleet.cluster(candidate.index()).name.clone();
    let own: HashMap<_, _> = open.iter().map(|candidate| (name(candidate), (candidate.own, candidate.tier))).collect();
    let core: Vec<_> = core.iter().map(name).collect();
    for missing in &core {
        let at = match targets.binary_search_by(|target| target.name.cmp(missing)) {
            Ok(_) => continue,
            Err(at) => at,
        };
        let can_give = |target: &Target| target.replicas > i32::from(core.contains(&target.name));
        let giver = (0..targets.len()).filter(|at| can_give(&targets[*at])).max_by_key(|at| {
            let Target { name, replicas, .. } = &targets[*at];
            let (own, tier) = own.get(name).copied().unwrap_or_default();
            let own = if context.mode == Mode::Steady { own } else { 0 };
            (*replicas > own, tier, *replicas)
        });
        let Some(giver) = giver else { return };
        targets[giver].replicas -= 1;
        let empty = targets[giver].replicas == 0;
        targets.insert(at, Target { name: missing.clone(), replicas: 1, components: Vec::new() });
        if empty {
            targets.remove(if giver >= at { giver + 1 } else { giver });
        }
    }
}
