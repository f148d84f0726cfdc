//! Concurrent requests, and their measured times. Also used by the benches (`benches/load`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::{Serialize, Serializer};
use tokio::task::JoinSet;

use ballast_node::kubeconfig::Connected;

/// Number of concurrent requests.
pub const AT_A_TIME: usize = 32;
/// A measurement ends after this time, even if requests remain.
const ROW_MAX: Duration = Duration::from_secs(60);
/// Maximum size of a response in bytes: a list of 100,000 bindings.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The result of a measurement.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Requests per second, or objects if a request covers many.
    pub per_second: f64,
    /// The median time of a request. `None` if there was only one request.
    #[serde(serialize_with = "milliseconds", skip_serializing_if = "Option::is_none")]
    pub p50: Option<Duration>,
    #[serde(serialize_with = "milliseconds", skip_serializing_if = "Option::is_none")]
    pub p99: Option<Duration>,
}

fn milliseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64() * 1e3).serialize(serializer)
}

impl Measured {
    /// Returns the result of one request, or one wait, for `count` objects.
    pub fn once(count: usize, took: Duration) -> Measured {
        Measured { per_second: count as f64 / took.as_secs_f64(), p50: None, p99: None }
    }
}

/// One request of a measurement.
pub struct Exchange {
    pub method: Method,
    pub path: String,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl Exchange {
    pub fn get(path: String) -> Exchange {
        Exchange { method: Method::GET, path, content_type: "application/json", body: Bytes::new() }
    }
}

/// Sends the requests for 0..count. Returns their times and their number, which is smaller than
/// `count` if the time was up.
///
/// # Errors
///
/// Returns an error if a request is rejected or gets no response.
pub async fn exchanges(
    server: &Connected,
    count: usize,
    exchange: impl Fn(usize) -> Exchange + Send + Sync + 'static,
) -> anyhow::Result<(Measured, usize)> {
    let server = server.clone();
    let request = move |number| {
        let (server, exchange) = (server.clone(), exchange(number));
        async move { send(&server, exchange).await.map(drop) }
    };
    let (whole, took) = storm(count, AT_A_TIME, ROW_MAX, request).await?;
    let time = |percent| (!took.is_empty()).then(|| percentile(&took, percent));
    let per_second = took.len() as f64 / whole.as_secs_f64();
    Ok((Measured { per_second, p50: time(50), p99: time(99) }, took.len()))
}

/// Runs `request` for 0..count with this concurrency, and starts none after `within`. Returns the
/// total time, and the times of all requests, sorted.
///
/// # Errors
///
/// Returns the error of the first request that fails.
pub async fn storm<F, Fut>(
    count: usize,
    at_a_time: usize,
    within: Duration,
    request: F,
) -> anyhow::Result<(Duration, Vec<Duration>)>
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let (began, mut senders) = (Instant::now(), JoinSet::new());
    for _ in 0..at_a_time {
        let (next, request) = (Arc::clone(&next), Arc::clone(&request));
        senders.spawn(async move {
            let mut took = Vec::new();
            while began.elapsed() < within {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                let sent = Instant::now();
                request(number).await?;
                took.push(sent.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::with_capacity(count);
    while let Some(ended) = senders.join_next().await {
        took.extend(ended??);
    }
    let whole = began.elapsed();
    took.sort_unstable();
    Ok((whole, took))
}

/// Returns the time that this percentage of requests did not exceed. `sorted` must not be empty.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Sends one request and reads the whole response.
///
/// # Errors
///
/// Returns an error if there is no response, or if the request is rejected. The message contains
/// the server's message.
pub async fn send(server: &Connected, exchange: Exchange) -> anyhow::Result<Bytes> {
    let (status, body) = ask(server, exchange).await?;
    if !status.is_success() {
        let told: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        bail!("{} answered {status}: {}", server.url, told["message"].as_str().unwrap_or("no message"));
    }
    Ok(body)
}

/// Like `send`, for a request that may be rejected.
pub async fn ask(server: &Connected, exchange: Exchange) -> anyhow::Result<(StatusCode, Bytes)> {
    let Exchange { method, path, content_type, body } = exchange;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", content_type)
        .body(Body::from(body.to_vec()))?;
    let (head, body) = server.send(request).await?.into_parts();
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let read = read.map_err(|error| anyhow::anyhow!("the answer of {} broke off: {error}", server.url))?;
    Ok((head.status, read.to_bytes()))
}
