//! One pass: many bindings decided against one view of the fleet, sharing what they have in common.

use std::collections::HashMap;

use super::assign::{Assigner, Scratch, Shortage};
use super::components;
use super::decision::{Decision, Failed, Outcome, Placed, Reason, Skip};
use super::estimate::{Estimates, UNLIMITED};
use super::filters::{Case, FILTERS};
use super::fleet::Fleet;
use super::placement::{Division, Placement, Term};
use super::profile::Profile;
use super::request::{Mode, Request, Shared};
use super::select::{self, Candidate};
use super::workloads::Workloads;
use crate::engine::bits::Bits;

pub struct Pass<'a> {
    fleet: &'a Fleet,
    profile: &'a Profile,
    /// With the decisions of this pass.
    workloads: Workloads,
    plans: HashMap<PlanKey, Plan>,
    estimates: Estimates,
    scratch: Scratch,
    candidates: Vec<Candidate>,
    feasible: Bits,
}

/// What the answers of the shared filters depend on.
#[derive(PartialEq, Eq, Hash)]
struct PlanKey {
    placement: Shared<Placement>,
    /// Position of the group that is tried.
    term: Option<usize>,
    api_version: Box<str>,
    kind: Box<str>,
    /// Overflow tiers count for workloads only.
    workload: bool,
}

/// What bindings with equal placements share.
struct Plan {
    /// Clusters that pass every shared filter.
    open: Bits,
    /// Clusters that pass the shared filters which do not spare current targets.
    open_to_targets: Bits,
    weighted: Vec<(Bits, i64)>,
    /// Clusters of the group itself and of each overflow tier. Empty without tiers.
    tiers: Vec<Bits>,
}

/// Why one attempt failed.
enum Failure {
    NoClusterFits,
    Room(String),
    Impossible(String),
}

impl<'a> Pass<'a> {
    pub fn new(fleet: &'a Fleet, workloads: &Workloads, profile: &'a Profile) -> Pass<'a> {
        Pass {
            fleet,
            profile,
            workloads: workloads.clone(),
            plans: HashMap::new(),
            estimates: Estimates::default(),
            scratch: Scratch::default(),
            candidates: Vec::new(),
            feasible: Bits::default(),
        }
    }

    pub fn decide(&mut self, request: &Request) -> Decision {
        let mode = request.mode(self.profile);
        let placement = match self.asked(request) {
            Ok(placement) => placement,
            Err(skip) => return Decision::skipped(skip, mode),
        };
        let outcome = match &request.fault {
            Some(fault) => Outcome::Failed(Failed { reason: Reason::SchedulerError, message: fault.to_string() }),
            None => self.place(request, placement, mode),
        };
        if let Outcome::Placed(placed) = &outcome {
            self.workloads.note(request, &placed.targets);
        }
        Decision { outcome, mode }
    }

    /// The placement, if anything asks for a pass.
    fn asked<'r>(&self, request: &'r Request) -> Result<&'r Shared<Placement>, Skip> {
        let scheduler =
            if request.scheduler_name.is_empty() { super::DEFAULT_SCHEDULER } else { &request.scheduler_name };
        // Differs from Karmada: a placement is enough, whoever wrote it.
        let managed = request.managed || self.profile.deviates();
        if request.suspended || *scheduler != *self.profile.scheduler_name || !managed {
            return Err(Skip::Filtered);
        }
        if request.deleting {
            return Err(Skip::Deleting);
        }
        let Some(placement) = &request.placement else { return Err(Skip::NoPlacement) };
        let asked = request.placement_changed
            || replicas_changed(request, placement)
            || components::changed(request, self.profile)
            || request.is_triggered(self.profile)
            || !request.is_workload()
            || placement.division == Division::Duplicated
            || self.sits_on_leaving_cluster(request);
        if asked { Ok(placement) } else { Err(Skip::Unchanged) }
    }

    fn sits_on_leaving_cluster(&self, request: &Request) -> bool {
        request.targets.iter().any(|target| self.fleet.find(&target.name).is_some_and(|cluster| cluster.deleting))
    }

    /// Tries the groups one at a time, from the observed one on; Fresh from the first (C9).
    fn place(&mut self, request: &Request, placement: &Shared<Placement>, mode: Mode) -> Outcome {
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
                // A workload of no replicas gets no targets, which does not count as a choice of Karmada's.
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
        // The first group is the one the user wants most, so its failure is the one to report.
        Outcome::Failed(first.expect("there is at least one group to try"))
    }

    fn case<'c>(&'c self, request: &'c Request, placement: &'c Placement, term: Option<usize>, mode: Mode) -> Case<'c> {
        let term: Option<&Term> = term.map(|term| &placement.terms[term]);
        Case { fleet: self.fleet, workloads: &self.workloads, profile: self.profile, request, placement, term, mode }
    }

    fn attempt(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> Result<Vec<super::request::Target>, Failure> {
        let key = PlanKey {
            placement: placement.clone(),
            term,
            api_version: request.resource.api_version.clone(),
            kind: request.resource.kind.clone(),
            workload: request.is_workload(),
        };
        if !self.plans.contains_key(&key) {
            let plan = Plan::new(&self.case(request, placement, term, mode));
            self.plans.insert(key, plan);
            return self.attempt(request, placement, term, mode);
        }
        let plan = &self.plans[&key];
        let term: Option<&Term> = term.map(|term| &placement.terms[term]);
        let case = Case {
            fleet: self.fleet,
            workloads: &self.workloads,
            profile: self.profile,
            request,
            placement,
            term,
            mode,
        };
        plan.feasible(&case, &mut self.feasible);
        if self.feasible.is_empty() {
            return Err(Failure::NoClusterFits);
        }
        list(&case, plan, &self.feasible, &mut self.estimates, &mut self.candidates);
        select::select(&case, &mut self.candidates)
            .map_err(|why| Failure::Impossible(format!("failed to select clusters: {why}")))?;
        if self.candidates.is_empty() {
            return Err(Failure::Impossible("failed to assign replicas: no clusters available to schedule".to_owned()));
        }
        let mut assigner = Assigner { case: &case, weighted: &plan.weighted, scratch: &mut self.scratch };
        let mut targets = assigner.assign(&mut self.candidates).map_err(|shortage| match shortage {
            Shortage::Room(why) => Failure::Room(format!("failed to assign replicas: {why}")),
            Shortage::Impossible(why) => Failure::Impossible(format!("failed to assign replicas: {why}")),
        })?;
        let components = components::assigned(request, placement, self.profile);
        if !components.is_empty() {
            targets.iter_mut().for_each(|target| target.components.clone_from(&components));
        }
        Ok(targets)
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
                let message = no_cluster_fits(&self.case(request, placement, term, mode));
                Failed { reason: Reason::NoClusterFit, message }
            }
            Failure::Room(message) => Failed { reason: Reason::Unschedulable, message },
            Failure::Impossible(message) => Failed { reason: Reason::SchedulerError, message },
        }
    }
}

/// The replicas there are not the replicas that are wanted.
fn replicas_changed(request: &Request, placement: &Placement) -> bool {
    let wanted = i64::from(request.replicas);
    match placement.division {
        Division::Duplicated => request.targets.iter().any(|target| i64::from(target.replicas) != wanted),
        _ => request.targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != wanted,
    }
}

impl Plan {
    fn new(case: &Case<'_>) -> Plan {
        let mut open_to_targets = case.fleet.traits().live.clone();
        FILTERS.iter().filter(|f| f.shared && !f.spares_targets).for_each(|f| (f.keep)(case, &mut open_to_targets));
        let mut open = open_to_targets.clone();
        FILTERS.iter().filter(|f| f.shared && f.spares_targets).for_each(|f| (f.keep)(case, &mut open));
        let weighted = match &case.placement.division {
            Division::Static(Some(weights)) => {
                weights.iter().map(|weight| (weight.target.select(case.fleet), weight.weight)).collect()
            }
            _ => Vec::new(),
        };
        let tiers = match case.affinity() {
            Some((affinity, overflow)) if !overflow.is_empty() => {
                std::iter::once(affinity).chain(overflow).map(|tier| tier.select(case.fleet)).collect()
            }
            _ => Vec::new(),
        };
        Plan { open, open_to_targets, weighted, tiers }
    }

    /// The clusters this binding may go to.
    fn feasible(&self, case: &Case<'_>, feasible: &mut Bits) {
        feasible.copy_from(&self.open);
        let own = || FILTERS.iter().filter(|filter| !filter.shared);
        let sparing = own().filter(|filter| filter.spares_targets);
        sparing.for_each(|filter| (filter.keep)(case, feasible));
        if case.remembers_targets() {
            let there = case.request.targets.iter().filter_map(|target| case.fleet.slot(&target.name));
            there.filter(|slot| self.open_to_targets.contains(*slot)).for_each(|slot| feasible.insert(slot));
        }
        own().filter(|filter| !filter.spares_targets).for_each(|filter| (filter.keep)(case, feasible));
    }

    fn tier(&self, slot: usize) -> u32 {
        self.tiers.iter().position(|members| members.contains(slot)).unwrap_or(0) as u32
    }
}

/// Score of a cluster that the workload is on already.
const LOCALITY: u32 = 100;

/// The feasible clusters with all that selection and division ask about them.
fn list(case: &Case<'_>, plan: &Plan, feasible: &Bits, estimates: &mut Estimates, candidates: &mut Vec<Candidate>) {
    let Case { fleet, request, placement, .. } = *case;
    candidates.clear();
    let replicas = i64::from(request.replicas);
    let mut add = |slot: usize, fits: i32| {
        let free = if fits == UNLIMITED { replicas } else { i64::from(fits) };
        let (rank, tier) = (fleet.rank(slot), plan.tier(slot));
        candidates.push(Candidate { slot: slot as u32, rank, score: 0, tier, free, own: 0, standing: 0 });
    };
    let counts_room = match placement.division {
        Division::Dynamic | Division::Aggregated => true,
        _ => !placement.spread.is_empty() && !placement.ignores_spread() || !plan.tiers.is_empty(),
    };
    if !counts_room || (request.replicas == 0 && request.components.is_empty()) {
        feasible.iter().for_each(|slot| add(slot, UNLIMITED));
    } else if components::counts_sets(request, placement, case.profile) {
        feasible.iter().for_each(|slot| add(slot, components::sets(fleet.cluster(slot), &request.components)));
    } else {
        estimates.each(fleet, request.requirements.as_ref(), feasible.iter(), add);
    }
    for target in &request.targets {
        let Some(slot) = fleet.slot(&target.name) else { continue };
        if let Ok(position) = candidates.binary_search_by_key(&slot, Candidate::slot) {
            candidates[position].own += i64::from(target.replicas);
            candidates[position].score = if case.remembers_targets() { LOCALITY } else { 0 };
        }
    }
    candidates.iter_mut().for_each(Candidate::rate);
}

/// How many clusters are out for which reason.
fn no_cluster_fits(case: &Case<'_>) -> String {
    let mut reasons: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for cluster in case.fleet.iter().filter(|cluster| !cluster.deleting) {
        if let Some((_, reason)) = case.reason(cluster) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let all = case.fleet.len();
    if reasons.is_empty() {
        return format!("0/{all} clusters are available: no cluster exists.");
    }
    let mut counts: Vec<String> = reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counts.sort_unstable();
    format!("0/{all} clusters are available: {}.", counts.join(", "))
}
