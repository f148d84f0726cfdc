//! Wakes one subscriber for events of any of its kinds.
//!
//! A worker that subscribes to ten kinds has one notifier. Waiting takes one flag and one waker,
//! and a commit notifies only the subscribers of its kinds.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::task::coop::cooperative;

/// A notification for a single waiting task. A notification without a waiting task is kept until
/// the next wait.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    is_notified: AtomicBool,
    waker: AtomicWaker,
}

impl Notifier {
    /// Wakes the waiting task. To be called after the events are in place.
    pub fn notify(&self) {
        if !self.is_notified.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Returns whether a notification has arrived since the last call, or since the last wait
    /// ended.
    pub fn take(&self) -> bool {
        // Reading first avoids a write to shared memory if there is no notification.
        self.is_notified.load(Ordering::Acquire) && self.is_notified.swap(false, Ordering::AcqRel)
    }

    /// Waits for a notification. Yields to other tasks of its thread, however often it is notified.
    pub async fn notified(&self) {
        cooperative(poll_fn(|context| self.poll(context))).await;
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.take() {
            return Poll::Ready(());
        }
        self.waker.register(context.waker());
        // A notification may have arrived before the waker was registered.
        if self.take() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_ring_is_heard_once_also_by_who_waits_later() {
        let notifier = Notifier::default();
        assert!(notifier.notified().now_or_never().is_none());
        notifier.notify();
        notifier.notify();
        assert!(notifier.notified().now_or_never().is_some());
        assert!(notifier.notified().now_or_never().is_none() && !notifier.take());
        notifier.notify();
        assert!(notifier.take() && !notifier.take());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_ring_is_lost_between_threads() {
        const TURNS: usize = 20_000;
        let (there, back) = (Arc::new(Notifier::default()), Arc::new(Notifier::default()));
        let echo = tokio::spawn({
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            async move {
                for _ in 0..TURNS {
                    there.notified().await;
                    back.notify();
                }
            }
        });
        for _ in 0..TURNS {
            there.notify();
            back.notified().await;
        }
        echo.await.unwrap();
    }
}
