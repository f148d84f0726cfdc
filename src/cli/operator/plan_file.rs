//! The file of `ballast preview --out`: the plan as a rebalance that only runs while the plan is
//! unchanged (SG3).

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use super::limits::{RolloutArgs, careful};
use super::manifest::to_rebalance;
use crate::cli::screen::data;
use ballast_api::ballast::v1alpha1::{RebalanceSpec, ReviewSpec, ReviewStatus, Rollout};
use ballast_node::UsageError;
use ballast_scheduler::cause::counted;

/// Returns the rebalance of the previewed plan. `given` is the rebalance in the manifest, if there
/// is one; it keeps its rollout except for changes by flags.
pub fn object(
    given: Option<Value>,
    namespace: Option<&str>,
    spec: &ReviewSpec,
    rollout: &RolloutArgs,
) -> anyhow::Result<Value> {
    let Some(of_review) = to_rebalance(spec) else {
        let fault = "--out and --order are about a plan that can be run: leave --suppose-..., --at and mode AsIs out";
        return Err(UsageError(fault.to_owned()).into());
    };
    if let Some(mut given) = given {
        if rollout.is_given() {
            given["spec"]["rollout"] = rollout.over(&given["spec"]["rollout"]);
        }
        return Ok(given);
    }
    let rollout = Rollout::deserialize(rollout.over(&careful()))?;
    let of_review = RebalanceSpec { rollout, ..of_review };
    let mut metadata = json!({"generateName": "rebalance-"});
    let kind = match namespace {
        Some(namespace) => {
            metadata["namespace"] = json!(namespace);
            "Rebalance"
        }
        None => "ClusterRebalance",
    };
    Ok(json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": of_review}))
}

/// Writes the rebalance with the hash of the expected plan.
pub fn write(path: &Path, mut object: Value, status: &ReviewStatus) -> anyhow::Result<()> {
    let Some(hash) = &status.plan_hash else {
        anyhow::bail!("the server does not name its plan, so nothing was written: is it older than this command?");
    };
    object["spec"]["expectPlan"] = json!(hash);
    object.as_object_mut().into_iter().for_each(|members| drop(members.remove("status")));
    let summary = &status.summary;
    let head = format!(
        "# Moves {} with {}, or nothing if that has changed: ballast rebalance -f {}\n",
        counted(summary.to_move, "workload"),
        counted(summary.replicas_to_move, "replica"),
        path.display()
    );
    let text = format!("{head}{}", data(&object, true)?);
    std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
