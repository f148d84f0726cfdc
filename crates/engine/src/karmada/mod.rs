//! Decides as Karmada's scheduler does, decision for decision, with the additions of the seeds.
//!
//! How to use it:
//!
//! 1. Keep one [`ClusterSet`]. Call `upsert(convert::cluster(..))` and `remove(name)` as clusters
//!    change. Both return a [`Difference`]. Clones are free. A [`Reach`] finds the placements that
//!    a change can affect.
//! 2. Keep [`Workloads`] if workload affinity matters. Otherwise pass an empty one.
//! 3. Turn each binding into a [`Request`] (`scheduler::convert`), and decide the requests in order
//!    of priority. Use [`decide_all`], or call `decide` of one [`Pass`] for each request. Requests
//!    of one pass share work, and see each other in their workload groups.
//! 4. Write what the [`Decision`] says: `targets()`, `term()`, `condition()`,
//!    `applies_placement()`, `observes_generation()`, `is_success()`. Decide again as `requeue()`
//!    says.
//!
//! A plan for many bindings uses a [`Pass`] as a ledger: `decide_as` decides without being asked by
//! a trigger, and `shift` takes the capacity of what is going to arrive and gives back that of what
//! leaves.
//!
//! Every input has a decision: nothing here fails or panics on input that users can write.
//! `Request::is_triggered` tells whether a trigger is pending. `Decision::mode` tells whether the
//! pass was Fresh.

mod affinity;
mod assign;
mod check;
mod cluster;
mod components;
mod decision;
mod estimate;
mod filters;
mod cluster_set;
mod ledger;
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
pub use cluster::{Cluster, ClusterCapacity, Grade};
pub use cluster_set::{ClusterSet, Difference};
pub use decision::{
    Decision, Failed, Outcome, Placed, Reason, Requeue, SUCCESS_MESSAGE, SUCCESS_REASON, ScheduledCondition, Skip,
};
pub use ledger::Refusal;
pub use pass::Pass;
pub use placement::{AffinityTerm, Division, Placement, Share, SpreadBy, SpreadConstraint, Weight};
pub use profile::{DEFAULT_SCHEDULER, Profile, Rules};
pub use reach::Reach;
pub use request::{Component, Mode, Request, Requirements, Resource, Shared, Target, TargetComponent, WorkloadGroups};
pub use specified::Overlap;
pub use trace::{Attempt, ClusterTrace, FilterTrace, GroupTrace, Score, Trace};
pub use workloads::Workloads;

/// Decides one binding. For many bindings, one [`Pass`] is cheaper.
pub fn decide(fleet: &ClusterSet, workloads: &Workloads, request: &Request, profile: &Profile) -> Decision {
    Pass::new(fleet, workloads, profile).decide(request)
}

/// Decides one binding and explains the decision. This costs more than `decide`, because every
/// filter looks at every cluster.
pub fn explain(fleet: &ClusterSet, workloads: &Workloads, request: &Request, profile: &Profile) -> (Decision, Trace) {
    Pass::new(fleet, workloads, profile).explain(request)
}

/// Decides all requests in their order against the same clusters.
pub fn decide_all(fleet: &ClusterSet, workloads: &Workloads, requests: &[Request], profile: &Profile) -> Vec<Decision> {
    let mut pass = Pass::new(fleet, workloads, profile);
    requests.iter().map(|request| pass.decide(request)).collect()
}
