//! Publishes clusters and scheduling decisions to other programs, as the kinds of SIG-Multicluster:
//! ClusterProfile and PlacementDecision (IV1 to IV4).
//!
//! A profile is derived from a Cluster or a MemberCluster, a decision from a Karmada binding or a
//! KubeFleet placement. This crate is a hook in each commit of the log: published objects change in
//! the transaction of their source.
//!
//! *Invariants.* At every revision, profiles and decisions equal the result of `Inventory::wanted`
//! for the objects of that revision. A write that changes no cluster of a decision costs two short
//! reads. On start, all subjects are compared once, because another version may have written the
//! log.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `subject`: a set of source objects that share one published name
//! - `profile`: the profile of a cluster
//! - `decision`: the decision about a workload, in slices
//! - `difference`: the writes that lead from the published to the desired objects
//! - `hook`: follows each commit

mod decision;
mod difference;
mod hook;
mod profile;
mod subject;

use std::collections::BTreeSet;
use std::sync::Arc;

use ballast_api::multicluster::v1alpha1::{CLUSTER_PROFILES, PLACEMENT_DECISIONS};
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Object};
use ballast_watch::{View, Write};
use serde_json::{Map, Value};

pub use profile::{PROVIDER, REGION, ZONE};
pub use subject::Subject;

/// Karmada's clusters.
const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");
/// The kinds that this crate writes.
pub const TOLD: [GroupResource; 2] = [CLUSTER_PROFILES, PLACEMENT_DECISIONS];
/// This program's name as a cluster manager.
pub const MANAGER: &str = "ballast";

/// Publishes clusters and decisions.
#[derive(Clone)]
pub struct Inventory {
    pub(crate) namespace: Arc<str>,
    pub(crate) scheduler: Arc<str>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A published object in its desired state.
pub(crate) struct Wanted {
    pub key: Key,
    /// The uid of the source object.
    pub owner: Arc<str>,
    /// The labels, and the members other than `metadata`.
    pub labels: Map<String, Value>,
    pub members: Map<String, Value>,
}

impl Inventory {
    /// Creates an inventory. `namespace` contains the profiles, and the decisions for
    /// cluster-scoped objects. `scheduler` is the name of the scheduler for bindings without one.
    pub fn new(namespace: &str, scheduler: &str, clock: Arc<dyn Clock>) -> Inventory {
        Inventory { namespace: namespace.into(), scheduler: scheduler.into(), clock }
    }

    /// Returns the source kinds and the published kinds.
    pub fn kinds(&self) -> Vec<GroupResource> {
        subject::SOURCES.into_iter().chain(TOLD).collect()
    }

    /// Returns every subject with a source or a published object. They are compared on start.
    pub fn subjects(&self, view: &View) -> BTreeSet<Subject> {
        let objects = self.kinds().into_iter().flat_map(|kind| view.list(kind, None));
        objects.flat_map(|object| Subject::of(object, &self.namespace)).collect()
    }

    /// Returns the writes that bring the published objects of a subject to their desired state.
    pub fn writes(&self, view: &View, subject: &Subject) -> Vec<Write> {
        difference::writes(self, view, subject, &BTreeSet::new())
    }

    /// Returns the desired objects of a subject.
    pub(crate) fn wanted(&self, view: &View, subject: &Subject) -> Vec<Wanted> {
        match subject {
            Subject::Clusters(name) => profile::wanted(self, view, name),
            Subject::Placements { namespace, name } => decision::wanted(self, view, namespace, name),
        }
    }
}

/// Returns the uid of the source, from the label of an object that this crate publishes.
pub(crate) fn owner_of(told: &Object) -> Option<&str> {
    told.label(difference::owner_label(told.key.resource))
}
