//! From a decision to the object that is written: result, trigger, status, in one write.
//!
//! What is written is what Karmada's scheduler writes (`spec.clusters`, the applied placement, the
//! condition, the observed generation and group, the time), so that clients made for it can read it, but
//! in one write where it makes three: no crash can leave the result of one pass with the status of
//! another.

use serde_json::{Map, Value, json};

use crate::api::karmada::work::v1alpha2::Trigger;
use crate::engine::karmada::{Condition, Decision, Outcome, SUCCESS_MESSAGE, SUCCESS_REASON, Skip, Target};
use crate::k8s::Time;

const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// The binding after a pass at `now`; `None` where the pass changes nothing.
pub fn written(
    mut binding: Map<String, Value>,
    generation: i64,
    trigger: Trigger,
    decision: &Decision,
    now: Time,
) -> Option<Map<String, Value>> {
    let mut changes = Changes::default();
    if let Some(targets) = decision.targets() {
        let spec = child(&mut binding, "spec");
        changes.spec |= put(spec, "clusters", clusters(targets));
        changes.spec |= cancel_evictions(spec, targets);
    }
    if decision.is_success() {
        changes.spec |= child(&mut binding, "spec").remove("forceRescheduling").is_some();
    }
    if decision.applies_placement() {
        let applied = binding.get("spec").and_then(|spec| spec.get("placement")).map(Value::to_string);
        let annotations = child(child(&mut binding, "metadata"), "annotations");
        changes.other |= put(annotations, APPLIED_PLACEMENT, applied.map(Value::from));
    }
    let status = child(&mut binding, "status");
    if let Some(term) = decision.term() {
        changes.other |= put(status, "schedulerObservingAffinityName", Some(Value::from(term)));
    }
    if let Some(condition) = decision.condition().or_else(|| settled(decision, status)) {
        changes.other |= put_condition(status, "Scheduled", condition, now);
    }
    if decision.observes_generation() {
        // This write is a new generation itself where it changes the spec.
        let observed = generation + i64::from(changes.spec);
        changes.other |= put(status, "schedulerObservedGeneration", Some(Value::from(observed)));
    }
    let moved =
        decision.is_success() && put(status, "lastScheduledTime", Some(Value::from(trigger.served(now).to_string())));
    // A pass that nobody asked for and that found everything as it is leaves no trace: Duplicated bindings
    // are decided at every chance, and a restart would rewrite them all.
    let is_worth_it = changes.spec || changes.other || (moved && trigger.is_pending());
    is_worth_it.then_some(binding)
}

/// Differs from Karmada: what could not be placed and then no longer needed to be (it was scaled to what is
/// there) does not go on saying that it cannot be placed.
fn settled(decision: &Decision, status: &Map<String, Value>) -> Option<Condition<'static>> {
    let conditions = status.get("conditions")?.as_array()?;
    let complains = conditions.iter().any(|known| known["type"] == "Scheduled" && known["status"] == "False");
    let is_settled = decision.outcome == Outcome::Skipped(Skip::Unchanged) && complains;
    is_settled.then_some(Condition { status: true, reason: SUCCESS_REASON, message: SUCCESS_MESSAGE })
}

#[derive(Default)]
struct Changes {
    spec: bool,
    other: bool,
}

fn clusters(targets: &[Target]) -> Option<Value> {
    let list: Vec<Value> = targets
        .iter()
        .map(|target| {
            let mut cluster = Map::new();
            cluster.insert("name".to_owned(), Value::from(&*target.name));
            if target.replicas > 0 {
                cluster.insert("replicas".to_owned(), Value::from(target.replicas));
            }
            if !target.components.is_empty() {
                let parts = target.components.iter();
                let parts = parts.map(|part| json!({"name": &*part.name, "replicas": part.replicas}));
                cluster.insert("components".to_owned(), parts.collect());
            }
            Value::Object(cluster)
        })
        .collect();
    (!list.is_empty()).then_some(Value::Array(list))
}

/// A cluster that the binding is sent to is not one that it leaves.
fn cancel_evictions(spec: &mut Map<String, Value>, targets: &[Target]) -> bool {
    let Some(Value::Array(tasks)) = spec.get_mut("gracefulEvictionTasks") else { return false };
    let before = tasks.len();
    tasks.retain(|task| !targets.iter().any(|target| task["fromCluster"] == *target.name));
    let is_changed = tasks.len() < before;
    if is_changed && tasks.is_empty() {
        spec.remove("gracefulEvictionTasks");
    }
    is_changed
}

/// Sets a condition as Kubernetes does: the time moves only with the status (R72).
fn put_condition(status: &mut Map<String, Value>, kind: &str, condition: Condition<'_>, now: Time) -> bool {
    let value = if condition.status { "True" } else { "False" };
    let list = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let list = list.as_array_mut().expect("made an array above");
    let known = list.iter_mut().find(|known| known["type"] == kind).and_then(Value::as_object_mut);
    let Some(known) = known else {
        list.push(json!({
            "type": kind, "status": value, "reason": condition.reason, "message": condition.message,
            "lastTransitionTime": now.to_string(),
        }));
        return true;
    };
    let flipped = put(known, "status", Some(Value::from(value)));
    if flipped {
        put(known, "lastTransitionTime", Some(Value::from(now.to_string())));
    }
    let reason = put(known, "reason", Some(Value::from(condition.reason)));
    let message = put(known, "message", Some(Value::from(condition.message)));
    flipped || reason || message
}

/// Sets or takes away a field. Answers whether that changed anything.
fn put(object: &mut Map<String, Value>, field: &str, value: Option<Value>) -> bool {
    match value {
        None => object.remove(field).is_some(),
        Some(value) if object.get(field) == Some(&value) => false,
        Some(value) => {
            object.insert(field.to_owned(), value);
            true
        }
    }
}

fn child<'a>(object: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let value = object.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}
