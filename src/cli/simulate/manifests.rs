//! Decides manifests: the result of the scheduler for each binding, and the changes of triggers and
//! rebalances among them.
//!
//! 1. Triggers mark their bindings.
//! 2. Each binding is decided, like the scheduler does. With reservations, capacity given to a
//!    binding is unavailable for the following ones.
//! 3. Rebalances plan, one after another, based on the result.
//!
//! Memory and time are linear: data that bindings share (clusters, groups, placements) is converted
//! once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Options;
use super::input::Malformed;
use super::karmada::{Binding, ExpectedTarget, Report};
use super::world::{FreshRequest, World, object_of};
use ballast_actions as actions;
use ballast_api::ballast::v1alpha1::{ObjectiveStatus, RebalanceSpec};
use ballast_api::karmada::apps::v1alpha1::REFERENCED_BINDING_NOT_FOUND;
use ballast_api::karmada::work::v1alpha2::{
    AnyBinding, BINDINGS, PENDING_PASS, PartialBinding, Trigger, key_of_workload,
};
use ballast_engine::karmada::{Decision, Pass, Profile, Request, Trace, Workloads};
use ballast_k8s::{FieldErrors, Key, Time, json_fault};
use ballast_scheduler::planning::{
    Clearing, PlanOptions, Planner, PlanningSnapshot, Selection, plan, plan_for, shares,
};
use ballast_watch::View;

/// Computes the results for a world, one after another.
pub struct Answers {
    world: World,
    profile: Profile,
    pass: Pass,
    /// Bindings that the pass has decided. Each binding is decided once, so a second decision
    /// starts a new pass.
    decided: HashSet<Key>,
    /// Bindings with a trigger.
    marked: BTreeSet<Key>,
    /// The targets of bindings that a rebalance moves, and the name of that rebalance.
    moved: HashMap<Key, (Vec<ExpectedTarget>, String)>,
    /// Bindings that do not fit in the plan of a rebalance, and why.
    refused: HashMap<Key, String>,
    /// Sentences about requests of triggers and rebalances that could not be fulfilled, and about
    /// how close rebalances come to their objectives.
    pub remarks: Vec<String>,
}

/// The result for one binding.
pub struct Answer {
    pub id: String,
    /// The targets before, by name.
    pub before: Vec<ExpectedTarget>,
    pub report: Report,
    pub trace: Option<Trace>,
    /// The rebalance that moves the binding.
    pub rebalance: Option<String>,
    /// Why the binding did not fit in the plan of a rebalance. It keeps its targets.
    pub refused: Option<String>,
}

impl Answers {
    pub fn new(world: World, options: &Options) -> Answers {
        let profile = options.profile(&serde_json::Map::new());
        let (pass, decided) = (first_pass(&world, &profile), HashSet::new());
        let (marked, moved, refused, remarks) = (BTreeSet::new(), HashMap::new(), HashMap::new(), Vec::new());
        let mut answers = Answers { world, profile, pass, decided, marked, moved, refused, remarks };
        answers.mark();
        answers.rebalance();
        answers
    }

    /// Returns the keys of the bindings, in the order of the manifests.
    pub fn keys(&self) -> Vec<Key> {
        self.world.bindings.clone()
    }

    /// Returns probable mistakes in the manifests.
    pub fn warnings(&self) -> &[String] {
        &self.world.warnings
    }

    pub fn malformed(&self) -> &[Malformed] {
        &self.world.malformed
    }

    /// Returns the ignored objects, by kind: `1 ConfigMap`.
    pub fn ignored(&self) -> Vec<String> {
        self.world.ignored.iter().map(|(kind, count)| format!("{count} {kind}")).collect()
    }

    /// Decides one binding.
    pub fn answer(&mut self, key: &Key, explained: bool) -> Result<Answer, Malformed> {
        let id = match &*key.namespace {
            "" => key.name.to_string(),
            namespace => format!("{namespace}/{}", key.name),
        };
        let binding = self.read(key).map_err(|why| Malformed { id: Some(id.clone()), why })?;
        let request = binding.request();
        if self.profile.reserves && !self.decided.insert(key.clone()) {
            self.pass = first_pass(&self.world, &self.profile);
            self.decided = HashSet::from([key.clone()]);
        }
        let (decision, trace) = self.decide(&request, explained);
        let mut report = binding.report(&decision);
        let before = binding.targets();
        let rebalance = self.moved.get(key).map(|(targets, name)| {
            report.clusters.clone_from(targets);
            name.clone()
        });
        Ok(Answer { id, before, report, trace, rebalance, refused: self.refused.get(key).cloned() })
    }

    fn read(&self, key: &Key) -> Result<Binding, String> {
        let object = self.world.view.get(key).ok_or("it is gone")?;
        let read: Result<AnyBinding, _> = serde_json::from_slice(&object.text.content());
        let mut binding = read.map_err(|error| format!("binding: {}", without_position(&json_fault(&error))))?;
        if self.marked.contains(key) {
            binding.spec.reschedule_triggered_at = Some(Trigger::of(&binding).timestamp(Time::default()));
            binding.metadata.annotations.insert(PENDING_PASS.to_owned(), object.revision.to_string());
        }
        let AnyBinding { metadata, spec, status, .. } = binding;
        Ok(Binding { metadata, spec, status })
    }

    fn decide(&mut self, request: &Request, explained: bool) -> (Decision, Option<Trace>) {
        let decided = match explained {
            true => {
                let (decision, trace) = self.pass.explain(request);
                (decision, Some(trace))
            }
            false => (self.pass.decide(request), None),
        };
        // A member of a group is decided as if all others keep their targets.
        self.pass.record_unmoved(request);
        if let Some(to) = decided.0.targets().filter(|_| self.profile.reserves) {
            self.pass.take_arrivals(request, &request.targets, to);
        }
        decided
    }

    fn mark(&mut self) {
        for asked in &self.world.asked {
            match asked {
                FreshRequest::Rebalance { .. } => {}
                FreshRequest::Task(task) => {
                    self.marked.extend(actions::selected(&task.spec, &self.world.view));
                }
                FreshRequest::Rebalancer(rebalancer) => {
                    let name = rebalancer.metadata.name.as_deref().unwrap_or_default();
                    for workload in &rebalancer.spec.workloads {
                        let namespace = workload.namespace.as_deref().unwrap_or_default();
                        let key = key_of_workload(&workload.kind, namespace, &workload.name);
                        if self.world.view.get(&key).is_some() {
                            self.marked.insert(key);
                            continue;
                        }
                        let slash = if namespace.is_empty() { "" } else { "/" };
                        let what = format!("{} {namespace}{slash}{}", workload.kind, workload.name);
                        self.remarks.push(format!("WorkloadRebalancer {name}: {what}: {REFERENCED_BINDING_NOT_FOUND}"));
                    }
                }
            }
        }
    }

    /// Plans the rebalances over the results of the passes.
    fn rebalance(&mut self) {
        let asked = std::mem::take(&mut self.world.asked);
        let mut is_settled = false;
        for asked in &asked {
            let FreshRequest::Rebalance { name, namespace, spec } = asked else { continue };
            if !std::mem::replace(&mut is_settled, true) {
                self.settle();
            }
            if let Err(why) = self.plan(name, namespace.as_deref(), spec) {
                self.remarks.push(format!("rebalance {name}: {why}"));
            }
        }
        self.world.asked = asked;
    }

    /// Writes the decisions into the view of the planners.
    fn settle(&mut self) {
        for key in self.keys() {
            let Ok(answer) = self.answer(&key, false) else { continue };
            if answer.before != answer.report.clusters {
                self.put(&key, &answer.report.clusters);
            }
        }
    }

    /// Changes the targets of a binding in the planners' view. The answers start from the original.
    fn put(&mut self, key: &Key, targets: &[ExpectedTarget]) {
        let object = self.world.settled().get(key).and_then(|object| object.value().ok());
        let Some(mut object) = object else { return };
        let spec = object.entry("spec").or_insert_with(|| json!({}));
        spec["clusters"] = json!(targets);
        if let Ok(changed) = object_of(key.clone(), &object) {
            self.world.settle(changed);
        }
    }

    fn plan(&mut self, name: &str, namespace: Option<&str>, spec: &RebalanceSpec) -> Result<(), String> {
        if let Some(undo) = &spec.undo {
            return Err(format!("only a server knows the moves of {}, which it undoes; ignored", undo.name));
        }
        let view = Arc::new(self.world.settled().clone());
        let told = |errors: FieldErrors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let selection = Selection::new(&spec.selected(), &spec.exclude, namespace, &view).map_err(told)?;
        let now = time(&view);
        // There is no clock, so tolerations with a time limit have not expired.
        let mut present =
            PlanningSnapshot { now: Time::default(), ..Planner::new(self.profile.clone()).snapshot(view, now) };
        if let Some(clearing) = Clearing::of_rebalance(spec) {
            present = present.clearing(clearing);
        }
        let cases = selection.find(&present).map_err(|too_many| too_many.to_string())?;
        let (limits, order) = (spec.limits, spec.rollout.order);
        let plan = match &spec.objective {
            Some(objective) => plan_for(&present, cases, objective, &limits, order, |_, _, _| {}),
            None => plan(&present, cases, &PlanOptions { mode: spec.mode, limits }, order),
        };
        if let Some(status) = plan.objective.map(|outcome| outcome.status) {
            let ObjectiveStatus { before, after, bound, .. } = status;
            let [before, after, bound] = [before, after, bound].map(|figure| status.with_unit(figure));
            self.remarks.push(format!("rebalance {name}: {before} before, {after} after, no plan gets below {bound}"));
        }
        for planned in plan.moves.iter().filter(|planned| !planned.parsed.is_placement()) {
            let targets: Vec<ExpectedTarget> = shares(&planned.to).into_iter().map(ExpectedTarget::plain).collect();
            let key = planned.parsed.object.key.clone();
            self.put(&key, &targets);
            self.moved.insert(key, (targets, name.to_owned()));
        }
        for refused in &plan.unplaceable {
            let key = &refused.parsed.object.key;
            self.remarks.push(format!("rebalance {name}: {}/{}: {}", key.namespace, key.name, refused.message));
            self.refused.insert(key.clone(), refused.message.clone());
        }
        Ok(())
    }
}

/// Returns the fault of a generated text without its position, which is meaningless.
fn without_position(fault: &str) -> &str {
    fault.split(" (line ").next().unwrap_or(fault)
}

/// Returns a pass in which nothing is decided yet.
fn first_pass(world: &World, profile: &Profile) -> Pass {
    let view = Arc::new(world.view.clone());
    let now = time(&view);
    let present = Planner::new(profile.clone()).snapshot(view, now);
    Pass::new(&present.clusters, &workloads(world), profile)
}

/// Returns the time of the manifests: the time of the last placement. Reservations for placements
/// long before it have expired.
fn time(view: &View) -> Time {
    let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
    let placed = bindings.filter_map(|object| PartialBinding::of(&object.text.content()).ok()?.placed_at());
    placed.max().unwrap_or_default()
}

/// Returns the members of all groups. Bindings in no group are not parsed.
fn workloads(world: &World) -> Workloads {
    let mut workloads = Workloads::default();
    for object in world.bindings.iter().filter_map(|key| world.view.get(key)) {
        let text = object.text.content();
        if !text.windows(GROUPS.len()).any(|part| part == GROUPS) {
            continue;
        }
        let Ok(binding) = serde_json::from_slice::<AnyBinding>(&text) else { continue };
        let AnyBinding { metadata, spec, status, .. } = binding;
        let request = Binding { metadata, spec, status }.request();
        let Request { namespace, name, groups, targets, .. } = &request;
        workloads.upsert(namespace, name, groups, groups, targets);
    }
    workloads
}

const GROUPS: &[u8] = b"workloadAffinityGroups";

/// Returns the JSON line of a result.
pub fn line(answer: &Answer, with_trace: bool) -> Value {
    let mut line = super::line(&answer.id, &answer.report, answer.trace.as_ref().filter(|_| with_trace));
    if let Some(rebalance) = &answer.rebalance {
        line["rebalance"] = json!(rebalance);
    }
    line
}
