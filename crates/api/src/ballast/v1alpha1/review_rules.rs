//! Rules for reviews that a schema cannot express. The names in a review are looked up when its
//! result is computed.

use std::collections::BTreeSet;

use super::amounts::Limits;
use super::objective_rules;
use super::rebalance_rules;
use super::review::{AsOf, Explain, ReviewMode, ReviewSpec};
use super::select_rules::{self, Reach};
use super::suppose::{SupposedCluster, SupposedWorkload};
use crate::label_rules;
use ballast_k8s::{self as k8s, FieldErrors, FieldPath, names};

pub(super) fn check(spec: &ReviewSpec, reach: Reach<'_>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let path = FieldPath::new("spec");
    let workloads = spec.suppose.as_ref().map_or(&[][..], |suppose| &suppose.workloads);
    if spec.select.is_empty() && workloads.is_empty() {
        let detail = "select workloads, or suppose some; everything in scope is select: [{all: true}]";
        errors.required(&path.child("select"), detail);
    }
    select_rules::check(&spec.select, &[], reach, &path, &mut errors);
    if spec.survive.is_some() {
        check_survive(spec, &path, &mut errors);
    }
    if spec.mode == ReviewMode::AsIs && spec.limits != Limits::default() {
        errors.forbidden(&path.child("limits"), "with mode AsIs nothing moves");
    }
    if let Some(objective) = &spec.objective {
        let path = path.child("objective");
        if spec.mode != ReviewMode::Fresh {
            errors.forbidden(
                &path,
                format!("mode {:?} says where workloads go; an objective belongs to Fresh", spec.mode),
            );
        }
        objective_rules::check(objective, &spec.limits, &path, &mut errors);
    }
    rebalance_rules::check_before(spec.before.as_ref(), spec.mode == ReviewMode::AsBefore, &path, &mut errors);
    rebalance_rules::check_limits(&spec.limits, &path.child("limits"), &mut errors);
    if let Some(suppose) = &spec.suppose {
        let path = path.child("suppose");
        check_clusters(&suppose.clusters, &path.child("clusters"), &mut errors);
        check_workloads(&suppose.workloads, reach, &path.child("workloads"), &mut errors);
    }
    if let Some(AsOf { revision, time }) = &spec.as_of
        && revision.is_some() == time.is_some()
    {
        errors.required(&path.child("asOf"), "exactly one of revision and time must be given");
    }
    errors
}

/// Rejects fields that do not apply to `survive`, which decides as a Steady plan does.
fn check_survive(spec: &ReviewSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if matches!(spec.mode, ReviewMode::AsBefore | ReviewMode::AsIs) {
        errors.forbidden(&path.child("mode"), "survive decides as with Steady");
    }
    if spec.limits != Limits::default() {
        errors.forbidden(&path.child("limits"), "a loss has none");
    }
    if spec.objective.is_some() {
        errors
            .forbidden(&path.child("objective"), "survive moves nothing: ask for an objective in a review of its own");
    }
    if spec.explain != Explain::None {
        errors
            .forbidden(&path.child("explain"), "survive explains no decision; suppose the loss to have one explained");
    }
}

fn check_clusters(clusters: &[SupposedCluster], path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, cluster) in clusters.iter().enumerate() {
        let path = path.index(index);
        for fault in names::subdomain_faults(&cluster.name) {
            errors.invalid(&path.child("name"), &cluster.name, fault);
        }
        if !seen.insert(&cluster.name) {
            errors.duplicate(&path.child("name"), &cluster.name);
        }
        let SupposedCluster { absent, like, taints, labels, allocatable, .. } = cluster;
        let changes = [("like", like.is_some()), ("taints", taints.is_some()), ("labels", labels.is_some())];
        let changes = changes.into_iter().chain([("allocatable", allocatable.is_some())]);
        let mut given = changes.filter(|(_, is_given)| *is_given).map(|(name, _)| name).peekable();
        match absent.unwrap_or_default() {
            true => given.for_each(|name| errors.forbidden(&path.child(name), "an absent cluster has none")),
            false if given.peek().is_none() => {
                errors.required(&path, "say what is supposed: absent, like, taints, labels or allocatable");
            }
            false => {}
        }
        check_cluster(cluster, &path, errors);
    }
}

fn check_cluster(cluster: &SupposedCluster, path: &FieldPath, errors: &mut FieldErrors) {
    if cluster.like.as_ref() == Some(&cluster.name) {
        errors.invalid(&path.child("like"), &cluster.name, "a new cluster cannot be like itself");
    }
    for (index, taint) in cluster.taints.iter().flatten().enumerate() {
        let path = path.child("taints").index(index);
        for fault in names::qualified_name_faults(&taint.key) {
            errors.invalid(&path.child("key"), &taint.key, fault);
        }
        let value = taint.value.as_deref().unwrap_or_default();
        for fault in names::label_value_faults(value) {
            errors.invalid(&path.child("value"), value, fault);
        }
    }
    if let Some(labels) = &cluster.labels {
        label_rules::check_labels(labels, &path.child("labels"), errors);
    }
    for (resource, amount) in cluster.allocatable.iter().flatten() {
        let path = path.child("allocatable").key(resource);
        match amount.text().parse::<k8s::Quantity>() {
            Ok(_) if amount.text().starts_with('-') => {
                errors.invalid(&path, amount, "must be greater than or equal to 0");
            }
            Ok(_) => {}
            Err(fault) => errors.invalid(&path, amount, fault),
        }
    }
}

fn check_workloads(workloads: &[SupposedWorkload], reach: Reach<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, workload) in workloads.iter().enumerate() {
        let path = path.index(index);
        if let Some(namespace) = &workload.namespace {
            select_rules::check_reach(namespace, reach, &path.child("namespace"), errors);
        }
        let SupposedWorkload { api_version, kind, namespace, name, .. } = workload;
        if !seen.insert((api_version, kind, namespace, name)) {
            errors.duplicate(&path, workload);
        }
    }
}
