//! The state of a cycle that all plugins read: the request, with its bindings classified.

use std::collections::BTreeSet;

use super::affinity::RankedPreference;
use super::cluster::Cluster;
use super::decision::State;
use super::fault::Fault;
use super::request::{Binding, Placement, Request, Requirements};
use super::topology_spread::CountedConstraint;

/// The bindings of a placement by class. Each is in the first class that applies. Each class is
/// sorted by name.
#[derive(Debug, Default)]
pub(super) struct Bindings<'a> {
    /// Bindings that wait for their finalizers.
    pub(super) deleting: Vec<&'a Binding>,
    pub(super) unscheduled: Vec<&'a Binding>,
    /// Bindings to clusters that are gone or leaving.
    pub(super) dangling: Vec<&'a Binding>,
    /// Bindings that an earlier policy snapshot picked.
    pub(super) obsolete: Vec<&'a Binding>,
    pub(super) scheduled: Vec<&'a Binding>,
    pub(super) bound: Vec<&'a Binding>,
    /// Additional live bindings of a cluster. They are removed (R162). Upstream counts them as
    /// present and keeps them.
    pub(super) surplus: Vec<&'a Binding>,
}

impl<'a> Bindings<'a> {
    pub(super) fn classify(request: &Request<'a>) -> Bindings<'a> {
        // The live binding of a cluster that is kept: a bound one first, then one with the
        // scheduler's finalizer, then the first by name.
        let mut sorted: Vec<&'a Binding> = request.bindings.iter().collect();
        sorted.sort_by_key(|binding| (binding.state != State::Bound, !binding.held_by_scheduler, &binding.name));
        let mut classes = Bindings::default();
        let mut live: BTreeSet<&str> = BTreeSet::new();
        for binding in sorted {
            let cluster = request.fleet.find(&binding.cluster);
            let class = if binding.deleting {
                &mut classes.deleting
            } else if binding.state == State::Unscheduled {
                &mut classes.unscheduled
            } else if cluster.is_none_or(|cluster| cluster.leaving) {
                &mut classes.dangling
            } else if binding.snapshot != request.snapshot.name {
                &mut classes.obsolete
            } else if !live.insert(&binding.cluster) {
                &mut classes.surplus
            } else if binding.state == State::Scheduled {
                &mut classes.scheduled
            } else {
                &mut classes.bound
            };
            class.push(binding);
        }
        for class in [&mut classes.unscheduled, &mut classes.scheduled, &mut classes.bound] {
            class.sort_by_key(|binding| &binding.name);
        }
        classes
    }

    /// Returns the number of clusters with a binding of the current snapshot.
    pub(super) fn present(&self) -> usize {
        self.scheduled.len() + self.bound.len()
    }

    fn live(&self) -> impl Iterator<Item = &'a Binding> {
        self.scheduled.iter().chain(&self.bound).copied()
    }
}

/// The input of all filters and scorers.
pub(super) struct Cycle<'a> {
    pub(super) request: Request<'a>,
    pub(super) requirements: &'a Requirements,
    /// Clusters with a live binding of the current snapshot. `obsolete` contains those of earlier
    /// snapshots.
    pub(super) live: BTreeSet<&'a str>,
    pub(super) obsolete: BTreeSet<&'a str>,
    pub(super) spreads: Vec<CountedConstraint<'a>>,
    /// Empty until the filters are done. A fault in a preference matters only after that.
    pub(super) preferences: Vec<RankedPreference<'a>>,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(request: Request<'a>, bindings: &Bindings<'a>, requirements: &'a Requirements) -> Cycle<'a> {
        let live: BTreeSet<&str> = bindings.live().map(|binding| &*binding.cluster).collect();
        let obsolete = bindings.obsolete.iter().map(|binding| &*binding.cluster).collect();
        let spreads = match &request.snapshot.placement {
            Placement::Count { constraints, .. } => constraints
                .iter()
                .map(|constraint| {
                    let is_live = |cluster: &Cluster| live.contains(&*cluster.name);
                    CountedConstraint::count(constraint, request.fleet, is_live)
                })
                .collect(),
            _ => Vec::new(),
        };
        Cycle { request, requirements, live, obsolete, spreads, preferences: Vec::new() }
    }

    /// Computes the ranges of the preferences over all clusters.
    pub(super) fn rank_preferences(&mut self) -> Result<(), Fault> {
        let Placement::Count { preferences, .. } = &self.request.snapshot.placement else { return Ok(()) };
        for preference in preferences {
            self.preferences.extend(RankedPreference::rank(preference, self.request.fleet.iter())?);
        }
        Ok(())
    }
}
