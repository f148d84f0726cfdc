//! Translates member clusters, policy snapshots and bindings of the KubeFleet family for the
//! engine, and decisions back.
//!
//! An invalid field of a policy is translated to a fault, so that the engine reports it at the same
//! step as upstream. Both scopes share everything, because their kinds differ only in their names.

mod apply;
mod policy;
mod settle;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use apply::BindingParts;
pub use settle::{PlacementObjects, Settled, SnapshotParts, settle};

pub use ballast_api::fleet::placement::v1beta1::names::{PARENT_LABEL, PREVIOUS_STATE};

use ballast_api::core::Quantity as QuantityText;
use ballast_api::fleet::cluster::v1beta1::{MemberCluster, MemberClusterStatus};
use ballast_api::fleet::placement::v1beta1::names::{NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION, SCHEDULER_FINALIZER};
use ballast_api::fleet::placement::v1beta1::{
    self as api, BindingState, ResourceBindingSpec, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use ballast_api::meta::{Condition, ObjectMeta};
use ballast_engine::fleet::{
    Agent, Binding, Cluster, ClusterDecision, Fault, Health, Namespaces, PolicySnapshot, Report, Score, State, Usage,
};
use ballast_k8s::taint::Effect;
use ballast_k8s::{Quantity, Taint, quantity};

const MEMBER_AGENT: &str = "MemberAgent";
const SCHEDULED: &str = "Scheduled";
const FULFILLED: &str = "SchedulingPolicyFulfilled";
const UNFULFILLED: &str = "SchedulingPolicyUnfulfilled";

pub fn cluster(object: &MemberCluster) -> Cluster {
    let metadata = &object.metadata;
    let taints = object.spec.taints.iter().map(|taint| Taint {
        key: taint.key.as_str().into(),
        value: taint.value.as_deref().unwrap_or_default().into(),
        effect: Effect::parse(&taint.effect),
    });
    let status = &object.status;
    let properties = status.properties.iter().map(|(name, property)| (name.as_str().into(), property.value.parse()));
    let usage = [
        (Usage::Capacity, &status.resource_usage.capacity),
        (Usage::Allocatable, &status.resource_usage.allocatable),
        (Usage::Available, &status.resource_usage.available),
    ];
    Cluster {
        name: name(metadata),
        leaving: metadata.deletion_timestamp.is_some(),
        labels: metadata.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        taints: taints.collect(),
        agent: agent(status),
        properties: properties.collect(),
        usage: usage.into_iter().flat_map(|(usage, amounts)| resources(usage, amounts)).collect(),
        namespaces: namespaces(status),
    }
}

type Resource = ((Usage, Box<str>), Result<Quantity, quantity::Malformed>);

fn resources(usage: Usage, amounts: &BTreeMap<String, QuantityText>) -> impl Iterator<Item = Resource> + '_ {
    amounts.iter().map(move |(resource, amount)| ((usage, resource.as_str().into()), amount.text().parse()))
}

fn agent(status: &MemberClusterStatus) -> Option<Agent> {
    let agent = status.agent_status.iter().find(|agent| agent.type_ == MEMBER_AGENT)?;
    let condition = |type_: &str| agent.conditions.iter().find(|condition| condition.type_ == type_);
    let is_true = |condition: &Condition| condition.status == "True";
    Some(Agent {
        heartbeat: agent.last_received_heartbeat,
        joined: condition("Joined").is_some_and(is_true),
        health: condition("Healthy")
            .map(|healthy| Health { healthy: is_true(healthy), since: Some(healthy.last_transition_time) }),
    })
}

fn namespaces(status: &MemberClusterStatus) -> Namespaces {
    // Upstream checks only whether the cluster collects namespaces, not whether that succeeded.
    let collects = status.conditions.iter().any(|condition| condition.type_ == "NamespaceCollectionSucceeded");
    match &status.namespaces {
        _ if !collects => Namespaces::NotCollected,
        None => Namespaces::Unavailable,
        Some(names) => Namespaces::Known(names.keys().map(|name| name.as_str().into()).collect()),
    }
}

pub fn snapshot(
    metadata: &ObjectMeta,
    spec: &SchedulingPolicySnapshotSpec,
    status: &SchedulingPolicySnapshotStatus,
) -> PolicySnapshot {
    let wanted = number(metadata, NUMBER_OF_CLUSTERS).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    PolicySnapshot {
        name: name(metadata),
        generation: metadata.generation.unwrap_or_default(),
        placement_generation: number(metadata, PLACEMENT_GENERATION),
        placement: policy::placement(spec.policy.as_ref(), wanted, metadata.namespace.as_deref()),
        status: known_report(status),
    }
}

/// Parses a non-negative number in an annotation, or in a label, as in older versions.
fn number(metadata: &ObjectMeta, key: &'static str) -> Result<i64, Fault> {
    let text = metadata.annotations.get(key).or_else(|| metadata.labels.get(key));
    let number = text.and_then(|text| text.parse().ok()).filter(|&number: &i64| number >= 0);
    number.ok_or_else(|| Fault::Annotation { annotation: key, found: text.map(|text| text.as_str().into()) })
}

/// Returns the status, if the engine could have written it; otherwise `None`.
fn known_report(status: &SchedulingPolicySnapshotStatus) -> Option<Report> {
    let condition = status.conditions.iter().find(|condition| condition.type_ == SCHEDULED)?;
    let fulfilled = match (condition.status.as_str(), condition.reason.as_str()) {
        ("True", FULFILLED) => true,
        ("False", UNFULFILLED) => false,
        _ => return None,
    };
    Some(Report {
        observed_generation: status.observed_crp_generation,
        generation: condition.observed_generation?,
        fulfilled,
        message: condition.message.clone(),
        decisions: status.target_clusters.iter().map(cluster_decision).collect(),
    })
}

/// A binding in a state that the scheduler does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("binding {name:?} is in unknown state {state:?}")]
pub struct UnknownState {
    pub name: Box<str>,
    pub state: Box<str>,
}

pub fn binding(metadata: &ObjectMeta, spec: &ResourceBindingSpec) -> Result<Binding, UnknownState> {
    let state = match &spec.state {
        BindingState::Scheduled => State::Scheduled,
        BindingState::Bound => State::Bound,
        BindingState::Unscheduled => State::Unscheduled,
        // A binding that is being deleted counts as unscheduled in any state.
        BindingState::Other(_) if metadata.deletion_timestamp.is_some() => State::Unscheduled,
        BindingState::Other(state) => {
            return Err(UnknownState { name: name(metadata).as_ref().into(), state: state.as_str().into() });
        }
    };
    let previous_state = match metadata.annotations.get(PREVIOUS_STATE).map(String::as_str) {
        Some("Scheduled") => Some(State::Scheduled),
        Some("Bound") => Some(State::Bound),
        _ => None,
    };
    Ok(Binding {
        name: name(metadata),
        cluster: spec.target_cluster.as_str().into(),
        state,
        previous_state,
        snapshot: spec.scheduling_policy_snapshot_name.as_str().into(),
        deleting: metadata.deletion_timestamp.is_some(),
        held_by_scheduler: metadata.finalizers.iter().any(|finalizer| finalizer == SCHEDULER_FINALIZER),
        decision: cluster_decision(&spec.cluster_decision),
    })
}

fn cluster_decision(decision: &api::ClusterDecision) -> ClusterDecision {
    let score = decision.cluster_score.map(|score| Score {
        topology_spread: score.topology_spread_score.unwrap_or_default(),
        affinity: score.affinity_score.unwrap_or_default(),
    });
    let cluster = decision.cluster_name.as_str().into();
    ClusterDecision { cluster, selected: decision.selected, score, reason: decision.reason.clone() }
}

fn name(metadata: &ObjectMeta) -> Arc<str> {
    metadata.name.as_deref().unwrap_or_default().into()
}
