//! Sends spans to an OpenTelemetry collector, over HTTP (OTLP, protobuf). There is a span for each
//! request, which continues the caller's trace, for each batch of a worker, and for each
//! transaction of the store.
//!
//! *Invariant:* nothing waits for the collector. Spans wait in a bounded queue, which a separate
//! thread empties. A span that finds the queue full is dropped, and failed deliveries are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::KeyValue;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider};
use tokio::runtime::Handle;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use crate::config::Export;
use ballast_base::metrics;
use ballast_base::telemetry::{self, Detail, LogFormat, LogLines};

/// The collector's path for traces, below its endpoint.
const TRACES: &str = "/v1/traces";
const QUEUED_SPANS_MAX: usize = 4096;
const BATCH_SPANS_MAX: usize = 512;
const BATCH_EVERY: Duration = Duration::from_secs(2);
/// Timeout for delivering one batch.
const DELIVERY_MAX: Duration = Duration::from_secs(10);
/// Timeout for delivering the remaining spans when the process ends.
const LAST_DELIVERY_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("failed to read the CAs of this machine")]
    Roots(#[source] std::io::Error),
    #[error("failed to prepare the export of traces to {endpoint}")]
    Exporter {
        endpoint: String,
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
}

/// The running export.
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// Delivers the remaining spans. Blocks for at most `LAST_DELIVERY_MAX`.
    pub fn stop(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_DELIVERY_MAX) {
            tracing::warn!(%error, "the last spans could not be delivered");
        }
    }
}

/// Starts logging as `telemetry::start` does, and sends spans to a collector. Must be called inside
/// the runtime that sends them.
pub fn start(format: LogFormat, detail: Detail, export: &Export) -> Result<(LogLines, Exporter), ExportError> {
    let (exporter, spans) = layer(export)?;
    Ok((telemetry::start_exporting(format, detail, spans, follow), exporter))
}

fn layer(export: &Export) -> Result<(Exporter, impl Layer<Registry> + Send + Sync), ExportError> {
    let endpoint = format!("{}{TRACES}", export.endpoint.trim_end_matches('/'));
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(Delivery::new()?)
        .with_endpoint(&endpoint)
        .with_timeout(DELIVERY_MAX)
        .build()
        .map_err(|source| ExportError::Exporter { endpoint, source })?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUED_SPANS_MAX)
        .with_max_export_batch_size(BATCH_SPANS_MAX)
        .with_scheduled_delay(BATCH_EVERY)
        .build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(export.sampling_ratio)));
    let resource = Resource::builder()
        .with_service_name("ballast")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
        .with_sampler(sampler)
        .with_resource(resource.build())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("ballast"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        // Spans only. Log lines go to standard error.
        .with_filter(filter_fn(|it| it.is_span() && *it.level() <= Level::DEBUG && it.target().starts_with("ballast")));
    Ok((Exporter { provider }, layer))
}

/// Makes a span that has not started a child of the trace in these headers.
fn follow(span: &Span, headers: &HeaderMap) {
    if headers.contains_key("traceparent") {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // Fails if the span is not sampled or not exported. Both can be ignored.
        let _ = span.set_parent(parent);
    }
}

/// The HTTP client of the exporter. The queue's thread has no runtime, so requests run on the
/// server's.
#[derive(Debug)]
struct Delivery {
    client: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Handle,
    is_failing: Arc<AtomicBool>,
}

impl Delivery {
    fn new() -> Result<Delivery, ExportError> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(ExportError::Roots)?
            .https_or_http()
            .enable_http1()
            .build();
        let client = HyperClient::new(connector, DELIVERY_MAX, None);
        Ok(Delivery { client, runtime: Handle::current(), is_failing: Arc::default() })
    }

    fn note(&self, outcome: &Result<Response<Bytes>, HttpError>) {
        let fault = match outcome {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("the collector answered {}", answer.status())),
            Err(error) => Some(error.to_string()),
        };
        metrics::spans_delivered(if fault.is_none() { "success" } else { "failure" });
        let was_failing = self.is_failing.swap(fault.is_some(), Ordering::Relaxed);
        if let Some(why) = fault.filter(|_| !was_failing) {
            tracing::warn!(why, "spans could not be delivered, and are lost until the collector takes them");
        }
    }
}

#[async_trait]
impl HttpClient for Delivery {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move { client.send_bytes(request).await });
        let outcome = sent.await.unwrap_or_else(|error| Err(error.into()));
        self.note(&outcome);
        outcome
    }
}
