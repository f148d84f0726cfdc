//! What a binary without the feature `otlp` has in place of the export of traces: a refusal.

use std::convert::Infallible;

use super::config::Export;
use super::{UsageError, features};
use ballast_base::telemetry::{Detail, LogFormat, LogLines};

/// There is no running export.
pub struct Exporter(Infallible);

impl Exporter {
    pub fn stop(self) {
        match self.0 {}
    }
}

/// # Errors
///
/// Always.
pub fn start(_: LogFormat, _: Detail, _: &Export) -> Result<(LogLines, Exporter), UsageError> {
    Err(features::OTLP.refusal("--otlp-endpoint"))
}
