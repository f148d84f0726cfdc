//! Probes at intervals whether the store can write, and more often after a failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_server::{Check, Counts};
use ballast_store::Store;
use ballast_watch::Cache;

/// The result of the last probe (HE6). A server that cannot write is alive, but not ready.
#[derive(Clone, Default)]
pub struct StorageProbe {
    fault: Arc<Mutex<Option<String>>>,
}

impl StorageProbe {
    const EVERY: Duration = Duration::from_secs(10);
    /// Pause after a failed probe. A kubelet's readiness probe has a similar period.
    const RETRY_EVERY: Duration = Duration::from_millis(500);
    const ANSWER_MAX: Duration = Duration::from_secs(5);
    /// Timeout of a probe after a failure. The database may have moved meanwhile.
    const RETRY_ANSWER_MAX: Duration = Duration::from_secs(1);

    /// Probes the store until it is dropped. After a failed probe, a commit that becomes
    /// visible proves that the store can be written. A renewed lease does not: with a full disk,
    /// the database rejects commits and still renews leases.
    pub async fn run(self, store: Arc<dyn Store>, cache: Cache) {
        let mut was_failing = false;
        loop {
            let answer_max = if was_failing { Self::RETRY_ANSWER_MAX } else { Self::ANSWER_MAX };
            let fault = match tokio::time::timeout(answer_max, store.probe()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(telemetry::with_causes(&error)),
                Err(_) => Some("no answer in time".to_owned()),
            };
            let is_failing = fault.is_some();
            match (&fault, was_failing) {
                (Some(why), false) => tracing::warn!(why, "the database cannot be written"),
                (None, true) => tracing::info!("the database can be written again"),
                _ => {}
            }
            was_failing = is_failing;
            *self.fault.lock().expect("no panic while it is held") = fault;
            if is_failing {
                let next = cache.view().revision.next();
                if tokio::time::timeout(Self::RETRY_EVERY, cache.reached(next)).await.is_ok() {
                    *self.fault.lock().expect("no panic while it is held") = None;
                }
                continue;
            }
            if let Ok(Ok(Some(size))) = tokio::time::timeout(Self::ANSWER_MAX, store.size()).await {
                metrics::store_size(size.bytes, size.free, size.wal);
            }
            tokio::time::sleep(Self::EVERY).await;
        }
    }

    /// Returns the readiness check, which fails while the last probe failed.
    pub fn check(self) -> Check {
        Check::new("storage", Counts::Ready, move || {
            self.fault.lock().expect("no panic while it is held").clone().map_or(Ok(()), Err)
        })
    }
}
