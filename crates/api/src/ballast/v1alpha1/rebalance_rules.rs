//! Rules for rebalances that a schema cannot express.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::amounts::{IntOrPercent, Limits, Mode};
use super::gate_rules;
use super::objective_rules;
use super::rebalance::{Drain, RebalanceSpec};
use super::review::AsOf;
use super::rollout::{MAX_SURGE, MIN_AVAILABLE, Rollout, Strategy};
use super::select_rules::{self, Reach};
use crate::meta::ObjectMeta;
use crate::tree;
use ballast_k8s::{FieldErrors, FieldPath, names};

/// The largest accepted number of replicas or moves.
const AMOUNT_MAX: i64 = 1_000_000_000;
/// The maximum length of a label value. The moves have a label with the name of the rebalance.
const NAME_BYTES_MAX: usize = 63;

const SURGE_ONLY: [&str; 2] = ["minAvailable", "maxSurge"];

/// The fields that an undo without its own values copies from the undone rebalance.
pub const TAKEN_OVER: [&str; 2] = ["rollout", "limits"];

/// Sets the defaults that depend on other fields. `old` is the stored object on an update.
pub(super) fn prepare(object: &mut Map<String, Value>, old: Option<&Map<String, Value>>) {
    let old = old.and_then(|old| old.get("spec")?.as_object());
    if let Some(spec) = tree::object(object, &["spec"]) {
        prepare_spec(spec, old);
    }
}

pub(super) fn prepare_spec(spec: &mut Map<String, Value>, old: Option<&Map<String, Value>>) {
    match (spec.contains_key("undo"), old) {
        // Fields that an undo has copied are preserved if the writer omits them.
        (true, Some(old)) => {
            for name in TAKEN_OVER.into_iter().filter(|name| !spec.contains_key(*name)).collect::<Vec<_>>() {
                spec.extend(old.get(name).map(|known| (name.to_owned(), known.clone())));
            }
        }
        // The server copies the missing fields from the undone rebalance.
        (true, None) => {}
        (false, _) => {
            spec.entry("rollout").or_insert_with(|| {
                let mut rollout = json!(Rollout::default());
                rollout.as_object_mut().expect("fields").remove("strategy");
                rollout
            });
        }
    }
    select_rules::prepare(spec);
    let strategy = if spec.contains_key("drain") { Strategy::SurgeFirst } else { Strategy::Direct };
    if let Some(rollout) = spec.get_mut("rollout").and_then(Value::as_object_mut) {
        rollout.entry("strategy").or_insert_with(|| json!(strategy));
    }
    spec.entry("mode").or_insert_with(|| json!(Mode::default()));
    default_surge(spec);
}

/// Checks the `before` of a rebalance or a review in mode AsBefore.
pub(super) fn check_before(before: Option<&AsOf>, is_as_before: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(AsOf { revision, time }) = before else { return };
    let path = path.child("before");
    if !is_as_before {
        errors.forbidden(&path, "belongs to mode AsBefore");
    } else if revision.is_some() == time.is_some() {
        errors.required(&path, "exactly one of revision and time must be given");
    }
}

/// Sets the defaults that apply only to the strategy SurgeFirst.
fn default_surge(spec: &mut Map<String, Value>) {
    let Some(rollout) = spec.get_mut("rollout").and_then(Value::as_object_mut) else { return };
    if rollout.get("strategy") == Some(&json!("SurgeFirst")) {
        for (name, amount) in SURGE_ONLY.into_iter().zip([MIN_AVAILABLE, MAX_SURGE]) {
            rollout.entry(name).or_insert(json!(amount));
        }
    }
}

/// Returns warnings for fields that have no effect.
pub(super) fn advise(spec: Option<&Value>, at: &str) -> Vec<String> {
    let Some(rollout) = spec.and_then(|spec| spec.get("rollout")) else { return Vec::new() };
    if rollout.get("strategy") != Some(&json!("Direct")) {
        return Vec::new();
    }
    let given = SURGE_ONLY.into_iter().filter(|name| rollout.get(*name).is_some());
    given.map(|name| format!("{at}.rollout.{name} has no effect: the strategy is Direct, not SurgeFirst")).collect()
}

/// Checks a Rebalance or ClusterRebalance.
pub(super) fn check(
    metadata: &ObjectMeta,
    spec: &RebalanceSpec,
    old: Option<&RebalanceSpec>,
    reach: Reach<'_>,
) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let path = FieldPath::new("spec");
    let name = metadata.name.as_deref().unwrap_or_default();
    check_name(name, &mut errors);
    check_spec(spec, reach, &path, &mut errors);
    if spec.undo.as_ref().is_some_and(|undo| undo.name == name) {
        errors.invalid(&path.child("undo").child("name"), name, "a rebalance cannot undo itself");
    }
    if let Some(old) = old {
        check_changes(spec, old, &path, &mut errors);
    }
    errors
}

/// Checks the length of the name and that it has no dot. The registry checks its form.
fn check_name(name: &str, errors: &mut FieldErrors) {
    let path = FieldPath::new("metadata.name");
    if name.len() > NAME_BYTES_MAX {
        errors.invalid(
            &path,
            name,
            format!("must be no more than {NAME_BYTES_MAX} bytes: it is the value of a label of its moves"),
        );
    } else if name.contains('.') {
        errors.invalid(&path, name, "must not contain a dot: a dot ends it in the names of its moves");
    }
}

pub(super) fn check_spec(spec: &RebalanceSpec, reach: Reach<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let given = [("select", !spec.select.is_empty()), ("undo", spec.undo.is_some()), ("drain", spec.drain.is_some())];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
    match (given.next(), given.next()) {
        (None, _) => {
            let detail = "select workloads, or name a rebalance in undo, or clusters in drain; everything in scope is \
                          select: [{all: true}]";
            errors.required(&path.child("select"), detail);
        }
        (Some(_), Some(second)) => {
            errors.forbidden(&path.child(second), "exactly one of select, undo and drain can be given");
        }
        _ => {}
    }
    if (spec.undo.is_some() || spec.drain.is_some()) && !spec.exclude.is_empty() {
        errors.forbidden(&path.child("exclude"), "belongs to select, and cannot be given with undo or drain");
    }
    if let Some(undo) = &spec.undo {
        check_names(&undo.clusters, &path.child("undo").child("clusters"), errors);
    }
    if let Some(drain) = &spec.drain {
        check_drain(drain, reach, &path.child("drain"), errors);
    }
    check_before(
        spec.before.as_ref(),
        spec.mode == Mode::AsBefore && spec.undo.is_none() && spec.drain.is_none(),
        path,
        errors,
    );
    if let Some(objective) = &spec.objective {
        let path = path.child("objective");
        if spec.undo.is_some() {
            errors.forbidden(&path, "an undo brings workloads back to where they were");
        } else if spec.mode != Mode::Fresh {
            errors.forbidden(
                &path,
                format!("mode {:?} says where workloads go; an objective belongs to Fresh", spec.mode),
            );
        }
        objective_rules::check(objective, &spec.limits, &path, errors);
    }
    select_rules::check(&spec.select, &spec.exclude, reach, path, errors);
    check_limits(&spec.limits, &path.child("limits"), errors);
    check_rollout(&spec.rollout, &path.child("rollout"), errors);
}

fn check_drain(drain: &Drain, reach: Reach<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    if matches!(reach, Reach::OwnNamespace(_)) {
        errors.forbidden(path, "a cluster has workloads of all namespaces: a ClusterRebalance drains it");
    }
    check_names(&drain.clusters, &path.child("clusters"), errors);
}

/// Checks that the names are valid and unique.
fn check_names(clusters: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (index, cluster) in clusters.iter().enumerate() {
        let path = path.index(index);
        for fault in names::subdomain_faults(cluster) {
            errors.invalid(&path, cluster, fault);
        }
        if !seen.insert(cluster) {
            errors.duplicate(&path, cluster);
        }
    }
}

pub(super) fn check_limits(limits: &Limits, path: &FieldPath, errors: &mut FieldErrors) {
    let Limits { max_moved_replicas: most, min_moved_replicas: fewest, preserve_available: _ } = limits;
    check_amount(*most, 1, &path.child("maxMovedReplicas"), errors);
    check_amount(*fewest, 0, &path.child("minMovedReplicas"), errors);
    let contradicts = match (most, fewest) {
        (Some(IntOrPercent::Int(most)), Some(IntOrPercent::Int(fewest))) => fewest > most,
        (Some(IntOrPercent::Percent(most)), Some(IntOrPercent::Percent(fewest))) => fewest > most,
        _ => false,
    };
    if contradicts {
        let detail = "must not be greater than maxMovedReplicas: no number of replicas keeps to both";
        errors.invalid(&path.child("minMovedReplicas"), fewest, detail);
    }
}

fn check_rollout(rollout: &Rollout, path: &FieldPath, errors: &mut FieldErrors) {
    check_amount(rollout.max_concurrent, 1, &path.child("maxConcurrent"), errors);
    check_amount(rollout.min_available, 0, &path.child("minAvailable"), errors);
    check_amount(rollout.max_surge, 1, &path.child("maxSurge"), errors);
    let failed = rollout.abort_on.map(|on| on.failed);
    check_amount(failed, 1, &path.child("abortOn").child("failed"), errors);
    gate_rules::check(&rollout.gates, &path.child("gates"), errors);
}

/// Checks the bounds of an amount. The schema checks only that percentages are at most 100.
pub(super) fn check_amount(amount: Option<IntOrPercent>, least: i64, path: &FieldPath, errors: &mut FieldErrors) {
    let detail = match amount {
        Some(IntOrPercent::Int(number)) if number < least => format!("must be greater than or equal to {least}"),
        Some(IntOrPercent::Int(number)) if number > AMOUNT_MAX => format!("must be less than or equal to {AMOUNT_MAX}"),
        Some(IntOrPercent::Percent(percent)) if percent < least => "must be greater than 0%".to_owned(),
        _ => return,
    };
    errors.invalid(path, amount, detail);
}

/// Rejects changes to all fields but four, because the plan was made from them.
fn check_changes(spec: &RebalanceSpec, old: &RebalanceSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let frozen = [
        ("select", spec.select != old.select),
        ("exclude", spec.exclude != old.exclude),
        ("undo", spec.undo != old.undo),
        ("drain", spec.drain != old.drain),
        ("mode", spec.mode != old.mode),
        ("objective", spec.objective != old.objective),
        ("before", spec.before != old.before),
        ("limits", spec.limits != old.limits),
        ("rollout", spec.rollout != old.rollout),
        ("expectPlan", spec.expect_plan != old.expect_plan),
        ("approval", spec.approval != old.approval),
    ];
    for (name, _) in frozen.into_iter().filter(|(_, has_changed)| *has_changed) {
        let detail = "cannot change after creation; abort this rebalance and create another one";
        errors.forbidden(&path.child(name), detail);
    }
    for (name, was, is) in [("approved", old.approved, spec.approved), ("abort", old.abort, spec.abort)] {
        if was && !is {
            errors.invalid(&path.child(name), is, "cannot be unset");
        }
    }
}
