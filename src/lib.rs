//! Ballast places workloads on a fleet of Kubernetes clusters, and reschedules them on request.
//!
//! This package contains the `ballast` binary and its commands. Everything else is in a crate below
//! `crates`, and each crate's manifest lists its allowed dependencies. The re-exports below are for
//! tests and benches, from the lowest crate up. `docs/ARCHITECTURE.md` is the overview.

pub use ballast_actions as actions;
pub use ballast_api as api;
#[cfg(feature = "attach")]
pub use ballast_attach as attach;
pub use ballast_auth as auth;
pub use ballast_base::clock;
pub use ballast_base::metrics;
pub use ballast_base::telemetry;
pub use ballast_census as census;
pub use ballast_controllers as controllers;
pub use ballast_engine as engine;
pub use ballast_estimator as estimator;
pub use ballast_host as host;
pub use ballast_inventory as inventory;
pub use ballast_k8s as k8s;
pub use ballast_members as members;
pub use ballast_node as node;
pub use ballast_quota as quota;
pub use ballast_rebalance as rebalance;
pub use ballast_registry as registry;
pub use ballast_resource as resource;
pub use ballast_scheduler as scheduler;
pub use ballast_server as server;
#[cfg(feature = "page")]
pub use ballast_server::ui;
pub use ballast_store as store;
pub use ballast_watch as watch;
pub use ballast_worker as worker;
pub use ballast_worker::events;
pub use ballast_worker::placements;

/// The command line.
pub mod cli;
