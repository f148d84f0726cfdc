//! A signal that a watch has read all of its objects for the first time.

use tokio::sync::watch;

#[derive(Default)]
pub(super) struct FirstRead(watch::Sender<bool>);

impl FirstRead {
    pub(super) fn new(is_done: bool) -> FirstRead {
        FirstRead(watch::Sender::new(is_done))
    }

    /// Wakes all waiting callers: everything has been read.
    pub(super) fn end(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_done(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until everything has been read.
    pub(super) async fn done(&self) {
        // An error means that the sender is gone, but it lives in `self`.
        let _ = self.0.subscribe().wait_for(|is_done| *is_done).await.is_ok();
    }
}
