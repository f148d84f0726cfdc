//! Computes the result of one review: the move of each workload, with the reason. Pure: nothing
//! blocks, and only a private copy of the present is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::cluster_names::{ClusterNames, ReviewDetails};
use super::remedies::remedies;
use super::what_if;
use crate::nameable::Nameable;
use crate::plan_hash::plan_hash;
use crate::planned_moves;
use crate::reasons::Reasons;
use crate::record::listed;
use crate::unknown_selection::NamedSelection;
use ballast_api::FreeForm;
use ballast_api::ballast::v1alpha1::{
    ClusterCount, Explain, FailureDomain, Limits, Mode, MoveReason, Order, ReviewMode, ReviewSpec, ReviewStatus,
    ReviewedMove, SelectEntry, Share, Summary, Unplaceable,
};
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_engine::karmada::Trace;
use ballast_k8s::{FieldErrors, FieldPath, read_json};
use ballast_scheduler::planning::{
    self, Clearing, Haste, MovePlan, ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, Selection,
    SelectionTooLarge, Standing, shares,
};
use ballast_scheduler::reservations::Names;
use ballast_watch::View;

/// Maximum bytes of traces in one response. Entries beyond it are counted and not listed.
const TRACES_BYTES_MAX: usize = 16 << 20;
/// Maximum of new clusters times workloads, in decisions: about a second of a core.
const PRICE_MAX: usize = 200_000;
/// The cost of an explanation in decisions, mostly for its text.
const LOSERS_PRICE: usize = 8;
const FULL_PRICE: usize = 32;
/// Maximum number of workloads without capacity for which remedies are searched.
const HELPED_MAX: usize = 20;

/// Computes the response. `scope` is the namespace of a namespaced review, and `details` limits its
/// information about clusters. `before` are the bindings at the moment that mode AsBefore names.
/// Once `gone` is true, the caller has disconnected, and the rest of the work is skipped.
pub fn answer(
    spec: &ReviewSpec,
    scope: Option<&str>,
    details: ReviewDetails,
    present: &PlanningSnapshot,
    before: Option<&View>,
    gone: &AtomicBool,
) -> Result<ReviewStatus, FieldErrors> {
    let mut errors = FieldErrors::default();
    let none = Default::default();
    let suppose = spec.suppose.as_ref().unwrap_or(&none);
    // The selection uses the real state, not the hypothetical one.
    let selection = Selection::new(&spec.select, &[], scope, &present.view)?;
    let mut supposed = present.clone();
    // A namespaced review names only workloads of its namespace.
    supposed.names = if scope.is_none() { Names::All } else { Names::OfNamespace };
    let names = match scope.filter(|_| details == ReviewDetails::Own) {
        Some(namespace) => ClusterNames::of_namespace(namespace, &present.view, &mut supposed),
        None => ClusterNames::all(&present.view),
    };
    what_if::check_places(&spec.select, &present.view, &names, &mut errors);
    what_if::clusters(&mut supposed, &suppose.clusters, &names, &mut errors);
    let mut cases = Vec::new();
    match selection.find(present) {
        Ok(found) => cases = found,
        Err(too_many) => errors.invalid(&FieldPath::new("spec.select"), &spec.select, too_many),
    }
    what_if::workloads(&mut cases, &present.view, scope, &suppose.workloads, &mut errors);
    check_price(spec, suppose.clusters.iter().filter(|it| it.like.is_some()).count(), cases.len(), &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(survive) = &spec.survive {
        return match scope {
            None => survived(survive.by, cases, &supposed.clearing(Clearing::of(&spec.select)), gone),
            Some(_) => {
                // The clusters that the namespace may not see have workloads that move, too.
                let mut fleet = present.clone().clearing(Clearing::of(&spec.select));
                what_if::clusters(&mut fleet, &suppose.clusters, &names, &mut errors);
                survived_locally(survive.by, &cases, &fleet, names.own(), gone)
            }
        };
    }
    if spec.mode == ReviewMode::Steady {
        supposed = supposed.clearing(Clearing::of(&spec.select));
    }
    if let Some((field, detail)) = spec.objective.as_ref().and_then(|it| planning::unknown_to_all(&supposed, it)) {
        errors.invalid(&FieldPath::new("spec.objective").child(field), &spec.objective, detail);
        return Err(errors);
    }
    let listing = Listing::new(spec, &supposed);
    let status = match spec.mode {
        ReviewMode::Fresh if spec.objective.is_some() => listing.planned_for(cases, spec, gone),
        ReviewMode::Fresh => listing.planned(cases, Mode::Fresh, None, gone),
        ReviewMode::AsBefore => listing.planned(cases, Mode::AsBefore, before, gone),
        ReviewMode::Steady => listing.planned(cases, Mode::Steady, None, gone),
        ReviewMode::AsIs => listing.present_places(cases, gone),
    };
    // A review shows the workloads of its namespace, or all of them, to its caller.
    let (select, nameable) = (&*spec.select, &Nameable::all());
    let named = NamedSelection { at: "spec", select, exclude: &[], scope, with_clusters: false, nameable };
    let unknown_names = named.unknown(&present.view);
    Ok(ReviewStatus { revision: present.view.revision.to_string(), unknown_names, ..status })
}

/// Computes the replicas that the loss of each domain would strand.
fn survived(
    by: FailureDomain,
    cases: Vec<ParsedBinding>,
    present: &PlanningSnapshot,
    gone: &AtomicBool,
) -> Result<ReviewStatus, FieldErrors> {
    let summary = Summary { selected: cases.len() as i64, ..Summary::default() };
    let cost = planning::cost_of(present, &cases);
    let survival = planning::survival(present, &cases, by, Haste::Waited, gone);
    if survival.is_empty() && !gone.load(Ordering::Relaxed) {
        return Err(no_domains(by));
    }
    let revision = present.view.revision.to_string();
    Ok(ReviewStatus { revision, summary, survival, cost, ..ReviewStatus::default() })
}

fn no_domains(by: FailureDomain) -> FieldErrors {
    let mut errors = FieldErrors::default();
    errors.invalid(&FieldPath::new("spec.survive.by"), by, planning::unknown_domain(by));
    errors
}

/// Computes the replicas of these workloads of a namespace that the loss of each domain would
/// strand. The workloads of all namespaces compete for the remaining capacity, so all are decided.
/// `known` are the clusters that the namespace may see; other domains, and amounts, are omitted
/// then.
fn survived_locally(
    by: FailureDomain,
    cases: &[ParsedBinding],
    fleet: &PlanningSnapshot,
    known: Option<&BTreeSet<Arc<str>>>,
    gone: &AtomicBool,
) -> Result<ReviewStatus, FieldErrors> {
    let path = FieldPath::new("spec.survive");
    let too_large = |SelectionTooLarge(count)| {
        let mut errors = FieldErrors::default();
        errors.invalid(&path, count, "so many workloads of all namespaces cannot be decided together");
        errors
    };
    let all = Selection::new(&[SelectEntry::default()], &[], None, &fleet.view)?;
    let all = all.find(fleet).map_err(too_large)?;
    let counted = cases.iter().map(|case| case.object.key.clone()).collect();
    let mut survival = planning::survival_of(fleet, &all, Some(&counted), by, Haste::Waited, gone);
    if let Some(known) = known {
        let domains = planning::domains(&fleet.clusters, by);
        let is_known = |name: &str| domains.get(name).is_some_and(|of| of.iter().any(|it| known.contains(it)));
        survival.retain(|it| is_known(&it.name));
        for it in &mut survival {
            (it.room_left, it.share) = Default::default();
        }
    }
    if survival.is_empty() && !gone.load(Ordering::Relaxed) {
        return Err(no_domains(by));
    }
    let summary = Summary { selected: cases.len() as i64, ..Summary::default() };
    let revision = fleet.view.revision.to_string();
    Ok(ReviewStatus { revision, summary, survival, ..ReviewStatus::default() })
}

/// Refuses a review with new clusters that cost too much (LI10). Each adds a cluster to each
/// decision, and a line to each explanation. Existing clusters are bounded by their registration,
/// and any number of them may be supposed to be lost or changed.
fn check_price(spec: &ReviewSpec, clusters: usize, workloads: usize, errors: &mut FieldErrors) {
    let weight = match spec.explain {
        Explain::None => 0,
        Explain::Losers => LOSERS_PRICE,
        Explain::Full => FULL_PRICE,
    };
    let explained = workloads.min(usize::try_from(spec.limit).unwrap_or_default());
    let of_each = workloads + explained * weight;
    if clusters.saturating_mul(of_each) <= PRICE_MAX {
        return;
    }
    let explain = json!(spec.explain);
    let why = format!(
        "Too many: {clusters}: with {workloads} workloads of which {explained} are explained ({explain}), at most {} \
         new clusters can be supposed; select fewer workloads, or ask for less explanation or a lower limit",
        PRICE_MAX / of_each
    );
    errors.push(&FieldPath::new("spec.suppose.clusters"), "FieldValueTooMany", why);
}

/// The entries of a response, within its bounds.
struct Listing<'a> {
    present: &'a PlanningSnapshot,
    limits: Limits,
    explain: Explain,
    limit: usize,
    bytes_left: usize,
    helps_left: usize,
    moves: Vec<ReviewedMove>,
    /// Workloads that stay. They are listed after moving ones, if an explanation is requested.
    stays: Vec<ReviewedMove>,
    unplaceable: Vec<Unplaceable>,
    /// The number of entries without the limit.
    listable: usize,
}

impl<'a> Listing<'a> {
    fn new(spec: &ReviewSpec, present: &'a PlanningSnapshot) -> Listing<'a> {
        Listing {
            present,
            limits: spec.limits,
            explain: spec.explain,
            limit: usize::try_from(spec.limit).unwrap_or_default(),
            bytes_left: TRACES_BYTES_MAX,
            helps_left: HELPED_MAX,
            moves: Vec::new(),
            stays: Vec::new(),
            unplaceable: Vec::new(),
            listable: 0,
        }
    }

    /// Decides all bindings as a plan does.
    fn planned(
        mut self,
        cases: Vec<ParsedBinding>,
        mode: Mode,
        before: Option<&View>,
        gone: &AtomicBool,
    ) -> ReviewStatus {
        let (how, present) = (PlanOptions { mode, limits: self.limits }, self.present);
        let (moving, cases) = planned_moves::split_moving(cases, &present.view);
        let propose = |draft: &mut PlanBuilder, case: &ParsedBinding| match gone.load(Ordering::Relaxed) {
            true => Proposal::Stay { reason: None, message: String::new() },
            false => planned_moves::propose(draft, case, &how, before),
        };
        let tell =
            |draft: &mut PlanBuilder, case: &ParsedBinding, proposal: &Proposal| self.list(draft, case, &how, proposal);
        let mut plan = planning::plan_by(present, cases, Order::Priority, propose, tell);
        self.leave_moving(&mut plan, moving);
        let (reasons, hash) = (Reasons::of(&plan), plan_hash(&plan));
        let cost = plan.cost;
        ReviewStatus { plan_hash: Some(hash), cost, ..self.status(plan.summary, plan.clusters, reasons) }
    }

    /// Decides all bindings for an objective.
    fn planned_for(mut self, cases: Vec<ParsedBinding>, spec: &ReviewSpec, gone: &AtomicBool) -> ReviewStatus {
        let Some(objective) = spec.objective.as_ref().filter(|_| !gone.load(Ordering::Relaxed)) else {
            return ReviewStatus::default();
        };
        let (how, present) = (PlanOptions { mode: Mode::Fresh, limits: self.limits }, self.present);
        let tell =
            |draft: &mut PlanBuilder, case: &ParsedBinding, proposal: &Proposal| self.list(draft, case, &how, proposal);
        let (moving, cases) = planned_moves::split_moving(cases, &present.view);
        let mut plan = planning::plan_for(present, cases, objective, &how.limits, Order::Priority, tell);
        self.leave_moving(&mut plan, moving);
        let (reasons, plan_hash) = (Reasons::of(&plan), Some(plan_hash(&plan)));
        let (objective, cost) = (plan.objective.map(|outcome| outcome.status), plan.cost);
        ReviewStatus { objective, cost, plan_hash, ..self.status(plan.summary, plan.clusters, reasons) }
    }

    /// Lists the bindings that a running rebalance is moving. The plan skips them.
    fn leave_moving(&mut self, plan: &mut MovePlan, moving: Vec<ParsedBinding>) {
        for case in &moving {
            let (reason, message) = planned_moves::moving_already(case);
            self.list_stay(case, Some(reason), &message, None);
        }
        plan.keep(moving, planned_moves::moving_already);
    }

    /// Lists a binding that stays, within the limit.
    fn list_stay(&mut self, case: &ParsedBinding, reason: Option<MoveReason>, message: &str, trace: Option<FreeForm>) {
        self.listable += 1;
        if !self.is_full(self.moves.len() + self.stays.len()) {
            self.stays.push(ReviewedMove { trace, to: case.from(), ..entry(case, reason, message) });
        }
    }

    fn list(&mut self, draft: &mut PlanBuilder, case: &ParsedBinding, how: &PlanOptions, proposal: &Proposal) {
        match proposal {
            Proposal::Move { to, arrivals, limited, short, .. } => {
                self.listable += 1;
                if self.is_full(self.moves.len()) {
                    return;
                }
                let (reason, message) = match (limited, case.is_placement()) {
                    _ if short.is_some() => {
                        let short = short.as_ref().expect("just looked at");
                        (Some(short.reason), &*short.message)
                    }
                    (true, _) => (Some(MoveReason::LimitReached), "the limits leave a part of the decision undone"),
                    (_, true) => (None, "it is triggered, and its own strategy decides where it goes"),
                    _ => (None, ""),
                };
                let entry = ReviewedMove { to: shares(to), replicas: *arrivals, ..entry(case, reason, message) };
                let trace = self.trace(draft, case, how);
                self.moves.push(ReviewedMove { trace, ..entry });
            }
            // With AsBefore each selected workload is listed: one that cannot return has a reason.
            Proposal::Stay { reason, message } if self.explain != Explain::None || how.mode == Mode::AsBefore => {
                let trace = match self.is_full(self.moves.len() + self.stays.len()) {
                    true => None,
                    false => self.trace(draft, case, how),
                };
                self.list_stay(case, *reason, message, trace);
            }
            Proposal::Stay { .. } => {}
            Proposal::Unplaceable { reason, message } => self.refuse(draft, case, how, *reason, message),
        }
    }

    fn refuse(
        &mut self,
        draft: &mut PlanBuilder,
        case: &ParsedBinding,
        how: &PlanOptions,
        reason: MoveReason,
        message: &str,
    ) {
        self.listable += 1;
        if self.is_full(self.unplaceable.len()) {
            return;
        }
        let (mut message, mut helps) = (message.to_owned(), Vec::new());
        if self.helps_left > 0 && !case.is_placement() {
            self.helps_left -= 1;
            let (_, trace) = draft.explain(case, how);
            helps = remedies(self.present, draft, case, how, &trace);
            helps.iter().for_each(|sentence| message = format!("{message}; {sentence}"));
        }
        let trace = self.trace_with(draft, case, how, helps);
        let ParsedBinding { binding, workload, .. } = case;
        let (binding, workload) = (binding.clone(), workload.clone());
        self.unplaceable.push(Unplaceable { binding, workload, reason: Some(reason), message, trace });
    }

    /// Explains the present placements without deciding.
    fn present_places(mut self, mut cases: Vec<ParsedBinding>, gone: &AtomicBool) -> ReviewStatus {
        let how = |mode| PlanOptions { mode, limits: Limits::default() };
        planning::in_order(&mut cases, Order::Priority);
        let mut draft = PlanBuilder::new(self.present);
        let mut summary = Summary { selected: cases.len() as i64, ..Summary::default() };
        let mut clusters: BTreeMap<String, i64> = BTreeMap::new();
        let mut reasons = Reasons::default();
        for case in &cases {
            for Share { name, replicas } in case.from() {
                *clusters.entry(name).or_default() += i64::from(replicas);
            }
            if gone.load(Ordering::Relaxed) {
                continue;
            }
            if let Some((reason, message)) = unscheduled(case) {
                summary.failed += 1;
                reasons.add(reason, &message, &case.workload);
                let message = std::iter::once(message).chain(draft.reservations(case)).collect::<Vec<_>>().join("; ");
                self.refuse(&mut draft, case, &how(Mode::Steady), reason, &message);
                continue;
            }
            summary.unchanged += 1;
            self.listable += 1;
            if !self.is_full(self.moves.len()) {
                let message = standing(&mut draft, case);
                let trace = self.trace(&mut draft, case, &how(Mode::Steady));
                self.moves.push(ReviewedMove { trace, to: case.from(), ..entry(case, None, &message) });
            }
        }
        let count = |(name, now)| ClusterCount { name, before: now, planned: now, now };
        let cost = planning::cost_of(self.present, &cases);
        ReviewStatus { cost, ..self.status(summary, clusters.into_iter().map(count).collect(), reasons) }
    }

    fn is_full(&self, listed: usize) -> bool {
        listed >= self.limit || self.bytes_left == 0
    }

    fn trace(&mut self, draft: &mut PlanBuilder, case: &ParsedBinding, how: &PlanOptions) -> Option<FreeForm> {
        self.trace_with(draft, case, how, Vec::new())
    }

    /// Returns the trace, with remedies as `help`.
    fn trace_with(
        &mut self,
        draft: &mut PlanBuilder,
        case: &ParsedBinding,
        how: &PlanOptions,
        helps: Vec<String>,
    ) -> Option<FreeForm> {
        if self.explain == Explain::None || case.is_placement() {
            return None;
        }
        let (_, trace) = draft.explain(case, how);
        let mut told = match self.explain {
            Explain::Full => json!(trace),
            _ => losers(&trace),
        };
        if !helps.is_empty() {
            told["help"] = json!(helps);
        }
        let told = FreeForm::from(&told);
        self.bytes_left = self.bytes_left.saturating_sub(told.text().len());
        Some(told)
    }

    fn status(self, summary: Summary, clusters: Vec<ClusterCount>, reasons: Reasons) -> ReviewStatus {
        let Listing { mut moves, stays, unplaceable, listable, limit, .. } = self;
        let room = limit.saturating_sub(moves.len());
        moves.extend(stays.into_iter().take(room));
        let remaining = (listable - moves.len() - unplaceable.len()) as i64;
        let reasons = reasons.listed();
        ReviewStatus { summary, clusters, moves, unplaceable, remaining, reasons, ..ReviewStatus::default() }
    }
}

fn entry(case: &ParsedBinding, reason: Option<MoveReason>, message: &str) -> ReviewedMove {
    ReviewedMove {
        binding: case.binding.clone(),
        workload: case.workload.clone(),
        from: case.from(),
        reason,
        message: message.to_owned(),
        ..ReviewedMove::default()
    }
}

/// Returns one reason for each cluster that did not get the workload, from the last attempt.
fn losers(trace: &Trace) -> Value {
    let clusters = trace.attempts.last().map_or(&[][..], |attempt| &attempt.clusters);
    let lost = clusters.iter().filter_map(|cluster| {
        let reason = cluster.out.as_ref()?;
        Some(json!({"cluster": cluster.name, "reason": reason}))
    });
    json!({"losers": lost.collect::<Vec<Value>>()})
}

/// Returns the reason why the last pass placed the binding nowhere, if it did.
fn unscheduled(case: &ParsedBinding) -> Option<(MoveReason, String)> {
    if case.is_placement() {
        return None;
    }
    let binding: AnyBinding = read_json(&case.object.text.content()).ok()?;
    let scheduled = binding.status.conditions.into_iter().find(|condition| condition.type_ == "Scheduled")?;
    let reason = match &*scheduled.reason {
        "Unschedulable" | "PartlyScheduled" => MoveReason::NoRoom,
        _ => MoveReason::NoClusterFits,
    };
    (scheduled.status == "False").then_some((reason, scheduled.message))
}

/// Returns a message about the former placement of a displaced binding.
fn displaced(draft: &mut PlanBuilder, case: &ParsedBinding) -> String {
    match draft.propose_home(case, None, &Limits::default()) {
        Proposal::Move { to, .. } => format!("displaced: it belongs on {}", listed(&shares(&to))),
        Proposal::Stay { message, .. } => format!("displaced, and cannot return yet: {message}"),
        Proposal::Unplaceable { message, .. } => format!("displaced, and cannot return yet: {message}"),
    }
}

/// Returns a message about the standing of the binding, with the rules that its placement violates
/// without having to move, and the clusters with suspended dispatching.
fn standing(draft: &mut PlanBuilder, case: &ParsedBinding) -> String {
    if case.is_placement() {
        return String::new();
    }
    let stands = where_it_belongs(draft, case);
    std::iter::once(stands).chain(draft.reservations(case)).collect::<Vec<String>>().join("; ")
}

fn where_it_belongs(draft: &mut PlanBuilder, case: &ParsedBinding) -> String {
    if planned_moves::is_moving(case, draft.view()) {
        return planned_moves::moving_already(case).1;
    }
    let standing = planning::standing(draft, case);
    match draft.propose(case, &PlanOptions { mode: Mode::Fresh, limits: Limits::default() }) {
        _ if standing == Standing::Displaced => displaced(draft, case),
        Proposal::Move { .. } if standing == Standing::Well => {
            "an objective has put it there, and a Fresh decision would place it elsewhere".to_owned()
        }
        Proposal::Move { to, .. } => format!("drifted: a Fresh decision would place it on {}", listed(&shares(&to))),
        Proposal::Stay { message, .. } => message,
        Proposal::Unplaceable { message, .. } => format!("a Fresh decision would place it nowhere: {message}"),
    }
}
