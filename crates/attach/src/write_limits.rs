//! Limits of the writes to the upstream: their concurrency, and pauses.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Writes that are on their way upstream at once.
pub const IN_FLIGHT_MAX: usize = 64;
/// The longest pause that an upstream may request. It may be restarted sooner than expected.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What all writes that are on their way share.
pub struct WriteLimits {
    pub in_flight: Semaphore,
    /// The end of the pause that the upstream has requested.
    paused_until: Mutex<Option<Instant>>,
}

impl Default for WriteLimits {
    fn default() -> WriteLimits {
        WriteLimits { in_flight: Semaphore::new(IN_FLIGHT_MAX), paused_until: Mutex::new(None) }
    }
}

impl WriteLimits {
    /// Waits until the upstream may be contacted again.
    pub async fn wait_while_paused(&self) {
        let until = *self.paused_until.lock().expect("no panic while it is held");
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    pub fn is_paused(&self) -> bool {
        let until = *self.paused_until.lock().expect("no panic while it is held");
        until.is_some_and(|until| Instant::now() < until)
    }

    pub fn pause_for(&self, time: Duration) {
        let until = Instant::now() + time.min(PAUSE_MAX);
        let mut known = self.paused_until.lock().expect("no panic while it is held");
        *known = Some(known.map_or(until, |known| known.max(until)));
    }
}
