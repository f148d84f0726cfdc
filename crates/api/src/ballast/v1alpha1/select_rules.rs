//! Rules for selections that a schema cannot express. A selection that contradicts itself, or that
//! can never match, is an error, because its author expects something to move.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::select::{PolicyRef, SelectEntry};
use crate::label_rules;
use ballast_k8s::{FieldErrors, FieldPath, names};
use ballast_resource::{Inspection, Schema};

/// The bindings that an object may select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach<'a> {
    /// The bindings of the object's own namespace, which is this one.
    OwnNamespace(&'a str),
    All,
}

const POLICIES: &[&str] = &["PropagationPolicy", "ClusterPropagationPolicy"];

/// The error for an entry without a condition. A misspelt or empty condition must not select more
/// bindings.
const NO_CONDITION: &str = "has no condition; an entry that selects everything in scope is all: true";

/// Inspects the request body of a specification with a selection (D136). Rejects unknown fields,
/// because each could be a misspelt bound, and entries without a condition.
pub(super) fn inspect(schema: &Schema, object: &Map<String, Value>, path: &[&str]) -> Inspection {
    let mut found = Inspection { errors: schema.unknown_fields(object, path), warnings: Vec::new() };
    let Some((first, rest)) = path.split_first() else { return found };
    let Some(spec) = rest.iter().try_fold(object.get(*first), |spec, name| Some(spec?.get(name))).flatten() else {
        return found;
    };
    let at = FieldPath::new(&path.join("."));
    for list in ["select", "exclude"] {
        for (index, entry) in spec[list].as_array().into_iter().flatten().enumerate() {
            let path = at.child(list).index(index);
            match entry.as_object() {
                Some(conditions) if conditions.is_empty() && list == "select" => {
                    let warning = format!("{path}: an empty entry selects everything in scope; write all: true");
                    found.warnings.push(warning);
                }
                Some(conditions) if !conditions.is_empty() && is_void(entry) => {
                    found.errors.invalid(&path, entry, NO_CONDITION);
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns whether a value is null or empty, or has only such members. Templates render such values
/// for missing parameters.
fn is_void(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_void),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces empty entries of `select` by entries that select everything.
pub(super) fn prepare(spec: &mut Map<String, Value>) {
    let entries = spec.get_mut("select").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut).filter(|entry| entry.is_empty()) {
        entry.insert("all".to_owned(), json!(true));
    }
}

/// Checks `select` and `exclude` below `at`. The caller checks whether they are required.
pub(super) fn check(
    select: &[SelectEntry],
    exclude: &[SelectEntry],
    reach: Reach<'_>,
    at: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (list, entries) in [("select", select), ("exclude", exclude)] {
        for (index, entry) in entries.iter().enumerate() {
            let path = at.child(list).index(index);
            if list == "select" {
                check_conditions(entry, &path, errors);
            }
            check_entry(entry, reach, &path, errors);
        }
    }
    // Equal entries have equal serializations.
    let text = |entry: &SelectEntry| serde_json::to_string(entry).unwrap_or_default();
    let mut selected: HashMap<String, usize> = HashMap::new();
    if !exclude.is_empty() {
        selected.extend(select.iter().enumerate().rev().map(|(index, entry)| (text(entry), index)));
    }
    for (index, entry) in exclude.iter().enumerate() {
        let path = at.child("exclude").index(index);
        if entry.has_no_condition() {
            errors.invalid(&path, entry, "the entry excludes everything, so nothing is selected");
        } else if let Some(same) = selected.get(&text(entry)) {
            errors.invalid(&path, entry, format!("excludes everything that {}[{same}] selects", at.child("select")));
        }
    }
}

fn check_conditions(entry: &SelectEntry, path: &FieldPath, errors: &mut FieldErrors) {
    match entry.all {
        Some(true) if *entry != SelectEntry::everything() => {
            let detail = "selects everything in scope: no other field of the entry can be given";
            errors.invalid(&path.child("all"), true, detail);
        }
        Some(true) => {}
        _ if entry.has_no_condition() => errors.invalid(path, entry, NO_CONDITION),
        _ => {}
    }
}

fn check_entry(entry: &SelectEntry, reach: Reach<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(version) = &entry.api_version {
        let parts: Vec<&str> = version.split('/').collect();
        if parts.len() > 2 || parts.contains(&"") {
            errors.invalid(&path.child("apiVersion"), version, "must be a version, or a group, a slash and a version");
        }
    }
    if let Some(namespace) = &entry.namespace {
        check_reach(namespace, reach, &path.child("namespace"), errors);
    }
    if let Some(selector) = &entry.label_selector {
        label_rules::check_selector(selector, &path.child("labelSelector"), errors);
    }
    if entry.displaced == Some(true) && entry.drifted == Some(true) {
        errors.invalid(&path.child("drifted"), true, "displaced is true, too: no binding is both");
    }
    if let Some(policy) = &entry.policy_ref {
        check_policy(policy, reach, &path.child("policyRef"), errors);
    }
    for (list, clusters) in [("placedOn", &entry.placed_on), ("notPlacedOn", &entry.not_placed_on)] {
        for (index, cluster) in clusters.iter().enumerate() {
            for fault in names::subdomain_faults(cluster) {
                errors.invalid(&path.child(list).index(index), cluster, fault);
            }
        }
    }
    let placed_on: HashSet<&String> = entry.placed_on.iter().collect();
    for (index, cluster) in entry.not_placed_on.iter().enumerate() {
        if placed_on.contains(cluster) {
            let path = path.child("notPlacedOn").index(index);
            errors.invalid(&path, cluster, "is in placedOn, too: no binding fulfils both");
        }
    }
}

const OWN_NAMESPACE: &str = "a namespaced object selects only in its own namespace";

/// Checks the namespace of an entry. The object's own namespace is redundant but allowed (SG12).
pub(super) fn check_reach(namespace: &str, reach: Reach<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    match reach {
        Reach::OwnNamespace(own) if own == namespace => {}
        Reach::OwnNamespace(_) => errors.forbidden(path, OWN_NAMESPACE),
        Reach::All => check_namespace(namespace, path, errors),
    }
}

pub(super) fn check_namespace(namespace: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for fault in names::dns_label_faults(namespace) {
        errors.invalid(path, namespace, fault);
    }
}

fn check_policy(policy: &PolicyRef, reach: Reach<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    match (policy.kind.as_str(), &policy.namespace) {
        ("PropagationPolicy", None) if reach == Reach::All => {
            errors.required(&path.child("namespace"), "a PropagationPolicy has one");
        }
        ("PropagationPolicy", None) => {}
        ("PropagationPolicy", Some(namespace)) => check_namespace(namespace, &path.child("namespace"), errors),
        ("ClusterPropagationPolicy", Some(_)) => {
            errors.forbidden(&path.child("namespace"), "a ClusterPropagationPolicy has none");
        }
        ("ClusterPropagationPolicy", None) => {}
        (other, _) => errors.not_supported(&path.child("kind"), other, POLICIES),
    }
}
