//! Manifests of rebalances and triggers as input of a preview.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::server::Server;
use crate::cli::manifest_check;
use ballast_api::ballast::v1alpha1::{Limits, Mode, Order, RebalanceSpec, ReviewMode, ReviewSpec, SelectEntry};
use ballast_node::UsageError;

/// Maximum size of a manifest in bytes, as for a server.
const BYTES_MAX: u64 = 3 << 20;

/// The request for a preview that a manifest is converted to.
pub enum PreviewQuestion {
    /// A review, possibly of one namespace. `rebalance` is the rebalance in the manifest, if it
    /// contains one.
    Review { namespace: Option<String>, spec: Box<ReviewSpec>, rebalance: Option<Value> },
    /// A rebalance that only a dry run can plan: it excludes workloads, undoes another rebalance,
    /// or has a custom order.
    DryRun { namespace: Option<String>, plural: &'static str, object: Value },
}

/// Reads the manifest of a preview; `-` is standard input.
pub fn read(path: &Path) -> anyhow::Result<PreviewQuestion> {
    let object = read_object(path)?;
    asked(object).map_err(|fault| UsageError(format!("{}: {fault}", path.display())).into())
}

/// Rejects `-n` if the object in the file is not in that namespace. `namespace` is the object's
/// namespace, empty if it names none; `None` if it applies to all namespaces.
pub fn check_namespace(server: &Server, namespace: Option<&str>) -> Result<(), UsageError> {
    match (namespace, server.named_namespace()) {
        (None, _) => server.refuse_namespace("the object in the file is about all namespaces: leave -n out"),
        (Some(own), Some(named)) if !own.is_empty() && own != named => {
            server.refuse_namespace(&format!("the object in the file is in namespace {own}: leave -n out"))
        }
        _ => Ok(()),
    }
}

/// Reads one object, and rejects unknown fields and wrong types; `-` is standard input.
pub fn read_object(path: &Path) -> anyhow::Result<Value> {
    let shown = path.display();
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(BYTES_MAX).read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text)),
    };
    read.with_context(|| format!("failed to read {shown}")).map_err(UsageError::because)?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
        .with_context(|| format!("{shown} is no YAML and no JSON"))
        .map_err(UsageError::because)?;
    let [mut object] = <[Value; 1]>::try_from(objects)
        .map_err(|all| UsageError(format!("{shown} holds {} objects, and must hold one", all.len())))?;
    if let Some(members) = object.as_object_mut() {
        let faults = manifest_check::check(members).errors;
        if !faults.is_empty() {
            return Err(UsageError(format!("{shown}: {}", faults.join("; "))).into());
        }
    }
    Ok(object)
}

fn asked(object: Value) -> Result<PreviewQuestion, String> {
    let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let spec = &object["spec"];
    let review = |spec: ReviewSpec, namespace: Option<String>| {
        let (spec, rebalance) = (Box::new(spec), None);
        PreviewQuestion::Review { namespace, spec, rebalance }
    };
    match &*kind {
        "Rebalance" | "ClusterRebalance" => {
            let read = RebalanceSpec::deserialize(spec).map_err(|error| format!("spec: {error}"))?;
            let (plural, namespace) = match &*kind {
                "Rebalance" => ("rebalances", Some(namespace.unwrap_or_default())),
                _ => ("clusterrebalances", None),
            };
            let has_order = read.rollout.order != Order::Priority;
            if read.undo.is_some() || read.drain.is_some() || !read.exclude.is_empty() || has_order {
                return Ok(PreviewQuestion::DryRun { namespace, plural, object });
            }
            let spec = Box::new(of_rebalance(&read));
            Ok(PreviewQuestion::Review { namespace, spec, rebalance: Some(object) })
        }
        "PlacementReview" | "LocalPlacementReview" => {
            let read = ReviewSpec::deserialize(spec).map_err(|error| format!("spec: {error}"))?;
            Ok(review(read, Some(namespace.unwrap_or_default()).filter(|_| kind == "LocalPlacementReview")))
        }
        "WorkloadRebalancer" => Ok(review(triggered(&spec["workloads"]), None)),
        "RescheduleTask" => Ok(review(triggered(&spec["targetRefResource"]), None)),
        "" => Err("the object has no kind".to_owned()),
        kind => Err(format!(
            "{kind} moves nothing by itself; give a Rebalance, ClusterRebalance, WorkloadRebalancer, RescheduleTask \
             or PlacementReview"
        )),
    }
}

/// Returns the review that corresponds to the plan of a rebalance.
pub fn of_rebalance(spec: &RebalanceSpec) -> ReviewSpec {
    let (select, before) = (spec.select.clone(), spec.before.clone());
    let objective = spec.objective.clone();
    let mode = review_mode(spec.mode);
    ReviewSpec { select, mode, objective, before, limits: spec.limits, ..ReviewSpec::default() }
}

/// Returns the rebalance that corresponds to the review. `None` if the review makes hypothetical
/// assumptions, or is not about a plan.
pub fn to_rebalance(spec: &ReviewSpec) -> Option<RebalanceSpec> {
    if spec.suppose.is_some() || spec.as_of.is_some() {
        return None;
    }
    let mode = match spec.mode {
        ReviewMode::Fresh => Mode::Fresh,
        ReviewMode::AsBefore => Mode::AsBefore,
        ReviewMode::Steady => Mode::Steady,
        ReviewMode::AsIs => return None,
    };
    let (select, before) = (spec.select.clone(), spec.before.clone());
    let objective = spec.objective.clone();
    Some(RebalanceSpec { select, mode, objective, before, limits: spec.limits, ..RebalanceSpec::default() })
}

/// Converts the mode of a rebalance to that of a review.
pub fn review_mode(mode: Mode) -> ReviewMode {
    match mode {
        Mode::Fresh => ReviewMode::Fresh,
        Mode::AsBefore => ReviewMode::AsBefore,
        Mode::Steady => ReviewMode::Steady,
    }
}

/// Converts the workloads of a trigger. Upstream decides each separately; a review fits them
/// together.
fn triggered(workloads: &Value) -> ReviewSpec {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let entry = |workload: &Value| SelectEntry {
        api_version: text(&workload["apiVersion"]),
        kind: text(&workload["kind"]),
        namespace: text(&workload["namespace"]),
        name: text(&workload["name"]),
        ..SelectEntry::default()
    };
    let select = workloads.as_array().into_iter().flatten().map(entry).collect();
    ReviewSpec { select, limits: Limits::default(), ..ReviewSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_that_moves_something_is_a_question() {
        let select = |object: Value| match asked(object) {
            Ok(PreviewQuestion::Review { namespace, spec, .. }) => (namespace, spec.select.len()),
            _ => panic!("no review"),
        };
        let entries = json!([{"kind": "Deployment", "name": "web"}]);
        let of = |kind: &str, field: &str| {
            let mut spec = serde_json::Map::new();
            spec.insert(field.to_owned(), entries.clone());
            json!({"kind": kind, "metadata": {"namespace": "shop"}, "spec": spec})
        };
        assert_eq!(select(of("Rebalance", "select")), (Some("shop".to_owned()), 1));
        assert_eq!(select(of("ClusterRebalance", "select")), (None, 1));
        assert_eq!(select(of("WorkloadRebalancer", "workloads")), (None, 1));
        assert_eq!(select(of("RescheduleTask", "targetRefResource")), (None, 1));
        assert!(asked(of("Deployment", "x")).is_err());
        let undo = json!({"kind": "ClusterRebalance", "spec": {"undo": {"name": "home"}}});
        assert!(matches!(asked(undo), Ok(PreviewQuestion::DryRun { plural: "clusterrebalances", .. })));
    }
}
