//! Shared parts of integration tests: servers in this process, their surroundings, and clients.

pub mod aggregated;
#[path = "../../crates/engine/tests/support/dice.rs"]
pub mod dice;
pub mod estimator;
pub mod fields;
pub mod fleet;
pub mod host;
pub mod karmada;
pub mod kinds;
pub mod member;
pub mod objects;
pub mod pgbouncer;
pub mod pki;
pub mod postgres;
pub mod proxy;
pub mod raw;
pub mod registry;
pub mod server;
pub mod size;
pub mod skip;
pub mod small_disk;
pub mod still;
pub mod vectors;
pub mod webhook;

use std::time::Duration;

pub use skip::skipped;

/// The timeout for an expected state.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until there is a result.
pub async fn wait_for<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, ask).await
}

pub async fn wait_within<T>(patience: Duration, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = tokio::time::timeout(patience, async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    asked.await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The value of a series in `/metrics`, or 0 if the series does not exist.
pub fn metric(text: &str, series: &str) -> f64 {
    let values = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse::<f64>().ok());
    values.sum()
}
