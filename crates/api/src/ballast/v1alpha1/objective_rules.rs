//! Rules for objectives that a schema cannot express.

use super::amounts::{IntOrPercent, Limits};
use super::objective::{Goal, Objective};
use super::rebalance_rules::check_amount;
use ballast_k8s::{FieldErrors, FieldPath, names};

/// Upper bound of `worth`. Beyond it no move is ever made.
const WORTH_MAX: f64 = 1_000.0;

pub(super) fn check(objective: &Objective, limits: &Limits, path: &FieldPath, errors: &mut FieldErrors) {
    let Objective { goal, resource, by, max_moved_replicas: most, worth, tolerance } = objective;
    if let Some(resource) = resource {
        let path = path.child("resource");
        if !goal.has_resource() {
            errors.forbidden(&path, format!("goal {} has none: it belongs to Balance and Pack", goal.as_str()));
        }
        for fault in names::qualified_name_faults(resource) {
            errors.invalid(&path, resource, fault);
        }
    }
    if by.is_some() && *goal != Goal::Survive {
        errors.forbidden(&path.child("by"), format!("goal {} has none: it belongs to Survive", goal.as_str()));
    }
    check_amount(*most, 0, &path.child("maxMovedReplicas"), errors);
    if !(0.0..=WORTH_MAX).contains(&worth.number()) {
        errors.invalid(&path.child("worth"), worth, format!("must be from 0 to {WORTH_MAX}"));
    }
    check_tolerance(*goal, *tolerance, &path.child("tolerance"), errors);
    if let (Some(IntOrPercent::Int(most)), Some(IntOrPercent::Int(fewest))) = (most, limits.min_moved_replicas)
        && *most > 0
        && fewest > *most
    {
        let detail = format!("must not be less than limits.minMovedReplicas, {fewest}: no workload could move");
        errors.invalid(&path.child("maxMovedReplicas"), most, detail);
    }
}

fn check_tolerance(goal: Goal, tolerance: Option<IntOrPercent>, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(given) = tolerance else { return };
    let unit = if goal == Goal::Survive { "replicas" } else { "clusters" };
    match (given, goal.has_percent()) {
        (IntOrPercent::Percent(0..=100), true) => {}
        (IntOrPercent::Percent(_), true) => errors.invalid(path, given, "must be from 0% to 100%".to_owned()),
        (IntOrPercent::Int(_), true) => {
            let detail = format!("must be a percentage with the goal {}, such as \"2%\"", goal.as_str());
            errors.invalid(path, given, detail);
        }
        (IntOrPercent::Percent(_), false) => {
            let detail = format!("must be a number of {unit} with the goal {}", goal.as_str());
            errors.invalid(path, given, detail);
        }
        (IntOrPercent::Int(_), false) => check_amount(tolerance, 0, path, errors),
    }
}
