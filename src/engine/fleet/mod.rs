//! The Fleet family's scheduler: one placement policy over many clusters at once.
//!
//! A cycle takes a [`Request`] (the fleet, the active policy snapshot, the placement's bindings,
//! the time) and gives one [`Decision`]: every write to bindings and the snapshot's new status.
//! Nothing is done by halves: what a fault stops is absent from the decision, what it does not stop
//! is in it.
//!
//! *Invariants:* a decision depends neither on the order of its inputs nor on anything else than
//! its inputs; a cluster never ends up with two live bindings of one placement; a binding of the
//! current snapshot is never judged again (IgnoreDuringExecution), only its cluster's absence or
//! the policy's count takes it away.
//!
//! Deliberately absent: names of new bindings (the shell has the chance for them), rollout (a
//! controller's), and repeating a cycle that asks for it (the shell applies the decision first).

mod affinity;
mod binding_diff;
mod cluster;
mod cycle;
mod decision;
mod fault;
mod filters;
mod pick;
mod pipeline;
mod report;
mod request;
mod scorers;
#[cfg(test)]
mod tests;
mod topology_spread;

pub use affinity::{Comparison, Direction, Preference, Property, PropertyRule, Sorter, Term, Usage};
pub use cluster::{Agent, Cluster, Health, Ineligible, MemberClusters, Namespaces};
pub use decision::{ClusterDecision, Decision, Next, Report, Score, Write};
pub use fault::Fault;
pub use pick::decide;
pub use request::{Binding, Placement, PolicySnapshot, Request, Requirements, State};
pub use topology_spread::{SpreadConstraint, WhenUnsatisfiable};
