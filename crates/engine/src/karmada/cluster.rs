//! One cluster as the engine reads it: parsed, sorted, and independent of API versions.

use std::sync::Arc;

use ballast_k8s::{Quantity, Taint, selector::Labels};

/// The most pods that one node runs, whatever its size.
const PODS_PER_NODE: u64 = 110;

/// One cluster, as filters and estimates read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub name: Arc<str>,
    /// Whether the cluster waits for its finalizers. It accepts no workloads, and its workloads
    /// leave.
    pub deleting: bool,
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The provider. Empty if unknown, like `region`.
    pub provider: Box<str>,
    pub region: Box<str>,
    pub zones: Box<[Box<str>]>,
    pub taints: Box<[Taint]>,
    /// The group version and kind of each API that the cluster serves.
    pub apis: Box<[(Box<str>, Box<str>)]>,
    /// `None` if the cluster has not reported its resources.
    pub capacity: Option<ClusterCapacity>,
}

/// The free resources of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterCapacity {
    /// The number of additional pods that the cluster can run.
    pub pods: i64,
    /// The free amount of each resource that the cluster has, sorted by name.
    pub free: Box<[(Box<str>, Quantity)]>,
    /// The kinds of nodes, with the number of nodes of each, ascending by size. `None` if only the
    /// sums above are known.
    pub grades: Option<Box<[Grade]>>,
}

/// A kind of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grade {
    pub nodes: u64,
    /// The most pods per node of this kind.
    pub pods: u64,
    /// The minimum capacity of each node of this kind, sorted by name.
    pub capacity: Box<[(Box<str>, Quantity)]>,
}

impl Grade {
    /// Creates a kind of nodes that run no pods yet.
    pub fn new(nodes: u64, capacity: Box<[(Box<str>, Quantity)]>) -> Grade {
        Grade { nodes, pods: PODS_PER_NODE, capacity }
    }
}

impl Cluster {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.find(key)
    }
}

/// Returns the amount of `name` in a list that is sorted by name.
pub fn amount(list: &[(Box<str>, Quantity)], name: &str) -> Option<Quantity> {
    let found = list.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
    Some(list[found].1)
}

/// Converts a quantity to the unit of estimates: thousandths for cpu, units for the rest.
pub(super) fn counted(resource: &str, quantity: Quantity) -> i64 {
    if resource == "cpu" { quantity.millis() } else { quantity.units() }
}
