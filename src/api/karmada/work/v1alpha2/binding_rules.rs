//! What a schema cannot say about bindings. Upstream checks nothing here; the seed documents' rules
//! about placements hold for bindings too, because a scheduler that cannot tell what is meant would
//! guess.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::any_binding::AnyBinding;
use super::binding_spec::ResourceBindingSpec;
use crate::api::karmada::policy::v1alpha1::placement_rules;
use crate::api::tree::Object;
use crate::k8s::{FieldErrors, FieldPath, Time};

const FULLY_APPLIED: &str = "FullyApplied";

/// The condition FullyApplied says what the clusters report, in upstream's words (R31, R33): with
/// every write, so that it never tells of targets that are no longer there. Where nobody reports,
/// it is not ours to say.
pub fn tell_applied(binding: &mut Object, now: Time) {
    let empty = Value::Null;
    let spec = binding.get("spec").unwrap_or(&empty);
    let targets = existing_clusters(spec);
    let reports = binding.get("status").and_then(|status| status["aggregatedStatus"].as_array());
    let Some(reports) = reports.filter(|reports| !reports.is_empty() && !targets.is_empty()) else { return };
    let is_applied = |report: &Value| {
        report["applied"] == true && report["clusterName"].as_str().is_some_and(|name| targets.contains(name))
    };
    let (status, reason, message) = match reports.len() == targets.len() && reports.iter().all(is_applied) {
        true => ("True", "FullyAppliedSuccess", "All works have been successfully applied"),
        false => ("False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"),
    };
    let Some(Value::Object(whole)) = binding.get_mut("status") else { return };
    let conditions = whole.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let Some(known) = conditions.iter_mut().find(|condition| condition["type"] == FULLY_APPLIED) else {
        conditions.push(json!({
            "type": FULLY_APPLIED, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now.to_string(),
        }));
        return;
    };
    if known["status"] != status {
        (known["status"], known["lastTransitionTime"]) = (json!(status), json!(now.to_string()));
        (known["reason"], known["message"]) = (json!(reason), json!(message));
    }
}

/// The conditions after a pass that gives the binding these targets and tasks, with FullyApplied as
/// `tell_applied` leaves it. `conditions` are those that the pass itself writes.
pub fn conditions_told(binding: &AnyBinding, clusters: &Value, tasks: &Value, conditions: Value, now: Time) -> Value {
    let reports = binding.status.aggregated_status.iter();
    let reports: Vec<Value> =
        reports.map(|report| json!({"clusterName": report.cluster_name, "applied": report.applied})).collect();
    let spec = json!({"clusters": clusters, "gracefulEvictionTasks": tasks, "requiredBy": binding.spec.required_by});
    let status = json!({"aggregatedStatus": reports, "conditions": conditions});
    let mut sketch = Object::from_iter([("spec".to_owned(), spec), ("status".to_owned(), status)]);
    tell_applied(&mut sketch, now);
    sketch["status"]["conditions"].take()
}

/// Where upstream keeps works of the binding: its targets, those of what requires it, and what it
/// is leaving gently.
fn existing_clusters(spec: &Value) -> BTreeSet<&str> {
    fn names(clusters: &Value) -> impl Iterator<Item = &str> {
        list_of(clusters).filter_map(|cluster| cluster["name"].as_str())
    }
    let required = list_of(&spec["requiredBy"]).flat_map(|other| names(&other["clusters"]));
    let leaving = list_of(&spec["gracefulEvictionTasks"])
        .filter(|task| !["Immediately", "Directly"].map(Value::from).contains(&task["purgeMode"]))
        .filter_map(|task| task["fromCluster"].as_str());
    names(&spec["clusters"]).chain(required).chain(leaving).collect()
}

fn list_of(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}

/// The rules of both bindings. A placement that was there before is not looked at again: a binding
/// must stay writable for those who did not break it.
pub fn check(spec: &ResourceBindingSpec, old: Option<&ResourceBindingSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Some(placement) = &spec.placement
        && old.is_none_or(|old| old.placement != spec.placement)
    {
        placement_rules::check_promises(placement, &FieldPath::new("spec.placement"), &mut errors);
    }
    errors
}
