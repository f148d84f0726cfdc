//! Decides a line of `ballast simulate` with `memberClusters`: a placement of the KubeFleet family.
//! Its scheduling cycles run offline until nothing changes.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::simulate::Malformed;
use ballast_api::fleet::cluster::v1beta1::MemberCluster;
use ballast_api::fleet::placement::v1beta1::{
    BindingState, ClusterDecision, ClusterResourceBinding, ClusterSchedulingPolicySnapshot,
};
use ballast_base::clock::{Clock, SystemClock};
use ballast_engine::fleet::{BindingWrite, Decision, MemberClusters};
use ballast_k8s::Time;
use ballast_scheduler::convert::fleet::{
    self as convert, BindingParts, PARENT_LABEL, PREVIOUS_STATE, PlacementObjects, Settled, SnapshotParts,
};

/// The objects of a line. Namespaced placements have the same shape and other names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FleetCase {
    now: Option<Time>,
    member_clusters: Vec<MemberCluster>,
    policy_snapshot: ClusterSchedulingPolicySnapshot,
    #[serde(default)]
    bindings: Vec<ClusterResourceBinding>,
}

/// Returns the result of a line in the format of the vectors' `expect`, with its `id`. A failed
/// cycle is a result too.
pub fn simulate_fleet(line: &Value) -> Result<Value, Malformed> {
    let id = line.get("id");
    let malformed = |error: serde_json::Error| Malformed {
        id: id.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned)),
        why: error.to_string(),
    };
    let mut outcome = run(FleetCase::deserialize(line).map_err(malformed)?);
    if let Some(id) = id {
        outcome.insert("id".to_owned(), id.clone());
    }
    Ok(Value::Object(outcome))
}

fn run(line: FleetCase) -> Map<String, Value> {
    let ClusterSchedulingPolicySnapshot { metadata, spec, status, .. } = line.policy_snapshot;
    let placement = metadata.labels.get(PARENT_LABEL).cloned().unwrap_or_default();
    let bindings = line.bindings.into_iter().map(|binding| {
        let ClusterResourceBinding { metadata, spec, .. } = binding;
        BindingParts { metadata, spec }
    });
    let before: Vec<BindingParts> = bindings.collect();
    let objects = PlacementObjects { snapshot: SnapshotParts { metadata, spec, status }, bindings: before.clone() };
    let fleet: MemberClusters = line.member_clusters.iter().map(convert::cluster).collect();
    let now = line.now.unwrap_or_else(|| SystemClock.now());
    let mut made = 0;
    // A counter instead of random numbers, so that the output is deterministic.
    let mut name = |cluster: &str| {
        made += 1;
        format!("{placement}-{cluster}-{made:08x}")
    };
    CycleReport { before: &before, settled: convert::settle(&fleet, objects, now, &mut name) }.write()
}

/// The bindings before and after the cycles.
struct CycleReport<'a> {
    before: &'a [BindingParts],
    settled: Settled,
}

impl CycleReport<'_> {
    fn write(&self) -> Map<String, Value> {
        let mut outcome = Map::new();
        let mut insert = |field: &str, value: Value| outcome.insert(field.to_owned(), value);
        let Settled { objects, cycles } = &self.settled;
        if cycles.iter().any(|decision| decision.fault.is_some()) {
            insert("error", "unexpected".into());
        }
        insert("cycles", cycles.len().into());
        if cycles.len() > 1 {
            insert("batches", cycles.iter().map(|decision| json!(self.batch(decision))).collect());
        }
        let [created, patched, unscheduled, deleted] = self.changes();
        insert("created", json!(created));
        insert("patched", json!(patched));
        insert("unscheduled", json!(unscheduled));
        insert("deleted", json!(deleted));
        let mut bindings: Vec<&BindingParts> = objects.bindings.iter().collect();
        bindings.sort_by_key(|parts| (&parts.spec.target_cluster, &parts.metadata.name));
        insert("bindings", bindings.into_iter().map(|parts| self.binding(parts)).collect());
        let status = &objects.snapshot.status;
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
        insert("condition", condition.unwrap_or(Value::Null));
        insert("observedCRPGeneration", status.observed_crp_generation.into());
        let decisions = status.target_clusters.iter().map(|decision| {
            let mut outcome = Map::from_iter([("clusterName".to_owned(), decision.cluster_name.clone().into())]);
            outcome.extend(cluster_decision(decision));
            Value::Object(outcome)
        });
        insert("decisions", decisions.collect());
        outcome
    }

    /// Returns the clusters that a cycle added.
    fn batch(&self, decision: &Decision) -> BTreeSet<String> {
        let cluster = |write: &BindingWrite| match write {
            BindingWrite::Create { decision } | BindingWrite::Patch { decision, .. } => {
                Some(decision.cluster.as_ref().to_owned())
            }
            BindingWrite::Unschedule { .. } | BindingWrite::Release { .. } => None,
        };
        decision.writes.iter().filter_map(cluster).collect()
    }

    /// Returns the clusters with bindings that were created, patched, unscheduled and deleted from
    /// the first cycle to the last.
    fn changes(&self) -> [Vec<&str>; 4] {
        let after = &self.settled.objects.bindings;
        let [mut created, mut patched, mut unscheduled] = [const { Vec::new() }; 3];
        for parts in after {
            let cluster = parts.spec.target_cluster.as_str();
            match self.former(parts) {
                None => created.push(cluster),
                Some(before) if before.spec == parts.spec => {}
                Some(_) if parts.spec.state == BindingState::Unscheduled => unscheduled.push(cluster),
                Some(_) => patched.push(cluster),
            }
        }
        let is_gone = |before: &&BindingParts| !after.iter().any(|parts| parts.metadata.name == before.metadata.name);
        let deleted = self.before.iter().filter(is_gone).map(|before| before.spec.target_cluster.as_str()).collect();
        let mut changes = [created, patched, unscheduled, deleted];
        changes.iter_mut().for_each(|clusters| clusters.sort_unstable());
        changes
    }

    fn former(&self, parts: &BindingParts) -> Option<&BindingParts> {
        self.before.iter().find(|before| before.metadata.name == parts.metadata.name)
    }

    fn binding(&self, parts: &BindingParts) -> Value {
        let BindingParts { metadata, spec } = parts;
        let mut outcome = Map::new();
        let mut insert = |field: &str, value: Value| outcome.insert(field.to_owned(), value);
        if self.former(parts).is_some() {
            insert("name", json!(metadata.name));
        }
        insert("targetCluster", spec.target_cluster.clone().into());
        insert("state", json!(spec.state));
        insert("schedulingPolicySnapshotName", spec.scheduling_policy_snapshot_name.clone().into());
        if let Some(previous) = metadata.annotations.get(PREVIOUS_STATE) {
            insert("previousBindingState", previous.clone().into());
        }
        if !spec.resource_snapshot_name.is_empty() {
            insert("resourceSnapshotName", spec.resource_snapshot_name.clone().into());
        }
        if metadata.deletion_timestamp.is_some() {
            insert("deleting", true.into());
        }
        insert("finalizers", json!(metadata.finalizers));
        outcome.extend(cluster_decision(&spec.cluster_decision));
        outcome.into()
    }
}

fn cluster_decision(decision: &ClusterDecision) -> Map<String, Value> {
    let mut outcome = Map::new();
    outcome.insert("selected".to_owned(), decision.selected.into());
    if let Some(score) = decision.cluster_score {
        outcome.insert("affinityScore".to_owned(), json!(score.affinity_score));
        outcome.insert("topologySpreadScore".to_owned(), json!(score.topology_spread_score));
    }
    outcome.insert("reason".to_owned(), decision.reason.clone().into());
    outcome
}
