//! Rules for selections that a schema cannot express. A selection that contradicts itself, or that
//! can never match, is an error: its author expects something to move.

use std::collections::HashSet;

use super::select::{PolicyRef, SelectEntry};
use crate::label_rules;
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Which bindings an object may select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach<'a> {
    /// Those of the object's own namespace, which is this one.
    OwnNamespace(&'a str),
    All,
}

const POLICIES: &[&str] = &["PropagationPolicy", "ClusterPropagationPolicy"];

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
            check_entry(entry, reach, &at.child(list).index(index), errors);
        }
    }
    for (index, entry) in exclude.iter().enumerate() {
        let path = at.child("exclude").index(index);
        if *entry == SelectEntry::default() {
            errors.invalid(&path, entry, "an empty entry excludes everything, so nothing is selected");
        } else if let Some(same) = select.iter().position(|selected| selected == entry) {
            errors.invalid(&path, entry, format!("excludes everything that {}[{same}] selects", at.child("select")));
        }
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

/// Checks a namespace that an entry names. That of the object itself says what is so anyway (SG12).
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
