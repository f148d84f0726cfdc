//! Time and random numbers. All code gets them from a `Clock`; no other module reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ballast_k8s::Time;

/// Wall-clock time, and ids that cannot be guessed.
pub trait Clock: Send + Sync + 'static {
    /// Returns milliseconds since 1970, UTC. They may step backwards.
    fn now_ms(&self) -> i64;

    /// Returns a random (version 4) UUID.
    fn uuid(&self) -> String;

    /// Returns 64 random bits, for name suffixes and jitter.
    fn random(&self) -> u64;

    fn now(&self) -> Time {
        Time::from_seconds(self.now_ms().div_euclid(1000))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }

    fn uuid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn random(&self) -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().1
    }
}

/// A clock that stands still until a test advances it. Its ids are the same in every run.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicI64,
    ids: AtomicU64,
}

impl ManualClock {
    pub fn at(time: Time) -> Arc<ManualClock> {
        Arc::new(ManualClock { now_ms: AtomicI64::new(time.seconds() * 1000), ids: AtomicU64::new(0) })
    }

    /// Moves the clock. Negative steps are allowed, because real clocks step back, too.
    pub fn advance_ms(&self, by: i64) {
        self.now_ms.fetch_add(by, Ordering::SeqCst);
    }

    pub fn advance_seconds(&self, by: i64) {
        self.advance_ms(by * 1000);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn uuid(&self) -> String {
        let id = self.ids.fetch_add(1, Ordering::SeqCst);
        format!("00000000-0000-4000-8000-{id:012x}")
    }

    fn random(&self) -> u64 {
        // Spreads consecutive ids over all bits (the finaliser of SplitMix64), so that suffixes
        // differ.
        let mut bits = self.ids.fetch_add(1, Ordering::SeqCst).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
