//! How much the log hears of a store that refuses changes: one line when that begins or has another
//! reason, one now and then while it lasts, and one when it is over. A full disk refuses hundreds
//! of transactions a second, and a line for each would hide everything else.

use std::time::Duration;

use tokio::time::Instant;

/// The time between two lines for the same reason.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Pure, but for the time that it is told.
#[derive(Default)]
pub(super) struct Trouble(Option<Lasting>);

struct Lasting {
    reason: &'static str,
    since: Instant,
    told: Instant,
    /// Calls that were refused since then.
    untold: usize,
    calls: usize,
}

/// What was refused in all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub calls: usize,
    pub lasted: Duration,
}

impl Trouble {
    /// Calls were refused. Returns how many the log is to be told of, if it is to be told.
    pub fn refused(&mut self, calls: usize, reason: &'static str, now: Instant) -> Option<usize> {
        let lasting = self.0.get_or_insert(Lasting { reason: "", since: now, told: now, untold: 0, calls: 0 });
        lasting.calls += calls;
        lasting.untold += calls;
        if lasting.reason == reason && now < lasting.told + TELL_EVERY {
            return None;
        }
        (lasting.reason, lasting.told) = (reason, now);
        Some(std::mem::take(&mut lasting.untold))
    }

    /// Changes were stored.
    pub fn over(&mut self, now: Instant) -> Option<Over> {
        self.0.take().map(|lasting| Over { calls: lasting.calls, lasted: now - lasting.since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_hears_of_the_beginning_of_each_reason_now_and_then_and_of_the_end() {
        let (mut trouble, begin) = (Trouble::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(trouble.over(begin), None);
        assert_eq!(trouble.refused(3, "the disk is full", begin), Some(3));
        assert_eq!(trouble.refused(4, "the disk is full", after(1)), None);
        assert_eq!(trouble.refused(5, "the disk is full", after(10)), Some(9));
        assert_eq!(trouble.refused(1, "the disk is full", after(19)), None);
        assert_eq!(trouble.refused(1, "the database is locked", after(19)), Some(2));
        assert_eq!(trouble.over(after(21)), Some(Over { calls: 14, lasted: Duration::from_secs(21) }));
        assert_eq!(trouble.refused(1, "the database is locked", after(22)), Some(1));
    }
}
