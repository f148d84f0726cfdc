//! A cache of bounded size in front of a question that is slow to ask.
//!
//! *Invariants:* callers who ask the same thing at the same time share one question and its answer,
//! a failed one too; an answer is not used past its time; at most `capacity` answers are kept, and
//! those that nobody asked for longest go first.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

/// What part of a full cache is evicted at once, so that not every new question sorts all of it.
const EVICTED_PART: usize = 8;

pub(super) struct TtlCache<K, V> {
    slots: Mutex<HashMap<K, Arc<Slot<V>>>>,
    turns: AtomicU64,
    capacity: usize,
}

struct Slot<V> {
    used: AtomicU64,
    answer: tokio::sync::Mutex<Option<Answered<V>>>,
}

struct Answered<V> {
    value: V,
    given: Instant,
    until: Instant,
}

impl<K: Clone + Eq + Hash, V: Clone> TtlCache<K, V> {
    pub fn new(capacity: usize) -> TtlCache<K, V> {
        TtlCache { slots: Mutex::new(HashMap::new()), turns: AtomicU64::new(0), capacity }
    }

    /// The remembered answer, or that of `ask`, which also says how long it may be used.
    pub async fn get_or(&self, key: &K, ask: impl Future<Output = (V, Duration)>) -> V {
        let began = Instant::now();
        let slot = self.slot(key);
        let mut answer = slot.answer.lock().await;
        if let Some(answer) = &*answer
            // One that was given while this caller waited is as fresh as its own would be.
            && (answer.until > Instant::now() || answer.given >= began)
        {
            return answer.value.clone();
        }
        let (value, keep) = ask.await;
        let given = Instant::now();
        *answer = Some(Answered { value: value.clone(), given, until: given + keep });
        value
    }

    fn slot(&self, key: &K) -> Arc<Slot<V>> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock().expect("no panic while it is held");
        if let Some(slot) = slots.get(key) {
            slot.used.store(turn, Ordering::Relaxed);
            return Arc::clone(slot);
        }
        if slots.len() >= self.capacity {
            evict(&mut slots);
        }
        let slot = Arc::new(Slot { used: AtomicU64::new(turn), answer: tokio::sync::Mutex::new(None) });
        slots.insert(key.clone(), Arc::clone(&slot));
        slot
    }
}

fn evict<K, V>(slots: &mut HashMap<K, Arc<Slot<V>>>) {
    let mut turns: Vec<u64> = slots.values().map(|slot| slot.used.load(Ordering::Relaxed)).collect();
    let last = turns.len() / EVICTED_PART;
    let (_, newest_evicted, _) = turns.select_nth_unstable(last);
    let newest_evicted = *newest_evicted;
    slots.retain(|_, slot| slot.used.load(Ordering::Relaxed) > newest_evicted);
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

    #[tokio::test]
    async fn the_longest_unused_answers_make_room() {
        let cache = TtlCache::new(16);
        for key in 0..16 {
            cache.get_or(&key, async { (key, KEEP) }).await;
        }
        cache.get_or(&0, async { panic!("it is remembered") }).await;
        cache.get_or(&16, async { (16, KEEP) }).await;
        let known = cache.slots.lock().unwrap().keys().copied().collect::<Vec<_>>();
        assert!(known.len() <= 16 && known.contains(&0) && known.contains(&16) && !known.contains(&1), "{known:?}");
    }
}
