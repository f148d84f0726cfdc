//! The destination of replicas that a cluster cannot schedule (RM17). Pure.

use std::sync::Arc;

use crate::planning::{ParsedBinding, PlanBuilder};
use ballast_api::karmada::work::v1alpha2::{AggregatedStatusItem, AnyBinding};
use ballast_engine::karmada::{Division, Mode, Outcome, Placed, Request, Target};

/// Replicas on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCluster {
    pub cluster: Arc<str>,
    pub replicas: i32,
}

/// Returns the number of replicas that are not ready on each cluster of the workload. Only replicas
/// that are divided by the capacity of clusters can move. A cluster that reports no number of ready
/// replicas is skipped.
pub fn unready(request: &Request, binding: &AnyBinding) -> Vec<OnCluster> {
    let Some(placement) = &request.placement else { return Vec::new() };
    let is_divided = matches!(placement.division, Division::Dynamic | Division::Aggregated);
    if !is_divided || request.components.len() > 1 || request.deleting {
        return Vec::new();
    }
    let reports = &binding.status.aggregated_status;
    let missing = |target: &Target| {
        let report = reports.iter().find(|report| *report.cluster_name == *target.name)?;
        let missing = target.replicas.saturating_sub(ready(report)?);
        (missing > 0).then(|| OnCluster { cluster: Arc::clone(&target.name), replicas: missing })
    };
    request.targets.iter().filter_map(missing).collect()
}

/// Returns the ready replicas of a report. A workload with no ready replica omits the field.
fn ready(report: &AggregatedStatusItem) -> Option<i32> {
    let status = report.status.as_ref()?.value();
    let number = |name: &str| status.get(name).and_then(serde_json::Value::as_i64);
    let ready = number("readyReplicas").or_else(|| number("replicas").map(|_| 0))?;
    i32::try_from(ready).ok().filter(|ready| *ready >= 0)
}

/// Returns the replicas to remove from each cluster: the number that its estimator reports as
/// unschedulable, and at most the number that is not ready there.
pub fn stuck(unready: &[OnCluster], unschedulable: &[OnCluster]) -> Vec<OnCluster> {
    let stuck = |it: &OnCluster| {
        let named = unschedulable.iter().find(|known| known.cluster == it.cluster)?;
        let replicas = named.replicas.min(it.replicas);
        (replicas > 0).then(|| OnCluster { cluster: Arc::clone(&it.cluster), replicas })
    };
    unready.iter().filter_map(stuck).collect()
}

/// Returns the targets after the stuck replicas have moved to other clusters, or `None` without
/// capacity for all of them. A cluster that could not schedule them is no candidate, although its
/// estimator may still report capacity: the pods may wait for a reason that it does not model, such
/// as anti-affinity, volumes or ports. Differs from Karmada (D131).
pub fn rescued(builder: &mut PlanBuilder, parsed: &ParsedBinding, stuck: &[OnCluster]) -> Option<Placed> {
    let mut without = parsed.clone();
    for target in &mut without.request.targets {
        let off = stuck.iter().find(|it| it.cluster == target.name).map_or(0, |it| it.replicas);
        target.replicas -= off;
    }
    without.request.targets.retain(|target| target.replicas > 0);
    for OnCluster { cluster, .. } in stuck {
        builder.fill(&without, cluster);
    }
    let Outcome::Placed(placed) = builder.decide(&without, Mode::Steady).outcome else { return None };
    let on = |targets: &[Target], name: &str| {
        targets.iter().filter(|target| *target.name == *name).map(|target| i64::from(target.replicas)).sum::<i64>()
    };
    let total: i64 = placed.targets.iter().map(|target| i64::from(target.replicas)).sum();
    // No replica returns to a cluster that it was taken off, and no other replica moves.
    let is_rescue = stuck.iter().all(|it| {
        on(&placed.targets, &it.cluster) == on(&parsed.request.targets, &it.cluster) - i64::from(it.replicas)
    });
    (is_rescue && total == i64::from(parsed.request.replicas)).then_some(placed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on(cluster: &str, replicas: i32) -> OnCluster {
        OnCluster { cluster: cluster.into(), replicas }
    }

    #[test]
    fn rm17_no_ready_replica_is_taken_off() {
        assert_eq!(stuck(&[on("m1", 3), on("m2", 1)], &[on("m1", 5)]), [on("m1", 3)]);
        assert_eq!(stuck(&[on("m1", 3)], &[on("m1", 2), on("m2", 4)]), [on("m1", 2)]);
        assert_eq!(stuck(&[on("m1", 3)], &[on("m1", 0)]), []);
    }

    #[test]
    fn rm17_a_report_tells_what_is_ready() {
        let ready = |status: serde_json::Value| {
            let item = json!({"clusterName": "m1", "status": status});
            super::ready(&serde_json::from_value(item).unwrap())
        };
        assert_eq!(ready(json!({"replicas": 3, "readyReplicas": 1})), Some(1));
        assert_eq!(ready(json!({"replicas": 3})), Some(0));
        for unknown in [json!({}), json!({"readyReplicas": -1}), json!({"readyReplicas": "2"})] {
            assert_eq!(ready(unknown.clone()), None, "{unknown}");
        }
    }
}
