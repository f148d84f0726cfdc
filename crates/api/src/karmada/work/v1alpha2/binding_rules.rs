//! Rules for bindings that a schema cannot express.
//!
//! Upstream has none. The rules of the seed documents for placements apply to bindings too.
//! Otherwise the scheduler would have to interpret contradictory placements.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::any_binding::AnyBinding;
use super::binding_spec::{NodeClaim, ResourceBindingSpec, TargetCluster};
use crate::core::{NodeSelectorRequirement, Quantity};
use crate::karmada::policy::v1alpha1::{
    cluster_bounds, manager, placement_price, placement_rules, selector_rules, specified_replicas,
};
use crate::label_rules;
use crate::lean::Pairs;
use crate::meta::ObjectMeta;
use crate::tree::Object;
use ballast_k8s::selector::{Operator, Requirement};
use ballast_k8s::{self as k8s, FieldErrors, FieldPath, Time, names};

const FULLY_APPLIED: &str = "FullyApplied";

/// Sets the condition FullyApplied from the reports of the clusters, with upstream's reasons and
/// messages (R31, R33).
///
/// This function runs with every write, so the condition never describes removed targets. If no
/// cluster reports, other writers own the condition, but the write that removes the last target
/// sets it to False (T2).
pub fn set_fully_applied(binding: &mut Object, old: Option<&Object>, now: Time) {
    let had_targets = || old.and_then(|old| old.get("spec")).is_some_and(|spec| !existing_clusters(spec).is_empty());
    set_from_reports(binding, had_targets, now);
}

fn set_from_reports(binding: &mut Object, had_targets: impl FnOnce() -> bool, now: Time) {
    let empty = Value::Null;
    let spec = binding.get("spec").unwrap_or(&empty);
    let targets = existing_clusters(spec);
    if !has_target(spec) {
        let message = match Vec::from_iter(targets).join(", ") {
            left if left.is_empty() => "It is on no cluster".to_owned(),
            left => format!("It has no target; what is still on {left} is to leave, or waits for another place"),
        };
        if had_targets() {
            set_not_applied(binding, &message, now);
        }
        return;
    }
    let reports = binding.get("status").and_then(|status| status["aggregatedStatus"].as_array());
    let Some(reports) = reports.filter(|reports| !reports.is_empty()) else { return };
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

/// Sets FullyApplied to False for a binding without targets, even if clusters that it leaves still
/// report it as applied.
fn set_not_applied(binding: &mut Object, message: &str, now: Time) {
    let conditions = binding.get_mut("status").and_then(|status| status.get_mut("conditions"));
    let conditions = conditions.and_then(Value::as_array_mut).into_iter().flatten();
    for known in conditions.filter(|known| known["type"] == FULLY_APPLIED && known["status"] == "True") {
        (known["status"], known["lastTransitionTime"]) = (json!("False"), json!(now.to_string()));
        (known["reason"], known["message"]) = (json!("FullyAppliedFailed"), json!(message));
    }
}

/// Returns the conditions after a scheduling pass that writes `conditions`, with FullyApplied as
/// set by `set_fully_applied` for these targets and eviction tasks.
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
    set_from_reports(&mut sketch, || !binding.spec.clusters.is_empty(), now);
    sketch["status"]["conditions"].take()
}

/// Returns the clusters on which upstream keeps works of the binding: its targets, the targets of
/// bindings that require it, and clusters that it is evicted from gracefully.
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

/// Returns whether the binding, or one that requires it, has a target. Clusters that it leaves do
/// not count.
fn has_target(spec: &Value) -> bool {
    let required = list_of(&spec["requiredBy"]).any(|other| !list_of(&other["clusters"]).as_slice().is_empty());
    required || !list_of(&spec["clusters"]).as_slice().is_empty()
}

fn list_of(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter()
}

/// Rejects namespaced bindings that reference a workload of another namespace (WH7). Karmada's
/// detector never creates such bindings; their placement and events would affect users of the other
/// namespace.
pub fn check_namespace(metadata: &ObjectMeta, spec: &ResourceBindingSpec) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let own = metadata.namespace.as_deref().unwrap_or_default();
    if spec.resource.is_elsewhere(own) {
        let path = FieldPath::new("spec.resource.namespace");
        errors.invalid(&path, &spec.resource.namespace, format!("must be the namespace of the binding, {own:?}"));
    }
    errors
}

/// Checks the rules that apply to both kinds of bindings. Faults that the stored binding already
/// has are ignored, so that it remains writable for clients that did not cause them (AD6).
pub fn check(metadata: &ObjectMeta, spec: &ResourceBindingSpec, old: Option<&ResourceBindingSpec>) -> FieldErrors {
    let path = FieldPath::new("spec");
    let mut errors = selector_rules::added(spec, old, |spec, errors| check_numbers(spec, &path, errors));
    // The policy of a managed binding is validated itself, or predates validation.
    if !manager::is_named_by(metadata) {
        errors.append(selector_rules::added(spec, old, |spec, errors| check_selectors(spec, &path, errors)));
    }
    if let Some(placement) = &spec.placement
        && old.is_none_or(|old| old.placement != spec.placement)
    {
        let path = path.child("placement");
        placement_price::check(placement, &path, &mut errors);
        placement_rules::check_promises(placement, &path, &mut errors);
        if spec.components.len() <= 1 {
            cluster_bounds::check_total(placement, spec.replicas.unwrap_or_default(), &path, &mut errors);
        }
        if let Some(strategy) = &placement.replica_scheduling {
            let path = path.child("replicaScheduling");
            specified_replicas::check_extension(spec.scheduler_name.as_deref(), strategy, &path, &mut errors);
        }
    }
    errors
}

/// Rejects negative replicas and requests. Upstream accepts them and overestimates the free
/// capacity as a result.
fn check_numbers(spec: &ResourceBindingSpec, path: &FieldPath, errors: &mut FieldErrors) {
    check_count(spec.replicas, &path.child("replicas"), errors);
    if let Some(requirements) = &spec.replica_requirements {
        let path = path.child("replicaRequirements").child("resourceRequest");
        check_requests(&requirements.resource_request, &path, errors);
    }
    for (index, component) in spec.components.iter().enumerate() {
        let path = path.child("components").index(index);
        check_count(Some(component.replicas), &path.child("replicas"), errors);
        if let Some(requirements) = &component.replica_requirements {
            let path = path.child("replicaRequirements").child("resourceRequest");
            check_requests(&requirements.resource_request, &path, errors);
        }
    }
    for (index, TargetCluster { replicas, .. }) in spec.clusters.iter().enumerate() {
        if replicas.is_some_and(|replicas| replicas < 0) {
            check_count(*replicas, &path.child("clusters").index(index).child("replicas"), errors);
        }
    }
}

fn check_count(count: Option<i32>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(count @ ..0) = count {
        errors.invalid(path, count, NOT_NEGATIVE);
    }
}

/// The wording of Kubernetes.
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Rejects negative amounts. The schema rejects malformed ones.
fn check_requests(requests: &Pairs<Quantity>, path: &FieldPath, errors: &mut FieldErrors) {
    for (resource, amount) in requests {
        if amount.text().parse::<k8s::Quantity>().is_ok_and(|amount| amount.is_negative()) {
            errors.invalid(&path.key(resource), amount, NOT_NEGATIVE);
        }
    }
}

/// Rejects cluster and node selectors that can match nothing.
fn check_selectors(spec: &ResourceBindingSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(placement) = &spec.placement {
        selector_rules::check_placement(placement, &path.child("placement"), errors);
    }
    if let Some(claim) = spec.replica_requirements.as_ref().and_then(|it| it.node_claim.as_ref()) {
        check_node_claim(claim, &path.child("replicaRequirements").child("nodeClaim"), errors);
    }
    for (index, component) in spec.components.iter().enumerate() {
        if let Some(claim) = component.replica_requirements.as_ref().and_then(|it| it.node_claim.as_ref()) {
            let path = path.child("components").index(index).child("replicaRequirements").child("nodeClaim");
            check_node_claim(claim, &path, errors);
        }
    }
}

fn check_node_claim(claim: &NodeClaim, path: &FieldPath, errors: &mut FieldErrors) {
    label_rules::check_labels(&claim.node_selector, &path.child("nodeSelector"), errors);
    let terms = claim.hard_node_affinity.iter().flat_map(|affinity| &affinity.node_selector_terms);
    for (index, term) in terms.enumerate() {
        let path = path.child("hardNodeAffinity").child("nodeSelectorTerms").index(index);
        for (index, wanted) in term.match_expressions.iter().enumerate() {
            check_node_requirement(wanted, &path.child("matchExpressions").index(index), errors);
        }
    }
}

fn check_node_requirement(wanted: &NodeSelectorRequirement, path: &FieldPath, errors: &mut FieldErrors) {
    let NodeSelectorRequirement { key, operator, values } = wanted;
    let Some(known) = Operator::parse(operator) else {
        return errors.invalid(&path.child("operator"), operator, "not a valid selector operator");
    };
    let key_faults = names::qualified_name_faults(key);
    if key_faults.is_empty()
        && let Err(fault) = Requirement::new(key, known, values)
    {
        errors.invalid(&path.child("values"), values, fault);
    }
    key_faults.into_iter().for_each(|fault| errors.invalid(&path.child("key"), key, fault));
}
