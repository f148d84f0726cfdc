//! Removes old changes from the log, by age, by number and by bytes. The number grows with the
//! number of objects, so that a large fleet has as long a history as a small one. The bytes have a
//! quota, which is checked more often, so that no client fills the disk by writing large objects.
//! Waiting writes run between two steps. Only the leader compacts; every process removes old events
//! from its windows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_k8s::Revision;
use ballast_store::{Error, Store, Term};

use super::history::HistoryLength;
use super::history_bytes::HistoryBytes;
use super::past_packing::PastPacking;
use super::{Cache, Limits, View};

/// The interval of the quota checks.
const QUOTA_EVERY: Duration = Duration::from_secs(5);
/// The percentage of the quota from which on a warning is logged.
const NEARLY_FULL_PERCENT: u64 = 80;

/// Runs while it is polled.
pub(super) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Cache,
    held: watch::Receiver<Option<Term>>,
) -> Infallible {
    let limits: Limits = cache.limits().clone();
    let mut was_cut_short_by = None;
    let mut was_nearly_full = false;
    let mut bytes = HistoryBytes::new(limits.log_bytes_max);
    let mut packing = PastPacking::default();
    let mut next = Instant::now() + limits.compaction_every;
    metrics::store_history_bytes_max(limits.log_bytes_max);
    loop {
        tokio::time::sleep(limits.compaction_every.min(QUOTA_EVERY)).await;
        let is_leader = held.borrow().is_some();
        if !is_leader {
            // Another process writes meanwhile, so the count starts over.
            bytes = HistoryBytes::new(limits.log_bytes_max);
        } else if let Err(error) = bytes.count(&*store, cache.view().revision).await {
            tracing::warn!(error = telemetry::with_causes(&error), "failed to count the bytes of the log");
        } else if let Err(error) = packing.run(&*store, clock.now_ms(), &mut bytes).await {
            tracing::warn!(error = telemetry::with_causes(&error), "failed to pack the past of the log");
        }
        if is_leader {
            metrics::store_history_bytes(bytes.total());
            let is_nearly_full = bytes.total() >= limits.log_bytes_max / 100 * NEARLY_FULL_PERCENT;
            if is_nearly_full && !was_nearly_full {
                let (bytes, bytes_max) = (bytes.total(), limits.log_bytes_max);
                tracing::warn!(
                    bytes,
                    bytes_max,
                    "the past nearly takes --history-max-bytes: then its oldest part goes"
                );
            }
            was_nearly_full = is_nearly_full;
        }
        if Instant::now() < next && !bytes.is_above_quota() {
            continue;
        }
        next = Instant::now() + limits.compaction_every;
        let now_ms = clock.now_ms();
        cache.forget(now_ms);
        if !is_leader {
            continue;
        }
        let started = Instant::now();
        let compacted = compact(&*store, now_ms, &cache.view(), &limits, &mut bytes).await;
        metrics::store_compacted(started.elapsed(), compacted.is_ok());
        match compacted {
            Ok(history) => {
                metrics::store_history(history.length);
                let cut_short_by = history.cut_short_after(was_cut_short_by);
                if cut_short_by != was_cut_short_by {
                    let past = HistoryLength { length: history.length, wanted: limits.log_age_max, cut_short_by };
                    tell(&past);
                    cache.announce_past_length(past);
                }
                was_cut_short_by = cut_short_by;
            }
            Err(error) => {
                // The log only grows meanwhile; the next round tries again.
                tracing::warn!(error = telemetry::with_causes(&error), "failed to compact the log");
            }
        }
    }
}

fn tell(past: &HistoryLength) {
    let (seconds, wanted_seconds) = (past.length.as_secs(), past.wanted.as_secs());
    match past.cut_short_by {
        Some(flag) => tracing::warn!(
            seconds,
            wanted_seconds,
            "the past is shorter than --history says: there was more than {flag} keeps"
        ),
        None => tracing::info!(seconds, wanted_seconds, "the past is as long as --history says again"),
    }
}

/// The history of the log after a compaction.
#[derive(Debug, PartialEq, Eq)]
struct History {
    /// The time since the oldest change that is certainly available; zero if none is.
    length: Duration,
    /// The flag that limited the history in this compaction, if it was not its age.
    cut_short_by: Option<&'static str>,
    /// Whether changes are missing that `--history` would keep.
    is_short: bool,
}

impl History {
    /// Returns the flag that limits the history. A history that a quota has cut short counts as
    /// such until it is as old as `--history` again, even if the quota has free capacity in
    /// between.
    fn cut_short_after(&self, before: Option<&'static str>) -> Option<&'static str> {
        self.cut_short_by.or(before.filter(|_| self.is_short))
    }
}

async fn compact(
    store: &dyn Store,
    now_ms: i64,
    newest: &View,
    limits: &Limits,
    bytes: &mut HistoryBytes,
) -> Result<History, Error> {
    let age_ms = i64::try_from(limits.log_age_max.as_millis()).unwrap_or(i64::MAX);
    let by_age = store.revision_before(now_ms.saturating_sub(age_ms)).await?;
    let objects = newest.kinds().into_iter().map(|kind| newest.count(kind, None)).sum();
    let rows_max = i64::try_from(limits.log_rows(objects)).unwrap_or(i64::MAX);
    let by_count = Revision(newest.revision.0.saturating_sub(rows_max).max(0));
    // Another process may have compacted since the bytes were counted.
    let by_bytes = bytes.through().min(newest.revision);
    let through = by_age.max(by_count).max(by_bytes);
    while store.compact(through, limits.compaction_rows_max).await? {
        tokio::task::yield_now().await;
    }
    // After the compacted part every revision has a row.
    let compacted = store.bounds().await?.compacted;
    bytes.forget(compacted);
    let oldest = compacted.next();
    let since = store.rows(&[oldest]).await?.first().map_or(now_ms, |oldest| oldest.time_ms);
    let length = Duration::from_millis(u64::try_from(now_ms.saturating_sub(since)).unwrap_or_default());
    let by_flags = [(by_bytes, "--history-max-bytes"), (by_count, "--history-max-changes")];
    let cut_short_by = by_flags.into_iter().find(|(by, _)| *by > by_age && *by == through).map(|(_, flag)| flag);
    Ok(History { length, cut_short_by, is_short: compacted > by_age })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::{GroupResource, Key};
    use ballast_store::{Change, MemoryStore, Operation};

    /// Creates a log with one change per second.
    async fn log(changes: i64) -> MemoryStore {
        let store = MemoryStore::new();
        let key = Key::cluster(GroupResource::new("clusters.cluster.karmada.io"), "member");
        let change = |number: i64| Change {
            revision: Revision(number),
            key: key.clone(),
            operation: if number == 1 { Operation::Create } else { Operation::Update },
            created: Revision(1),
            previous: Revision(number - 1),
            time_ms: number * 1000,
            object: "{}".into(),
        };
        let changes: Vec<Change> = (1..=changes).map(change).collect();
        store.commit(Term::default(), &changes).await.unwrap();
        store
    }

    #[tokio::test]
    async fn the_past_is_as_long_as_was_asked_for_unless_its_number_cuts_it_short() {
        let limits = |seconds, log_rows_max, log_bytes_max| Limits {
            log_age_max: Duration::from_secs(seconds),
            log_rows_max,
            log_rows_per_object: 0,
            log_bytes_max,
            ..Limits::default()
        };
        let view = View::empty_at(Revision(100));
        let (by_changes, by_bytes) = (Some("--history-max-changes"), Some("--history-max-bytes"));
        for (limits, seconds, cut_short_by) in [
            (limits(200, 1_000, 1_000), 99, None),
            (limits(40, 1_000, 1_000), 40, None),
            (limits(40, 10, 1_000), 9, by_changes),
            // Each object has two bytes, and the last one is the state.
            (limits(40, 1_000, 40), 19, by_bytes),
            (limits(40, 10, 40), 9, by_changes),
        ] {
            let store = log(100).await;
            let mut bytes = HistoryBytes::new(limits.log_bytes_max);
            bytes.count(&store, Revision(100)).await.unwrap();
            let past = compact(&store, 100_000, &view, &limits, &mut bytes).await.unwrap();
            let is_short = cut_short_by.is_some();
            assert_eq!(past, History { length: Duration::from_secs(seconds), cut_short_by, is_short });
            assert!(!bytes.is_above_quota());
        }
    }

    /// A quota that is just met removes changes occasionally, and is reported once.
    #[tokio::test]
    async fn li13_the_past_is_short_until_it_is_as_long_as_was_asked_for() {
        let limits = Limits {
            log_age_max: Duration::from_secs(40),
            log_rows_max: 1_000,
            log_rows_per_object: 0,
            log_bytes_max: 40,
            ..Limits::default()
        };
        let (store, flag) = (log(100).await, Some("--history-max-bytes"));
        let mut bytes = HistoryBytes::new(limits.log_bytes_max);
        bytes.count(&store, Revision(100)).await.unwrap();
        let view = View::empty_at(Revision(100));
        let mut told = None;
        for (second, expected) in [(100, flag), (105, flag), (120, flag), (121, None), (130, None)] {
            let past = compact(&store, second * 1000, &view, &limits, &mut bytes).await.unwrap();
            told = past.cut_short_after(told);
            assert_eq!(told, expected, "after {second} s: {past:?}");
        }
    }
}
