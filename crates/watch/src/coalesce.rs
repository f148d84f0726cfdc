//! Wakes the subscribers of a kind that share a channel (`Cache::subscribe_coalesced`), once for
//! many events.
//!
//! The first event after a quiet time wakes them at once. It is followed by a pause that grows with
//! the number of subscribers; the events during the pause wake them together. So a thousand
//! watchers of a busy kind cost one wake-up each per pause, and do not wake while the writer
//! commits. A few watchers hardly wait at all.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;

use super::{Cache, Limits};
use ballast_k8s::Revision;

/// The resolution of timers. Shorter pauses are skipped.
const GRAIN: Duration = Duration::from_millis(1);

/// Runs while it is polled. `tip` must come from `Cache::tip` before the first write, because that
/// write may come before the first poll.
pub(super) async fn run(mut tip: watch::Receiver<Revision>, cache: Cache, limits: Limits) -> Infallible {
    loop {
        // Cannot fail: the sender lives in the cache.
        let _ = tip.changed().await;
        let woken = u32::try_from(cache.wake_coalesced()).unwrap_or(u32::MAX);
        let rest = limits.coalesce_per_subscriber.saturating_mul(woken).min(limits.coalesce_max);
        if rest >= GRAIN {
            tokio::time::sleep(rest).await;
        }
    }
}
