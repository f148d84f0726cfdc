//! Tells other programs which clusters there are, and where workloads are placed, in the kinds of
//! SIG-Multicluster: ClusterProfile and PlacementDecision (IV1 to IV4).
//!
//! A profile follows a Cluster or a MemberCluster; a decision follows a binding of Karmada's family
//! or a placement of Fleet's. This room is a hook in each commit of the log: what it tells changes
//! in the transaction of what it tells about.
//!
//! *Invariants.* At every revision, profiles and decisions are what `Inventory::wanted` makes of
//! the objects of that revision. A write that changes no cluster of a decision costs two short
//! reads. A start compares everything once, because another version may have written the log.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `subject`: what is told together: the clusters, or the placements, of one name
//! - `profile`: the profile of a cluster
//! - `decision`: the decision about a workload, in slices
//! - `difference`: the writes that lead from what is told to what should be
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
/// The kinds that this room writes.
pub const TOLD: [GroupResource; 2] = [CLUSTER_PROFILES, PLACEMENT_DECISIONS];
/// The name of this manager of clusters.
pub const MANAGER: &str = "ballast";

/// Tells of clusters and decisions.
#[derive(Clone)]
pub struct Inventory {
    pub(crate) namespace: Arc<str>,
    pub(crate) scheduler: Arc<str>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// An object that should be there.
pub(crate) struct Wanted {
    pub key: Key,
    /// The uid of the object that it tells about.
    pub owner: Arc<str>,
    /// Labels, and the members beside `metadata`.
    pub labels: Map<String, Value>,
    pub members: Map<String, Value>,
}

impl Inventory {
    /// `namespace` has the profiles, and the decisions of what is in no namespace. `scheduler` is
    /// the name of a scheduler where a binding names none.
    pub fn new(namespace: &str, scheduler: &str, clock: Arc<dyn Clock>) -> Inventory {
        Inventory { namespace: namespace.into(), scheduler: scheduler.into(), clock }
    }

    /// The kinds that are told about, and those that tell.
    pub fn kinds(&self) -> Vec<GroupResource> {
        subject::SOURCES.into_iter().chain(TOLD).collect()
    }

    /// All that should be told, and all that is told. A start compares them.
    pub fn subjects(&self, view: &View) -> BTreeSet<Subject> {
        let objects = self.kinds().into_iter().flat_map(|kind| view.list(kind, None));
        objects.flat_map(|object| Subject::of(object, &self.namespace)).collect()
    }

    /// The writes that make of what is told about a subject what should be.
    pub fn writes(&self, view: &View, subject: &Subject) -> Vec<Write> {
        difference::writes(self, view, subject, &BTreeSet::new())
    }

    /// What should be told about a subject.
    pub(crate) fn wanted(&self, view: &View, subject: &Subject) -> Vec<Wanted> {
        match subject {
            Subject::Clusters(name) => profile::wanted(self, view, name),
            Subject::Placements { namespace, name } => decision::wanted(self, view, namespace, name),
        }
    }
}

/// The label of an object that this room writes with the uid of what it tells about.
pub(crate) fn owner_of(told: &Object) -> Option<&str> {
    told.label(difference::owner_label(told.key.resource))
}
