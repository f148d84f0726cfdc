//! The clusters that a review may name (`--local-review-details`). Pure.
//!
//! With `own`, a LocalPlacementReview only sees the clusters that have bindings of its namespace,
//! or that their placements select. The others are removed from the review's copy of the present
//! before anything is decided. Therefore no entry, reason or suggestion can name them, and the
//! decisions are the same: no binding of the namespace could be placed there.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::what_if;
use crate::record::CLUSTERS;
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_engine::karmada::{Cluster, Placement, Shared};
use ballast_k8s::Key;
use ballast_k8s::suggestion::Hints;
use ballast_scheduler::planning::{ParsedBinding, PlanningSnapshot};
use ballast_watch::View;

/// The information about clusters in a LocalPlacementReview.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewDetails {
    /// Names, free capacity and objections of all clusters.
    #[default]
    Full,
    /// Only of the clusters that bindings of the namespace use or may use.
    Own,
}

/// The clusters that a review may name.
pub struct ClusterNames<'a> {
    view: &'a View,
    /// `None`: all of them.
    known: Option<BTreeSet<Arc<str>>>,
    hints: RefCell<Hints>,
}

impl<'a> ClusterNames<'a> {
    /// Returns all clusters.
    pub fn all(view: &'a View) -> ClusterNames<'a> {
        ClusterNames { view, known: None, hints: RefCell::default() }
    }

    /// Returns the clusters that the namespace may see, and removes the others from `present`.
    pub fn of_namespace(namespace: &str, view: &'a View, present: &mut PlanningSnapshot) -> ClusterNames<'a> {
        let mut known = BTreeSet::new();
        let mut placements: HashSet<Shared<Placement>> = HashSet::new();
        for case in view.list(RESOURCE_BINDINGS, Some(namespace)).filter_map(ParsedBinding::of) {
            known.extend(case.request.targets.iter().map(|target| Arc::clone(&target.name)));
            placements.extend(case.request.placement);
        }
        let selected =
            present.clusters.iter().filter(|cluster| placements.iter().any(|wanted| selects(wanted, cluster)));
        known.extend(selected.map(|cluster| Arc::clone(&cluster.name)));
        let unknown: Vec<Arc<str>> = present
            .clusters
            .iter()
            .map(|cluster| Arc::clone(&cluster.name))
            .filter(|name| !known.contains(name))
            .collect();
        unknown.iter().for_each(|name| what_if::remove(present, name));
        ClusterNames { view, known: Some(known), hints: RefCell::default() }
    }

    pub fn has(&self, name: &str) -> bool {
        self.is_known(name) && self.view.get(&Key::cluster(CLUSTERS, name)).is_some()
    }

    /// Returns the error for a name that no visible cluster has.
    pub fn unknown(&self, name: &str) -> String {
        let known = self.view.list(CLUSTERS, None).map(|object| &*object.key.name).filter(|name| self.is_known(name));
        self.hints.borrow_mut().with_suggestion("no cluster has this name".to_owned(), name, known)
    }

    /// Returns the clusters that the namespace may see, including deleted ones. `None`: all of
    /// them.
    pub fn own(&self) -> Option<&BTreeSet<Arc<str>>> {
        self.known.as_ref()
    }

    fn is_known(&self, name: &str) -> bool {
        self.known.as_ref().is_none_or(|known| known.contains(name))
    }
}

/// Returns whether an affinity of the placement selects the cluster.
fn selects(placement: &Placement, cluster: &Cluster) -> bool {
    let of_groups = placement.terms.iter().flat_map(|term| [&term.affinity].into_iter().chain(&term.overflow));
    let mut affinities = placement.affinity.iter().chain(of_groups).peekable();
    // Without any affinity, every cluster is selected.
    affinities.peek().is_none() || affinities.any(|affinity| affinity.matches(cluster))
}
