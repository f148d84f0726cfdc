//! A bounded cache for responses of a remote server, each with its own time to live. It wraps
//! `moka`.
//!
//! *Invariants:*
//! - Concurrent callers with the same key share one request and its response, even if the response
//!   is not cached.
//! - A response is not used past its time to live.
//! - The number of responses is limited. A full cache evicts the least used, so a flood of new keys
//!   does not evict the common ones.
//!
//! Each entry expires by tokio's time, because moka's clock cannot be controlled by tests.

use std::hash::Hash;
use std::time::Duration;

use moka::future::Cache;
use tokio::time::Instant;

pub(super) struct TtlCache<K, V> {
    answers: Cache<K, Entry<V>>,
}

#[derive(Clone)]
struct Entry<V> {
    value: V,
    expires: Instant,
}

impl<K, V> TtlCache<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub fn new(capacity: u64) -> TtlCache<K, V> {
        TtlCache { answers: Cache::new(capacity) }
    }

    /// Returns the cached response, or else that of `ask`, which also returns its time to live.
    pub async fn get_or(&self, key: &K, ask: impl Future<Output = (V, Duration)>) -> V {
        let ask = async {
            let (value, keep) = ask.await;
            Entry { value, expires: Instant::now() + keep }
        };
        let is_expired = |answer: &Entry<V>| answer.expires <= Instant::now();
        self.answers.entry_by_ref(key).or_insert_with_if(ask, is_expired).await.into_value().value
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const KEEP: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_used_until_its_time_is_over() {
        let cache = TtlCache::new(8);
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            (asked.get(), KEEP)
        };
        assert_eq!((cache.get_or(&1, ask()).await, cache.get_or(&1, ask()).await), (1, 1));
        assert_eq!(cache.get_or(&2, ask()).await, 2, "another question");
        tokio::time::advance(KEEP).await;
        assert_eq!(cache.get_or(&1, ask()).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_at_the_same_time_share_one_question_even_if_its_answer_is_not_kept() {
        let cache = TtlCache::new(8);
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            tokio::time::sleep(Duration::from_secs(1)).await;
            (asked.get(), Duration::ZERO)
        };
        let (a, b) = tokio::join!(cache.get_or(&1, ask()), cache.get_or(&1, ask()));
        assert_eq!((a, b, asked.get()), (1, 1, 1));
        tokio::time::advance(Duration::from_millis(1)).await;
        cache.get_or(&1, ask()).await;
        assert_eq!(asked.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_gives_up_leaves_the_question_to_the_next() {
        let cache = TtlCache::new(8);
        let never = cache.get_or(&1, std::future::pending::<(i32, Duration)>());
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        assert_eq!(cache.get_or(&1, async { (7, KEEP) }).await, 7);
    }

    #[tokio::test]
    async fn a_flood_of_questions_keeps_to_the_bound_and_pushes_out_no_common_one() {
        let cache = TtlCache::new(16);
        for round in 0..100 {
            for key in [0, 1_000 + round] {
                cache.get_or(&key, async { (key, KEEP) }).await;
            }
        }
        cache.answers.run_pending_tasks().await;
        assert!(cache.answers.entry_count() <= 16, "{}", cache.answers.entry_count());
        assert_eq!(cache.get_or(&0, async { panic!("it is remembered") }).await, 0);
    }
}
