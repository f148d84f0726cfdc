//! How many replicas of a workload fit on a cluster, from what the cluster says is left.
//!
//! The least of free pods and each resource that a replica asks for. Where the cluster tells what
//! kinds of nodes it has, how many fit on those nodes one by one takes the place of the sums of
//! resources, not of that of pods. Counts are held at the largest 32-bit number, which also means
//! "no limit known".

use std::collections::HashMap;

use super::cluster::{Grade, amount};
use super::cluster_set::{ClusterSet, Column, Slot, counted};
use super::request::{Requirements, Shared};
use crate::k8s::Quantity;

/// Most pods that one node takes, whatever its size.
pub(super) const PODS_PER_NODE: u64 = 110;

/// More than anybody asks for.
pub(super) const UNLIMITED: i32 = i32::MAX;

/// Estimates of one pass. Each is made once for a cluster and an equal set of requirements.
#[derive(Default)]
pub(super) struct Estimates {
    tables: HashMap<Option<Shared<Requirements>>, Vec<i32>>,
}

/// Not estimated yet.
const UNKNOWN: i32 = -1;

impl Estimates {
    /// Replicas that fit on each of `slots`, handed to `note` in their order.
    pub fn each(
        &mut self,
        fleet: &ClusterSet,
        requirements: Option<&Shared<Requirements>>,
        slots: impl Iterator<Item = Slot>,
        mut note: impl FnMut(Slot, i32),
    ) {
        let key = requirements.cloned();
        let table = self.tables.entry(key).or_insert_with(|| vec![UNKNOWN; fleet.slot_count()]);
        let estimator = Estimator::new(fleet, requirements.map(|requirements| &**requirements));
        for slot in slots {
            let known = &mut table[slot];
            if *known == UNKNOWN {
                *known = estimator.replicas(slot);
            }
            note(slot, *known);
        }
    }
}

/// Estimates for one set of requirements.
pub(super) struct Estimator<'a> {
    fleet: &'a ClusterSet,
    requirements: Option<&'a Requirements>,
    /// What is free of each resource asked for, and how much of it one replica takes.
    columns: Vec<(Column<'a>, i64)>,
}

impl<'a> Estimator<'a> {
    pub fn new(fleet: &'a ClusterSet, requirements: Option<&'a Requirements>) -> Estimator<'a> {
        let amounts = requirements.map_or(&[][..], |requirements| &requirements.amounts);
        let columns = amounts.iter().map(|(name, amount)| (fleet.column(name), counted(name, *amount).max(1)));
        Estimator { fleet, requirements, columns: columns.collect() }
    }

    pub fn replicas(&self, slot: Slot) -> i32 {
        let pods = self.fleet.free_pods(slot);
        let fitting = match self.requirements {
            _ if pods <= 0 => 0,
            Some(requirements) if self.fleet.is_graded(slot) => {
                let grades = self.fleet.cluster(slot).room.as_ref().and_then(|room| room.grades.as_deref());
                i64::try_from(replicas_on_nodes(grades.unwrap_or(&[]), requirements)).unwrap_or(i64::MAX)
            }
            _ => {
                let each =
                    self.columns.iter().map(|(column, amount)| column.free(slot).map_or(0, |free| free / amount));
                each.min().unwrap_or(pods)
            }
        };
        let most = pods.min(fitting);
        most.clamp(0, i64::from(UNLIMITED)) as i32
    }
}

/// One replica after another goes to the first node that still takes it, so each node takes as many
/// as fit on it.
fn replicas_on_nodes(grades: &[Grade], requirements: &Requirements) -> u64 {
    let on_one_node = |grade: &Grade| {
        let fits = |(name, needed): &(Box<str>, Quantity)| {
            let has = amount(&grade.capacity, name).map_or(0, |has| counted(name, has));
            (has / counted(name, *needed).max(1)).max(0) as u64
        };
        requirements.amounts.iter().filter(|(name, _)| is_node_resource(name)).map(fits).min().unwrap_or(u64::MAX)
    };
    let all = grades.iter().map(|grade| grade.nodes.saturating_mul(on_one_node(grade).min(PODS_PER_NODE)));
    all.fold(0, u64::saturating_add)
}

/// Whether nodes are asked for the resource: the native ones that Kubernetes' scheduler counts, and
/// whatever carries a domain. Others are taken on trust.
pub(super) fn is_node_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains('/')
}
