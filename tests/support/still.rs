//! Time that stands still, so that what a deadline does can be seen however slow the machine is.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// While it lives, the timers of this runtime go only when it moves them; connections go on
/// meanwhile.
pub struct StillTime {
    _held: Sender<()>,
}

impl StillTime {
    /// For runtimes of one thread.
    pub fn begin() -> StillTime {
        // A paused runtime that has nothing to do moves its time by itself, unless it waits for a
        // blocking task.
        let (held, released) = channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        tokio::time::pause();
        StillTime { _held: held }
    }

    /// Also over the end of the millisecond, which timers wait for.
    pub async fn pass(&self, time: Duration) {
        tokio::time::advance(time + Duration::from_millis(1)).await;
    }
}

impl Drop for StillTime {
    fn drop(&mut self) {
        // A test that fails drops it outside its runtime.
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::resume();
        }
    }
}
