//! Writes decisions back to API objects, and changes nothing else.

use super::{FULFILLED, SCHEDULED, UNFULFILLED};
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::fleet::placement::v1beta1::names::{PARENT_LABEL, PREVIOUS_STATE, SCHEDULER_FINALIZER};
use ballast_api::fleet::placement::v1beta1::{
    BindingState, ClusterDecision, ClusterScore, ResourceBindingSpec, SchedulingPolicySnapshotStatus,
};
use ballast_api::meta::ObjectMeta;
use ballast_engine::fleet::{self as engine, Report, State};
use ballast_k8s::Time;

/// The parts of a new binding.
#[derive(Clone, Debug)]
pub struct BindingParts {
    pub metadata: ObjectMeta,
    pub spec: ResourceBindingSpec,
}

/// Returns a new binding of the placement that `snapshot` belongs to. The caller chooses the name.
pub(super) fn create(snapshot: &ObjectMeta, name: String, decision: &engine::ClusterDecision) -> BindingParts {
    let parent = snapshot.labels.get_key_value(PARENT_LABEL);
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: snapshot.namespace.clone(),
        labels: parent.map(|(key, value)| (key.clone(), value.clone())).into_iter().collect(),
        finalizers: vec![SCHEDULER_FINALIZER.to_owned()],
        ..ObjectMeta::default()
    };
    let spec = ResourceBindingSpec {
        state: BindingState::Scheduled,
        scheduling_policy_snapshot_name: snapshot.name.clone().unwrap_or_default(),
        target_cluster: decision.cluster.as_ref().into(),
        cluster_decision: cluster_decision(decision),
        ..ResourceBindingSpec::default()
    };
    BindingParts { metadata, spec }
}

/// Moves a binding to the snapshot named `snapshot`. As upstream, the annotation with its former
/// state stays.
pub(super) fn patch(spec: &mut ResourceBindingSpec, snapshot: &str, state: State, decision: &engine::ClusterDecision) {
    spec.state = binding_state(state);
    snapshot.clone_into(&mut spec.scheduling_policy_snapshot_name);
    spec.cluster_decision = cluster_decision(decision);
}

/// Marks a binding as unscheduled. Differs from KubeFleet (D37), which drops all other annotations.
pub(super) fn unschedule(metadata: &mut ObjectMeta, spec: &mut ResourceBindingSpec, from: State) {
    metadata.annotations.insert(PREVIOUS_STATE.to_owned(), state_name(from).to_owned());
    spec.state = BindingState::Unscheduled;
}

/// Removes the scheduler's finalizer from a binding that is being deleted.
pub(super) fn release(metadata: &mut ObjectMeta) {
    metadata.finalizers.retain(|finalizer| finalizer != SCHEDULER_FINALIZER);
}

pub(super) fn report(status: &mut SchedulingPolicySnapshotStatus, report: &Report, now: Time) {
    let (value, reason) = if report.fulfilled { ("True", FULFILLED) } else { ("False", UNFULFILLED) };
    let told = ConditionUpdate { type_: SCHEDULED, status: value, reason, message: &report.message };
    conditions::set(&mut status.conditions, Some(report.generation), now, told);
    status.observed_crp_generation = report.observed_generation;
    status.target_clusters = report.decisions.iter().map(cluster_decision).collect();
}

fn cluster_decision(decision: &engine::ClusterDecision) -> ClusterDecision {
    ClusterDecision {
        cluster_name: decision.cluster.as_ref().into(),
        selected: decision.selected,
        cluster_score: decision.score.map(|score| ClusterScore {
            affinity_score: Some(score.affinity),
            topology_spread_score: Some(score.topology_spread),
        }),
        reason: decision.reason.clone(),
    }
}

fn binding_state(state: State) -> BindingState {
    match state {
        State::Scheduled => BindingState::Scheduled,
        State::Bound => BindingState::Bound,
        State::Unscheduled => BindingState::Unscheduled,
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Scheduled => "Scheduled",
        State::Bound => "Bound",
        State::Unscheduled => "Unscheduled",
    }
}
