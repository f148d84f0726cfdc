//! Every bound of this room, with its name.

use std::time::Duration;

/// How much is queued, grouped and remembered.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls of `Writer::commit` that may wait; the next one is `WriteError::Busy`.
    pub queue_calls_max: usize,
    /// Bytes of objects that the waiting calls may hold together. A single call of any size is
    /// taken when nothing else waits.
    pub queue_bytes_max: usize,
    /// A transaction is closed once it has this many rows. Never splits a call.
    pub group_rows_max: usize,
    /// A transaction is closed once its objects have this many bytes. Never splits a call.
    pub group_bytes_max: usize,
    /// Past events remembered of each kind: how many,
    pub window_events_max: usize,
    /// how many bytes of objects,
    pub window_bytes_max: usize,
    /// and for how long.
    pub window_age_max: Duration,
    /// Events that a subscriber is given at once.
    pub events_per_turn_max: usize,
    /// A backlog is read in pages of about this many bytes,
    pub backlog_page_bytes: usize,
    /// at most this many rows,
    pub backlog_rows_max: usize,
    /// found among this many revisions: a quiet kind must not have the whole log walked at once.
    pub backlog_revisions_max: usize,
    /// Between two beats of `Cache::follow`: for each follower that was woken,
    pub beat_per_follower: Duration,
    /// and at the most.
    pub beat_max: Duration,
    /// Exact past states kept ready; others in the window are made when asked for.
    pub past_views_max: usize,
    /// The log forgets superseded rows older than this,
    pub log_age_max: Duration,
    /// and those further back than this many revisions.
    pub log_rows_max: usize,
    /// How often the log is compacted,
    pub compaction_every: Duration,
    /// and how many rows are looked at before waiting writes get their turn.
    pub compaction_rows_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queue_calls_max: 4096,
            queue_bytes_max: 64 << 20,
            group_rows_max: 1024,
            group_bytes_max: 4 << 20,
            window_events_max: 100_000,
            window_bytes_max: 64 << 20,
            window_age_max: Duration::from_secs(10 * 60),
            events_per_turn_max: 1024,
            backlog_page_bytes: 256 << 10,
            backlog_rows_max: 1024,
            backlog_revisions_max: 10_000,
            beat_per_follower: Duration::from_micros(100),
            beat_max: Duration::from_millis(100),
            past_views_max: 64,
            log_age_max: Duration::from_secs(60 * 60),
            log_rows_max: 200_000,
            compaction_every: Duration::from_secs(60),
            compaction_rows_max: 1000,
        }
    }
}
