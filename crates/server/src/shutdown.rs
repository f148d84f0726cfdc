//! The graceful shutdown of a server (SH1).

use tokio_util::sync::CancellationToken;

/// The state of the shutdown, which has two steps. `begin` makes the server unready. After a delay
/// it accepts no further connection, ends its watches, and lets other requests finish.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    pub(super) begun: CancellationToken,
    pub(super) closing: CancellationToken,
}

impl Shutdown {
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Returns when the shutdown has started.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Returns when watches should end.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }
}
