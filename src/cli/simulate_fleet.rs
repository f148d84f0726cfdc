//! One line of `ballast simulate` with `memberClusters`: a placement of the Fleet family, run to its end offline.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::fleet::cluster::v1beta1::MemberCluster;
use crate::api::fleet::placement::v1beta1::{
    BindingState, ClusterDecision, ClusterResourceBinding, ClusterSchedulingPolicySnapshot,
};
use crate::clock::{Clock, SystemClock};
use crate::engine::fleet::{self as engine, Decision, Fleet, Next, Write};
use crate::k8s::Time;
use crate::scheduler::lower::fleet::{self as lower, PARENT_LABEL, PREVIOUS_STATE};

/// The objects of a line. Those of a namespaced placement have the same shape under other names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    now: Option<Time>,
    member_clusters: Vec<MemberCluster>,
    policy_snapshot: ClusterSchedulingPolicySnapshot,
    #[serde(default)]
    bindings: Vec<ClusterResourceBinding>,
}

/// The line's outcome in the form of the vectors' `expect`, with its `id`; with `error` when it cannot be read.
pub fn simulate_fleet(line: &Value) -> Value {
    let mut outcome = match Line::deserialize(line) {
        Ok(line) => Run::new(line).finish(),
        Err(error) => Map::from_iter([("error".to_owned(), error.to_string().into())]),
    };
    if let Some(id) = line.get("id") {
        outcome.insert("id".to_owned(), id.clone());
    }
    Value::Object(outcome)
}

/// The objects as they are after some cycles.
struct Run {
    now: Time,
    fleet: Fleet,
    snapshot: ClusterSchedulingPolicySnapshot,
    bindings: Vec<ClusterResourceBinding>,
    before: Vec<ClusterResourceBinding>,
    deleted: Vec<String>,
    /// Clusters that each cycle added.
    batches: Vec<BTreeSet<String>>,
}

impl Run {
    fn new(line: Line) -> Run {
        Run {
            now: line.now.unwrap_or_else(|| SystemClock.now()),
            fleet: line.member_clusters.iter().map(lower::cluster).collect(),
            snapshot: line.policy_snapshot,
            before: line.bindings.clone(),
            bindings: line.bindings,
            deleted: Vec::new(),
            batches: Vec::new(),
        }
    }

    fn finish(mut self) -> Map<String, Value> {
        loop {
            let decision = self.decide();
            let live = self.live();
            self.apply(&decision);
            self.batches.push(self.live().difference(&live).cloned().collect());
            if decision.fault.is_some() || decision.next == Next::Done {
                return self.outcome(&decision);
            }
        }
    }

    fn decide(&self) -> Decision {
        let ClusterSchedulingPolicySnapshot { metadata, spec, status, .. } = &self.snapshot;
        let snapshot = lower::snapshot(metadata, spec, status);
        // A binding in a state that nobody knows is left alone.
        let bindings = self.bindings.iter().filter_map(|b| lower::binding(&b.metadata, &b.spec).ok());
        let bindings: Vec<engine::Binding> = bindings.collect();
        let request = engine::Request { now: self.now, fleet: &self.fleet, snapshot: &snapshot, bindings: &bindings };
        engine::decide(&request)
    }

    fn apply(&mut self, decision: &Decision) {
        for write in &decision.writes {
            self.write(write);
        }
        if let Some(report) = &decision.report {
            lower::report(&mut self.snapshot.status, report, self.now);
        }
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Create { decision } => {
                let name = self.new_name(&decision.cluster);
                let lower::BindingParts { metadata, spec } = lower::create(&self.snapshot.metadata, name, decision);
                self.bindings.push(ClusterResourceBinding { metadata, spec, ..Default::default() });
            }
            Write::Patch { binding, state, decision } => {
                let snapshot = self.snapshot.metadata.name.clone().unwrap_or_default();
                lower::patch(&mut self.binding(binding).spec, &snapshot, *state, decision);
            }
            Write::Unschedule { binding, from } => {
                let binding = self.binding(binding);
                lower::unschedule(&mut binding.metadata, &mut binding.spec, *from);
            }
            Write::Release { binding } => {
                let released = self.binding(binding);
                lower::release(&mut released.metadata);
                if released.metadata.finalizers.is_empty() {
                    let cluster = released.spec.target_cluster.clone();
                    self.deleted.push(cluster);
                    self.bindings.retain(|known| known.metadata.name.as_deref() != Some(&**binding));
                }
            }
        }
    }

    fn binding(&mut self, name: &str) -> &mut ClusterResourceBinding {
        let found = self.bindings.iter_mut().find(|binding| binding.metadata.name.as_deref() == Some(name));
        found.expect("a decision is about bindings it was given")
    }

    /// Counted where the server would throw dice, so that the same line gives the same output.
    fn new_name(&self, cluster: &str) -> String {
        let placement = self.snapshot.metadata.labels.get(PARENT_LABEL).map(String::as_str).unwrap_or_default();
        format!("{placement}-{cluster}-{:08x}", self.bindings.len() + self.deleted.len())
    }

    /// Clusters that hold a live binding of the snapshot.
    fn live(&self) -> BTreeSet<String> {
        let is_live = |binding: &&ClusterResourceBinding| {
            binding.metadata.deletion_timestamp.is_none()
                && binding.spec.state != BindingState::Unscheduled
                && Some(&binding.spec.scheduling_policy_snapshot_name) == self.snapshot.metadata.name.as_ref()
        };
        self.bindings.iter().filter(is_live).map(|binding| binding.spec.target_cluster.clone()).collect()
    }

    fn outcome(self, last: &Decision) -> Map<String, Value> {
        let (mut created, mut patched, mut unscheduled) = (Vec::new(), Vec::new(), Vec::new());
        for binding in &self.bindings {
            let cluster = &binding.spec.target_cluster;
            let Some(before) = self.before.iter().find(|before| before.metadata.name == binding.metadata.name) else {
                created.push(cluster);
                continue;
            };
            if before.spec == binding.spec {
                continue;
            }
            match binding.spec.state {
                BindingState::Unscheduled => unscheduled.push(cluster),
                _ => patched.push(cluster),
            }
        }
        let sorted = |mut clusters: Vec<&String>| {
            clusters.sort();
            json!(clusters)
        };

        let mut outcome = Map::new();
        if last.fault.is_some() {
            outcome.insert("error".to_owned(), "unexpected".into());
        }
        outcome.insert("cycles".to_owned(), self.batches.len().into());
        if self.batches.len() > 1 {
            outcome.insert("batches".to_owned(), json!(self.batches));
        }
        outcome.insert("created".to_owned(), sorted(created));
        outcome.insert("patched".to_owned(), sorted(patched));
        outcome.insert("unscheduled".to_owned(), sorted(unscheduled));
        outcome.insert("deleted".to_owned(), sorted(self.deleted.iter().collect()));
        let mut bindings: Vec<&ClusterResourceBinding> = self.bindings.iter().collect();
        bindings.sort_by_key(|binding| (&binding.spec.target_cluster, &binding.metadata.name));
        let bindings: Vec<Value> = bindings.into_iter().map(|binding| self.binding_outcome(binding)).collect();
        outcome.insert("bindings".to_owned(), bindings.into());
        let status = &self.snapshot.status;
        let condition = status.conditions.iter().find(|condition| condition.type_ == "Scheduled");
        let condition = condition.map(|condition| {
            json!({
                "type": condition.type_,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": condition.observed_generation,
            })
        });
        outcome.insert("condition".to_owned(), condition.unwrap_or(Value::Null));
        outcome.insert("observedCRPGeneration".to_owned(), status.observed_crp_generation.into());
        let decisions = status.target_clusters.iter().map(|decision| {
            let mut outcome = Map::from_iter([("clusterName".to_owned(), decision.cluster_name.clone().into())]);
            outcome.extend(decision_outcome(decision));
            Value::Object(outcome)
        });
        outcome.insert("decisions".to_owned(), decisions.collect());
        outcome
    }

    fn binding_outcome(&self, binding: &ClusterResourceBinding) -> Value {
        let ClusterResourceBinding { metadata, spec, .. } = binding;
        let mut outcome = Map::new();
        if self.before.iter().any(|before| before.metadata.name == metadata.name) {
            outcome.insert("name".to_owned(), json!(metadata.name));
        }
        outcome.insert("targetCluster".to_owned(), spec.target_cluster.clone().into());
        outcome.insert("state".to_owned(), json!(spec.state));
        let snapshot = spec.scheduling_policy_snapshot_name.clone();
        outcome.insert("schedulingPolicySnapshotName".to_owned(), snapshot.into());
        outcome.extend(decision_outcome(&spec.cluster_decision));
        if let Some(previous) = metadata.annotations.get(PREVIOUS_STATE) {
            outcome.insert("previousBindingState".to_owned(), previous.clone().into());
        }
        if !spec.resource_snapshot_name.is_empty() {
            outcome.insert("resourceSnapshotName".to_owned(), spec.resource_snapshot_name.clone().into());
        }
        if metadata.deletion_timestamp.is_some() {
            outcome.insert("deleting".to_owned(), true.into());
        }
        outcome.insert("finalizers".to_owned(), json!(metadata.finalizers));
        outcome.into()
    }
}

fn decision_outcome(decision: &ClusterDecision) -> Map<String, Value> {
    let mut outcome = Map::new();
    outcome.insert("selected".to_owned(), decision.selected.into());
    if let Some(score) = decision.cluster_score {
        outcome.insert("affinityScore".to_owned(), json!(score.affinity_score));
        outcome.insert("topologySpreadScore".to_owned(), json!(score.topology_spread_score));
    }
    outcome.insert("reason".to_owned(), decision.reason.clone().into());
    outcome
}
