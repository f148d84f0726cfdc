//! Paused time, to test deadlines independently of the speed of the machine.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// While this exists, the timers of the runtime advance only by `advance`. Connections continue to
/// work.
pub struct StillTime {
    _held: Sender<()>,
}

impl StillTime {
    /// Pauses the time. Requires a runtime of one thread.
    pub fn begin() -> StillTime {
        // A paused runtime that is idle advances its time by itself, unless a blocking task runs.
        let (held, released) = channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        tokio::time::pause();
        StillTime { _held: held }
    }

    /// Advances the time, and one millisecond more, because timers round up to one.
    pub async fn pass(&self, time: Duration) {
        tokio::time::advance(time + Duration::from_millis(1)).await;
    }
}

impl Drop for StillTime {
    fn drop(&mut self) {
        // A failing test drops this outside its runtime.
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::resume();
        }
    }
}
