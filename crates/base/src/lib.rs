//! The common infrastructure of all crates: time, metrics, slots, log lines.
//!
//! Each module uses only modules above it in this list.
//!
//! - `any_certificate`: TLS without verification of the peer's certificate
//! - `clock`: time, random numbers and ids
//! - `file_mode`: modes of created files
//! - `log_limit`: limits the rate of a log line
//! - `metrics`: counters, gauges and histograms
//! - `places`: slots that users share fairly, such as concurrent requests
//! - `tls_fault`: explanations of failed TLS connections
//! - `outgoing`: limits the connections to other servers
//! - `telemetry`: log lines and spans

/// TLS without verification of the peer's certificate.
pub mod any_certificate;
/// Time, random numbers and ids.
pub mod clock;
/// Modes of created files.
pub mod file_mode;
/// Limits the rate of a log line.
pub mod log_limit;
/// Counters, gauges and histograms in Prometheus' format.
pub mod metrics;
/// Slots that users share fairly.
pub mod places;
/// Explanations of failed TLS connections.
pub mod tls_fault;
/// Limits the connections to other servers.
pub mod outgoing;
/// Log lines on standard error, and spans for a collector.
pub mod telemetry;
