//! Runs the cycles of a placement, one after another, over its objects in memory.
//!
//! A topology constraint needs one cycle for each cluster, and each cycle reads the writes of the
//! previous one. Here, all cycles end in one set of objects, which is committed at once, so no
//! reader sees a binding that one cycle drops and the next restores.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::apply::{self, BindingParts};
use ballast_api::fleet::placement::v1beta1::{SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use ballast_api::meta::ObjectMeta;
use ballast_engine::fleet::{self as engine, BindingWrite, Decision, MemberClusters, Next};
use ballast_k8s::Time;

/// The parts of a policy snapshot of either scope.
#[derive(Clone, Debug)]
pub struct SnapshotParts {
    pub metadata: ObjectMeta,
    pub spec: SchedulingPolicySnapshotSpec,
    pub status: SchedulingPolicySnapshotStatus,
}

/// The active policy snapshot of a placement, and all of its bindings.
#[derive(Clone, Debug)]
pub struct PlacementObjects {
    pub snapshot: SnapshotParts,
    pub bindings: Vec<BindingParts>,
}

/// The result of the cycles.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The objects after the last cycle. Bindings that are being deleted and have no finalizers are
    /// omitted.
    pub objects: PlacementObjects,
    /// One decision for each cycle. Only the last may contain a fault.
    pub cycles: Vec<Decision>,
}

/// Runs cycles until no further one is needed. `name` returns a new, unique name for a binding on a
/// cluster.
pub fn settle(
    fleet: &MemberClusters,
    mut objects: PlacementObjects,
    now: Time,
    name: &mut dyn FnMut(&str) -> String,
) -> Settled {
    let mut cycles = Vec::new();
    loop {
        let decision = objects.decide(fleet, now);
        objects.apply(&decision, now, name);
        let is_last = decision.fault.is_some() || decision.next == Next::Done;
        cycles.push(decision);
        // Each cycle that needs another has picked a cluster, so the cycles terminate. The bound
        // guards against an error in the engine.
        if is_last || cycles.len() > fleet.len() {
            return Settled { objects, cycles };
        }
    }
}

impl Settled {
    /// Keeps the status `before` of the snapshot, if no cluster was picked or dropped and the new
    /// status has fewer reasons.
    ///
    /// Differs from KubeFleet (D59), which drops the reasons once no cluster is left to pick.
    #[must_use]
    pub fn keeping_reasons(mut self, before: &SchedulingPolicySnapshotStatus) -> Settled {
        let mut writes = self.cycles.iter().flat_map(|decision| &decision.writes);
        let is_same = writes.all(|write| matches!(write, BindingWrite::Release { .. }));
        if is_same && says_less(before, &self.objects.snapshot.status) {
            self.objects.snapshot.status = before.clone();
        }
        self
    }
}

/// Returns whether a status picks the same clusters as the previous one, and lacks reasons why
/// others were not picked.
fn says_less(before: &SchedulingPolicySnapshotStatus, after: &SchedulingPolicySnapshotStatus) -> bool {
    let verdict = |status: &SchedulingPolicySnapshotStatus| {
        let scheduled = status.conditions.iter().find(|condition| condition.type_ == super::SCHEDULED);
        scheduled.map(|it| (it.status.clone(), it.reason.clone(), it.message.clone(), it.observed_generation))
    };
    let picked = |status: &SchedulingPolicySnapshotStatus| -> BTreeSet<String> {
        let picked = status.target_clusters.iter().filter(|decision| decision.selected);
        picked.map(|decision| decision.cluster_name.to_string()).collect()
    };
    before.observed_crp_generation == after.observed_crp_generation
        && verdict(before) == verdict(after)
        && picked(before) == picked(after)
        && after.target_clusters.iter().all(|decision| decision.selected)
        && before.target_clusters.len() > after.target_clusters.len()
}

impl PlacementObjects {
    fn decide(&self, fleet: &MemberClusters, now: Time) -> Decision {
        let SnapshotParts { metadata, spec, status } = &self.snapshot;
        let snapshot = super::snapshot(metadata, spec, status);
        // A binding in an unknown state is skipped. The pass reports it.
        let converted = self.bindings.iter().filter_map(|parts| super::binding(&parts.metadata, &parts.spec).ok());
        let bindings: Vec<engine::Binding> = converted.collect();
        engine::decide(&engine::Request { now, fleet, snapshot: &snapshot, bindings: &bindings })
    }

    fn apply(&mut self, decision: &Decision, now: Time, name: &mut dyn FnMut(&str) -> String) {
        for write in &decision.writes {
            match write {
                BindingWrite::Create { decision } => {
                    self.bindings.push(apply::create(&self.snapshot.metadata, name(&decision.cluster), decision));
                }
                BindingWrite::Patch { binding, state, decision } => {
                    let snapshot = self.snapshot.metadata.name.clone().unwrap_or_default();
                    apply::patch(&mut self.binding(binding).spec, &snapshot, *state, decision);
                }
                BindingWrite::Unschedule { binding, from } => {
                    let parts = self.binding(binding);
                    apply::unschedule(&mut parts.metadata, &mut parts.spec, *from);
                }
                BindingWrite::Release { binding } => apply::release(&mut self.binding(binding).metadata),
            }
        }
        let is_gone =
            |parts: &BindingParts| parts.metadata.deletion_timestamp.is_some() && parts.metadata.finalizers.is_empty();
        self.bindings.retain(|parts| !is_gone(parts));
        if let Some(report) = &decision.report {
            apply::report(&mut self.snapshot.status, report, now);
        }
    }

    fn binding(&mut self, name: &Arc<str>) -> &mut BindingParts {
        let found = self.bindings.iter_mut().find(|parts| parts.metadata.name.as_deref() == Some(name));
        found.expect("a decision is about bindings it was given")
    }
}
