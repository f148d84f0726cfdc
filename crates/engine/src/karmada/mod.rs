//! Decides as Karmada's scheduler does, decision for decision, with the additions of this project.
//!
//! ```text
//!                  Request (placement, replicas, current targets, trigger)
//!                     │
//!   ClusterSet ───► Pass ── for each affinity group, until one attempt succeeds:
//!   Workloads         │        filters    which clusters are feasible
//!   Profile           │        estimate   how many replicas fit on each
//!                     │        spread     which groups of clusters the constraints choose
//!                     │        select     which clusters are used
//!                     │        assign     how many replicas each gets (webster)
//!                     │        settle     whether all constraints hold; if not, search
//!                     ▼
//!                  Decision
//! ```
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
//! 4. Write the [`Decision`]: `targets()`, `term()`, `condition()`, `applies_placement()`,
//!    `observes_generation()`, `is_success()`. Decide again according to `requeue()`.
//!
//! A plan for many bindings uses a [`Pass`] as a ledger of capacity. `decide_as` decides without a
//! trigger. `reassign` reserves the capacity of arriving replicas, and releases the capacity of
//! leaving ones.
//!
//! Every input has a decision: no function fails or panics on input that users can write.
//! `Request::is_triggered` returns whether a trigger is pending. `Decision::mode` contains the mode
//! of the pass.
//!
//! # Performance
//!
//! A fleet has thousands of clusters, and a pass has thousands of bindings. So clusters are kept as
//! bit sets and arrays by cluster index (`cluster_set`), and a filter narrows a whole set at once.
//! Bindings with equal placements share the results of the shared filters, and bindings with equal
//! requirements share estimates (`pass`, `estimate`). Buffers are reused from binding to binding.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `cluster`: one parsed cluster
//! - `cluster_set`: all clusters, indexed
//! - `affinity`: selects clusters
//! - `placement`: rules for clusters and division
//! - `profile`: the settings and rules of a scheduler
//! - `request`: one binding to decide
//! - `decision`: the result
//! - `reach`: which placements a changed cluster can affect
//! - `workloads`: groups of workload affinity and anti-affinity
//! - `filters`: why a cluster is not feasible
//! - `bounds`: bounds on the replicas of each cluster
//! - `estimate`: how many replicas fit
//! - `components`: how many sets of components fit
//! - `candidate`: a feasible cluster
//! - `trace`: explains a decision
//! - `spread`: chooses groups of clusters
//! - `select`: chooses clusters
//! - `specified`: replicas that the user specifies cluster by cluster
//! - `assign`: divides replicas among clusters
//! - `share`: divides within minima and maxima
//! - `question`: the input of a search over all spread constraints
//! - `cover`: few sites that keep every minimum
//! - `search`: finds clusters that keep all spread constraints together
//! - `settle`: checks results against all spread constraints
//! - `within`: divides within bounds of clusters
//! - `attempt`: one attempt with given candidates
//! - `listing`: lists the candidates
//! - `refused`: targets that stay while scheduling fails
//! - `zero`: workloads of zero replicas
//! - `pass`: many decisions over the same clusters
//! - `wishes`: a pass with preferred spread constraints
//! - `partly`: a pass that schedules a part of the replicas
//! - `ledger`: a pass that moves capacity
//! - `freedom`: the clusters that an optimizer may choose for a workload
//! - `evenness`: whether the current division is about as even as a new one
//! - `unkept`: violated rules that a division ignores
//! - `room`: resources of replicas, for callers that track capacity
//! - `answers`: estimates of the member clusters
//! - `check`: finds decisions that break a rule, for tests

mod affinity;
mod answers;
mod assign;
mod attempt;
mod bounds;
mod candidate;
mod check;
mod cluster;
mod components;
mod cover;
mod decision;
mod estimate;
mod evenness;
mod filters;
mod freedom;
mod cluster_set;
mod ledger;
mod listing;
mod partly;
mod pass;
mod placement;
mod profile;
mod question;
mod reach;
mod refused;
mod request;
mod room;
mod search;
mod select;
mod settle;
mod share;
mod specified;
mod spread;
#[cfg(test)]
mod tests;
mod trace;
mod unkept;
mod wishes;
mod within;
mod workloads;
mod zero;

pub use affinity::{Affinity, Clause, Field, FieldRequirement};
pub use answers::{Answer, Answers, Question, Questions, Shortlist};
pub use check::{Fault, check};
pub use cluster::{Cluster, ClusterCapacity, Grade};
pub use cluster_set::{ClusterSet, Difference};
pub use decision::{
    Decision, Failed, Outcome, Placed, Reason, Requeue, SUCCESS_MESSAGE, SUCCESS_REASON, ScheduledCondition, Skip,
};
pub use freedom::Freedom;
pub use ledger::Refusal;
pub use pass::Pass;
pub use placement::{AffinityTerm, ClusterBound, Division, Placement, Share, SpreadBy, SpreadConstraint, Weight};
pub use profile::{DEFAULT_SCHEDULER, Profile, RESERVATION_TTL, Rules};
pub use reach::Reach;
pub use refused::unselected;
pub use request::{
    Component, Mode, Request, Requirements, Resource, Shared, Target, TargetComponent, TargetIndex, WorkloadGroups,
};
pub use room::{Amounts, Needs};
pub use specified::Overlap;
pub use trace::{Attempt, ClusterTrace, EstimatorTrace, FilterTrace, GroupTrace, Score, Trace};
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
