//! Ballast places workloads over a fleet of Kubernetes clusters, and makes the fleet think again.
//!
//! The rooms below are listed bottom layer first; `tests/suite/tidy.rs` holds who may import whom.
//! `docs/ARCHITECTURE.md` is the map.

/// The Kubernetes contract that no kind owns: keys, objects, selectors, statuses. Pure.
pub mod k8s;
/// Decides where workloads go: a view in, decisions out. Pure.
pub mod engine;
/// Time, chance and ids.
pub mod clock;
/// Counters, gauges and histograms, as Prometheus reads them.
pub mod metrics;
/// Log lines on standard error, spans for a collector.
pub mod telemetry;
/// A kind as one type-erased row: names, scope, verbs, columns, schema.
pub mod resource;
/// Every kind that is served, one line each.
pub mod api;
/// Objects by key, changes by revision: the append-only log and its back ends.
pub mod store;
/// The state of all kinds in memory, the recent past, and the one writer.
pub mod watch;
/// The verbs, once, for every kind, without HTTP.
pub mod registry;
/// Kinds that act when they are created and store nothing.
pub mod actions;
/// Who asks, and what they may do.
pub mod auth;
/// What every background loop shares: keyed queue, backoff, run loop, shutdown.
pub mod worker;
/// What happened to objects, as Kubernetes events: the recorder, and the server's own events.
pub mod events;
/// The shell around the engine: what is dirty, what it reads, what a decision writes.
pub mod scheduler;
/// Loops that turn what users ask for into changes of other objects.
pub mod controllers;
/// The cluster that Ballast serves behind: whom it knows, what it allows, what it is told.
pub mod host;
/// HTTP only: TLS, layers, negotiation, dispatch.
pub mod server;
/// The composition root: the command line, and the only place that knows every room.
pub mod cli;
