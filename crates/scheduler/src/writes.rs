//! Writes what a pass has decided: most of it in one transaction, and what others mean once they
//! have been asked (AD13).
//!
//! A placement that a webhook means leaves its pass. It is asked about beside the passes, and
//! written when it is allowed, if the binding is still the version that was decided. Otherwise the
//! binding is decided again. What is allowed at the same time is written together (`allowed`), and
//! nobody waits for a late answer.
//!
//! Where there are workload groups, the pass waits for the answers, because the next one must know
//! its results.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};

use super::INLINE_MAX;
use super::allowed::Tray;
use super::pass::{Judged, Pass};
use super::refused::{self, Refused};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_base::metrics;
use ballast_k8s::{Key, Revision, Time};
use ballast_quota as quota;
use ballast_registry::{Atomicity, Change, Client, Verdict};
use ballast_worker::events::{Answer, Recorder};
use ballast_worker::{Failure, Handled, Next, QUESTIONS_MAX, Question, Worked, apart};

/// Who writes, and who tells.
#[derive(Clone)]
pub struct Desk {
    pub client: Client,
    pub recorder: Recorder,
    /// What was allowed and is not written yet, of all passes. `None`: each is written by itself.
    pub allowed: Option<Arc<Tray>>,
}

impl Desk {
    /// Decides these bindings and writes the results. `waits`: also for the answers of others.
    pub async fn work(self, pass: Pass, bindings: Vec<Key>, waits: bool) -> Worked {
        let now = pass.now;
        let client = self.client.clone();
        let is_small = bindings.len() <= INLINE_MAX;
        let decide = move || set_apart(&client, pass.run(bindings));
        let (asked, judged) = match is_small {
            true => decide(),
            false => apart(decide).await.unwrap_or_default(),
        };
        let mut worked = Worked::default();
        self.commit_all(judged, now, &mut worked).await;
        if !waits {
            worked.questions = asked.into_iter().map(|judged| self.clone().question(judged, now)).collect();
            return worked;
        }
        // A pass waits for no turn: whoever has it may make no headway until the pass is over.
        let alone = Desk { allowed: None, ..self };
        let questions = asked.into_iter().map(|judged| alone.clone().question(judged, now));
        let answers = stream::iter(questions).map(|question| question.answer.then(|rest| rest));
        let mut answers = answers.buffer_unordered(QUESTIONS_MAX);
        while let Some(answered) = answers.next().await {
            worked.outcomes.extend(answered.outcomes);
        }
        worked
    }

    /// Asks about a placement, and writes it if it is allowed.
    fn question(self, judged: Judged, now: Time) -> Question {
        let key = judged.key.clone();
        // What is left to do after the answer is not a part of the question, which has its bounds.
        #[expect(clippy::async_yields_async)]
        let answer = async move {
            let verdict = match &judged.change {
                Some((base, edits)) => self.client.ask("scheduler", base, edits).await,
                None => Verdict::Allowed,
            };
            self.answered(judged, verdict, now).boxed()
        };
        Question { key, answer: answer.boxed() }
    }

    async fn answered(self, judged: Judged, verdict: Verdict, now: Time) -> Worked {
        let mut worked = Worked::default();
        match verdict {
            Verdict::Allowed => match &self.allowed {
                Some(tray) => return self.write_allowed(tray, judged, now).await,
                None => self.commit_all(vec![judged], now, &mut worked).await,
            },
            Verdict::Overtaken => worked.outcomes.push(Handled::new(judged.key, Next::Again)),
            Verdict::Unknown => worked.outcomes.push(Handled::new(judged.key, Next::Retry)),
            Verdict::Refused(status) => {
                let Judged { key, change, answer, .. } = judged;
                tell_asker(&self.recorder, &key, answer.map(|(stamp, _)| (stamp, Answer::Nowhere)));
                let refused = change.map(|(base, _)| Refused::by_others(base, &status));
                refused::tell_all(&self.client, &self.recorder, refused.into_iter().collect(), now, &mut worked).await;
            }
        }
        worked
    }

    /// Writes a placement together with all that are allowed by the time that it has its turn.
    async fn write_allowed(&self, tray: &Tray, judged: Judged, now: Time) -> Worked {
        let mut heard = tray.put(judged, now);
        let _turn = tray.turn().await;
        if let Ok(worked) = heard.try_recv() {
            return worked;
        }
        // Answers that are there come along.
        tokio::task::yield_now().await;
        let together = tray.take();
        let now = together.iter().map(|allowed| allowed.decided).fold(now, Time::max);
        let (mut tellers, mut judged) = (HashMap::new(), Vec::with_capacity(together.len()));
        for allowed in together {
            tellers.insert(allowed.judged.key.clone(), allowed.told);
            judged.push(allowed.judged);
        }
        let mut worked = Worked::default();
        self.commit_all(judged, now, &mut worked).await;
        for outcome in worked.outcomes {
            if let Some(told) = tellers.remove(&outcome.key) {
                // Whoever has gone hears nothing. What was written stands.
                let _ = told.send(outcome.into());
            }
        }
        // Without an outcome, a binding is decided again.
        heard.try_recv().unwrap_or_default()
    }

    async fn commit_all(&self, judged: Vec<Judged>, now: Time, worked: &mut Worked) {
        let Desk { client, recorder, .. } = self;
        let mut changes = Vec::new();
        let mut writing = Vec::new();
        for Judged { key, revision, change, next, news, waited_seconds, answer, result } in judged {
            match change {
                None => {
                    result.into_iter().for_each(metrics::scheduled);
                    tell_asker(recorder, &key, answer);
                    worked.outcomes.push(Handled { key, next, seen: revision });
                    news.into_iter().for_each(|news| news.tell(recorder));
                }
                Some((base, edits)) => {
                    changes.push((key.resource, Change::Edit { base: Arc::clone(&base), edits }));
                    writing.push((key, base, next, news, waited_seconds, answer, result));
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        tracing::debug!(bindings = changes.len(), "committing a pass");
        let outcomes = match client.batch(changes, Atomicity::Each).await {
            Ok(outcomes) => outcomes,
            Err(status) => {
                tracing::warn!(%status, "failed to commit a pass");
                let next = Failure::of(&status).into();
                return worked.outcomes.extend(writing.into_iter().map(|(key, ..)| Handled::new(key, next)));
            }
        };
        let mut refused = Vec::new();
        for ((key, base, next, news, waited_seconds, answer, result), outcome) in writing.into_iter().zip(outcomes) {
            worked.outcomes.push(match outcome {
                Ok(object) => {
                    result.into_iter().for_each(metrics::scheduled);
                    tell_asker(recorder, &key, answer);
                    news.into_iter().for_each(|news| news.tell(recorder));
                    if let Some(seconds) = waited_seconds {
                        metrics::trigger_answered(seconds);
                    }
                    Handled { key, next, seen: Some(object.revision) }
                }
                Err(status) if status.reason == quota::QUOTA_EXCEEDED => {
                    let stamp = answer.map(|(stamp, _)| (stamp, Answer::Nowhere));
                    tell_asker(recorder, &key, stamp);
                    refused.push(Refused::by_quota(base, status.message));
                    continue;
                }
                Err(status) => {
                    tracing::debug!(%key, %status, "not committed, deciding again");
                    Handled::new(key, Failure::of(&status).into())
                }
            });
        }
        refused::tell_all(client, recorder, refused, now, worked).await;
    }
}

/// What must be asked about, and the rest.
fn set_apart(client: &Client, judged: Vec<Judged>) -> (Vec<Judged>, Vec<Judged>) {
    if !client.may_ask(&BINDINGS) {
        return (Vec::new(), judged);
    }
    judged.into_iter().partition(|judged| {
        let change = judged.change.as_ref();
        change.is_some_and(|(base, edits)| client.must_ask(base, edits))
    })
}

/// Whoever asked for this pass hears what came of it, once all that it asked for is answered.
fn tell_asker(recorder: &Recorder, key: &Key, answer: Option<(Option<Revision>, Answer)>) {
    if let Some((debt, answer)) = answer {
        recorder.summed_up(recorder.asks().answered(key, debt, &answer));
    }
}
