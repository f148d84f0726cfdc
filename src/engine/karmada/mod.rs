//! Karmada's scheduler, decision for decision, and what we add to it.
//!
//! How to call it:
//!
//! 1. Keep one [`ClusterSet`]: `fleet.upsert(lower::cluster(..))` and `fleet.remove(name)` as
//!    clusters change. Either says what it changed ([`Difference`]). Clones are free. A [`Reach`]
//!    tells which bindings that can affect.
//! 2. Keep [`Workloads`] if groups of workloads matter, else pass an empty one.
//! 3. Turn each binding into a [`Request`] (`scheduler::lower`), and decide them in order of
//!    priority: [`decide_all`], or a [`Pass`] and `pass.decide(&request)` one after another.
//!    Bindings of one pass share work, and see each other in their workload groups.
//! 4. Write what the [`Decision`] says: `targets()`, `term()`, `condition()`,
//!    `applies_placement()`, `observes_generation()`, `is_success()`, and look again as `requeue()`
//!    says.
//!
//! A decision is a value for every input: nothing here fails or panics on what users can write.
//! Whether a trigger is pending is `Request::is_triggered`; whether the pass was Fresh is
//! `Decision::mode`.

mod affinity;
mod assign;
mod check;
mod cluster;
mod components;
mod decision;
mod estimate;
mod filters;
mod cluster_set;
mod pass;
mod placement;
mod profile;
mod reach;
mod request;
mod select;
mod specified;
mod spread;
#[cfg(test)]
mod tests;
mod trace;
mod workloads;

pub use affinity::{Affinity, Clause, Field, FieldRequirement};
pub use check::{Fault, check};
pub use cluster::{Cluster, Grade, Room};
pub use cluster_set::{ClusterSet, Difference};
pub use decision::{
    Decision, Failed, Outcome, Placed, Reason, Requeue, SUCCESS_MESSAGE, SUCCESS_REASON, ScheduledCondition, Skip,
};
pub use pass::Pass;
pub use placement::{By, Division, Placement, Share, Spread, Term, Weight};
pub use profile::{DEFAULT_SCHEDULER, Profile, Rules};
pub use reach::Reach;
pub use request::{Component, Mode, Request, Requirements, Resource, Shared, Target, TargetComponent, WorkloadGroups};
pub use specified::Overlap;
pub use trace::{Attempt, ClusterTrace, GroupTrace, Score, Trace, Verdict};
pub use workloads::Workloads;

/// Decides one binding. Many are cheaper in one [`Pass`].
pub fn decide(fleet: &ClusterSet, workloads: &Workloads, request: &Request, profile: &Profile) -> Decision {
    Pass::new(fleet, workloads, profile).decide(request)
}

/// Decides one binding and tells why. Costs more than a decision: every cluster is looked at by
/// every filter.
pub fn explain(fleet: &ClusterSet, workloads: &Workloads, request: &Request, profile: &Profile) -> (Decision, Trace) {
    Pass::new(fleet, workloads, profile).explain(request)
}

/// Decides all bindings in their order against the same view.
pub fn decide_all(fleet: &ClusterSet, workloads: &Workloads, requests: &[Request], profile: &Profile) -> Vec<Decision> {
    let mut pass = Pass::new(fleet, workloads, profile);
    requests.iter().map(|request| pass.decide(request)).collect()
}
