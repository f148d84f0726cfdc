//! The scheduler of the Fleet family. One cycle decides one placement over all member clusters.
//!
//! ```text
//!   Request: member clusters, policy snapshot, bindings, time
//!      │
//!      ├─ cycle         sorts the bindings: live, obsolete, unscheduled, of lost clusters
//!      ├─ pipeline      filters clusters, and scores those that fit
//!      ├─ pick          takes all, the best, or the named clusters
//!      ├─ binding_diff  compares them with the bindings
//!      └─ report        makes the status of the snapshot
//!      ▼
//!   Decision: writes to bindings, status, whether to run another cycle
//! ```
//!
//! A cycle takes a [`Request`]: the member clusters, the active policy snapshot, the bindings of
//! the placement, and the time. It returns one [`Decision`]: every write to the bindings, and the
//! new status of the snapshot. If a fault stops a part of the cycle, that part is absent from the
//! decision, and the rest is in it.
//!
//! *Invariants:*
//!
//! - A decision depends only on its inputs, and not on their order.
//! - After a decision, a cluster never has two live bindings of one placement.
//! - A binding of the current snapshot is not decided again (IgnoreDuringExecution). It goes only
//!   if its cluster is gone, or if the policy wants fewer clusters.
//!
//! *Left out:* the names of new bindings, because they are random and the caller makes them; the
//! rollout, which a controller does; and the repetition of a cycle, because the caller must apply
//! the decision first.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `fault`: what stops a cycle
//! - `property`: properties of clusters, by name
//! - `cluster`: a member cluster, and the set of all
//! - `affinity`: required terms and preferences
//! - `topology_spread`: how evenly bindings are spread
//! - `decision`: the result
//! - `request`: the input
//! - `cycle`: the bindings of one cycle, sorted
//! - `filters`: refuse clusters
//! - `scorers`: rank the clusters that fit
//! - `pipeline`: runs filters and scorers
//! - `report`: the status of the snapshot
//! - `binding_diff`: the writes to bindings
//! - `pick`: decides

mod affinity;
mod binding_diff;
mod cluster;
mod cycle;
mod decision;
mod fault;
mod filters;
mod pick;
mod pipeline;
mod property;
mod report;
mod request;
mod scorers;
#[cfg(test)]
mod tests;
mod topology_spread;

pub use affinity::{AffinityTerm, Comparison, Direction, Preference, PropertyRule, Sorter};
pub use cluster::{Agent, Cluster, Health, Ineligible, MemberClusters, Namespaces};
pub use decision::{BindingWrite, ClusterDecision, Decision, Next, Report, Score, State};
pub use fault::Fault;
pub use pick::decide;
pub use property::{ClusterProperty, Usage};
pub use request::{Binding, Placement, PolicySnapshot, Request, Requirements};
pub use topology_spread::{SpreadConstraint, WhenUnsatisfiable};
