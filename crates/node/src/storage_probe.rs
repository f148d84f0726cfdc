//! Checks at intervals whether the store can write, and more often after a failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_server::{Check, Counts};
use ballast_store::Store;
use ballast_watch::Cache;

/// The result of the last check (HE6). A server whose store cannot write is alive, but not ready.
#[derive(Clone, Default)]
pub struct StorageProbe {
    fault: Arc<Mutex<Option<String>>>,
}

impl StorageProbe {
    const EVERY: Duration = Duration::from_secs(10);
    /// The pause after a failed check. A probe of a cluster asks about as often.
    const RETRY_EVERY: Duration = Duration::from_millis(500);
    const ANSWER_MAX: Duration = Duration::from_secs(5);
    /// How long a check may take after a failure. The database may have moved meanwhile.
    const RETRY_ANSWER_MAX: Duration = Duration::from_secs(1);

    /// Checks the store for as long as it is polled. After a failed check, a commit that becomes
    /// visible proves that the store can be written. A renewed lease does not: with a full disk,
    /// the database refuses commits and still renews leases.
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

    /// The readiness check: it fails while the last probe has failed.
    pub fn check(self) -> Check {
        Check::new("storage", Counts::Ready, move || {
            self.fault.lock().expect("no panic while it is held").clone().map_or(Ok(()), Err)
        })
    }
}
