//! Wakes one subscriber, whichever of its kinds an event is of.
//!
//! A worker that notices ten kinds has one bell. Waiting for it is one flag and one waker, and a
//! commit rings the bells of its kinds and no others.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::task::coop::cooperative;

/// One task waits for it at a time. A ring that nobody waits for is kept until the next wait.
#[derive(Debug, Default)]
pub(super) struct Bell {
    is_rung: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    /// Wakes who waits. Call it when what the ring announces is in place.
    pub fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Whether it was rung since this was last asked, or since the last wait ended.
    pub fn was_rung(&self) -> bool {
        // Reading first spares the processors a write for each look at a silent bell.
        self.is_rung.load(Ordering::Acquire) && self.is_rung.swap(false, Ordering::AcqRel)
    }

    /// Resolves when it was rung. It takes its turn with the other tasks of its thread, however
    /// often it is rung.
    pub async fn rung(&self) {
        cooperative(poll_fn(|context| self.poll(context))).await;
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.was_rung() {
            return Poll::Ready(());
        }
        self.waker.register(context.waker());
        // It may have been rung before the waker was there to be woken.
        if self.was_rung() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_ring_is_heard_once_also_by_who_waits_later() {
        let bell = Bell::default();
        assert!(bell.rung().now_or_never().is_none());
        bell.ring();
        bell.ring();
        assert!(bell.rung().now_or_never().is_some());
        assert!(bell.rung().now_or_never().is_none() && !bell.was_rung());
        bell.ring();
        assert!(bell.was_rung() && !bell.was_rung());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_ring_is_lost_between_threads() {
        const TURNS: usize = 20_000;
        let (there, back) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let echo = tokio::spawn({
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            async move {
                for _ in 0..TURNS {
                    there.rung().await;
                    back.ring();
                }
            }
        });
        for _ in 0..TURNS {
            there.ring();
            back.rung().await;
        }
        echo.await.unwrap();
    }
}
