//! Rules for bindings that a schema cannot express.
//!
//! Upstream has none. The seed documents' rules for placements apply to bindings too. Otherwise the
//! scheduler would have to guess what a contradictory placement means.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::any_binding::AnyBinding;
use super::binding_spec::ResourceBindingSpec;
use crate::karmada::policy::v1alpha1::{placement_rules, specified_replicas};
use crate::meta::ObjectMeta;
use crate::tree::Object;
use ballast_k8s::{FieldErrors, FieldPath, Time};

const FULLY_APPLIED: &str = "FullyApplied";

/// Sets the condition FullyApplied from the reports of the clusters, in upstream's words (R31,
/// R33).
///
/// It runs with every write, so the condition never describes targets that are gone. If no cluster
/// reports, the condition is left to others.
pub fn set_fully_applied(binding: &mut Object, now: Time) {
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

/// The conditions after a pass, with FullyApplied as `set_fully_applied` sets it for these targets
/// and eviction tasks. `conditions` are those that the pass itself writes.
pub fn conditions_with_fully_applied(
    binding: &AnyBinding,
    clusters: &Value,
    tasks: &Value,
    conditions: Value,
    now: Time,
) -> Value {
    let reports = binding.status.aggregated_status.iter();
    let reports: Vec<Value> =
        reports.map(|report| json!({"clusterName": report.cluster_name, "applied": report.applied})).collect();
    let spec = json!({"clusters": clusters, "gracefulEvictionTasks": tasks, "requiredBy": binding.spec.required_by});
    let status = json!({"aggregatedStatus": reports, "conditions": conditions});
    let mut sketch = Object::from_iter([("spec".to_owned(), spec), ("status".to_owned(), status)]);
    set_fully_applied(&mut sketch, now);
    sketch["status"]["conditions"].take()
}

/// The clusters on which upstream keeps works of the binding: its targets, the targets of bindings
/// that require it, and clusters that it leaves gracefully.
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

/// A namespaced binding is about a workload of its own namespace (WH7). Karmada's detector makes no
/// other. The placement of a policy, and events, would reach users of another namespace.
pub fn check_namespace(metadata: &ObjectMeta, spec: &ResourceBindingSpec) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let own = metadata.namespace.as_deref().unwrap_or_default();
    if spec.resource.is_elsewhere(own) {
        let path = FieldPath::new("spec.resource.namespace");
        errors.invalid(&path, &spec.resource.namespace, format!("must be the namespace of the binding, {own:?}"));
    }
    errors
}

/// The rules of both bindings. A placement that does not change is not checked again, so that a
/// binding stays writable for clients that did not write the placement.
pub fn check(spec: &ResourceBindingSpec, old: Option<&ResourceBindingSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Some(placement) = &spec.placement
        && old.is_none_or(|old| old.placement != spec.placement)
    {
        let path = FieldPath::new("spec.placement");
        placement_rules::check_promises(placement, &path, &mut errors);
        if let Some(strategy) = &placement.replica_scheduling {
            let path = path.child("replicaScheduling");
            specified_replicas::check_extension(spec.scheduler_name.as_deref(), strategy, &path, &mut errors);
        }
    }
    errors
}
