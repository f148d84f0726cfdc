//! The plan of a rebalance, as its Moves and its status.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;

use super::nameable::Nameable;
use super::plan_hash::{difference, plan_hash};
use super::reasons::Reasons;
use super::record::{self, AnyMove, AnyRebalance, Owner};
use super::status;
use super::unknown_selection::NamedSelection;
use super::way_back::way_back;
use ballast_api::ballast::v1alpha1::{
    ClusterCount, CostStatus, Drain, Mode, MovePhase, MoveReason, MoveSpec, MoveStatus, ObjectiveStatus, Phase,
    RebalanceSpec, RebalanceStatus, Share, Summary, Undo, move_name,
};
use ballast_api::karmada::work::v1alpha2::{AIM, Aim};
use ballast_k8s::{Edit, GroupResource, Key, Revision, Time};
use ballast_registry::Change;
use ballast_scheduler::move_annotation::MoveAnnotation;
use ballast_scheduler::planning::{
    self, MovePlan, ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, Selection, SelectionTooLarge,
};
use ballast_watch::View;

/// The message for a deleted binding in an undo.
const BINDING_GONE: &str = "the binding is gone";

/// The result of a plan, except the status of the rebalance.
#[derive(Default)]
pub struct PlannedMoves {
    pub moves: Vec<(Key, MoveSpec, MoveStatus)>,
    pub summary: Summary,
    pub clusters: Vec<ClusterCount>,
    pub reasons: Reasons,
    /// The name of the plan.
    pub hash: String,
    /// The objective and the cost of the plan.
    pub objective: Option<ObjectiveStatus>,
    pub cost: Option<CostStatus>,
    /// The record of a plan with an objective for its bindings.
    pub aim: Option<Aim>,
    /// The unknown names in the selection, if nothing is selected.
    pub unknown_names: Vec<String>,
}

/// The reason why there is no plan: one word, and a message.
#[derive(Debug, PartialEq, Eq)]
pub struct PlanError {
    pub reason: &'static str,
    pub message: String,
    /// The name of the computed plan, if it is not the expected one.
    pub hash: Option<String>,
}

impl PlanError {
    pub fn new(reason: &'static str, message: impl Into<String>) -> PlanError {
        PlanError { reason, message: message.into(), hash: None }
    }
}

/// A deleted binding, which an undo cannot restore.
struct LostBinding {
    key: Key,
    spec: MoveSpec,
}

/// Plans over a view without writing. `before` are the bindings at the moment that the rebalance
/// names.
pub fn make(
    present: &PlanningSnapshot,
    before: Option<&View>,
    owner: &Owner,
    rebalance: &AnyRebalance,
) -> Result<PlannedMoves, PlanError> {
    let spec = &rebalance.spec;
    let (mut plan, gone) = match &spec.undo {
        None => {
            let cases = selected(present, owner, spec)?;
            if let Some((_, message)) = spec.objective.as_ref().and_then(|it| planning::unknown_to_all(present, it)) {
                return Err(PlanError::new("UnknownObjective", message));
            }
            (plan_cases(present, before, cases, spec), Vec::new())
        }
        Some(undo) => {
            let key = Key { name: undo.name.as_str().into(), ..owner.key.clone() };
            let (cases, gone) = to_undo(&present.view, owner, &key, undo)?;
            (planning::plan_return(present, cases, &spec.limits, spec.rollout.order), gone)
        }
    };
    let (outcome, cost) = (plan.objective.take(), plan.cost);
    let aim = spec.objective.as_ref().zip(outcome.as_ref()).map(|(objective, it)| it.aim(objective, present.now));
    let made = written(present, owner, plan, gone, None);
    let unknown_names = match made.summary.selected {
        0 => {
            let (select, exclude) = (&spec.selected(), &spec.exclude);
            // The readers of a status are not known.
            let (scope, nameable) = (owner.scope(), &Nameable::nothing());
            NamedSelection { at: "spec", select, exclude, scope, with_clusters: true, nameable }.unknown(&present.view)
        }
        _ => Vec::new(),
    };
    let objective = outcome.map(|outcome| outcome.status);
    let made = PlannedMoves { objective, cost, aim, unknown_names, ..made };
    match spec.expect_plan.as_ref().and_then(|expected| difference(expected, &made.hash)) {
        None => Ok(made),
        Some(message) => Err(PlanError { reason: "PlanChanged", message, hash: Some(made.hash) }),
    }
}

/// Splits off the bindings that a running rebalance is moving. The plan of a review skips the
/// former, because it would start the same moves again.
pub fn split_moving(cases: Vec<ParsedBinding>, view: &View) -> (Vec<ParsedBinding>, Vec<ParsedBinding>) {
    cases.into_iter().partition(|case| is_moving(case, view))
}

/// Returns whether the Move that the binding's annotation names is in progress. Otherwise the
/// annotation is stale.
pub fn is_moving(case: &ParsedBinding, view: &View) -> bool {
    case.moved_by.is_some()
        && MoveAnnotation::on(&case.object).is_some_and(|mark| mark.is_carried_on(&case.object.key, view))
}

/// Returns the reason why a plan skips a binding that a rebalance is moving.
pub fn moving_already(case: &ParsedBinding) -> (MoveReason, String) {
    let by = case.moved_by.as_deref().unwrap_or_default();
    let by = by.replacen("clusterrebalances/", "clusterrebalance ", 1).replacen("rebalances/", "rebalance ", 1);
    (MoveReason::MovingAlready, format!("{by} is moving it"))
}

/// Returns the bindings that the rebalance selects.
fn selected(present: &PlanningSnapshot, owner: &Owner, spec: &RebalanceSpec) -> Result<Vec<ParsedBinding>, PlanError> {
    let too_many = |count: usize| {
        let message = format!("{count} workloads selected, at most {} may be", planning::SELECTED_MAX);
        PlanError::new("TooMany", message)
    };
    if let Some(drain) = &spec.drain {
        let mut cases = planning::on_clusters(&present.view, &drain.clusters);
        let drained: HashSet<&str> = drain.clusters.iter().map(String::as_str).collect();
        cases.retain(|case| case.request.targets.iter().any(|target| drained.contains(&*target.name)));
        return if cases.len() > planning::SELECTED_MAX { Err(too_many(cases.len())) } else { Ok(cases) };
    }
    let selection = Selection::new(&spec.selected(), &spec.exclude, owner.scope(), &present.view)
        .map_err(|errors| PlanError::new("Invalid", format!("the selection: {errors:?}")))?;
    selection.find(present).map_err(|SelectionTooLarge(count)| too_many(count))
}

/// Returns whether the workload is on a drained cluster.
pub fn is_on(case: &ParsedBinding, drain: &Drain) -> bool {
    case.request.targets.iter().any(|target| drain.clusters.iter().any(|name| **name == *target.name))
}

fn plan_cases(
    present: &PlanningSnapshot,
    before: Option<&View>,
    cases: Vec<ParsedBinding>,
    spec: &RebalanceSpec,
) -> MovePlan {
    let order = spec.rollout.order;
    let how = PlanOptions { mode: spec.mode, limits: spec.limits };
    let propose = |draft: &mut PlanBuilder, case: &ParsedBinding| propose(draft, case, &how, before);
    // The plan of a review skips these. Without an expected plan, their moves wait until the other
    // rebalance has ended its own.
    let (moving, cases) = match (&spec.expect_plan, &spec.drain) {
        (Some(_), None) => split_moving(cases, &present.view),
        _ => (Vec::new(), cases),
    };
    let mut plan = match &spec.objective {
        Some(objective) => planning::plan_for(present, cases, objective, &spec.limits, order, |_, _, _| {}),
        None => planning::plan_by(present, cases, order, propose, |_, _, _| {}),
    };
    plan.keep(moving, moving_already);
    plan
}

/// Plans workloads that arrived on the clusters of a drain after its plan. `round` counts such
/// plans.
pub fn plan_arrivals(
    present: &PlanningSnapshot,
    owner: &Owner,
    spec: &RebalanceSpec,
    cases: Vec<ParsedBinding>,
    round: i64,
) -> PlannedMoves {
    written(present, owner, plan_cases(present, None, cases, spec), Vec::new(), Some(round))
}

/// Returns the failed Move of a workload that stays on a drained cluster.
pub fn failed_arrival(
    present: &PlanningSnapshot,
    owner: &Owner,
    case: &ParsedBinding,
    (reason, message): (MoveReason, String),
    round: i64,
) -> (Key, MoveSpec, MoveStatus) {
    let key = key_of(present, owner, case, Some(round));
    (key, spec_of(owner, case, Vec::new(), 0), failed(reason, message, present.now))
}

/// Proposes the move of the rebalance for a binding.
pub fn propose(draft: &mut PlanBuilder, case: &ParsedBinding, how: &PlanOptions, before: Option<&View>) -> Proposal {
    let Some(before) = before.filter(|_| how.mode == Mode::AsBefore && !case.is_placement()) else {
        return draft.propose(case, how);
    };
    let then = ParsedBinding::find(before, &case.object.key).filter(|then| then.object.uid == case.object.uid);
    match then.map(|then| then.from()).filter(|from| !from.is_empty()) {
        Some(from) => draft.propose_home(case, Some(&from), &how.limits),
        None => Proposal::Stay { reason: None, message: "it was not placed at that moment".to_owned() },
    }
}

/// The bindings that a rebalance has moved, each with its previous targets, and the deleted ones.
type MovesToUndo = (Vec<(ParsedBinding, Vec<Share>)>, Vec<LostBinding>);

/// Returns the moves of the rebalance with this key that the undo reverts.
fn to_undo(view: &View, owner: &Owner, key: &Key, undo: &Undo) -> Result<MovesToUndo, PlanError> {
    let other = view
        .get(key)
        .map(|object| Owner::of(object))
        .ok_or_else(|| PlanError::new("NotFound", format!("there is no {} {:?} to undo", owner.kind(), &*key.name)))?;
    let (mut cases, mut gone) = (Vec::new(), Vec::new());
    // A drain may have moved a workload several times: it returns to its first targets.
    let mut first: BTreeMap<Key, (Key, AnyMove)> = BTreeMap::new();
    let begun = record::moves_of(view, key)
        .filter(|(_, read)| read.owner().as_ref() == Some(&other) && read.status.started_at.is_some());
    for (at, read) in begun {
        let binding = record::binding_key(&read.spec.binding);
        let round = |at: &Key, read: &AnyMove| {
            let object = view.get(&binding).filter(|object| *object.uid == *read.spec.binding.uid);
            (read.status.started_at, object.map(|object| record::round_of(&other, object, at)))
        };
        match first.get(&binding) {
            Some((known, earlier)) if round(known, earlier) <= round(&at, &read) => {}
            _ => drop(first.insert(binding, (at, read))),
        }
    }
    for (binding, (at, read)) in first {
        match ParsedBinding::find(view, &binding).filter(|case| *case.object.uid == *read.spec.binding.uid) {
            Some(case) => {
                let present = case.from();
                cases.extend(way_back(undo, read.spec.from, &present).map(|to| (case, to)));
            }
            None => {
                let MoveSpec { binding, workload, from, to, .. } = read.spec;
                let Some(from) = way_back(undo, from, &[]) else { continue };
                let rebalance = owner.key.name.to_string();
                let spec = MoveSpec { rebalance, binding, workload, from: to, to: from, replicas: 0 };
                let name = move_name(&owner.key.name, &spec.binding.name);
                gone.push(LostBinding { key: Key { name: name.into(), ..at }, spec });
            }
        }
    }
    Ok((cases, gone))
}

/// Returns the status of a rebalance after its plan, before any move begins.
pub fn status(
    rebalance: &AnyRebalance,
    generation: i64,
    made: Result<&PlannedMoves, &PlanError>,
    (revision, now): (Revision, Time),
) -> RebalanceStatus {
    let mut status = RebalanceStatus {
        planned_at: Some(now),
        planned_revision: Some(revision.to_string()),
        conditions: rebalance.status.conditions.clone(),
        ..RebalanceStatus::default()
    };
    match made {
        Ok(made) => {
            (status.summary, status.clusters) = (Some(made.summary), made.clusters.clone());
            status.reasons = made.reasons.clone().listed();
            status.plan_hash = Some(made.hash.clone());
            (status.objective, status.cost) = (made.objective.clone(), made.cost);
            status::set_planned(&mut status, generation, now, None);
            status::set_selected(&mut status, generation, now, &made.unknown_names);
            status::conclude(&rebalance.spec, &mut status, generation, 0, now);
            if status.phase == Some(Phase::Running) {
                // The next step begins the first moves.
                status.phase = Some(Phase::Planned);
            }
        }
        Err(PlanError { reason, message, hash }) => {
            status.plan_hash.clone_from(hash);
            status.summary = Some(Summary::default());
            status::set_planned(&mut status, generation, now, Some((reason, message)));
            (status.phase, status.finish_time) = (Some(Phase::Aborted), Some(now));
            status.observed_generation = Some(generation);
        }
    }
    status
}

/// Returns the key of the Move of a binding, in the plan or in a later round of a drain.
fn key_of(present: &PlanningSnapshot, owner: &Owner, case: &ParsedBinding, round: Option<i64>) -> Key {
    let key = record::move_key(owner, &case.object, &present.view);
    match round.filter(|_| present.view.get(&key).is_some()) {
        Some(round) => record::round_move_key(owner, &case.object, round),
        None => key,
    }
}

fn spec_of(owner: &Owner, case: &ParsedBinding, to: Vec<Share>, replicas: i64) -> MoveSpec {
    MoveSpec {
        rebalance: owner.key.name.to_string(),
        binding: case.binding.clone(),
        workload: case.workload.clone(),
        from: case.from(),
        to,
        replicas,
    }
}

/// Returns the Moves of a plan. `round` is the round of a drain that plans later arrivals.
fn written(
    present: &PlanningSnapshot,
    owner: &Owner,
    plan: MovePlan,
    gone: Vec<LostBinding>,
    round: Option<i64>,
) -> PlannedMoves {
    let (mut reasons, hash) = (Reasons::of(&plan), plan_hash(&plan));
    let MovePlan { moves, unplaceable, mut summary, clusters, .. } = plan;
    let spec = |case: &ParsedBinding, to: Vec<Share>, replicas: i64| spec_of(owner, case, to, replicas);
    // A binding and a KubeFleet placement may have the same name.
    let mut taken = HashSet::new();
    let mut key = |case: &ParsedBinding| {
        let key = key_of(present, owner, case, round);
        if taken.insert(key.clone()) { key } else { record::other_move_key(owner, &case.object) }
    };
    let mut made = Vec::with_capacity(moves.len() + unplaceable.len() + gone.len());
    for planned in &moves {
        let status =
            MoveStatus { phase: Some(MovePhase::Pending), ..record::moving_status(planned.short.as_ref(), "") };
        let spec = spec(&planned.parsed, planning::shares(&planned.to), planned.arrivals);
        made.push((key(&planned.parsed), spec, status));
    }
    for refused in &unplaceable {
        let status = failed(refused.reason, refused.message.clone(), present.now);
        made.push((key(&refused.parsed), spec(&refused.parsed, Vec::new(), 0), status));
    }
    summary.selected += gone.len() as i64;
    summary.failed += gone.len() as i64;
    for LostBinding { key, spec } in gone {
        reasons.add(MoveReason::BindingGone, BINDING_GONE, &spec.workload);
        let status = failed(MoveReason::BindingGone, BINDING_GONE.to_owned(), present.now);
        made.push((key, MoveSpec { to: Vec::new(), ..spec }, status));
    }
    PlannedMoves { moves: made, summary, clusters, reasons, hash, ..PlannedMoves::default() }
}

fn failed(reason: MoveReason, message: String, now: Time) -> MoveStatus {
    let (phase, reason, finished_at) = (Some(MovePhase::Failed), Some(reason), Some(now));
    MoveStatus { phase, reason, message, finished_at, ..MoveStatus::default() }
}

/// The writes that replace the stored Moves by those of the plan. After a crash, some may be stored
/// already, and some may belong to an outdated plan.
///
/// The writes are created lazily, because a Move as a document takes ten times the memory that it
/// takes in a plan.
pub struct PlanWrites {
    view: Arc<View>,
    owner: Owner,
    made: Arc<PlannedMoves>,
    /// The number of processed Moves of the plan.
    through: usize,
    /// The stored Moves that were not processed yet.
    known: HashMap<Key, AnyMove>,
}

impl PlanWrites {
    pub fn new(view: Arc<View>, owner: Owner, made: Arc<PlannedMoves>) -> PlanWrites {
        let mut known: HashMap<Key, AnyMove> = record::moves_of(&view, &owner.key).collect();
        known.retain(|_, read| read.owner().as_ref() == Some(&owner));
        PlanWrites { view, owner, made, through: 0, known }
    }

    /// Returns up to `limit` further writes. Empty at the end.
    pub fn next(&mut self, limit: usize) -> Vec<(GroupResource, Change)> {
        let mut changes = Vec::new();
        let made = Arc::clone(&self.made);
        for (key, spec, status) in &made.moves[self.through..] {
            if changes.len() == limit {
                return changes;
            }
            self.through += 1;
            let change = match self.known.remove(key).and_then(|read| Some((read, self.view.get(key)?))) {
                None => {
                    let mut document = record::new_move(&self.owner, key, spec, status);
                    if let Some(aim) = &made.aim {
                        document["metadata"]["annotations"] = json!({AIM: aim.text()});
                    }
                    Change::Create(document)
                }
                // A plan with an objective contains its time, and is always written.
                Some((read, _)) if read.spec == *spec && read.status == *status && made.aim.is_none() => continue,
                Some((_, object)) => {
                    let [spec, status] = [record::written(spec), record::written(status)];
                    let mut edits = vec![Edit::set(&["spec"], spec), Edit::set(&["status"], status)];
                    let aim = made.aim.as_ref().map(Aim::text);
                    edits.extend(aim.map(|aim| Edit::set(&["metadata", "annotations", AIM], aim)));
                    Change::Edit { base: object.clone(), edits }
                }
            };
            changes.push((key.resource, change));
        }
        let left_over: Vec<Key> = self.known.keys().take(limit - changes.len()).cloned().collect();
        for key in left_over {
            self.known.remove(&key);
            changes.push((key.resource, Change::Delete { key, revision: None }));
        }
        changes
    }
}
