//! The annotation of a binding that a rebalance is moving: `ballast.dev/move`.
//!
//! While a binding has the annotation, the rebalance controls its targets. They may add up to more
//! than its replicas, while new replicas start before old ones stop. So the scheduler skips the
//! binding until a disturbance: a trigger, an eviction, or a change of the binding. These take
//! precedence over the move (BD6): the usual pass decides, and removes the annotation in the same
//! write. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use ballast_api::Pairs;
use ballast_api::ballast::v1alpha1::{MovePhase, Share};
pub use ballast_api::karmada::work::v1alpha2::MOVE;
use ballast_api::karmada::work::v1alpha2::PartialBinding;
use ballast_engine::karmada::{ClusterSet, Profile, Request, Target};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_watch::View;

pub const MOVES: GroupResource = GroupResource::new("moves.ballast.dev");
pub const CLUSTER_MOVES: GroupResource = GroupResource::new("clustermoves.ballast.dev");

/// The content of the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveAnnotation {
    /// The rebalance: `clusterrebalances/<name>` or `rebalances/<namespace>/<name>`.
    pub by: String,
    /// The name of the Move.
    #[serde(rename = "move")]
    pub name: String,
    /// The replicas of the workload when the move began, including replicas of components.
    pub replicas: i64,
    /// The targets that the rebalance wrote last.
    pub at: Vec<(String, i64)>,
}

/// The fields of a Move that the scheduler reads.
#[derive(Deserialize)]
struct PartialMove {
    #[serde(default)]
    spec: PartialMoveSpec,
    #[serde(default)]
    status: PartialMoveStatus,
}

#[derive(Default, Deserialize)]
struct PartialMoveSpec {
    #[serde(default)]
    to: Vec<Share>,
}

#[derive(Default, Deserialize)]
struct PartialMoveStatus {
    phase: Option<MovePhase>,
}

/// The reason why a move stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A trigger is pending.
    Triggered,
    PlacementChanged,
    ReplicasChanged {
        from: i64,
        to: i64,
    },
    /// The cluster of a target has been deleted or is being deleted.
    ClusterLost(String),
    /// The binding was evicted from this cluster.
    Evicted(String),
    /// The placement no longer selects this cluster, which receives replicas.
    Unselected(String),
    /// Another writer changed the targets.
    TargetsChanged,
}

impl MoveAnnotation {
    /// Parses the annotation, or returns `None` if there is none. An invalid annotation names no
    /// targets, so every target is a disturbance.
    pub fn of(annotations: &Pairs<String>) -> Option<MoveAnnotation> {
        annotations.get(MOVE).map(|text| serde_json::from_str(text).unwrap_or_default())
    }

    /// Parses the annotation of a stored binding.
    pub fn on(binding: &Object) -> Option<MoveAnnotation> {
        MoveAnnotation::of(&PartialBinding::of(&binding.text.content()).ok()?.annotations().into_iter().collect())
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written")
    }

    /// Returns whether the Move that the annotation names is in phase Moving. Otherwise the
    /// annotation is stale: its rebalance was in another log, or could not remove it.
    pub fn is_carried_on(&self, binding: &Key, view: &View) -> bool {
        self.carried_on(binding, view).is_some()
    }

    /// Returns the destination of the move, sorted by name, or `None` if the move is not in
    /// progress.
    pub fn destination(&self, binding: &Key, view: &View) -> Option<Vec<Share>> {
        let mut to = self.carried_on(binding, view)?.spec.to;
        to.sort_unstable();
        (!to.is_empty()).then_some(to)
    }

    fn carried_on(&self, binding: &Key, view: &View) -> Option<PartialMove> {
        let key = match &*binding.namespace {
            "" => Key::cluster(CLUSTER_MOVES, &*self.name),
            namespace => Key::namespaced(MOVES, namespace, &*self.name),
        };
        let read: PartialMove = serde_json::from_slice(&view.get(&key)?.text.content()).ok()?;
        (read.status.phase == Some(MovePhase::Moving)).then_some(read)
    }

    /// Returns the replicas of a workload, counted as in the annotation.
    pub fn replicas_of(request: &Request) -> i64 {
        let components = request.components.iter().map(|component| i64::from(component.replicas));
        i64::from(request.replicas) + components.sum::<i64>()
    }

    /// Returns targets in the form of the annotation, sorted by name.
    pub fn listed(targets: &[Target]) -> Vec<(String, i64)> {
        let mut listed: Vec<(String, i64)> =
            targets.iter().map(|target| (target.name.to_string(), i64::from(target.replicas))).collect();
        listed.sort();
        listed
    }

    /// Returns the reason to stop the move, or `None` if the binding is as the rebalance left it.
    pub fn disturbance(&self, request: &Request, fleet: &ClusterSet, profile: &Profile) -> Option<Disturbance> {
        if request.is_triggered(profile) {
            return Some(Disturbance::Triggered);
        }
        let replicas = MoveAnnotation::replicas_of(request);
        if replicas != self.replicas {
            return Some(Disturbance::ReplicasChanged { from: self.replicas, to: replicas });
        }
        if request.placement_changed {
            return Some(Disturbance::PlacementChanged);
        }
        if let Some(lost) = request.targets.iter().find(|target| fleet.is_gone(&target.name)) {
            return Some(Disturbance::ClusterLost(lost.name.to_string()));
        }
        if MoveAnnotation::listed(&request.targets) == self.at {
            return None;
        }
        let is_evicted = |name: &str| {
            let is_target = request.targets.iter().any(|target| *target.name == *name);
            !is_target && (fleet.is_gone(name) || request.evicting.iter().any(|cluster| **cluster == *name))
        };
        match self.at.iter().find(|(name, _)| is_evicted(name)) {
            Some((name, _)) => Some(Disturbance::Evicted(name.clone())),
            None => Some(Disturbance::TargetsChanged),
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbance::Triggered => f.write_str("a trigger asked for another placement meanwhile"),
            Disturbance::PlacementChanged => f.write_str("the placement rules changed meanwhile"),
            Disturbance::ReplicasChanged { from, to } => {
                write!(f, "the replicas changed from {from} to {to} meanwhile")
            }
            Disturbance::ClusterLost(name) => write!(f, "cluster {name} is gone or about to go"),
            Disturbance::Evicted(name) => write!(f, "it was evicted from cluster {name}"),
            Disturbance::Unselected(name) => write!(f, "the placement does not select cluster {name} any more"),
            Disturbance::TargetsChanged => f.write_str("somebody else changed the targets meanwhile"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_engine::karmada::Cluster;

    fn target(name: &str, replicas: i32) -> Target {
        Target { name: name.into(), replicas, components: Vec::new() }
    }

    fn fleet() -> ClusterSet {
        let named = |name: &str| Cluster {
            name: name.into(),
            deleting: false,
            labels: Box::default(),
            provider: Box::default(),
            region: Box::default(),
            zones: Box::default(),
            taints: Box::default(),
            apis: Box::default(),
            capacity: None,
        };
        ClusterSet::new(["member1", "member2"].map(named))
    }

    /// Returns four replicas that surge to five.
    fn moving() -> (MoveAnnotation, Request) {
        let targets = vec![target("member1", 4), target("member2", 1)];
        let at = MoveAnnotation::listed(&targets);
        let mark = MoveAnnotation { by: "clusterrebalances/a".to_owned(), name: "a.web".to_owned(), replicas: 4, at };
        (mark, Request { replicas: 4, targets, ..Request::default() })
    }

    fn seen(mark: &MoveAnnotation, request: &Request) -> Option<Disturbance> {
        mark.disturbance(request, &fleet(), &Profile::default())
    }

    #[test]
    fn a_binding_is_left_alone_as_long_as_it_is_as_the_rebalance_left_it() {
        let (mark, request) = moving();
        assert_eq!(seen(&mark, &request), None);
        // Earlier evictions do not matter.
        assert_eq!(seen(&mark, &Request { evicting: vec!["member9".into()], ..request }), None);
    }

    #[test]
    fn triggers_evictions_lost_clusters_rules_and_replicas_disturb_it() {
        let (mark, request) = moving();
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = request.clone();
            change(&mut request);
            seen(&mark, &request)
        };
        assert_eq!(with(&|request| request.force = true), Some(Disturbance::Triggered));
        assert_eq!(with(&|request| request.placement_changed = true), Some(Disturbance::PlacementChanged));
        let grown = Disturbance::ReplicasChanged { from: 4, to: 6 };
        assert_eq!(with(&|request| request.replicas = 6), Some(grown));
        let lost = |request: &mut Request| request.targets.push(target("member9", 1));
        assert_eq!(with(&lost), Some(Disturbance::ClusterLost("member9".to_owned())));
        let evicted = |request: &mut Request| {
            request.targets.remove(0);
            request.evicting.push("member1".into());
        };
        assert_eq!(with(&evicted), Some(Disturbance::Evicted("member1".to_owned())));
        assert_eq!(with(&|request| request.targets[0].replicas = 3), Some(Disturbance::TargetsChanged));
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_one_that_makes_no_sense_is_disturbed() {
        let (mark, request) = moving();
        let annotations = |text: String| [(MOVE.to_owned(), text)].into_iter().collect::<Pairs<String>>();
        assert_eq!(MoveAnnotation::of(&annotations(mark.text())), Some(mark));
        let odd = MoveAnnotation::of(&annotations("tomorrow".to_owned())).unwrap();
        assert!(seen(&odd, &request).is_some());
        assert_eq!(MoveAnnotation::of(&Pairs::default()), None);
    }
}
