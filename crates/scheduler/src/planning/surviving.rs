//! The figure of the goal Survive (PL8): the replicas that the loss of each domain would strand,
//! according to decisions of the engine, not only to the sums of the search.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::survival::{Haste, domains, survival};
use super::{ParsedBinding, PlanBuilder, PlanningSnapshot};
use ballast_api::ballast::v1alpha1::FailureDomain;
use ballast_engine::karmada::Target;

/// Computes the replicas that would be stranded before and after a plan.
pub(super) struct Survey<'a> {
    snapshot: PlanningSnapshot,
    bindings: &'a [ParsedBinding],
    by: FailureDomain,
}

impl<'a> Survey<'a> {
    pub fn new(snapshot: &PlanningSnapshot, bindings: &'a [ParsedBinding], by: FailureDomain) -> Survey<'a> {
        Survey { snapshot: PlanningSnapshot { clearing: None, ..snapshot.clone() }, bindings, by }
    }

    /// Returns the replicas that the loss of each domain alone would strand before the plan,
    /// summed.
    pub fn before(&self) -> i64 {
        self.stranded(&self.snapshot, self.bindings)
    }

    /// Returns the same after the plan, which puts bindings on these targets, by position.
    pub fn after(&self, to: &HashMap<usize, Vec<Target>>) -> i64 {
        let mut builder = PlanBuilder::new(&self.snapshot);
        let mut bindings = self.bindings.to_vec();
        for (position, parsed) in bindings.iter_mut().enumerate() {
            if let Some(to) = to.get(&position) {
                builder.accept(parsed, to);
                parsed.request.targets.clone_from(to);
            }
        }
        let there = PlanningSnapshot { clusters: builder.clusters().clone(), ..self.snapshot.clone() };
        self.stranded(&there, &bindings)
    }

    fn stranded(&self, snapshot: &PlanningSnapshot, bindings: &[ParsedBinding]) -> i64 {
        let answers = survival(snapshot, bindings, self.by, Haste::Waited, &AtomicBool::new(false));
        answers.iter().map(|domain| domain.stranded_replicas).sum()
    }
}

/// Returns the domains that can be lost, as positions of clusters.
pub(super) fn sites(
    snapshot: &PlanningSnapshot,
    by: FailureDomain,
    positions: &HashMap<Arc<str>, u32>,
) -> Vec<Box<[u32]>> {
    let sites = |names: std::collections::BTreeSet<Arc<str>>| {
        let mut sites: Vec<u32> = names.iter().filter_map(|name| positions.get(name).copied()).collect();
        sites.sort_unstable();
        sites.into()
    };
    domains(&snapshot.without_lost().clusters, by).into_values().map(sites).collect()
}
