//! Computes a placement's status: what the scheduler decided, and the state of the resources on
//! each picked cluster. Pure.
//!
//! The conditions form a sequence. For each cluster, and for the whole placement, the first
//! condition that is not True is the last one shown, because no later one could be True.

use ballast_api::FreeForm;
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::fleet::placement::v1beta1::names::{NUMBER_OF_CLUSTERS, RESOURCE_INDEX_LABEL};
use ballast_api::fleet::placement::v1beta1::{
    AnyBinding, AnyPlacement, AnyPolicySnapshot, AnyResourceSnapshot, ApplyStrategyType, ClusterDecision,
    PerClusterPlacementStatus, PlacementStatus, PlacementType, ResourceIdentifier,
};
use ballast_api::meta::Condition;
use ballast_k8s::Time;

/// The input of the status. The policy snapshot is `None` while none is in force, or while it
/// belongs to an older policy.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    /// Kind of the placement.
    pub kind: &'static str,
    pub placement: &'a AnyPlacement,
    pub policy: Option<&'a AnyPolicySnapshot>,
    pub resources: Option<&'a AnyResourceSnapshot>,
    pub bindings: &'a [AnyBinding],
    pub now: Time,
}

/// A condition of a binding, and the corresponding condition of the placement.
struct ConditionStep {
    type_: &'static str,
    /// Reasons for True, False and Unknown.
    reasons: [&'static str; 3],
}

const STARTED: ConditionStep = ConditionStep {
    type_: "RolloutStarted",
    reasons: ["RolloutStarted", "RolloutNotStartedYet", "RolloutStartedUnknown"],
};
const OVERRIDDEN: ConditionStep =
    ConditionStep { type_: "Overridden", reasons: ["NoOverrideSpecified", "OverriddenFailed", "OverriddenPending"] };
const SYNCHRONIZED: ConditionStep = ConditionStep {
    type_: "WorkSynchronized",
    reasons: ["WorkSynchronized", "WorkNotSynchronizedYet", "WorkSynchronizedUnknown"],
};
const APPLIED: ConditionStep =
    ConditionStep { type_: "Applied", reasons: ["ApplySucceeded", "ApplyFailed", "ApplyPending"] };
const AVAILABLE: ConditionStep = ConditionStep {
    type_: "Available",
    reasons: ["ResourceAvailable", "ResourceNotAvailableYet", "ResourceAvailableUnknown"],
};
const DIFF_REPORTED: ConditionStep =
    ConditionStep { type_: "DiffReported", reasons: ["DiffReportedTrue", "DiffReportedFalse", "DiffReportedUnknown"] };

const LADDER: &[ConditionStep] = &[STARTED, OVERRIDDEN, SYNCHRONIZED, APPLIED, AVAILABLE];
const DIFF_LADDER: &[ConditionStep] = &[STARTED, OVERRIDDEN, SYNCHRONIZED, DIFF_REPORTED];

pub fn status(observed: &StatusInput<'_>) -> PlacementStatus {
    let StatusInput { placement, policy, resources, .. } = observed;
    let known = &placement.status;
    let writer = ConditionWriter { known: &known.conditions, prefix: observed.kind, observed };
    let mut conditions = vec![scheduled(observed, &writer)];
    let is_decided = conditions[0].status != "Unknown";
    let selected: Vec<&ClusterDecision> = policy
        .iter()
        .filter(|_| is_decided)
        .flat_map(|policy| &policy.status.target_clusters)
        .filter(|decision| decision.selected)
        .collect();
    let mut statuses: Vec<PerClusterPlacementStatus> =
        selected.iter().map(|decision| on_cluster(observed, decision)).collect();
    for rung in if statuses.is_empty() { &[] } else { ladder(placement) } {
        let on_clusters =
            statuses.iter().map(|status| find(&status.conditions, rung.type_).map_or("Unknown", |c| &c.status));
        let on_clusters: Vec<&str> = on_clusters.collect();
        let all = worst(&on_clusters);
        let count = on_clusters.iter().filter(|status| **status == all).count();
        let message = format!("{} is {all} on {count} of {} cluster(s)", rung.type_, on_clusters.len());
        let condition = writer.tell(rung.type_, all, reason(rung, all), message);
        conditions.push(condition);
        if all != "True" {
            break;
        }
    }
    if is_decided {
        let missing = wanted(placement, *policy).saturating_sub(statuses.len());
        let failed =
            policy.iter().flat_map(|policy| &policy.status.target_clusters).filter(|decision| !decision.selected);
        let reasons = failed.map(|decision| decision.reason.as_str()).chain(std::iter::repeat("no cluster was found"));
        statuses.extend(reasons.take(missing).map(|reason| not_found(observed, reason)));
    }
    PlacementStatus {
        selected_resources: resources
            .map(|snapshot| identifiers(&snapshot.spec.selected_resources))
            .unwrap_or_default(),
        observed_resource_index: resources
            .and_then(|snapshot| snapshot.metadata.labels.get(RESOURCE_INDEX_LABEL).cloned()),
        placement_statuses: statuses,
        conditions,
    }
}

/// Returns the snapshot's condition, if it is about the current placement.
fn scheduled(observed: &StatusInput<'_>, writer: &ConditionWriter<'_>) -> Condition {
    let generation = observed.placement.metadata.generation.unwrap_or_default();
    let decided =
        observed.policy.filter(|policy| policy.status.observed_crp_generation >= generation).and_then(|policy| {
            let condition = find(&policy.status.conditions, "Scheduled")?;
            (condition.observed_generation == policy.metadata.generation).then_some(condition)
        });
    match decided {
        Some(Condition { status, reason, message, .. }) => writer.tell("Scheduled", status, reason, message.clone()),
        None => writer.tell("Scheduled", "Unknown", "SchedulePending", "Scheduling has not completed".to_owned()),
    }
}

fn on_cluster(observed: &StatusInput<'_>, decision: &ClusterDecision) -> PerClusterPlacementStatus {
    let name = &decision.cluster_name;
    let known =
        observed.placement.status.placement_statuses.iter().find(|status| status.cluster_name.as_ref() == Some(name));
    let known = known.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let writer = ConditionWriter { known, prefix: "", observed };
    let mut conditions = vec![writer.tell("Scheduled", "True", "Scheduled", decision.reason.clone())];
    let is_on_it =
        |binding: &&AnyBinding| binding.spec.target_cluster == *name && binding.metadata.deletion_timestamp.is_none();
    let binding = observed.bindings.iter().find(is_on_it);
    for rung in ladder(observed.placement) {
        let condition = binding.and_then(|binding| {
            let condition = find(&binding.status.conditions, rung.type_)?;
            (condition.observed_generation == binding.metadata.generation).then_some(condition)
        });
        let told = match condition {
            Some(Condition { status, reason, message, .. }) => writer.tell(rung.type_, status, reason, message.clone()),
            None => writer.tell(rung.type_, "Unknown", reason(rung, "Unknown"), "nothing was reported yet".to_owned()),
        };
        let is_true = told.status == "True";
        conditions.push(told);
        if !is_true {
            break;
        }
    }
    let mut status = PerClusterPlacementStatus { cluster_name: Some(name.clone()), conditions, ..Default::default() };
    if let Some(binding) = binding {
        status.failed_placements = binding.status.failed_placements.clone();
        status.drifted_placements = binding.status.drifted_placements.clone();
        status.diffed_placements = binding.status.diffed_placements.clone();
        // `<placement>-<index>-snapshot`
        let index =
            binding.spec.resource_snapshot_name.strip_suffix("-snapshot").and_then(|name| name.rsplit_once('-'));
        status.observed_resource_index = index.map(|(_, index)| index.to_owned());
    }
    status
}

fn not_found(observed: &StatusInput<'_>, reason: &str) -> PerClusterPlacementStatus {
    let known = observed.placement.status.placement_statuses.iter().find(|status| status.cluster_name.is_none());
    let known = known.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let writer = ConditionWriter { known, prefix: "", observed };
    let conditions = vec![writer.tell("Scheduled", "False", "ScheduleFailed", reason.to_owned())];
    PerClusterPlacementStatus { conditions, ..PerClusterPlacementStatus::default() }
}

/// Returns the number of clusters that the policy requests, by number or by name. PickAll requests
/// no particular number.
fn wanted(placement: &AnyPlacement, snapshot: Option<&AnyPolicySnapshot>) -> usize {
    let Some(policy) = &placement.spec.policy else { return 0 };
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => 0,
        PlacementType::PickN => {
            let number = snapshot.and_then(|snapshot| snapshot.metadata.annotations.get(NUMBER_OF_CLUSTERS));
            number.and_then(|number| number.parse().ok()).unwrap_or_default()
        }
        PlacementType::PickFixed => policy.cluster_names.len(),
    }
}

fn ladder(placement: &AnyPlacement) -> &'static [ConditionStep] {
    let apply = placement.spec.strategy.apply_strategy.as_ref();
    match apply.and_then(|apply| apply.type_) {
        Some(ApplyStrategyType::ReportDiff) => DIFF_LADDER,
        _ => LADDER,
    }
}

/// Returns Unknown if any status is Unknown, else False if any is False.
fn worst(statuses: &[&str]) -> &'static str {
    ["Unknown", "False"].into_iter().find(|status| statuses.contains(status)).unwrap_or("True")
}

fn reason(rung: &ConditionStep, status: &str) -> &'static str {
    let [when_true, when_false, when_unknown] = rung.reasons;
    match status {
        "True" => when_true,
        "False" => when_false,
        _ => when_unknown,
    }
}

fn find<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn identifiers(resources: &[FreeForm]) -> Vec<ResourceIdentifier> {
    let identifier = |resource: &FreeForm| {
        let value = resource.value();
        let text = |pointer: &str| value.pointer(pointer).and_then(|text| text.as_str()).map(str::to_owned);
        let api_version = text("/apiVersion").unwrap_or_default();
        let (group, version) =
            api_version.split_once('/').map_or((None, &*api_version), |(group, version)| (Some(group), version));
        ResourceIdentifier {
            group: group.map(str::to_owned),
            version: version.to_owned(),
            kind: text("/kind").unwrap_or_default(),
            name: text("/metadata/name").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            envelope: None,
        }
    };
    resources.iter().map(identifier).collect()
}

/// Writes conditions. A condition keeps its transition time while its status is unchanged.
struct ConditionWriter<'a> {
    known: &'a [Condition],
    prefix: &'static str,
    observed: &'a StatusInput<'a>,
}

impl ConditionWriter<'_> {
    fn tell(&self, type_: &str, status: &str, reason: &str, message: String) -> Condition {
        let type_ = format!("{}{type_}", self.prefix);
        let known = find(self.known, &type_);
        let generation = self.observed.placement.metadata.generation;
        let told = ConditionUpdate { type_: &type_, status, reason, message: &message };
        conditions::next(known, generation, self.observed.now, told)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn placement() -> AnyPlacement {
        serde_json::from_value(json!({
            "metadata": {"name": "crp", "generation": 3},
            "spec": {"resourceSelectors": [], "policy": {"placementType": "PickN", "numberOfClusters": 3}},
        }))
        .unwrap()
    }

    fn policy(observed: i64) -> AnyPolicySnapshot {
        let decision = |name: &str, selected: bool| json!({"clusterName": name, "selected": selected, "reason": name});
        serde_json::from_value(json!({
            "metadata": {"name": "crp-0", "generation": 1, "annotations": {NUMBER_OF_CLUSTERS: "3"}},
            "spec": {"policyHash": ""},
            "status": {
                "observedCRPGeneration": observed,
                "conditions": [{"type": "Scheduled", "status": "False", "reason": "SchedulingPolicyUnfulfilled",
                                "message": "m", "observedGeneration": 1, "lastTransitionTime": "2026-03-01T12:00:00Z"}],
                "targetClusters": [decision("a", true), decision("b", true), decision("c", false)],
            },
        }))
        .unwrap()
    }

    fn binding(cluster: &str, conditions: &[(&str, &str)]) -> AnyBinding {
        let condition = |(type_, status): &(&str, &str)| -> Value {
            json!({"type": type_, "status": status, "reason": "Because", "message": "", "observedGeneration": 2,
                   "lastTransitionTime": "2026-03-01T12:00:00Z"})
        };
        serde_json::from_value(json!({
            "metadata": {"name": format!("crp-{cluster}-0"), "generation": 2},
            "spec": {"state": "Bound", "targetCluster": cluster, "resourceSnapshotName": "crp-4-snapshot",
                     "schedulingPolicySnapshotName": "crp-0",
                     "clusterDecision": {"clusterName": cluster, "selected": true, "reason": ""}},
            "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    fn run(policy: &AnyPolicySnapshot, bindings: &[AnyBinding]) -> PlacementStatus {
        let (placement, now) = (placement(), Time::from_seconds(0));
        let kind = "ClusterResourcePlacement";
        status(&StatusInput { kind, placement: &placement, policy: Some(policy), resources: None, bindings, now })
    }

    fn lines(conditions: &[Condition]) -> Vec<String> {
        conditions.iter().map(|c| format!("{} {} {}", c.type_, c.status, c.reason)).collect()
    }

    #[test]
    fn nothing_is_said_before_the_scheduler_has_seen_this_generation() {
        let status = run(&policy(2), &[]);
        assert_eq!(lines(&status.conditions), ["ClusterResourcePlacementScheduled Unknown SchedulePending"]);
        assert!(status.placement_statuses.is_empty());
    }

    #[test]
    fn the_ladder_ends_at_the_first_rung_that_is_not_true() {
        let done =
            [("RolloutStarted", "True"), ("Overridden", "True"), ("WorkSynchronized", "True"), ("Applied", "False")];
        let status = run(
            &policy(3),
            &[binding("a", &done), binding("b", &[("RolloutStarted", "True"), ("Overridden", "True")])],
        );
        assert_eq!(
            lines(&status.conditions),
            [
                "ClusterResourcePlacementScheduled False SchedulingPolicyUnfulfilled",
                "ClusterResourcePlacementRolloutStarted True RolloutStarted",
                "ClusterResourcePlacementOverridden True NoOverrideSpecified",
                "ClusterResourcePlacementWorkSynchronized Unknown WorkSynchronizedUnknown",
            ]
        );
        let [a, _, missing] = status.placement_statuses.as_slice() else { panic!("{status:?}") };
        assert_eq!(lines(&a.conditions)[4], "Applied False Because");
        assert_eq!(a.observed_resource_index.as_deref(), Some("4"));
        assert_eq!(
            (missing.cluster_name.as_ref(), lines(&missing.conditions)),
            (None, vec!["Scheduled False ScheduleFailed".to_owned()])
        );
        assert_eq!(missing.conditions[0].message, "c");
    }
}
