//! The bounds of the cache, the windows, the log and the writer.

use std::time::Duration;

/// How much is queued, batched and remembered.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls of `Writer::commit` that may wait, beside those that are planned as the next
    /// transaction. A further one fails with `WriteError::Busy`.
    pub queue_calls_max: usize,
    /// Bytes of objects that the waiting calls may hold together. A single call may have any size
    /// when nothing else waits.
    pub queue_bytes_max: usize,
    /// A transaction takes no further call once it has this many rows.
    pub batch_rows_max: usize,
    /// A transaction takes no further call once its objects have this many bytes.
    pub batch_bytes_max: usize,
    /// Events that are remembered of each kind.
    pub window_events_max: usize,
    /// Bytes of objects in the remembered events of each kind.
    pub window_bytes_max: usize,
    /// How long an event is remembered.
    pub window_age_max: Duration,
    /// How long a new leader waits for reports of the other replicas after the database may have
    /// lost changes: no longer than a lease.
    pub reports_wait_max: Duration,
    /// Events that a subscriber gets at once.
    pub events_per_turn_max: usize,
    /// The approximate size of a page of a catch-up read, in bytes.
    pub catch_up_page_bytes: usize,
    /// Rows in a page of a catch-up read.
    pub catch_up_rows_max: usize,
    /// The most revisions that are searched for one page. Without this bound, a page of a quiet
    /// kind would search the whole log.
    pub catch_up_revisions_max: usize,
    /// The pause between two wake-ups of coalesced subscribers, for each that was woken.
    pub coalesce_per_subscriber: Duration,
    /// The longest such pause.
    pub coalesce_max: Duration,
    /// Past states that are kept. Others within the window are made when they are asked for.
    pub past_views_max: usize,
    /// Bytes of objects that a state from before the windows may hold of its own (`Cache::past`).
    pub past_bytes_max: usize,
    /// How long a replica without the database serves reads that accept an old state.
    pub outdated_after: Duration,
    /// A state of this age is idle, and its text is packed. An object that is changed often, or in
    /// two steps, is replaced before that.
    pub pack_after: Duration,
    /// The time between two searches for idle states.
    pub pack_every: Duration,
    /// The time between two passes over all objects, for texts that were unpacked and not changed.
    pub pack_all_every: Duration,
    /// The age from which on compaction removes superseded rows of the log.
    pub log_age_max: Duration,
    /// The newest revisions whose rows compaction keeps: so many, or `log_rows_per_object` for each
    /// object, whichever is more (`log_rows`).
    pub log_rows_max: usize,
    /// A rebalance of all bindings writes about two rows for each, and watches should survive it.
    pub log_rows_per_object: usize,
    /// The bytes of superseded changes above which compaction removes the oldest, however young.
    pub log_bytes_max: u64,
    /// The time between two compactions of the log.
    pub compaction_every: Duration,
    /// Rows that compaction examines before waiting writes run.
    pub compaction_rows_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queue_calls_max: 4096,
            queue_bytes_max: 64 << 20,
            batch_rows_max: 1024,
            batch_bytes_max: 4 << 20,
            window_events_max: 100_000,
            window_bytes_max: 64 << 20,
            window_age_max: Duration::from_secs(10 * 60),
            events_per_turn_max: 1024,
            catch_up_page_bytes: 256 << 10,
            catch_up_rows_max: 1024,
            catch_up_revisions_max: 10_000,
            reports_wait_max: Duration::from_secs(5),
            coalesce_per_subscriber: Duration::from_micros(100),
            coalesce_max: Duration::from_millis(100),
            past_views_max: 64,
            past_bytes_max: 256 << 20,
            outdated_after: Duration::from_secs(60),
            pack_after: Duration::from_secs(1),
            pack_every: Duration::from_millis(500),
            pack_all_every: Duration::from_secs(60),
            log_age_max: Duration::from_secs(60 * 60),
            log_rows_max: 200_000,
            log_rows_per_object: 4,
            log_bytes_max: 2 << 30,
            compaction_every: Duration::from_secs(60),
            compaction_rows_max: 1000,
        }
    }
}

impl Limits {
    /// The newest revisions whose rows compaction keeps, where there are so many objects.
    pub fn log_rows(&self, objects: usize) -> usize {
        self.log_rows_max.max(self.log_rows_per_object.saturating_mul(objects))
    }
}
