//! Limits the log lines about a store that refuses changes: one when that begins or has another
//! reason, one every ten seconds while it lasts, and one when it is over. A full disk refuses
//! hundreds of transactions a second, and a line for each would hide everything else.

use std::time::Duration;

use tokio::time::Instant;

/// The time between two lines for the same reason.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Pure: the caller passes the time.
#[derive(Default)]
pub(super) struct LogThrottle(Option<Outage>);

struct Outage {
    reason: &'static str,
    since: Instant,
    logged: Instant,
    /// Calls that were refused since then.
    unlogged: usize,
    calls: usize,
}

/// An outage that is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutageEnd {
    pub calls: usize,
    pub lasted: Duration,
}

impl LogThrottle {
    /// Counts refused calls. If a line is due, returns how many calls it is about.
    pub fn refused(&mut self, calls: usize, reason: &'static str, now: Instant) -> Option<usize> {
        let outage = self.0.get_or_insert(Outage { reason: "", since: now, logged: now, unlogged: 0, calls: 0 });
        outage.calls += calls;
        outage.unlogged += calls;
        if outage.reason == reason && now < outage.logged + LOG_EVERY {
            return None;
        }
        (outage.reason, outage.logged) = (reason, now);
        Some(std::mem::take(&mut outage.unlogged))
    }

    /// Changes were stored.
    pub fn over(&mut self, now: Instant) -> Option<OutageEnd> {
        self.0.take().map(|outage| OutageEnd { calls: outage.calls, lasted: now - outage.since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_hears_of_the_beginning_of_each_reason_now_and_then_and_of_the_end() {
        let (mut throttle, begin) = (LogThrottle::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(throttle.over(begin), None);
        assert_eq!(throttle.refused(3, "the disk is full", begin), Some(3));
        assert_eq!(throttle.refused(4, "the disk is full", after(1)), None);
        assert_eq!(throttle.refused(5, "the disk is full", after(10)), Some(9));
        assert_eq!(throttle.refused(1, "the disk is full", after(19)), None);
        assert_eq!(throttle.refused(1, "the database is locked", after(19)), Some(2));
        assert_eq!(throttle.over(after(21)), Some(OutageEnd { calls: 14, lasted: Duration::from_secs(21) }));
        assert_eq!(throttle.refused(1, "the database is locked", after(22)), Some(1));
    }
}
