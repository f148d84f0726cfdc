//! The scheduler of the KubeFleet API family. One cycle decides one placement over all member
//! clusters.
//!
//! ```text
//!   Request: member clusters, policy snapshot, bindings, time
//!      │
//!      ├─ cycle         classifies the bindings: live, obsolete, unscheduled, of lost clusters
//!      ├─ pipeline      filters clusters, and scores the remaining ones
//!      ├─ pick          picks all, the best, or the named clusters
//!      ├─ binding_diff  compares them with the bindings
//!      └─ report        builds the status of the snapshot
//!      ▼
//!   Decision: writes to bindings, status, whether to run another cycle
//! ```
//!
//! A cycle takes a [`Request`]: the member clusters, the active policy snapshot, the bindings of
//! the placement, and the time. It returns one [`Decision`]: every write to the bindings, and the
//! new status of the snapshot. If a fault stops a part of the cycle, the decision lacks only that
//! part.
//!
//! *Invariants:*
//!
//! - A decision depends only on its inputs, and not on their order.
//! - After a decision, a cluster never has two live bindings of one placement.
//! - A binding of the current snapshot is not decided again (IgnoreDuringExecution). It is removed
//!   only if its cluster is gone, or if the policy selects fewer clusters.
//!
//! *Out of scope:* names of new bindings, because they are random and the caller generates them;
//! the rollout, which a controller does; and the repetition of a cycle, because the caller must
//! apply the decision first.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `fault`: errors that stop a cycle
//! - `property`: properties of clusters, by name
//! - `cluster`: a member cluster, and the set of all
//! - `affinity`: required terms and preferences
//! - `topology_spread`: topology spread constraints
//! - `decision`: the output
//! - `request`: the input
//! - `cycle`: the state of one cycle, with its classified bindings
//! - `filters`: refuse clusters
//! - `scorers`: rank the remaining clusters
//! - `pipeline`: runs filters and scorers
//! - `report`: the status of the snapshot
//! - `binding_diff`: the writes to bindings
//! - `pick`: the cycle itself, by placement type

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
