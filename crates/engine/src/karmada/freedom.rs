//! The choices of an optimizer for one workload: the clusters that its rules allow, and whether an
//! assignment keeps the rules about all targets together.

use std::sync::Arc;

use super::components;
use super::decision::Outcome;
use super::pass::Pass;
use super::placement::Division;
use super::request::{Mode, Request, Target, WorkloadGroups};
use super::settle;

/// How freely the replicas of a workload move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// One by one, to any allowed cluster.
    Each,
    /// One by one, and the workload never uses more clusters than now.
    Aggregated,
    /// All replicas of a cluster together, as a set of components.
    Whole,
}

impl Pass {
    /// Returns how freely the replicas move. `None` if they do not move, because numbers, weights,
    /// copies or other workloads determine their clusters.
    pub fn freedom(&self, request: &Request) -> Option<Freedom> {
        let placement = request.placement.as_ref()?;
        if request.groups != WorkloadGroups::default() || request.fault.is_some() || self.placeable(request).is_err() {
            return None;
        }
        if !request.is_divisible() {
            let one = request.targets.len() == 1
                && components::counts_sets(&self.context(request, placement, None, Mode::Fresh));
            return one.then_some(Freedom::Whole);
        }
        match placement.division {
            Division::Dynamic => Some(Freedom::Each),
            Division::Aggregated => Some(Freedom::Aggregated),
            _ => None,
        }
    }

    /// Returns the clusters that replicas of the workload may arrive at, by name, if `term` is the
    /// affinity group in use. Overflow tiers are omitted: they are for replicas that fit nowhere
    /// else.
    pub fn choice(&mut self, request: &Request, term: Option<&str>) -> Vec<Arc<str>> {
        let Some(placement) = request.placement.clone() else { return Vec::new() };
        let term = term.and_then(|name| placement.terms.iter().position(|term| *term.name == *name));
        if term.is_none() && !placement.terms.is_empty() {
            return Vec::new();
        }
        self.list_candidates(request, &placement, term, Mode::Fresh);
        let known = self.candidates.iter().filter(|candidate| candidate.tier == 0);
        let known = known.map(|candidate| self.fleet.cluster(candidate.index()));
        let mut names: Vec<Arc<str>> =
            known.filter(|cluster| cluster.capacity.is_some()).map(|cluster| Arc::clone(&cluster.name)).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether rules about all targets together apply to the workload: spread constraints
    /// and bounds.
    pub fn is_ruled(&self, request: &Request) -> bool {
        request.placement.as_ref().is_some_and(|placement| {
            !placement.spread.is_empty() || !placement.wishes.is_empty() || !placement.bounds.is_empty()
        })
    }

    /// Returns whether these targets violate no rule about all targets together that the current
    /// ones satisfy.
    pub fn keeps(&self, request: &Request, term: Option<&str>, to: &[Target]) -> bool {
        let Some(placement) = &request.placement else { return true };
        let term = term.and_then(|name| placement.terms.iter().position(|term| *term.name == *name));
        settle::newly_broken(&self.context(request, placement, term, Mode::Fresh), &request.targets, to).is_none()
    }

    /// Returns the Fresh decision for a workload in a later affinity group if an earlier group
    /// accepts it.
    pub fn earlier_group(&mut self, request: &Request) -> Option<(Vec<Target>, Box<str>)> {
        let placement = request.placement.clone()?;
        let used = placement.terms.iter().position(|term| term.name == request.observed_term)?;
        if used == 0 {
            return None;
        }
        match self.decide_as(request, Mode::Fresh).outcome {
            Outcome::Placed(placed) => {
                let term = placed.term?;
                let chosen = placement.terms.iter().position(|known| known.name == term)?;
                (chosen < used).then_some((placed.targets, term))
            }
            _ => None,
        }
    }
}
