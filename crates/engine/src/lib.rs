//! Scheduling algorithms: which clusters run which workloads.
//!
//! ```text
//!   clusters  ──►┌────────────────────────────┐
//!   workloads ──►│ filter → score → select →  │──► Decision: targets, condition, requeue
//!   Request   ──►│ assign                     │
//!                └────────────────────────────┘
//! ```
//!
//! The engine is pure: clusters and bindings go in, decisions come out. It has no I/O, clock,
//! randomness, logs or API versions. `scheduler::convert` turns API objects into the engine's
//! types, and the scheduler writes the results.
//!
//! *Guarantees.* Equal inputs give equal decisions, whatever their order. Every input that users
//! can write has a decision: no function fails or panics on it. "No cluster fits" is a decision,
//! too.
//!
//! *Why pure.* One function serves the scheduler, reviews, rebalances, `ballast simulate` and the
//! tests. The recorded vectors compare its decisions with those of Karmada and KubeFleet.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `bits`: sets of small numbers
//! - `webster`: divides seats in proportion to votes
//! - `fleet`: decides as KubeFleet's scheduler does
//! - `karmada`: decides as Karmada's scheduler does
//! - `optimise`: moves replicas of many workloads to reach an objective for all clusters

pub mod bits;
pub mod fleet;
pub mod karmada;
pub mod optimise;
pub mod webster;
