//! Checks at intervals whether the store can write.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_server::{Check, Counts};
use ballast_store::Store;

/// The result of the last check (HE6). A server whose store cannot write is alive, but not ready.
#[derive(Clone, Default)]
pub struct StorageProbe {
    fault: Arc<Mutex<Option<String>>>,
}

impl StorageProbe {
    const EVERY: Duration = Duration::from_secs(10);
    const ANSWER_MAX: Duration = Duration::from_secs(5);

    pub async fn run(self, store: Arc<dyn Store>) {
        loop {
            let fault = match tokio::time::timeout(Self::ANSWER_MAX, store.probe()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(telemetry::with_causes(&error)),
                Err(_) => Some("no answer in time".to_owned()),
            };
            *self.fault.lock().expect("no panic while it is held") = fault;
            if let Ok(Ok(Some(size))) = tokio::time::timeout(Self::ANSWER_MAX, store.size()).await {
                metrics::store_size(size.bytes, size.free);
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
