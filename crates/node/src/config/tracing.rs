//! Flags about the export of traces.

use clap::Args;
use serde::Serialize;

use super::share;

/// The destination and the sampling of spans.
#[derive(Clone, Debug)]
pub struct Export {
    /// The collector's base URL.
    pub endpoint: String,
    /// The share of the traces started here that is sent, from 0 to 1. A trace started by a caller
    /// is sampled as the caller decided.
    pub sampling_ratio: f64,
}

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TracingArgs {
    /// Send traces to this OpenTelemetry collector (base URL, OTLP over HTTP:
    /// `http://collector:4318`)
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// Share of the traces started here to send, 0 to 1. For other traces the caller decides
    #[arg(long, env = "BALLAST_OTLP_SAMPLING_RATIO", default_value_t = 1.0, allow_negative_numbers = true, value_parser = share)]
    pub otlp_sampling_ratio: f64,
}

impl TracingArgs {
    /// Returns the destination of traces. `None` if tracing is off.
    pub fn export(&self) -> Option<Export> {
        let endpoint = self.otlp_endpoint.clone().filter(|endpoint| !endpoint.is_empty())?;
        Some(Export { endpoint, sampling_ratio: self.otlp_sampling_ratio })
    }
}
