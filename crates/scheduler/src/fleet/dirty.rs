//! Changes that need a new cycle of a placement (R174-R182). Pure.
//!
//! Two kinds of changes need no cycle, so that IgnoreDuringExecution holds: changes of a picked
//! cluster, unless it leaves, and changes of the resources or the rollout strategy.

use std::sync::Arc;

use crate::convert;
use ballast_api::fleet::cluster::v1beta1::MemberCluster;
use ballast_api::fleet::placement::v1beta1::any::AnyPlacement;
use ballast_api::fleet::placement::v1beta1::names::{NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION, is_latest};
use ballast_api::fleet::placement::v1beta1::{
    BindingState, PlacementType, ResourceBindingSpec, SchedulingPolicySnapshotStatus,
};
use ballast_api::meta::{Condition, ObjectMeta};
use ballast_k8s::{Object, Time};

/// The placements that a change of a member cluster can affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Placements that could use another cluster: PickAll, and the others while clusters are
    /// missing.
    Unsatisfied,
    All,
}

/// Returns whether a snapshot is new, became the latest or stopped being so, or has another number
/// of clusters. Losing the label counts because two snapshots may have been latest, and then
/// neither was used.
pub(super) fn is_policy_news(previous: Option<&ObjectMeta>, current: &ObjectMeta) -> bool {
    let Some(previous) = previous else { return true };
    let differs = |key: &str| previous.annotations.get(key) != current.annotations.get(key);
    differs(NUMBER_OF_CLUSTERS) || differs(PLACEMENT_GENERATION) || is_latest(current) != is_latest(previous)
}

/// Returns whether the deletion of a placement or binding has begun.
pub(super) fn began_to_go(previous: Option<&Arc<Object>>, current: &Object) -> bool {
    current.deleting && previous.is_none_or(|previous| !previous.deleting)
}

/// Returns whether the cluster or the state of a binding was edited. The caller filters out the
/// scheduler's own changes to Unscheduled. Upstream detects such an edit only in the placement's
/// next cycle.
pub(super) fn was_edited(previous: &ResourceBindingSpec, current: &ResourceBindingSpec) -> bool {
    let is_rolled_out = (&previous.state, &current.state) == (&BindingState::Scheduled, &BindingState::Bound);
    previous.target_cluster != current.target_cluster || (previous.state != current.state && !is_rolled_out)
}

/// Returns the placements that the change can affect, or `None` if there are none. A cluster that
/// joins becomes eligible later, with its first report.
pub(super) fn reach(previous: &MemberCluster, current: &MemberCluster, now: Time) -> Option<Reach> {
    if current.metadata.deletion_timestamp.is_some() {
        let is_new = previous.metadata.deletion_timestamp.is_none();
        return is_new.then_some(Reach::All);
    }
    let usage = |cluster: &MemberCluster| {
        let usage = cluster.status.resource_usage.clone();
        (usage.capacity, usage.allocatable, usage.available)
    };
    let values = |cluster: &MemberCluster| -> Vec<(String, String)> {
        cluster.status.properties.iter().map(|(name, property)| (name.clone(), property.value.clone())).collect()
    };
    let lost_a_taint = previous.spec.taints.iter().any(|taint| !current.spec.taints.contains(taint));
    let is_eligible = |cluster: &MemberCluster| convert::fleet::cluster(cluster).eligibility(now).is_ok();
    let may_fit_now = previous.metadata.labels != current.metadata.labels
        || lost_a_taint
        || values(previous) != values(current)
        || usage(previous) != usage(current)
        || previous.status.namespaces != current.status.namespaces
        // Time alone makes a cluster ineligible: if no heartbeat arrived for too long, the next one
        // makes it eligible again.
        || (is_eligible(current) && !is_eligible(previous));
    may_fit_now.then_some(Reach::Unsatisfied)
}

/// Returns whether the placement may use a cluster that fits now.
pub(super) fn is_unsatisfied(placement: &AnyPlacement, generation: i64) -> bool {
    let policy = placement.spec.policy.as_ref();
    if policy.and_then(|policy| policy.placement_type).unwrap_or_default() == PlacementType::PickAll {
        return true;
    }
    // The condition type begins with the kind, and one kind ends with the name of the other.
    let is_scheduled = |condition: &&Condition| condition.type_.ends_with("ResourcePlacementScheduled");
    let scheduled = placement.status.conditions.iter().find(is_scheduled);
    !scheduled.is_some_and(|condition| condition.status == "True" && condition.observed_generation == Some(generation))
}

/// Returns whether the scheduler last found all clusters that the policy requests.
pub(super) fn is_fulfilled(snapshot: &SchedulingPolicySnapshotStatus) -> bool {
    let scheduled = snapshot.conditions.iter().find(|condition| condition.type_ == "Scheduled");
    scheduled.is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_772_366_400;

    fn cluster(edit: impl Fn(&mut Value)) -> MemberCluster {
        let now = Time::from_seconds(NOW).to_string();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
        let mut object = json!({
            "metadata": {"name": "a", "labels": {"env": "prod"}},
            "spec": {"identity": {"kind": "User", "name": "a"},
                     "taints": [{"key": "t", "effect": "NoSchedule"}]},
            "status": {
                "agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": now,
                                 "conditions": [condition("Joined"), condition("Healthy")]}],
                "resourceUsage": {"available": {"cpu": "4"}},
            },
        });
        edit(&mut object);
        serde_json::from_value(object).unwrap()
    }

    #[track_caller]
    fn check(edit: impl Fn(&mut Value), expected: Option<Reach>) {
        assert_eq!(reach(&cluster(|_| {}), &cluster(edit), Time::from_seconds(NOW)), expected);
    }

    #[test]
    fn r177_what_may_make_a_cluster_fit_reaches_those_that_could_take_it() {
        check(|object| object["metadata"]["labels"]["env"] = json!("test"), Some(Reach::Unsatisfied));
        check(|object| object["spec"]["taints"] = json!([]), Some(Reach::Unsatisfied));
        check(|object| object["status"]["resourceUsage"]["available"]["cpu"] = json!("8"), Some(Reach::Unsatisfied));
        check(|object| object["status"]["namespaces"] = json!({"team-a": "rp"}), Some(Reach::Unsatisfied));
    }

    #[test]
    fn r174_what_can_only_make_it_unfit_reaches_nobody() {
        check(|_| {}, None);
        check(
            |object| object["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "u", "effect": "NoSchedule"})),
            None,
        );
        check(|object| object["status"]["agentStatus"][0]["conditions"] = json!([]), None);
        check(|object| object["status"]["agentStatus"] = json!([]), None);
    }

    #[test]
    fn r178_an_agent_that_is_heard_again_reaches_those_that_could_take_it() {
        let silent = cluster(|object| object["status"]["agentStatus"] = json!([]));
        let now = Time::from_seconds(NOW);
        assert_eq!(reach(&silent, &cluster(|_| {}), now), Some(Reach::Unsatisfied));
        // The last report of the cluster was healthy, but is too old to be valid.
        let heard = |seconds| {
            let heartbeat = Time::from_seconds(NOW + seconds).to_string();
            cluster(|object| object["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = json!(heartbeat))
        };
        let next_report = |seconds| reach(&heard(0), &heard(seconds), Time::from_seconds(NOW + seconds));
        assert_eq!((next_report(300), next_report(301)), (None, Some(Reach::Unsatisfied)));
    }

    #[test]
    fn r179_a_cluster_that_leaves_reaches_all() {
        check(|object| object["metadata"]["deletionTimestamp"] = json!("2026-03-01T12:00:00Z"), Some(Reach::All));
        let leaving = || cluster(|object| object["metadata"]["deletionTimestamp"] = json!("2026-03-01T12:00:00Z"));
        assert_eq!(reach(&leaving(), &leaving(), Time::from_seconds(NOW)), None);
    }

    #[test]
    fn r176_another_number_of_clusters_is_news_and_a_status_is_not() {
        let with = |number: &str| ObjectMeta {
            annotations: [(NUMBER_OF_CLUSTERS.to_owned(), number.to_owned())].into(),
            ..ObjectMeta::default()
        };
        assert!(is_policy_news(None, &with("2")));
        assert!(is_policy_news(Some(&with("2")), &with("3")));
        assert!(!is_policy_news(Some(&with("2")), &with("2")));
    }
}
