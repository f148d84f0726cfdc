//! Plans with an objective for all clusters together (PL1 to PL6). Replicas that must leave their
//! clusters do, and further replicas move to improve the objective, among the placements that each
//! workload's rules allow.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::cutting::in_all;
use super::plan_builder::stays;
use super::prices::{ClusterFacts, counted};
use super::surviving::{self, Survey};
use super::{
    Clearing, MovePlan, ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, Shortfall, shares,
};
use super::{in_order, plan_by};
use ballast_api::ballast::v1alpha1::{
    self as api, Figure, Limits, Objective, ObjectiveStatus, Order, Share, UNRELIEVED_MAX,
};
use ballast_api::karmada::work::v1alpha2::{Aim, AnyBinding};
use ballast_engine::karmada::{Freedom, Mode, Needs, Placement, Request, Shared, Target};
use ballast_engine::optimise::{self, Item, Problem, ReplicasBySite, Rules, Site, Solution};
use ballast_k8s::{Key, Time};

/// Maximum number of resources that are considered if an objective names none.
const RESOURCES_MAX: usize = 16;

/// The result of a plan with an objective.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectiveOutcome {
    pub status: ObjectiveStatus,
    /// The minimum gain of one moving replica.
    pub least_gain: f64,
}

impl ObjectiveOutcome {
    /// Returns the record of the plan for its bindings. `aim_at` adds the fields specific to each
    /// binding.
    pub fn aim(&self, objective: &Objective, planned_at: Time) -> Aim {
        Aim {
            goal: objective.goal,
            resource: objective.resource.clone(),
            by: objective.by,
            least_gain: self.least_gain,
            planned_at,
            targets: Vec::new(),
            left: Vec::new(),
            placement: String::new(),
        }
    }
}

/// Returns the record for a binding that a plan puts on `targets`.
pub fn aim_at(aim: Aim, binding: &AnyBinding, targets: &[Target]) -> Aim {
    let from = binding.spec.clusters.iter();
    let from = from.map(|it| Share { name: it.name.clone(), replicas: it.replicas.unwrap_or_default() });
    let aim = Aim { targets: shares(targets), placement: Aim::hash(binding), ..aim };
    aim.leaving(Aim::stored(binding).as_ref(), &from.collect::<Vec<_>>())
}

/// Plans for an objective. `tell` is as in `plan_by`.
pub fn plan_for(
    snapshot: &PlanningSnapshot,
    bindings: Vec<ParsedBinding>,
    objective: &Objective,
    limits: &Limits,
    order: Order,
    tell: impl FnMut(&mut PlanBuilder, &ParsedBinding, &Proposal),
) -> MovePlan {
    let mut wishes = Wishes::of(snapshot, &bindings, objective, limits);
    // The rest is decided like any other plan, with a ledger unaffected by the search.
    let open = PlanningSnapshot { clearing: None, ..snapshot.clone() };
    let propose = |builder: &mut PlanBuilder, parsed: &ParsedBinding| wishes.propose(builder, parsed, limits);
    let mut plan = plan_by(&open, bindings, order, propose, tell);
    wishes.status.moved = plan.summary.replicas_to_move;
    plan.objective = Some(ObjectiveOutcome { status: wishes.status, least_gain: wishes.least_gain });
    plan
}

/// The result of the search for each binding.
struct Wishes {
    /// The new targets of bindings, with their affinity group.
    to: HashMap<Key, (Vec<Share>, Option<Box<str>>)>,
    /// The reasons why some replicas that must leave cannot.
    short: HashMap<Key, Shortfall>,
    /// The reasons why bindings stay or fit nowhere.
    kept: HashMap<Key, Proposal>,
    status: ObjectiveStatus,
    least_gain: f64,
}

impl Wishes {
    fn of(snapshot: &PlanningSnapshot, bindings: &[ParsedBinding], objective: &Objective, limits: &Limits) -> Wishes {
        let mut sorted: Vec<ParsedBinding> = bindings.to_vec();
        in_order(&mut sorted, Order::Name);
        let mut search = Search::new(snapshot, *limits);
        search.start(&sorted);
        let (solution, ledger) = match objective.goal {
            api::Goal::Survive => search.survived(&sorted, objective),
            _ => search.solved(&sorted, objective),
        };
        let (names, terms) = (ledger.names, ledger.terms);
        let mut to = HashMap::new();
        for (item, places) in solution.places {
            let target = |(site, replicas): &(u32, i64)| Share {
                name: names[*site as usize].to_string(),
                replicas: i32::try_from(*replicas).unwrap_or(i32::MAX),
            };
            to.insert(sorted[item].object.key.clone(), (places.iter().map(target).collect(), terms[item].clone()));
        }
        let status = ObjectiveStatus {
            before: Figure::of(solution.before),
            after: Figure::of(solution.after),
            bound: Figure::of(solution.bound),
            moved: solution.moved,
            unit: Some(objective.goal.unit()),
            undone: false,
            unrelieved: (solution.unrelieved.iter().take(UNRELIEVED_MAX))
                .map(|site| names[*site as usize].to_string())
                .collect(),
            within_tolerance: solution.is_within_tolerance.then(|| objective.tolerance()),
        };
        Wishes { to, short: search.short, kept: search.kept, status, least_gain: solution.price }
    }

    fn propose(&self, builder: &mut PlanBuilder, parsed: &ParsedBinding, limits: &Limits) -> Proposal {
        let key = &parsed.object.key;
        let Some((to, term)) = self.to.get(key) else {
            let nothing = || stays("the objective asks nothing of it".to_owned());
            return self.kept.get(key).cloned().unwrap_or_else(nothing);
        };
        match builder.propose_return(parsed, to, limits) {
            Proposal::Move { to, arrivals, limited, .. } => {
                let short = self.short.get(key).cloned();
                Proposal::Move { to, term: term.clone(), arrivals, limited, short }
            }
            other => other,
        }
    }
}

/// A search that is being prepared.
struct Search {
    snapshot: PlanningSnapshot,
    is_drain: bool,
    drained: BTreeSet<Arc<str>>,
    limits: Limits,
    builder: PlanBuilder,
    /// The mandatory moves by position, with the affinity group of their targets.
    start: HashMap<usize, (Vec<Target>, Option<Box<str>>)>,
    short: HashMap<Key, Shortfall>,
    kept: HashMap<Key, Proposal>,
}

impl Search {
    fn new(snapshot: &PlanningSnapshot, limits: Limits) -> Search {
        let drained = snapshot.clearing.as_ref().map(|clearing| clearing.drained().clone()).unwrap_or_default();
        let clearing = snapshot.clearing.clone().unwrap_or_else(|| Arc::new(Clearing::dead()));
        let snapshot = PlanningSnapshot { clearing: Some(clearing), ..snapshot.clone() };
        Search {
            is_drain: !drained.is_empty(),
            builder: PlanBuilder::new(&snapshot),
            snapshot,
            drained,
            limits,
            start: HashMap::new(),
            short: HashMap::new(),
            kept: HashMap::new(),
        }
    }

    /// Decides the mandatory moves: off clusters that are deleted, closed or drained, and to an
    /// earlier affinity group with capacity.
    fn start(&mut self, bindings: &[ParsedBinding]) {
        let options = PlanOptions { mode: api::Mode::Steady, limits: self.limits };
        self.builder.ask_about(bindings);
        for (position, parsed) in bindings.iter().enumerate().filter(|(_, parsed)| !parsed.is_placement()) {
            let earlier = if self.is_drain { None } else { self.builder.earlier_group(parsed) };
            let proposal = match earlier {
                Some((to, term)) => {
                    let short = None;
                    Proposal::Move { arrivals: parsed.arrivals(&to), to, term: Some(term), limited: false, short }
                }
                None => self.builder.propose(parsed, &options),
            };
            match proposal {
                Proposal::Move { to, term, short, .. } => {
                    self.builder.accept(parsed, &to);
                    self.short.extend(short.map(|short| (parsed.object.key.clone(), short)));
                    self.start.insert(position, (to, term));
                }
                Proposal::Stay { reason: None, .. } => {}
                kept => drop(self.kept.insert(parsed.object.key.clone(), kept)),
            }
        }
    }

    fn solved<'p>(&self, bindings: &'p [ParsedBinding], objective: &Objective) -> (Solution, Ledger<'p>) {
        let (problem, mut ledger) = self.problem(bindings, objective);
        (optimise::solve(&problem, &mut ledger), ledger)
    }

    /// Solves like `solved`, with figures from decisions of the engine. A plan that lowers none of
    /// them is reduced to the mandatory moves.
    fn survived<'p>(&self, bindings: &'p [ParsedBinding], objective: &Objective) -> (Solution, Ledger<'p>) {
        let survey = Survey::new(&self.snapshot, bindings, objective.by.unwrap_or_default());
        let before = survey.before();
        let (mut solution, mut ledger) = self.solved(bindings, objective);
        let mut after = survey.after(&ledger.targets(&solution));
        let tolerance = objective.tolerance_number();
        if (before - after) as f64 <= tolerance {
            let is_within_tolerance = solution.is_within_tolerance || after < before;
            let (mut problem, untouched) = self.problem(bindings, objective);
            ledger = untouched;
            problem.domains.clear();
            let bound = solution.bound;
            solution = Solution { bound, is_within_tolerance, ..optimise::solve(&problem, &mut ledger) };
            after = survey.after(&ledger.targets(&solution));
        }
        (solution.before, solution.after) = (before as f64, after as f64);
        solution.bound = solution.bound.min(solution.after);
        (solution, ledger)
    }

    fn problem<'p>(&self, bindings: &'p [ParsedBinding], objective: &Objective) -> (Problem, Ledger<'p>) {
        let mut ledger = Ledger::new(&self.snapshot, bindings);
        let mut fleet = Fleet::of(&self.snapshot, objective);
        let mut choices = Choices::default();
        let mut items = Vec::with_capacity(bindings.len());
        for (position, parsed) in bindings.iter().enumerate() {
            items.push(self.item(position, parsed, objective, &mut ledger, (&fleet, &mut choices)));
        }
        fleet.count_at_least(&items);
        let selected = bindings.iter().flat_map(|parsed| &parsed.request.targets);
        let selected = selected.fold(0_i64, |sum, target| sum + i64::from(target.replicas));
        let newest = bindings.iter().filter(|parsed| parsed.is_aimed()).filter_map(|parsed| parsed.aim.as_deref());
        let newest = newest.filter(|aim| aim.is_for(objective)).max_by(|one, other| {
            (one.planned_at, one.least_gain)
                .partial_cmp(&(other.planned_at, other.least_gain))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let worth = objective.worth.number();
        let price = newest.map_or(0.0, |aim| aim.least_gain).max(0.0);
        let problem = Problem {
            goal: match objective.goal {
                api::Goal::Balance => optimise::Goal::Balance,
                api::Goal::Pack => optimise::Goal::Pack,
                api::Goal::Cost => optimise::Goal::Cost,
                api::Goal::Survive => optimise::Goal::Survive,
            },
            domains: match objective.goal {
                api::Goal::Survive => {
                    surviving::sites(&self.snapshot, objective.by.unwrap_or_default(), &fleet.positions)
                }
                _ => Vec::new(),
            },
            sites: fleet.sites,
            items,
            choices: choices.sets,
            budget: objective.budget(selected),
            worth,
            price: if worth > 0.0 { price } else { 0.0 },
            tolerance: objective.tolerance_number(),
        };
        ledger.names = fleet.names;
        (problem, ledger)
    }

    /// Returns the clusters from which recent plans with the same objective removed the binding.
    fn left(&self, parsed: &ParsedBinding, objective: &Objective, fleet: &Fleet) -> Arc<[u32]> {
        let aim = parsed.aim.as_deref().filter(|aim| aim.is_for(objective));
        let left = aim.map_or(&[][..], |aim| aim.left_lately(self.snapshot.now));
        let mut sites: Vec<u32> = left.iter().filter_map(|name| fleet.positions.get(&**name).copied()).collect();
        sites.sort_unstable();
        sites.into()
    }

    fn item(
        &self,
        position: usize,
        parsed: &ParsedBinding,
        objective: &Objective,
        ledger: &mut Ledger<'_>,
        places: (&Fleet, &mut Choices),
    ) -> Item {
        let (fleet, choices) = places;
        let request = &parsed.request;
        let start = self.start.get(&position);
        let freedom = ledger.builder.pass.freedom(request).filter(|_| {
            let is_kept = self.kept.contains_key(&parsed.object.key);
            let is_stopped = parsed.is_placement() || is_kept || request.deleting;
            !is_stopped && !request.is_triggered(&self.snapshot.profile)
        });
        let places = |targets: &[Target]| fleet.places(parsed, targets);
        let (needs, at) = (fleet.needs(request), places(&request.targets));
        let there: i64 = at.iter().map(|(_, replicas)| replicas).sum();
        let is_counted = freedom == Some(Freedom::Whole) || there == i64::from(request.replicas);
        let start_places = start.map(|(to, _)| places(to));
        // The scheduler is about to decide a workload with a wrong number of assigned replicas.
        let freedom =
            freedom.filter(|_| there > 0 && at.len() == request.targets.len() && (is_counted || start.is_some()));
        let Some(freedom) = freedom else { return Item { needs, at, ..Item::default() } };
        let observed = Some(request.observed_term.clone()).filter(|term| !term.is_empty());
        let term = start.map_or(observed, |(_, term)| term.clone());
        let choice = ledger.choice(parsed, term.as_deref(), fleet, &self.drained, choices);
        ledger.terms[position] = term;
        let mut stays: ReplicasBySite = Vec::new();
        if self.limits.preserves_available() {
            let reports = parsed.reports();
            let keep = |(site, _): &(u32, i64)| {
                let name = &fleet.names[*site as usize];
                (*site, parsed.available_on(name, &reports, &self.snapshot.unready))
            };
            stays = at.iter().map(keep).filter(|(_, kept)| *kept > 0).collect();
        }
        if self.is_drain {
            let Some(start) = &start_places else { return Item { needs, at, ..Item::default() } };
            let kept = |(site, replicas): &(u32, i64)| (*site, (*replicas).min(optimise::on(start, *site)));
            stays = at.iter().map(kept).filter(|(_, kept)| *kept > 0).collect();
        }
        let total = in_all(parsed, &request.targets);
        Item {
            needs,
            sites_max: match freedom {
                Freedom::Aggregated => at.len().max(start_places.as_ref().map_or(0, Vec::len)),
                Freedom::Each | Freedom::Whole => usize::MAX,
            },
            at,
            start: start_places,
            choice: (!choices.sets[choice].is_empty()).then_some(choice),
            refuge: Some(choice),
            stays,
            is_placed: parsed.is_aimed() && parsed.aim.as_deref().is_some_and(|aim| aim.is_for(objective)),
            left: self.left(parsed, objective, fleet),
            most: self.limits.most(total).unwrap_or(i64::MAX),
            fewest: self.limits.fewest(total),
            is_whole: freedom == Freedom::Whole,
            is_ruled: ledger.builder.pass.is_ruled(request),
        }
    }
}

impl PlanBuilder {
    /// Returns the new targets of the binding if an earlier affinity group than the current one
    /// accepts it.
    fn earlier_group(&mut self, parsed: &ParsedBinding) -> Option<(Vec<Target>, Box<str>)> {
        if parsed.request.observed_term.is_empty() {
            return None;
        }
        self.know_groups(&parsed.request);
        let mut request = self.request(parsed, Mode::Fresh);
        self.learn(parsed, &mut request);
        self.pass.earlier_group(&request)
    }
}

/// The clusters, and the resources that are considered.
struct Fleet {
    names: Vec<Arc<str>>,
    positions: HashMap<Arc<str>, u32>,
    resources: Vec<Box<str>>,
    sites: Vec<Site>,
}

impl Fleet {
    fn of(snapshot: &PlanningSnapshot, objective: &Objective) -> Fleet {
        let facts = snapshot.facts();
        let resources: BTreeSet<Box<str>> = match (&objective.resource, objective.goal) {
            (Some(resource), _) => [resource.as_str().into()].into(),
            (None, api::Goal::Cost) => {
                facts.values().flat_map(|facts| facts.prices.iter().flat_map(|it| it.keys().cloned())).collect()
            }
            (None, _) => facts.values().flat_map(|facts| facts.has.keys().cloned()).collect(),
        };
        // A missing price would count as zero.
        let most = if objective.goal == api::Goal::Cost { usize::MAX } else { RESOURCES_MAX };
        let resources: Vec<Box<str>> = resources.into_iter().take(most).collect();
        let mut fleet = Fleet { names: Vec::new(), positions: HashMap::new(), resources, sites: Vec::new() };
        for cluster in snapshot.clusters.iter().filter(|cluster| !cluster.deleting) {
            fleet.positions.insert(Arc::clone(&cluster.name), fleet.names.len() as u32);
            fleet.names.push(Arc::clone(&cluster.name));
            let capacity = cluster.capacity.as_ref();
            let free = capacity.map_or(&[][..], |capacity| &capacity.free);
            let mut site = fleet.site(&facts[&cluster.name], free);
            // Resource models may report more capacity than the sums.
            if capacity.is_some_and(|capacity| capacity.grades.is_none()) {
                site.room = site.has.iter().zip(&site.used).map(|(has, used)| (has - used).max(0)).collect();
            }
            fleet.sites.push(site);
        }
        fleet
    }

    fn site(&self, facts: &ClusterFacts, free: &[(Box<str>, ballast_k8s::Quantity)]) -> Site {
        let has = |name: &str| facts.has.get(name).copied().unwrap_or(0).max(0);
        let used = |name: &str| {
            let left =
                free.iter().find(|(known, _)| **known == *name).map_or(0, |(name, amount)| counted(name, *amount));
            has(name).saturating_sub(left).max(0)
        };
        let price = |prices: &std::collections::BTreeMap<Box<str>, f64>| {
            self.resources.iter().map(|name| prices.get(name).copied()).collect()
        };
        Site {
            has: self.resources.iter().map(|name| has(name)).collect(),
            used: self.resources.iter().map(|name| used(name)).collect(),
            room: Vec::new(),
            prices: facts.prices.as_ref().map(price),
        }
    }

    fn needs(&self, request: &Request) -> Arc<[(usize, i64)]> {
        let Some(needs) = Needs::of(request) else { return [].into() };
        let each = needs.amounts();
        let amounts = self.resources.iter().map(|name| i64::try_from(each.get(name)).unwrap_or(i64::MAX));
        amounts.enumerate().filter(|(_, amount)| *amount > 0).collect()
    }

    fn places(&self, parsed: &ParsedBinding, targets: &[Target]) -> ReplicasBySite {
        let copies = |target: &Target| match Needs::of(&parsed.request) {
            Some(needs) => needs.copies(target),
            None => 1,
        };
        let known = targets.iter().filter_map(|target| Some((*self.positions.get(&target.name)?, copies(target))));
        let mut places: ReplicasBySite = known.filter(|(_, replicas)| *replicas > 0).collect();
        places.sort_unstable();
        places.dedup_by_key(|(site, _)| *site);
        places
    }

    /// Counts the requests of selected workloads as used on their clusters, even if no report
    /// contains them.
    fn count_at_least(&mut self, items: &[Item]) {
        let mut requested: Vec<Vec<i64>> = self.sites.iter().map(|site| vec![0; site.used.len()]).collect();
        for item in items {
            for (site, replicas) in &item.at {
                for (resource, amount) in item.needs.iter() {
                    let sum = &mut requested[*site as usize][*resource];
                    *sum = sum.saturating_add(amount.saturating_mul(*replicas));
                }
            }
        }
        for (site, requested) in self.sites.iter_mut().zip(requested) {
            site.used.iter_mut().zip(requested).for_each(|(used, requested)| *used = (*used).max(requested));
        }
    }
}

/// The sets of clusters that bindings may use. Bindings with equal placements share a set.
#[derive(Default)]
struct Choices {
    sets: Vec<Box<[u32]>>,
    known: HashMap<ChoiceKey, usize>,
    of_set: HashMap<Box<[u32]>, usize>,
}

#[derive(PartialEq, Eq, Hash)]
struct ChoiceKey {
    placement: Shared<Placement>,
    term: Option<Box<str>>,
    api_version: Box<str>,
    kind: Box<str>,
}

/// The capacity that the search uses, and the placement rules that it checks.
struct Ledger<'p> {
    builder: PlanBuilder,
    requests: Vec<Cow<'p, Request>>,
    terms: Vec<Option<Box<str>>>,
    names: Vec<Arc<str>>,
}

impl<'p> Ledger<'p> {
    fn new(snapshot: &PlanningSnapshot, bindings: &'p [ParsedBinding]) -> Ledger<'p> {
        let mut builder = PlanBuilder::new(snapshot);
        builder.ask_about(bindings);
        let mut request = |parsed: &'p ParsedBinding| {
            let mut request = Cow::Borrowed(&parsed.request);
            if !parsed.is_placement() {
                builder.learn(parsed, &mut request);
            }
            request
        };
        let requests = bindings.iter().map(&mut request).collect();
        Ledger { builder, requests, terms: vec![None; bindings.len()], names: Vec::new() }
    }

    fn choice(
        &mut self,
        parsed: &ParsedBinding,
        term: Option<&str>,
        fleet: &Fleet,
        drained: &BTreeSet<Arc<str>>,
        choices: &mut Choices,
    ) -> usize {
        let request = self.builder.request(parsed, Mode::Fresh).into_owned();
        let is_usual = request.evicting.is_empty() && request.outstayed.is_empty();
        let key = request.placement.clone().filter(|_| is_usual).map(|placement| ChoiceKey {
            placement,
            term: term.map(Box::from),
            api_version: request.resource.api_version.clone(),
            kind: request.resource.kind.clone(),
        });
        if let Some(known) = key.as_ref().and_then(|key| choices.known.get(key)) {
            return *known;
        }
        let names = self.builder.pass.choice(&request, term);
        let open = names.iter().filter(|name| !drained.contains(*name));
        let mut sites: Vec<u32> = open.filter_map(|name| fleet.positions.get(name).copied()).collect();
        sites.sort_unstable();
        let sites: Box<[u32]> = sites.into();
        let position = *choices.of_set.entry(sites.clone()).or_insert_with(|| {
            choices.sets.push(sites);
            choices.sets.len() - 1
        });
        choices.known.extend(key.map(|key| (key, position)));
        position
    }

    /// Returns the targets of the plan, by position of the binding.
    fn targets(&self, solution: &Solution) -> HashMap<usize, Vec<Target>> {
        let to = |(item, places): &(usize, ReplicasBySite)| {
            let targets = places.iter().map(|(site, replicas)| self.target(*item, *site, *replicas));
            let mut targets: Vec<Target> = targets.collect();
            targets.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            (*item, targets)
        };
        solution.places.iter().map(to).collect()
    }

    fn target(&self, item: usize, site: u32, replicas: i64) -> Target {
        let request = &self.requests[item];
        let components = request.targets.first().map(|target| target.components.clone()).unwrap_or_default();
        let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
        Target { name: Arc::clone(&self.names[site as usize]), replicas, components }
    }
}

impl Rules for Ledger<'_> {
    fn fits(&mut self, item: usize, site: u32) -> i64 {
        self.builder.pass.capacity(&self.requests[item], &self.names[site as usize])
    }

    fn take(&mut self, item: usize, site: u32, replicas: i64) {
        let target = [self.target(item, site, replicas.abs())];
        let (from, to) = if replicas > 0 { (&[][..], &target[..]) } else { (&target[..], &[][..]) };
        self.builder.pass.move_capacity(&self.requests[item], from, to);
    }

    fn keeps(&mut self, item: usize, places: &[(u32, i64)]) -> bool {
        let mut to: Vec<Target> = places.iter().map(|(site, replicas)| self.target(item, *site, *replicas)).collect();
        to.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.builder.pass.keeps(&self.requests[item], self.terms[item].as_deref(), &to)
    }
}
