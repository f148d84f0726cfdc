//! Removes old changes from the log, by age and by number. The number follows the objects, so that
//! a larger fleet is remembered as long as a small one. Writes get their turn in between. Only
//! who leads removes anything; the others forget old events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::k8s::Revision;
use crate::metrics;
use crate::store::{Error, Store, Term};
use crate::telemetry;

use super::{Cache, Limits, View};

/// Runs for as long as it is polled.
pub(super) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Cache,
    held: watch::Receiver<Option<Term>>,
) -> Infallible {
    let limits: Limits = cache.limits().clone();
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
        if let Err(error) = compacted {
            // The log only grows meanwhile; the next round tries again.
            tracing::warn!(error = telemetry::with_causes(&error), "failed to compact the log");
        }
    }
}

async fn compact(store: &dyn Store, now_ms: i64, newest: &View, limits: &Limits) -> Result<(), Error> {
    let age_ms = i64::try_from(limits.log_age_max.as_millis()).unwrap_or(i64::MAX);
    let by_age = store.revision_before(now_ms.saturating_sub(age_ms)).await?;
    let objects = newest.kinds().into_iter().map(|kind| newest.count(kind, None)).sum();
    let rows_max = i64::try_from(limits.log_rows(objects)).unwrap_or(i64::MAX);
    let by_count = Revision(newest.revision.0.saturating_sub(rows_max).max(0));
    let through = by_age.max(by_count);
    while store.compact(through, limits.compaction_rows_max).await? {
        tokio::task::yield_now().await;
    }
    Ok(())
}
