//! One cluster in the form the engine computes with: sorted, parsed, and free of API versions.

use std::sync::Arc;

use crate::k8s::{Quantity, Taint, selector::Labels};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub name: Arc<str>,
    /// Waits for its finalizers: takes no workload, and its workloads leave.
    pub deleting: bool,
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Empty where unknown, like `region`.
    pub provider: Box<str>,
    pub region: Box<str>,
    pub zones: Box<[Box<str>]>,
    pub taints: Box<[Taint]>,
    /// Group version and kind of what the cluster serves.
    pub apis: Box<[(Box<str>, Box<str>)]>,
    /// None: the cluster has not said what it has.
    pub room: Option<Room>,
}

/// What is left of a cluster's resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Pods that still may be created.
    pub pods: i64,
    /// What is free of each resource that the cluster has, sorted by name.
    pub free: Box<[(Box<str>, Quantity)]>,
    /// Kinds of nodes and how many there are of each, ascending by size. None: the sums above are
    /// all there is.
    pub grades: Option<Box<[Grade]>>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grade {
    pub nodes: u64,
    /// What one node surely has, sorted by name.
    pub capacity: Box<[(Box<str>, Quantity)]>,
}

impl Cluster {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.find(key)
    }
}

/// The amount of `name` in a list sorted by name.
pub fn amount(list: &[(Box<str>, Quantity)], name: &str) -> Option<Quantity> {
    let found = list.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
    Some(list[found].1)
}
