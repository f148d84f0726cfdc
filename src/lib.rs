//! Ballast places workloads over a fleet of Kubernetes clusters, and reschedules them on request.
//!
//! The modules below are listed from the lowest layer up. `tests/suite/tidy.rs` checks which may
//! import which. `docs/ARCHITECTURE.md` is the map.

/// The parts of the Kubernetes API that belong to no kind: keys, objects, selectors, statuses.
/// Pure.
pub mod k8s;
/// Decides where workloads go: a view in, decisions out. Pure.
pub mod engine;
/// Time, chance and ids.
pub mod clock;
/// Counters, gauges and histograms, as Prometheus reads them.
pub mod metrics;
/// Log lines on standard error, and spans for a collector.
pub mod telemetry;
/// A kind as one type-erased row: names, scope, verbs, columns, schema.
pub mod resource;
/// Every kind that is served, one line each.
pub mod api;
/// Objects by key, changes by revision: the append-only log and its back ends.
pub mod store;
/// The state of all kinds in memory, the recent events, and the one writer.
pub mod watch;
/// Holds bindings to the quotas of their namespace, in the transaction that writes them. Pure.
pub mod quota;
/// The verbs of the API, once for all kinds, without HTTP.
pub mod registry;
/// Kinds that act when they are created and store nothing.
pub mod actions;
/// Authentication and authorization.
pub mod auth;
/// The parts that all background loops share: keyed queue, backoff, run loop, shutdown.
pub mod worker;
/// The objects of a Fleet placement, and their commit, for its scheduler and its controllers.
pub mod placements;
/// Kubernetes events: the recorder, and the events of the server itself.
pub mod events;
/// The shell around the engine: finds dirty bindings, reads what the engine needs, and writes its
/// decisions.
pub mod scheduler;
/// Bounded, seen and taken back: carries out rebalances move by move.
pub mod rebalance;
/// Loops that turn the wishes of users into changes of objects.
pub mod controllers;
/// The cluster that Ballast serves behind: its users, its permissions and its webhooks.
pub mod host;
/// Another API server that keeps clusters, bindings and policies: their mirror, and the way back.
pub mod attach;
/// The page, as files that are built in.
pub mod ui;
/// HTTP: TLS, layers, negotiation, dispatch.
pub mod server;
/// The API servers of member clusters, for requests that are passed on to them.
pub mod members;
/// The command line, which puts everything together. It is the only place that knows all modules.
pub mod cli;
