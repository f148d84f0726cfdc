//! What all rooms share: time, metrics, places, log lines.
//!
//! Each module uses only modules above it in this list.
//!
//! - `any_certificate`: TLS without a check of the peer's certificate
//! - `clock`: time, random numbers and ids
//! - `file_mode`: who may read a file that is created
//! - `log_limit`: bounds how often a line is logged
//! - `metrics`: counters, gauges and histograms
//! - `places`: what users share fairly, such as the requests that run at the same time
//! - `tls_fault`: why a TLS connection failed
//! - `outgoing`: bounds the connections to other servers
//! - `telemetry`: log lines and spans

/// TLS without a check of the peer's certificate.
pub mod any_certificate;
/// Time, chance and ids.
pub mod clock;
/// Who may read a file that is created.
pub mod file_mode;
/// Bounds how often a line is logged.
pub mod log_limit;
/// Counters, gauges and histograms, as Prometheus reads them.
pub mod metrics;
/// What users share fairly.
pub mod places;
/// Why a TLS connection failed, and what to do about it.
pub mod tls_fault;
/// Bounds the connections to other servers.
pub mod outgoing;
/// Log lines on standard error, and spans for a collector.
pub mod telemetry;
