//! Wakes those who follow a kind (`Cache::follow`): for the first event after a pause at once, for
//! what follows after a rest that is the longer the more of them there are. A thousand watchers of
//! a busy kind then cost a wake-up each for a rest's worth of events, and none in the writer's
//! turn; a few wait for nothing.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;

use super::{Cache, Limits};
use crate::k8s::Revision;

/// What a timer can tell apart; a shorter rest is none.
const GRAIN: Duration = Duration::from_millis(1);

/// Runs for as long as it is polled. `tip` is `Cache::tip` from before the first write, which may
/// come before the first poll.
pub(super) async fn run(mut tip: watch::Receiver<Revision>, cache: Cache, limits: Limits) -> Infallible {
    loop {
        // The sender lives in the cache that this holds.
        let _ = tip.changed().await;
        let woken = u32::try_from(cache.wake_followers()).unwrap_or(u32::MAX);
        let rest = limits.beat_per_follower.saturating_mul(woken).min(limits.beat_max);
        if rest >= GRAIN {
            tokio::time::sleep(rest).await;
        }
    }
}
