//! Limits the rate of log lines that a client or a fault could cause repeatedly.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets a line pass at most once in `LogLimit::EVERY`, and counts the others.
#[derive(Default)]
pub struct LogLimit {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    pub const EVERY: Duration = Duration::from_secs(10);

    pub const fn new() -> LogLimit {
        LogLimit { state: Mutex::new(State { last: None, left_out: 0 }) }
    }

    /// Returns the number of lines that were suppressed since the last one if a line is due.
    pub fn pass(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < LogLimit::EVERY) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_between_are_counted() {
        let limit = LogLimit::new();
        assert_eq!(limit.pass(), Some(0));
        assert_eq!((limit.pass(), limit.pass()), (None, None));
        tokio::time::advance(LogLimit::EVERY).await;
        assert_eq!(limit.pass(), Some(2));
        assert_eq!(limit.pass(), None);
    }
}
