//! Limits the log lines about a store that refuses changes: one at the start or when the reason
//! changes, one every ten seconds while it lasts, and one at the end. A full disk refuses hundreds
//! of transactions a second, and a line for each would hide everything else. It may also alternate
//! between accepting small transactions and refusing larger ones: then no new outage is logged
//! within the ten seconds.

use std::time::Duration;

use tokio::time::Instant;

/// The time between two lines for the same reason.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The state of the throttle. Pure: the caller passes the time.
#[derive(Default)]
pub(super) struct LogThrottle {
    /// The reason and the time of the last line.
    logged: Option<(&'static str, Instant)>,
    outage: Option<Outage>,
    /// Calls that were refused in outages that are not logged yet.
    unlogged: usize,
}

struct Outage {
    since: Instant,
    calls: usize,
    is_logged: bool,
}

/// An outage that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutageEnd {
    pub calls: usize,
    pub lasted: Duration,
}

impl LogThrottle {
    /// Counts refused calls. If a line is due, returns the number of calls to report in it.
    pub fn refused(&mut self, calls: usize, reason: &'static str, now: Instant) -> Option<usize> {
        let outage = self.outage.get_or_insert(Outage { since: now, calls: 0, is_logged: false });
        outage.calls += calls;
        self.unlogged += calls;
        if self.logged.is_some_and(|(last, at)| last == reason && now < at + LOG_EVERY) {
            return None;
        }
        self.logged = Some((reason, now));
        outage.is_logged = true;
        Some(std::mem::take(&mut self.unlogged))
    }

    /// Records that changes were stored. Returns the outage that this ends, if it was logged.
    pub fn over(&mut self, now: Instant) -> Option<OutageEnd> {
        let Outage { since, calls, is_logged } = self.outage.take()?;
        if !is_logged {
            return None;
        }
        self.unlogged = 0;
        Some(OutageEnd { calls, lasted: now - since })
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
        assert_eq!(throttle.refused(1, "the database is locked", after(30)), Some(1));
    }

    #[test]
    fn a_disk_that_takes_small_changes_alone_fills_no_log() {
        let (mut throttle, begin) = (LogThrottle::default(), Instant::now());
        let after = |millis| begin + Duration::from_millis(millis);
        assert_eq!(throttle.refused(1, "the disk is full", begin), Some(1));
        assert!(throttle.over(after(1)).is_some());
        for seconds in 1..10 {
            assert_eq!(throttle.refused(2, "the disk is full", after(1000 * seconds)), None);
            assert_eq!(throttle.over(after(1000 * seconds + 1)), None);
        }
        assert_eq!(throttle.refused(1, "the disk is full", after(10_000)), Some(19));
        let end = OutageEnd { calls: 1, lasted: Duration::from_millis(1) };
        assert_eq!(throttle.over(after(10_001)), Some(end));
    }
}
