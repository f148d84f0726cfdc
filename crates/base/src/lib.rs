//! What all rooms share: time, metrics, log lines.
//!
//! Each module uses only modules above it in this list.
//!
//! - `clock`: time, random numbers and ids
//! - `metrics`: counters, gauges and histograms
//! - `telemetry`: log lines and spans

/// Time, chance and ids.
pub mod clock;
/// Counters, gauges and histograms, as Prometheus reads them.
pub mod metrics;
/// Log lines on standard error, and spans for a collector.
pub mod telemetry;
