//! Removes old changes from the log, by age and by number. The number grows with the number of
//! objects, so that a large fleet has as long a history as a small one. Waiting writes run between
//! two steps. Only the leader compacts; every process removes old events from its windows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_k8s::Revision;
use ballast_store::{Error, Store, Term};

use super::{Cache, Limits, View};

/// Runs for as long as it is polled.
pub(super) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Cache,
    held: watch::Receiver<Option<Term>>,
) -> Infallible {
    let limits: Limits = cache.limits().clone();
    let mut was_cut_short = false;
    loop {
        tokio::time::sleep(limits.compaction_every).await;
        let now_ms = clock.now_ms();
        cache.forget(now_ms);
        if held.borrow().is_none() {
            continue;
        }
        let started = Instant::now();
        let compacted = compact(&*store, now_ms, &cache.view(), &limits).await;
        metrics::store_compacted(started.elapsed(), compacted.is_ok());
        match compacted {
            Ok(History { length, is_cut_short }) => {
                metrics::store_history(length);
                if is_cut_short && !was_cut_short {
                    tracing::warn!(
                        seconds = length.as_secs(),
                        wanted_seconds = limits.log_age_max.as_secs(),
                        "the past is shorter than --history says: there were more changes than \
                         --history-max-changes keeps"
                    );
                }
                was_cut_short = is_cut_short;
            }
            Err(error) => {
                // The log only grows meanwhile; the next round tries again.
                tracing::warn!(error = telemetry::with_causes(&error), "failed to compact the log");
            }
        }
    }
}

/// How much history the log has.
#[derive(Debug, PartialEq, Eq)]
struct History {
    /// The time since the oldest change that is there for sure; zero if none is.
    length: Duration,
    /// The limit is the number of changes, and not their age.
    is_cut_short: bool,
}

async fn compact(store: &dyn Store, now_ms: i64, newest: &View, limits: &Limits) -> Result<History, Error> {
    let age_ms = i64::try_from(limits.log_age_max.as_millis()).unwrap_or(i64::MAX);
    let by_age = store.revision_before(now_ms.saturating_sub(age_ms)).await?;
    let objects = newest.kinds().into_iter().map(|kind| newest.count(kind, None)).sum();
    let rows_max = i64::try_from(limits.log_rows(objects)).unwrap_or(i64::MAX);
    let by_count = Revision(newest.revision.0.saturating_sub(rows_max).max(0));
    let through = by_age.max(by_count);
    while store.compact(through, limits.compaction_rows_max).await? {
        tokio::task::yield_now().await;
    }
    // After the compacted part every revision has a row.
    let oldest = store.bounds().await?.compacted.next();
    let since = store.rows(&[oldest]).await?.first().map_or(now_ms, |oldest| oldest.time_ms);
    let length = Duration::from_millis(u64::try_from(now_ms.saturating_sub(since)).unwrap_or_default());
    Ok(History { length, is_cut_short: by_count > by_age })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::{GroupResource, Key};
    use ballast_store::{Change, MemoryStore, Operation};

    /// A log with a change in each second.
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
        let limits = |seconds, log_rows_max| Limits {
            log_age_max: Duration::from_secs(seconds),
            log_rows_max,
            log_rows_per_object: 0,
            ..Limits::default()
        };
        let view = View::empty_at(Revision(100));
        for (limits, seconds, is_cut_short) in
            [(limits(200, 1_000), 99, false), (limits(40, 1_000), 40, false), (limits(40, 10), 9, true)]
        {
            let store = log(100).await;
            let past = compact(&store, 100_000, &view, &limits).await.unwrap();
            assert_eq!(past, History { length: Duration::from_secs(seconds), is_cut_short });
        }
    }
}
