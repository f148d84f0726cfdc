//! Stub of the trace export for a binary without the feature `otlp`: it rejects the flag.

use std::convert::Infallible;

use super::config::Export;
use super::{UsageError, features};
use ballast_base::telemetry::{Detail, LogFormat, LogLines};

/// The running export, which does not exist in this binary.
pub struct Exporter(Infallible);

impl Exporter {
    pub fn stop(self) {
        match self.0 {}
    }
}

/// Rejects the export.
///
/// # Errors
///
/// Always returns an error.
pub fn start(_: LogFormat, _: Detail, _: &Export) -> Result<(LogLines, Exporter), UsageError> {
    Err(features::OTLP.refusal("--otlp-endpoint"))
}
