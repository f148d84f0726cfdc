//! Estimates how many replicas of a workload fit on a cluster, from the resources that it reports.
//!
//! The estimate is the least of the free pods and of each resource that a replica needs. If the
//! cluster reports kinds of nodes, replicas are counted node by node. That count replaces the sums
//! of resources, but the free pods still limit it. A count is at most the largest 32-bit number,
//! which also means that no limit is known.

use std::collections::HashMap;

use super::cluster::{Grade, amount, counted};
use super::cluster_set::{ClusterIndex, ClusterSet, Column};
use super::request::{Requirements, Shared};
use ballast_k8s::Quantity;

/// More replicas than any workload has.
pub(super) const UNLIMITED: i32 = i32::MAX;

/// The estimates of one pass. There is one for each cluster and set of requirements.
#[derive(Default)]
pub(super) struct Estimates {
    tables: HashMap<Option<Shared<Requirements>>, EstimateTable>,
    /// The clusters with changed capacity, in the order of the changes. Each table applies the
    /// changes when it is used.
    changed: Vec<ClusterIndex>,
}

struct EstimateTable {
    /// By index.
    replicas: Vec<i32>,
    /// The number of entries of `changed` that the table has applied.
    seen: usize,
}

/// The entry of a cluster that is not estimated yet.
const UNKNOWN: i32 = -1;

impl Estimates {
    /// Calls `note` with each index and the replicas that fit there, in the order of `indexes`.
    pub fn each(
        &mut self,
        fleet: &ClusterSet,
        requirements: Option<&Shared<Requirements>>,
        indexes: impl Iterator<Item = ClusterIndex>,
        mut note: impl FnMut(ClusterIndex, i32),
    ) {
        let key = requirements.cloned();
        let seen = self.changed.len();
        let unknown = || EstimateTable { replicas: vec![UNKNOWN; fleet.index_bound()], seen };
        let table = self.tables.entry(key).or_insert_with(unknown);
        if table.seen < seen {
            table.forget(&self.changed);
        }
        let estimator = Estimator::new(fleet, requirements.map(|requirements| &**requirements));
        for index in indexes {
            let known = &mut table.replicas[index];
            if *known == UNKNOWN {
                *known = estimator.replicas(index);
            }
            note(index, *known);
        }
    }

    /// Invalidates the estimates of the cluster with this index.
    pub fn forget(&mut self, index: ClusterIndex) {
        self.changed.push(index);
    }
}

impl EstimateTable {
    fn forget(&mut self, changed: &[ClusterIndex]) {
        let since = &changed[self.seen..];
        if since.len() >= self.replicas.len() {
            self.replicas.fill(UNKNOWN);
        } else {
            since.iter().for_each(|index| self.replicas[*index] = UNKNOWN);
        }
        self.seen = changed.len();
    }
}

/// Estimates for one set of requirements.
pub(super) struct Estimator<'a> {
    fleet: &'a ClusterSet,
    requirements: Option<&'a Requirements>,
    /// The free amounts of each requested resource, and the request of one replica.
    columns: Vec<(Column<'a>, i64)>,
}

impl<'a> Estimator<'a> {
    pub fn new(fleet: &'a ClusterSet, requirements: Option<&'a Requirements>) -> Estimator<'a> {
        let amounts = requirements.map_or(&[][..], |requirements| &requirements.amounts);
        let columns = amounts.iter().map(|(name, amount)| (fleet.column(name), counted(name, *amount).max(1)));
        Estimator { fleet, requirements, columns: columns.collect() }
    }

    pub fn replicas(&self, index: ClusterIndex) -> i32 {
        let pods = self.fleet.free_pods(index);
        let fitting = match self.requirements {
            _ if pods <= 0 => 0,
            Some(requirements) if self.fleet.is_graded(index) => {
                let grades =
                    self.fleet.cluster(index).capacity.as_ref().and_then(|capacity| capacity.grades.as_deref());
                i64::try_from(replicas_on_nodes(grades.unwrap_or(&[]), requirements)).unwrap_or(i64::MAX)
            }
            _ => {
                let each =
                    self.columns.iter().map(|(column, amount)| column.free(index).map_or(0, |free| free / amount));
                each.min().unwrap_or(pods)
            }
        };
        let most = pods.min(fitting);
        most.clamp(0, i64::from(UNLIMITED)) as i32
    }
}

/// Returns how many replicas fit if each goes to the first node with capacity.
fn replicas_on_nodes(grades: &[Grade], requirements: &Requirements) -> u64 {
    let all = grades.iter().map(|grade| grade.nodes.saturating_mul(pods_on_a_node(grade, requirements)));
    all.fold(0, u64::saturating_add)
}

/// Returns how many pods fit on one node of this kind.
pub(super) fn pods_on_a_node(grade: &Grade, requirements: &Requirements) -> u64 {
    let fits = |(name, needed): &(Box<str>, Quantity)| {
        let has = amount(&grade.capacity, name).map_or(0, |has| counted(name, has));
        (has / counted(name, *needed).max(1)).max(0) as u64
    };
    let each = requirements.amounts.iter().filter(|(name, _)| is_node_resource(name)).map(fits).min();
    each.unwrap_or(u64::MAX).min(grade.pods)
}

/// Returns whether nodes are checked for the resource: the native resources that the Kubernetes
/// scheduler counts, and names with a domain. Other resources are not checked.
pub(super) fn is_node_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains('/')
}
