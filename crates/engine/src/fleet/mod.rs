//! The scheduler of the Fleet family. One cycle decides one placement over all member clusters.
//!
//! A cycle takes a [`Request`]: the member clusters, the active policy snapshot, the bindings of
//! the placement, and the time. It returns one [`Decision`]: every write to the bindings, and the
//! new status of the snapshot. If a fault stops a part of the cycle, that part is absent from the
//! decision, and the rest is in it.
//!
//! *Invariants:*
//!
//! - A decision depends only on its inputs, and not on their order.
//! - A cluster never has two live bindings of one placement after a decision.
//! - A binding of the current snapshot is not judged again (IgnoreDuringExecution). It goes only if
//!   its cluster is gone, or if the policy wants fewer clusters.
//!
//! Left out: the names of new bindings, because they are random and the caller makes them; the
//! rollout, which a controller does; and the repetition of a cycle, for which the caller applies
//! the decision first.

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

pub use affinity::{AffinityTerm, Comparison, Direction, Preference, Property, PropertyRule, Sorter, Usage};
pub use cluster::{Agent, Cluster, Health, Ineligible, MemberClusters, Namespaces};
pub use decision::{BindingWrite, ClusterDecision, Decision, Next, Report, Score};
pub use fault::Fault;
pub use pick::decide;
pub use request::{Binding, Placement, PolicySnapshot, Request, Requirements, State};
pub use topology_spread::{SpreadConstraint, WhenUnsatisfiable};
