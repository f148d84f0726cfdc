//! The cache of estimates, with the capacity that was reserved since each query (RM12).
//!
//! An estimator counts the pods of its cluster, and not the assigned pods that have not arrived
//! yet. Those are the resources that bindings hold now, less the reported ones at the time of the
//! query: a function of stored objects, so every process deducts the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Held, ToAsk};
use ballast_engine::karmada::{Amounts, Answer, Answers, Question, Shared};

/// The limit of cached estimates: a thousand queries to two hundred clusters. Beyond it, the oldest
/// queries are dropped.
const ANSWERS_MAX: usize = 200_000;

#[derive(Default)]
pub struct KnownAnswers {
    by_question: HashMap<Shared<Question>, HashMap<Arc<str>, KnownAnswer>>,
    count: usize,
}

/// One cached estimate.
pub struct KnownAnswer {
    /// `None` if the estimator responded without an estimate.
    pub said: Option<i32>,
    pub asked_at: Instant,
    /// The resources that the estimator accounted for at least: the reported ones when the query
    /// was built, and the assumed ones if they were sent.
    pub seen: Arc<Amounts>,
}

impl KnownAnswers {
    /// Returns the pairs of query and cluster without a recent estimate.
    pub fn missing(&self, to_ask: &ToAsk, now: Instant, age_max: Duration) -> Vec<(Shared<Question>, Arc<str>)> {
        let mut missing = Vec::new();
        for (question, clusters) in to_ask {
            let known = self.by_question.get(question);
            let is_known = |cluster: &Arc<str>| {
                known.and_then(|known| known.get(cluster)).is_some_and(|answer| now - answer.asked_at < age_max)
            };
            let unknown = clusters.iter().filter(|cluster| !is_known(cluster));
            missing.extend(unknown.map(|cluster| (question.clone(), Arc::clone(cluster))));
        }
        missing
    }

    pub fn note(&mut self, question: &Shared<Question>, cluster: Arc<str>, answer: KnownAnswer) {
        if self.count >= ANSWERS_MAX {
            self.forget_oldest();
        }
        let known = self.by_question.entry(question.clone()).or_default();
        let before = known.insert(cluster, answer);
        self.count += usize::from(before.is_none());
    }

    pub fn forget_older(&mut self, now: Instant, age_max: Duration) {
        for known in self.by_question.values_mut() {
            known.retain(|_, answer| now - answer.asked_at < age_max);
        }
        self.by_question.retain(|_, known| !known.is_empty());
        self.count = self.by_question.values().map(HashMap::len).sum();
    }

    fn forget_oldest(&mut self) {
        let first = |known: &HashMap<_, KnownAnswer>| known.values().map(|answer| answer.asked_at).min();
        let oldest =
            self.by_question.iter().min_by_key(|(_, known)| first(known)).map(|(question, _)| question.clone());
        if let Some(known) = oldest.and_then(|oldest| self.by_question.remove(&oldest)) {
            self.count -= known.len();
        }
    }

    /// Returns the recent estimates for these queries.
    pub fn answers(&self, to_ask: &ToAsk, held: &Held, now: Instant, age_max: Duration) -> Answers {
        let mut by_question = HashMap::new();
        for (question, clusters) in to_ask {
            let Some(known) = self.by_question.get(question) else { continue };
            let answer = |cluster: &Arc<str>| {
                let answer = known.get(cluster).filter(|answer| now.duration_since(answer.asked_at) < age_max)?;
                let given = held.all.get(cluster).map(|held| Arc::new(held.beyond(&answer.seen))).unwrap_or_default();
                Some((Arc::clone(cluster), Answer { said: answer.said?, given }))
            };
            let answered: HashMap<Arc<str>, Answer> = clusters.iter().filter_map(answer).collect();
            if !answered.is_empty() {
                by_question.insert(question.clone(), answered);
            }
        }
        Answers::new(by_question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE_MAX: Duration = Duration::from_secs(10);

    fn question(text: &str) -> Shared<Question> {
        Shared::new(Question { is_of_sets: false, body: text.as_bytes().into() })
    }

    fn answer(said: Option<i32>, asked_at: Instant) -> KnownAnswer {
        KnownAnswer { said, asked_at, seen: Arc::default() }
    }

    fn asked(names: &[&str]) -> ToAsk {
        vec![(question("web"), names.iter().map(|name| Arc::from(*name)).collect())]
    }

    #[test]
    fn rm12_an_answer_is_used_for_a_while_and_not_asked_for_meanwhile() {
        let (mut known, begun) = (KnownAnswers::default(), Instant::now());
        let held = Held::default();
        known.note(&question("web"), "m1".into(), answer(Some(3), begun));
        known.note(&question("web"), "m2".into(), answer(None, begun));
        let young = begun + AGE_MAX - Duration::from_millis(1);
        assert_eq!(known.missing(&asked(&["m1", "m2", "m3"]), young, AGE_MAX), [(question("web"), "m3".into())]);
        assert_eq!(known.missing(&asked(&["m1", "m2"]), begun + AGE_MAX, AGE_MAX).len(), 2);
        assert!(!known.answers(&asked(&["m1"]), &held, young, AGE_MAX).is_empty());
        assert!(known.answers(&asked(&["m2"]), &held, young, AGE_MAX).is_empty(), "it does not know");
        assert!(known.answers(&asked(&["m1"]), &held, begun + AGE_MAX, AGE_MAX).is_empty());
        known.forget_older(begun + AGE_MAX, AGE_MAX);
        assert_eq!(known.count, 0);
    }

    #[test]
    fn rm11_the_answers_that_are_kept_are_bounded() {
        let (mut known, begun) = (KnownAnswers::default(), Instant::now());
        let rows = 1_000;
        for number in 0..=ANSWERS_MAX / rows {
            let (question, at) = (question(&number.to_string()), begun + Duration::from_millis(number as u64));
            for cluster in 0..rows {
                known.note(&question, format!("m{cluster}").into(), answer(Some(1), at));
            }
        }
        assert!(known.count <= ANSWERS_MAX);
        assert!(!known.by_question.contains_key(&question("0")), "the first one goes");
        assert!(known.by_question.contains_key(&question("200")));
    }
}
