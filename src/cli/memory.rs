//! Gives memory back to the system after a peak.
//!
//! mimalloc (`main.rs`) hands free pages back when a thread ends, or after many further
//! allocations. The threads of a server that has become quiet do neither, so the memory of a peak
//! would stay. A thread that ends now and then does it for all of them.

use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);

/// Runs for as long as it is polled.
pub async fn give_back() {
    loop {
        tokio::time::sleep(EVERY).await;
        // A thread that has allocated nothing of its own has nothing to do at its end.
        let started = std::thread::Builder::new().name("memory".into()).spawn(|| drop(vec![0_u8; 64]));
        if let Err(error) = started {
            tracing::debug!(%error, "failed to start the thread that gives memory back");
        }
    }
}
