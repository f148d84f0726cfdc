//! What every room shares and none owns: time, metrics, log lines.

/// Time, chance and ids.
pub mod clock;
/// Counters, gauges and histograms, as Prometheus reads them.
pub mod metrics;
/// Log lines on standard error, and spans for a collector.
pub mod telemetry;
