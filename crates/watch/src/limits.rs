//! The bounds of the cache, the windows, the log and the writer.

use std::time::Duration;

/// Bounds of queues, batches and remembered history.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of waiting calls of `Writer::commit`, in addition to the calls of the next
    /// transaction. A further one fails with `WriteError::Busy`.
    pub queue_calls_max: usize,
    /// Maximum size of the objects of all waiting calls, in bytes. A single call may have any size
    /// if nothing else waits.
    pub queue_bytes_max: usize,
    /// A transaction takes no further call once it has this many rows.
    pub batch_rows_max: usize,
    /// A transaction takes no further call once its objects have this many bytes.
    pub batch_bytes_max: usize,
    /// Maximum number of remembered events per kind.
    pub window_events_max: usize,
    /// Maximum size of the objects in the remembered events, in bytes per kind.
    pub window_bytes_max: usize,
    /// How long an event is remembered.
    pub window_age_max: Duration,
    /// How long a new leader waits for reports of the other replicas after the database may have
    /// lost changes: no longer than a lease.
    pub reports_wait_max: Duration,
    /// Maximum number of events that a subscriber gets at once.
    pub events_per_turn_max: usize,
    /// The approximate size of a page of a catch-up read, in bytes.
    pub catch_up_page_bytes: usize,
    /// Maximum number of rows in a page of a catch-up read.
    pub catch_up_rows_max: usize,
    /// Maximum number of revisions that are searched for one page. Without this bound, a page of a
    /// quiet kind would search the whole log.
    pub catch_up_revisions_max: usize,
    /// The pause between two wake-ups of coalesced subscribers, per woken subscriber.
    pub coalesce_per_subscriber: Duration,
    /// The maximum pause between two wake-ups of coalesced subscribers.
    pub coalesce_max: Duration,
    /// Maximum number of cached past states. Others within the window are computed on demand.
    pub past_views_max: usize,
    /// Maximum size of the objects that a state from before the windows does not share, in bytes
    /// (`Cache::past`).
    pub past_bytes_max: usize,
    /// How long a replica without the database serves reads that accept an old state.
    pub outdated_after: Duration,
    /// The age from which on a state is idle and its object is packed. An object that is changed
    /// often, or in two steps, is replaced before that.
    pub pack_after: Duration,
    /// The time between two searches for idle states.
    pub pack_every: Duration,
    /// The time between two passes over all objects, for objects that were unpacked and not
    /// changed.
    pub pack_all_every: Duration,
    /// The age from which on compaction removes superseded rows of the log.
    pub log_age_max: Duration,
    /// The number of newest rows that compaction keeps: this number, or `log_rows_per_object` for
    /// each object, whichever is more (`log_rows`).
    pub log_rows_max: usize,
    /// Rows to keep per object. A rebalance of all bindings writes about two rows for each, and
    /// watches should survive it.
    pub log_rows_per_object: usize,
    /// The size of superseded changes above which compaction removes the oldest, however young, in
    /// bytes.
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
    /// Returns the number of newest rows that compaction keeps, for a number of objects.
    pub fn log_rows(&self, objects: usize) -> usize {
        self.log_rows_max.max(self.log_rows_per_object.saturating_mul(objects))
    }
}
