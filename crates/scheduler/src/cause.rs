//! The cause of a move of replicas, and the message that reports it (BD11).
//!
//! Differs from Karmada (D51): the message is a separate event on the binding. The message of
//! upstream's event is unchanged (R73).

use std::fmt;

use ballast_api::karmada::policy::v1alpha1::{PROPAGATION_POLICIES, PolicyIds};
use ballast_api::karmada::work::v1alpha2::{
    AnyBinding, LAST_CHANGE, LastChange, LeftClusters, PartialBinding, first_of, shares,
};
pub use ballast_api::karmada::work::v1alpha2::{TargetDiff, counted};
use ballast_engine::karmada::{ClusterSet, Mode, Request, Target, TargetComponent, TargetIndex};
use ballast_k8s::{Edit, Key, Object, Time};
use ballast_worker::events::ObjectReference;

/// The reason of the event.
pub const REPLICAS_MOVED: &str = "ReplicasMoved";

/// The cause of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A trigger of this object: a WorkloadRebalancer, a RescheduleTask, a rebalance.
    Requested(ObjectReference),
    /// A trigger that a client wrote directly.
    Trigger(Option<Time>),
    /// A change of the placement. Contains the policy that manages the binding, if there is one.
    Placement(Option<Key>),
    Evicted(Vec<Eviction>),
    /// The evictions from these clusters were withdrawn.
    CalledOff(Vec<String>),
    /// A rebalance reverts the first steps of a move.
    RolledBack(ObjectReference),
    /// The binding had never been placed.
    First,
    /// The binding had no placement before this pass.
    Found,
    /// Clusters of the binding have been deleted, or are being deleted.
    ClustersLost(Vec<String>),
    /// The desired number of replicas differs from the assigned one.
    Scaled {
        assigned: i64,
        wanted: i64,
    },
    /// Clusters could not schedule this many replicas.
    Unschedulable(Vec<(String, i32)>),
    /// The policy of a KubeFleet placement changed.
    Policy,
    /// The desired number of clusters of a KubeFleet placement differs from the assigned one.
    ClusterCount {
        assigned: i64,
        wanted: i64,
    },
    /// The components of the workload, or their replicas, differ from the placed ones.
    Components,
    /// None of the above: the clusters have changed.
    Clusters,
}

/// A cluster that the binding has to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub cluster: String,
    pub replicas: i32,
    pub reason: String,
}

impl Cause {
    /// Returns the cause of a pass that was decided in this mode. `binding` is the parsed `object`,
    /// and `requester` wrote the pending trigger.
    pub fn of(
        object: &Object,
        request: &Request,
        binding: &AnyBinding,
        fleet: &ClusterSet,
        mode: Mode,
        requester: Option<ObjectReference>,
    ) -> Cause {
        if mode == Mode::Fresh {
            return requester.map_or(Cause::Trigger(binding.spec.reschedule_triggered_at), Cause::Requested);
        }
        if request.placement_changed {
            let content = object.text.content();
            let annotations = PartialBinding::of(&content).map(|partial| partial.annotations()).unwrap_or_default();
            return Cause::Placement(PolicyIds::default().managers(object, &annotations).into_iter().next());
        }
        let lost = lost_clusters(request, binding, fleet);
        if !lost.is_empty() {
            return Cause::ClustersLost(lost);
        }
        let assigned: i64 = request.targets.iter().map(|target| i64::from(target.replicas)).sum();
        let wanted = i64::from(request.replicas);
        let tasks = &binding.spec.graceful_eviction_tasks;
        if assigned < wanted && !tasks.is_empty() {
            let evictions = tasks.iter().map(|task| Eviction {
                cluster: task.from_cluster.clone(),
                replicas: task.replicas.unwrap_or_default(),
                reason: task.reason.clone(),
            });
            return Cause::Evicted(evictions.collect());
        }
        if assigned != wanted && assigned > 0 {
            return Cause::Scaled { assigned, wanted };
        }
        if has_other_components(request) { Cause::Components } else { Cause::Clusters }
    }

    /// Returns one word for the log.
    pub fn word(&self) -> &'static str {
        match self {
            Cause::Requested(_) | Cause::Trigger(_) => "trigger",
            Cause::Placement(_) => "placement",
            Cause::Evicted(_) | Cause::CalledOff(_) => "eviction",
            Cause::RolledBack(_) => "rollback",
            Cause::First | Cause::Found => "placed",
            Cause::ClustersLost(_) => "clusterLost",
            Cause::Scaled { .. } | Cause::ClusterCount { .. } => "scale",
            Cause::Unschedulable(_) => "unschedulable",
            Cause::Policy => "policy",
            Cause::Components => "components",
            Cause::Clusters => "clusters",
        }
    }
}

/// Returns whether the components of the targets differ from the desired ones.
fn has_other_components(request: &Request) -> bool {
    let wanted = |part: &TargetComponent| {
        request.components.iter().any(|known| known.name == part.name && known.replicas == part.replicas)
    };
    let differs = |target: &Target| {
        !target.components.is_empty()
            && (target.components.len() != request.components.len() || !target.components.iter().all(wanted))
    };
    request.targets.iter().any(differs)
}

/// Returns the deleted clusters that are targets of the binding, or that it has left since it was
/// last placed (T3).
///
/// If another program removes the targets, the reports of the cluster are the only remaining
/// source.
fn lost_clusters(request: &Request, binding: &AnyBinding, fleet: &ClusterSet) -> Vec<String> {
    let present = TargetIndex::new(&request.targets);
    let is_target = |name: &str| present.find(name).is_some();
    let mut lost = LeftClusters::of(&binding.metadata.annotations).map(|left| left.clusters).unwrap_or_default();
    let there = request.targets.iter().map(|target| &*target.name).filter(|name| fleet.is_gone(name));
    let assigned: i64 = request.targets.iter().map(|target| i64::from(target.replicas)).sum();
    let is_short = assigned < i64::from(request.replicas);
    let reports = binding.status.aggregated_status.iter().map(|report| &*report.cluster_name);
    let reported = reports.filter(|name| is_short && fleet.is_gone(name) && !is_target(name));
    for name in there.chain(reported) {
        if !lost.iter().any(|known| known == name) {
            lost.push(name.to_owned());
        }
    }
    lost
}

/// Formats the cause as `because of WorkloadRebalancer after-outage`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Requested(requester) => write!(f, "because of {}", title(requester)),
            Cause::RolledBack(rebalance) => write!(f, "because of {}, which takes the move back", title(rebalance)),
            Cause::First => f.write_str("because it was placed for the first time"),
            Cause::Found => f.write_str("because it had no placement, and found one"),
            Cause::CalledOff(names) => {
                let from = first_of(names.iter().cloned(), " and ");
                write!(f, "because its eviction from {from} was called off")
            }
            Cause::Trigger(None) => f.write_str("because of a trigger"),
            Cause::Trigger(Some(at)) => write!(f, "because of the trigger of {at}"),
            Cause::Placement(None) => f.write_str("because its placement changed"),
            Cause::Placement(Some(Key { resource, namespace, name })) => {
                let kind =
                    if *resource == PROPAGATION_POLICIES { "PropagationPolicy" } else { "ClusterPropagationPolicy" };
                let slash = if namespace.is_empty() { "" } else { "/" };
                write!(f, "because its placement changed ({kind} {namespace}{slash}{name})")
            }
            Cause::Evicted(evictions) => {
                let replicas = |it: &Eviction| counted(it.replicas.into(), "replica");
                let one = |it: &Eviction| format!("{} ({}, {})", it.cluster, replicas(it), it.reason);
                write!(f, "because it was evicted from {}", first_of(evictions.iter().map(one), " and "))
            }
            Cause::ClustersLost(names) => {
                write!(f, "because {} went away", first_of(names.iter().cloned(), " and "))
            }
            Cause::Scaled { assigned, wanted } => write!(f, "because {wanted} replicas are wanted, not {assigned}"),
            Cause::Unschedulable(on) => {
                let one = |(name, count): &(String, i32)| format!("{} on {name}", counted((*count).into(), "replica"));
                write!(f, "because {} could not be scheduled", first_of(on.iter().map(one), " and "))
            }
            Cause::Policy => f.write_str("because its policy changed"),
            Cause::ClusterCount { assigned, wanted } => {
                let clusters = if *wanted == 1 { "cluster is" } else { "clusters are" };
                write!(f, "because {wanted} {clusters} wanted, not {assigned}")
            }
            Cause::Components => f.write_str("because its components changed"),
            Cause::Clusters => f.write_str("because clusters changed"),
        }
    }
}

/// Formats a reference as `WorkloadRebalancer after-outage` or `Rebalance shop/home`.
fn title(of: &ObjectReference) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let namespace = text(&of.namespace);
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{}", text(&of.kind), text(&of.name))
}

/// Returns the difference between two lists of targets, or `None` if they are equal.
pub fn difference(from: &[Target], to: &[Target]) -> Option<TargetDiff> {
    TargetDiff::between(replicas(from), replicas(to))
}

fn replicas(targets: &[Target]) -> impl Iterator<Item = (&str, i32)> + Clone {
    targets.iter().map(|target| (&*target.name, target.replicas))
}

/// Returns the edit that records a change of targets with its cause (NG4), or `None` if nothing
/// changes.
pub fn record(binding: &AnyBinding, to: &[Target], cause: &Cause, now: Time) -> Option<Edit> {
    Some(Edit::set(&["metadata", "annotations", LAST_CHANGE], recorded(binding, replicas(to), cause, now)?))
}

/// Returns the value of the annotation that records a change to these targets, or `None` if nothing
/// changes.
pub fn recorded<'s>(
    binding: &AnyBinding,
    to: impl Iterator<Item = (&'s str, i32)> + Clone,
    cause: &Cause,
    now: Time,
) -> Option<String> {
    let diff = TargetDiff::between(shares(&binding.spec.clusters), to.clone())?;
    Some(LastChange::text(&binding.metadata.annotations, now, to, &sentence(&diff, cause)))
}

/// Formats the message of the event: `2 replicas moved: member1 0 to 2, member2 4 to 2, because of
/// WorkloadRebalancer after-outage.`
pub fn sentence(diff: &TargetDiff, cause: &Cause) -> String {
    format!("{diff}, {cause}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(targets: &[(&str, i32)]) -> Vec<Target> {
        let target = |(name, replicas): &(&str, i32)| Target {
            name: (*name).into(),
            replicas: *replicas,
            components: Vec::new(),
        };
        targets.iter().map(target).collect()
    }

    #[test]
    fn each_cause_has_its_words() {
        let who = ObjectReference {
            kind: Some("WorkloadRebalancer".to_owned()),
            name: Some("after-outage".to_owned()),
            ..ObjectReference::default()
        };
        let diff = difference(&targets(&[("m2", 1)]), &targets(&[("m1", 1)])).unwrap();
        assert_eq!(
            sentence(&diff, &Cause::Requested(who)),
            "1 replica moved: m1 0 to 1, m2 1 to 0, because of WorkloadRebalancer after-outage."
        );
        let eviction = Eviction { cluster: "m3".to_owned(), replicas: 2, reason: "TaintUntolerated".to_owned() };
        assert_eq!(
            Cause::Evicted(vec![eviction]).to_string(),
            "because it was evicted from m3 (2 replicas, TaintUntolerated)"
        );
        let stuck = Cause::Unschedulable(vec![("m1".to_owned(), 2), ("m2".to_owned(), 1)]);
        assert_eq!(stuck.to_string(), "because 2 replicas on m1 and 1 replica on m2 could not be scheduled");
        assert_eq!(Cause::Scaled { assigned: 4, wanted: 6 }.to_string(), "because 6 replicas are wanted, not 4");
        assert_eq!(
            Cause::ClustersLost(vec!["m1".to_owned(), "m2".to_owned()]).to_string(),
            "because m1 and m2 went away"
        );
    }
}
