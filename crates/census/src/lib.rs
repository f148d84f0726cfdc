//! Counts the availability of the fleet: desired, ready and missing replicas of the fleet, by
//! cluster, region and namespace, and the pending evictions. The page, the command line, columns
//! and metrics all use it, so that they show the same numbers.
//!
//! A replica is ready if an agent reports it as ready and the cluster is reachable (its condition
//! `Ready` is True). So the replicas of a cluster are missing from the moment of its loss, although
//! the agent's last report still contains them as ready.
//!
//! *Invariants.* The sum of the ready and missing replicas of all clusters and of the unplaced
//! replicas is the number of desired replicas of the fleet. A count is a function of the view: it
//! does not depend on the order of events, or on restarts of the process.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `served`: the desired replicas of one binding, and the reports of its clusters
//! - `rate`: the number of bindings that are evicted per second
//! - `backlog`: the pending evictions, and when the last one begins
//! - `tally`: the counts of a whole view

mod backlog;
mod rate;
mod served;
mod tally;

pub use backlog::Backlog;
pub use rate::{EVICTION_LIMIT, EVICTION_LIMITS, EvictionRate, RateInForce, RateSource};
pub use served::{Served, ServedShare, ServedShares};
pub use tally::{CLUSTERS, Census, ClusterTally, DownCause, FleetTally, ForecastRules, ReplicaTally};
