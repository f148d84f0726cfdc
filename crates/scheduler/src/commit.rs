//! Turns a decision into one write of the object: result, trigger and status.
//!
//! The fields are the ones of Karmada's scheduler: `spec.clusters`, the applied placement, the
//! condition, the observed generation and affinity group, and the time. Clients made for Karmada
//! can read them. Karmada writes them in three requests; one write ensures that a crash cannot
//! combine the result of one pass with the status of another.

use serde_json::Value;

use super::convert::karmada::APPLIED_PLACEMENT;
use super::reservations::Moment;
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::karmada::work::v1alpha2::{
    ARRIVALS, AggregatedStatusItem, AnyBinding, Arrival, ArrivalNotes, LEFT_CLUSTERS, LeftClusters, TargetCluster,
    TargetComponent, Trigger, conditions_with_fully_applied,
};
use ballast_api::meta::Condition;
use ballast_api::requester::{self, ASKED_BY};
use ballast_engine::karmada::{
    self as engine, ClusterSet, Decision, Mode, Outcome, SUCCESS_MESSAGE, SUCCESS_REASON, Skip, Target, TargetIndex,
};
use ballast_k8s::{Edit, EditValue, Time};

/// Records the deleted clusters that a binding leaves without a replacement (T3).
pub fn left_clusters(binding: &AnyBinding, decision: &Decision, fleet: &ClusterSet, now: Time) -> Option<Edit> {
    let targets = decision.targets().filter(|_| !decision.is_success())?;
    let after = TargetIndex::new(targets);
    let stays = |name: &str| after.find(name).is_some();
    let names = binding.spec.clusters.iter().map(|target| &*target.name);
    let mut left = names.filter(|name| !stays(name) && fleet.is_gone(name)).peekable();
    left.peek()?;
    let left = LeftClusters::after(LeftClusters::of(&binding.metadata.annotations), left, now);
    Some(Edit::set(&["metadata", "annotations", LEFT_CLUSTERS], left.text()))
}

/// Returns the edits that apply a decision to the binding at `moment`; empty if nothing changes.
/// `placement` is the stored text of `spec.placement`. `is_requested`: an event made the binding
/// dirty.
pub fn edits(
    binding: &AnyBinding,
    placement: Option<&str>,
    generation: i64,
    trigger: Trigger,
    decision: &Decision,
    is_requested: bool,
    moment: Moment<'_>,
) -> Vec<Edit> {
    let now = moment.now;
    let (spec, status) = (&binding.spec, &binding.status);
    let mut edits = Vec::new();
    if let Some(targets) = decision.targets() {
        let clusters: Vec<TargetCluster> = targets.iter().map(target_cluster).collect();
        if clusters != spec.clusters {
            let value = (!clusters.is_empty()).then(|| written(&clusters));
            edits.push(Edit::to(&["spec", "clusters"], value));
        }
        // The binding no longer leaves a cluster that is a target again.
        let tasks = spec.graceful_eviction_tasks.iter();
        let left: Vec<_> =
            tasks.filter(|task| targets.iter().all(|target| task.from_cluster != *target.name)).collect();
        if left.len() < spec.graceful_eviction_tasks.len() {
            let value = (!left.is_empty()).then(|| written(&left));
            edits.push(Edit::to(&["spec", "gracefulEvictionTasks"], value));
        }
    }
    if decision.is_success() && spec.force_rescheduling.is_some() {
        edits.push(Edit::remove(&["spec", "forceRescheduling"]));
    }
    let changes_spec = !edits.is_empty();
    let noted = binding.metadata.annotations.get(APPLIED_PLACEMENT).map(String::as_str);
    if decision.applies_placement() && noted != placement {
        let member = &["metadata", "annotations", APPLIED_PLACEMENT];
        edits.push(Edit::to(member, placement.map(Value::from)));
    }
    if let Some(term) = decision.term().filter(|&term| status.scheduler_observed_affinity_name.as_deref() != Some(term))
    {
        edits.push(Edit::set(&["status", "schedulerObservingAffinityName"], term));
    }
    let is_half_written = decision.outcome == Outcome::Skipped(Skip::Unchanged) && lacks_status(binding);
    let condition = decision.condition().or_else(|| settled(decision, &status.conditions, is_half_written));
    let conditions = condition.and_then(|condition| with_condition(&status.conditions, "Scheduled", condition, now));
    if let Some(conditions) = told(binding, &edits, conditions, now) {
        edits.push(Edit::set(&["status", "conditions"], conditions));
    }
    if decision.observes_generation() && binding.metadata.annotations.contains_key(LEFT_CLUSTERS) {
        edits.push(Edit::remove(&["metadata", "annotations", LEFT_CLUSTERS]));
    }
    if decision.observes_generation() {
        // A write that changes the spec increments the generation.
        let observed = generation + i64::from(changes_spec);
        if status.scheduler_observed_generation != Some(observed) {
            edits.push(Edit::set(&["status", "schedulerObservedGeneration"], observed));
        }
    }
    if decision.is_success() {
        edits.extend(trigger.clear());
        edits.extend(binding.metadata.annotations.contains_key(ASKED_BY).then(requester::forgotten));
    }
    let served = trigger.served(now);
    // A pass after an event writes its time even if it changes nothing else (BK9). Duplicated
    // bindings are decided in every pass, so a restart would otherwise rewrite them all.
    let is_worth_it = !edits.is_empty() || decision.mode == Mode::Fresh || is_requested;
    let is_timed = is_half_written || (decision.is_success() && is_worth_it);
    if is_timed && status.last_scheduled_time != Some(served) {
        edits.push(Edit::set(&["status", "lastScheduledTime"], served.to_string()));
    }
    if is_timed && let Some(targets) = decision.targets() {
        edits.extend(arrivals(binding, targets, served, moment));
    }
    edits
}

/// Records the arrival time of replicas on clusters where this pass adds none, and the number of
/// foreign pods on clusters where it does; see `ArrivalNotes`. `None`: the annotation is up to
/// date.
fn arrivals(binding: &AnyBinding, targets: &[Target], served: Time, moment: Moment<'_>) -> Option<Edit> {
    let AnyBinding { metadata, spec, status } = binding;
    if !moment.room.is_kept() {
        return None;
    }
    let known = ArrivalNotes::of(&metadata.annotations);
    let placed = status.last_scheduled_time.or(metadata.creation_timestamp);
    let is_reported = |name: &str| {
        let report = status.aggregated_status.iter().find(|report| report.cluster_name == *name);
        report.is_some_and(AggregatedStatusItem::shows_what_was_assigned)
    };
    let stays = |name: &str, before: Arrival| match before.foreign == 0 && is_reported(name) {
        true => Arrival::default(),
        false => Arrival { at: before.at.or(placed).filter(|at| *at != served), ..before },
    };
    let mut after = ArrivalNotes::default();
    for target in targets {
        let was = spec.clusters.iter().find(|was| was.name == *target.name);
        let was = was.map(|was| was.replicas.unwrap_or_default());
        // Replicas of a withdrawn eviction were on the cluster all the time.
        let left = spec.graceful_eviction_tasks.iter().find(|task| task.from_cluster == *target.name);
        let had = was.max(left.and_then(|task| task.replicas));
        let has_grown = had.is_none_or(|had| had < target.replicas);
        let before = known.on(&target.name);
        let arrival = match has_grown {
            true => Arrival { at: None, foreign: moment.room.foreign_pods(&target.name) },
            false => stays(&target.name, before),
        };
        after.note(&target.name, arrival);
    }
    // The eviction may still be withdrawn.
    for task in &spec.graceful_eviction_tasks {
        if targets.iter().all(|target| *target.name != task.from_cluster) {
            after.note(&task.from_cluster, stays(&task.from_cluster, known.on(&task.from_cluster)));
        }
    }
    (after != known).then(|| Edit::to(&["metadata", "annotations", ARRIVALS], after.text().map(Value::from)))
}

/// Returns the edits for a refused placement, which set the condition and its reason (QU4, AD13).
/// Empty if the condition is already up to date.
pub fn refusal(binding: &AnyBinding, reason: &str, message: &str, now: Time) -> Vec<Edit> {
    let told = engine::ScheduledCondition { status: false, reason, message };
    let conditions = with_condition(&binding.status.conditions, "Scheduled", told, now);
    conditions.map(|conditions| Edit::set(&["status", "conditions"], written(&conditions))).into_iter().collect()
}

/// Returns the conditions to write, if any: the pass's conditions, and FullyApplied, which follows
/// from the clusters' reports and the new targets.
fn told(binding: &AnyBinding, edits: &[Edit], conditions: Option<Vec<Condition>>, now: Time) -> Option<Value> {
    let (spec, status) = (&binding.spec, &binding.status);
    if status.aggregated_status.is_empty() || (edits.is_empty() && conditions.is_none()) {
        return conditions.map(|conditions| written(&conditions));
    }
    let after = |member: &[&str], stored: Value| match edits.iter().find(|edit| edit.member == member) {
        Some(edit) => edit.value.as_ref().map_or(Value::Null, EditValue::tree),
        None => stored,
    };
    let clusters = after(&["spec", "clusters"], written(&spec.clusters));
    let tasks = after(&["spec", "gracefulEvictionTasks"], written(&spec.graceful_eviction_tasks));
    let before = written(conditions.as_ref().unwrap_or(&status.conditions));
    let told = conditions_with_fully_applied(binding, &clusters, &tasks, before, now);
    (conditions.is_some() || told != written(&status.conditions)).then_some(told)
}

/// Returns the condition of a binding that failed and was then scaled to its assigned replicas: it
/// no longer reports a failure. Differs from Karmada (D19).
fn settled(
    decision: &Decision,
    conditions: &[Condition],
    is_half_written: bool,
) -> Option<engine::ScheduledCondition<'static>> {
    let complains = conditions.iter().any(|known| known.type_ == "Scheduled" && known.status == "False");
    let is_settled = decision.outcome == Outcome::Skipped(Skip::Unchanged) && (complains || is_half_written);
    is_settled.then_some(engine::ScheduledCondition { status: true, reason: SUCCESS_REASON, message: SUCCESS_MESSAGE })
}

/// Returns whether a pass has written its result and not its status. Attached to Karmada these are
/// two writes, and the second may be lost (BS4). Only a result sets the applied-placement
/// annotation.
fn lacks_status(binding: &AnyBinding) -> bool {
    let AnyBinding { metadata, spec, status, .. } = binding;
    let is_told = status.last_scheduled_time.is_some() || status.conditions.iter().any(|it| it.type_ == "Scheduled");
    !is_told && !spec.clusters.is_empty() && metadata.annotations.contains_key(APPLIED_PLACEMENT)
}

/// Converts a target to the form of `spec.clusters`.
pub fn target_cluster(target: &Target) -> TargetCluster {
    let component =
        |part: &engine::TargetComponent| TargetComponent { name: part.name.to_string(), replicas: part.replicas };
    TargetCluster {
        name: target.name.to_string(),
        replicas: (target.replicas > 0).then_some(target.replicas),
        components: target.components.iter().map(component).collect(),
    }
}

/// Returns the conditions with this one set, or `None` if it is up to date. As in Kubernetes, its
/// transition time changes only with its status (R72).
fn with_condition(
    conditions: &[Condition],
    kind: &str,
    condition: engine::ScheduledCondition<'_>,
    now: Time,
) -> Option<Vec<Condition>> {
    let engine::ScheduledCondition { status, reason, message } = condition;
    let status = if status { "True" } else { "False" };
    let generation = conditions.iter().find(|known| known.type_ == kind).and_then(|known| known.observed_generation);
    let mut after = conditions.to_vec();
    conditions::set(&mut after, generation, now, ConditionUpdate { type_: kind, status, reason, message });
    (after != conditions).then_some(after)
}

fn written(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("what was read can be written")
}
