//! Counts how much of the fleet is up: wanted, ready and missing replicas of the fleet, by cluster,
//! region and namespace, and the evictions that wait. The page, the command line, columns and
//! metrics all use it, so that they show the same numbers.
//!
//! A replica is ready where an agent reports it ready and the cluster is reachable (its condition
//! `Ready` is True). So the replicas of a cluster are missing from the moment of its loss, although
//! the agent's last report still calls them ready.
//!
//! *Invariants.* Ready and missing replicas of all clusters, with the replicas that have no
//! cluster, are the wanted replicas of the fleet. A count is a function of the view: it does not
//! matter which event came first, or whether the process restarted.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `served`: what one binding wants, and what its clusters report
//! - `rate`: how many bindings are evicted a second
//! - `backlog`: the evictions that wait, and when the last one begins
//! - `tally`: the counts of a whole view

mod backlog;
mod rate;
mod served;
mod tally;

pub use backlog::Backlog;
pub use rate::{EVICTION_LIMIT, EVICTION_LIMITS, EvictionRate, RateInForce, RateSource};
pub use served::{Served, ServedShare, ServedShares};
pub use tally::{CLUSTERS, Census, ClusterTally, DownCause, FleetTally, ForecastRules, ReplicaTally};
