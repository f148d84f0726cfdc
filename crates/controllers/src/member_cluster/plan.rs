//! Decides the conditions of a member cluster, and whether it may go. Pure.
//!
//! The server sets nothing up on a cluster, so a cluster may join at once. Its agent reports
//! whether it has joined. A late heartbeat is reported as a condition and moves nothing: only the
//! next cycle that needs a cluster considers it.

use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::fleet::cluster::v1beta1::{MemberCluster, MemberClusterStatus};
use ballast_api::meta::{Condition, ObjectMeta};
use ballast_k8s::Time;

/// The finalizer of a cluster that placements may use.
const FINALIZER: &str = "kubernetes-fleet.io/membercluster-finalizer";
const MEMBER_AGENT: &str = "MemberAgent";
/// Maximum age of the heartbeat before the scheduler considers the cluster disconnected.
const HEARTBEAT_AGE_MAX_SECONDS: i64 = 300;

#[derive(Clone, Copy, Debug)]
pub struct ObservedMember<'a> {
    pub cluster: &'a MemberCluster,
    /// Whether a binding is Scheduled or Bound on the cluster.
    pub is_counted_on: bool,
    pub now: Time,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MembershipPlan {
    /// The desired cluster; `None` if nothing changes.
    pub cluster: Option<MemberCluster>,
    /// Seconds until the heartbeat is late.
    pub next_check_seconds: Option<i64>,
}

pub fn plan(observed: &ObservedMember<'_>) -> MembershipPlan {
    let mut cluster = observed.cluster.clone();
    hold(&mut cluster.metadata, observed.is_counted_on);
    let generation = cluster.metadata.generation.unwrap_or_default();
    let heartbeat = last_heartbeat(&cluster.status);
    let age = heartbeat.map(|heartbeat| observed.now.seconds().saturating_sub(heartbeat.seconds()));
    for told in [READY_TO_JOIN, joined(&cluster.status), heard(age)] {
        conditions::set(&mut cluster.status.conditions, Some(generation), observed.now, told);
    }
    let is_late_in = age.map(|age| HEARTBEAT_AGE_MAX_SECONDS.saturating_sub(age).saturating_add(1));
    MembershipPlan {
        cluster: (cluster != *observed.cluster).then_some(cluster),
        next_check_seconds: is_late_in.filter(|seconds| *seconds > 0),
    }
}

/// Maintains the finalizer. A deleted cluster is released when no placement uses it. Bindings that
/// are still on it then are being removed.
fn hold(metadata: &mut ObjectMeta, is_counted_on: bool) {
    if metadata.deletion_timestamp.is_some() {
        metadata.finalizers.retain(|finalizer| finalizer != FINALIZER || is_counted_on);
    } else if !metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        metadata.finalizers.push(FINALIZER.to_owned());
    }
}

const READY_TO_JOIN: ConditionUpdate<'static> = ConditionUpdate {
    type_: "ReadyToJoin",
    status: "True",
    reason: "MemberClusterReadyToJoin",
    message: "the server takes the reports of the cluster's agent",
};

/// Summarizes the agent's report as upstream does.
fn joined(status: &MemberClusterStatus) -> ConditionUpdate<'static> {
    let agent = status.agent_status.iter().find(|agent| agent.type_ == MEMBER_AGENT);
    let is_joined = |condition: &&Condition| condition.type_ == "Joined";
    let joined = agent.and_then(|agent| agent.conditions.iter().find(is_joined));
    let (status, reason, message) = match joined.map(|condition| condition.status.as_str()) {
        Some("True") => ("True", "MemberClusterJoined", "the member agent has joined"),
        Some("False") => ("False", "MemberClusterLeft", "the member agent has left"),
        _ => ("Unknown", "MemberClusterJoinStateUnknown", "the member agent has not said whether it joined"),
    };
    ConditionUpdate { type_: "Joined", status, reason, message }
}

/// Returns the heartbeat condition. Upstream has none, and only reports the time of the last
/// heartbeat.
fn heard(age_seconds: Option<i64>) -> ConditionUpdate<'static> {
    let (status, reason, message) = match age_seconds {
        None => ("Unknown", "NoHeartbeatYet", "the member agent was never heard of"),
        Some(age) if age > HEARTBEAT_AGE_MAX_SECONDS => {
            ("False", "HeartbeatMissed", "no heartbeat for more than 5 minutes: the cluster is not picked anew")
        }
        Some(_) => ("True", "HeartbeatInTime", "the last heartbeat is at most 5 minutes old"),
    };
    ConditionUpdate { type_: "HeartbeatReceived", status, reason, message }
}

fn last_heartbeat(status: &MemberClusterStatus) -> Option<Time> {
    let agent = status.agent_status.iter().find(|agent| agent.type_ == MEMBER_AGENT)?;
    agent.last_received_heartbeat
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_772_366_400;

    fn cluster(agents: Value) -> MemberCluster {
        let object = json!({"metadata": {"name": "a", "generation": 1}, "spec": {"identity": {"kind": "User", "name": "a"}},
                            "status": {"agentStatus": agents}});
        serde_json::from_value(object).unwrap()
    }

    fn agent(joined: &str, age_seconds: i64) -> Value {
        let then = Time::from_seconds(NOW - age_seconds).to_string();
        let condition =
            json!({"type": "Joined", "status": joined, "reason": "r", "message": "", "lastTransitionTime": then});
        json!([{"type": "MemberAgent", "lastReceivedHeartbeat": then, "conditions": [condition]}])
    }

    #[track_caller]
    fn check(agents: Value, joined: &str, heard: &str, next_check: Option<i64>) {
        let cluster = cluster(agents);
        let now = Time::from_seconds(NOW);
        let plan = plan(&ObservedMember { cluster: &cluster, is_counted_on: false, now });
        let kept = plan.cluster.unwrap();
        let statuses: Vec<&str> = kept.status.conditions.iter().map(|condition| condition.status.as_str()).collect();
        assert_eq!((statuses, plan.next_check_seconds), (vec!["True", joined, heard], next_check));
        let again = super::plan(&ObservedMember { cluster: &kept, is_counted_on: false, now });
        assert_eq!(again.cluster, None, "nothing is written twice");
    }

    #[test]
    fn a_cluster_has_joined_when_its_agent_says_so() {
        check(json!([]), "Unknown", "Unknown", None);
        check(agent("True", 10), "True", "True", Some(291));
        check(agent("False", 10), "False", "True", Some(291));
    }

    #[test]
    fn a_heartbeat_of_five_minutes_is_in_time_and_an_older_one_is_not() {
        check(agent("True", 300), "True", "True", Some(1));
        check(agent("True", 301), "True", "False", None);
    }

    #[test]
    fn a_cluster_goes_when_nothing_counts_on_it() {
        let now = Time::from_seconds(NOW);
        let mut cluster = cluster(agent("True", 0));
        cluster = plan(&ObservedMember { cluster: &cluster, is_counted_on: false, now }).cluster.unwrap();
        assert_eq!(cluster.metadata.finalizers, [FINALIZER]);
        cluster.metadata.deletion_timestamp = Some(now);
        assert_eq!(plan(&ObservedMember { cluster: &cluster, is_counted_on: true, now }).cluster, None);
        let freed = plan(&ObservedMember { cluster: &cluster, is_counted_on: false, now }).cluster.unwrap();
        assert!(freed.metadata.finalizers.is_empty());
    }
}
