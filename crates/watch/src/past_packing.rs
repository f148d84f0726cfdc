//! Compresses old changes (`Store::pack`), so that a long history takes less space. Only the leader
//! does it, some time after the changes and in short steps: recently replaced objects are still
//! read by watches, and a burst of writes is over before its rows are written a second time.

use std::time::{Duration, Instant};

use ballast_k8s::Revision;
use ballast_store::{Error, Span, Store};

use super::history_bytes::HistoryBytes;

/// The age of a change from which on it is compressed.
const PACKED_AFTER: Duration = Duration::from_secs(60);
/// Changes per step. Waiting writes run between two steps.
const STEP_REVISIONS: i64 = 256;
/// Steps per call. The rest waits for the next call, so the history of a busy fleet is compressed
/// in quiet times.
const STEPS_MAX: usize = 20;

/// The progress of the compression.
#[derive(Debug, Default)]
pub(super) struct PastPacking {
    through: Revision,
}

impl PastPacking {
    /// Compresses changes that are old enough, and subtracts the savings from `bytes`.
    pub async fn run(&mut self, store: &dyn Store, now_ms: i64, bytes: &mut HistoryBytes) -> Result<(), Error> {
        let age_ms = i64::try_from(PACKED_AFTER.as_millis()).unwrap_or(i64::MAX);
        let old = store.revision_before(now_ms.saturating_sub(age_ms)).await?;
        self.through = self.through.max(store.bounds().await?.compacted);
        for _ in 0..STEPS_MAX {
            if self.through >= old {
                break;
            }
            let through = old.min(Revision(self.through.0.saturating_add(STEP_REVISIONS)));
            let started = Instant::now();
            let saved = store.pack(Span { after: self.through, through }).await?;
            bytes.save(&saved);
            self.through = through;
            // As long a pause as the step took, so that it takes at most half of the writer's time.
            tokio::time::sleep(started.elapsed()).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::{GroupResource, Key};
    use ballast_store::{Change, Operation, Term, open};

    /// Creates one change of the same object per second.
    fn log(changes: i64) -> Vec<Change> {
        let key = Key::cluster(GroupResource::new("clusters.cluster.karmada.io"), "member");
        let change = |number: i64| Change {
            revision: Revision(number),
            key: key.clone(),
            operation: if number == 1 { Operation::Create } else { Operation::Update },
            created: Revision(1),
            previous: Revision(number - 1),
            time_ms: number * 1000,
            object: format!(r#"{{"number":{number},"kinds":"{}"}}"#, "deployments ".repeat(50)).into(),
        };
        (1..=changes).map(change).collect()
    }

    #[tokio::test]
    async fn ng6_what_has_been_history_for_a_minute_is_packed_once() {
        let home = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", home.path().join("ballast.db").display());
        let store = open(&url, &[]).await.unwrap();
        let changes = log(1_000);
        store.commit(Term::default(), &changes).await.unwrap();
        let (mut packing, mut bytes) = (PastPacking::default(), HistoryBytes::new(u64::MAX));
        bytes.count(&*store, Revision(1_000)).await.unwrap();
        let whole = bytes.total();
        // The changes of the first 700 seconds are older than a minute.
        packing.run(&*store, 760_500, &mut bytes).await.unwrap();
        assert_eq!(packing.through, Revision(700));
        let most = whole - bytes.total();
        assert!(most > whole / 2, "{most} of {whole} bytes are saved");
        packing.run(&*store, 760_500, &mut bytes).await.unwrap();
        assert_eq!(whole - bytes.total(), most, "nothing is packed twice");
        packing.run(&*store, 2_000_000, &mut bytes).await.unwrap();
        assert!(bytes.total() < whole / 3, "{} of {whole} bytes are left", bytes.total());
        let mut counted = HistoryBytes::new(u64::MAX);
        counted.count(&*store, Revision(1_000)).await.unwrap();
        assert_eq!(counted.total(), bytes.total(), "what is told is what is there");
        assert!(store.changes(Revision::ZERO, 2_000).await.unwrap() == changes, "they read as they were written");
    }
}
