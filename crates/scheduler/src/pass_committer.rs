//! Writes the results of a pass. Most are written in one transaction; results that need an
//! admission check are written after it approves them (AD13).
//!
//! A placement that a webhook matches leaves its pass. The check runs concurrently with other
//! passes, and the placement is written when it is approved, if the binding is still the version
//! that was decided. Otherwise the binding is decided again. Placements that are approved at the
//! same time are written together (`approved`), and none of them waits for a slow check of another.
//!
//! With workload groups, the pass waits for its checks, because the next pass depends on its
//! results.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};

use super::approved::ApprovedBatch;
use super::pass::{Pass, PassResult};
use super::refused::{self, RefusedPlacement};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_base::metrics;
use ballast_k8s::{Key, Revision, Time};
use ballast_quota as quota;
use ballast_registry::{AdmissionDecision, Change, Client};
use ballast_worker::events::{Recorder, TriggerResult};
use ballast_worker::{BatchOutcome, DEFERRED_MAX, DeferredWork, KeyOutcome, Next, commit_each, run_blocking};

/// Maximum number of bindings of a pass that is decided on the async thread. For so few, moving the
/// work to another thread costs more.
const INLINE_MAX: usize = 8;

/// Decides and writes one batch of bindings, and records the events.
#[derive(Clone)]
pub struct PassCommitter {
    pub client: Client,
    pub recorder: Recorder,
    /// The approved placements of all passes that are not written yet. `None`: each placement is
    /// written in its own transaction.
    pub approved: Option<Arc<ApprovedBatch>>,
}

impl PassCommitter {
    /// Decides the bindings and writes the results. With `waits`, it also waits for all admission
    /// checks; otherwise it returns them as deferred work.
    pub async fn work(self, pass: Pass, bindings: Vec<Key>, waits: bool) -> BatchOutcome {
        let now = pass.now;
        let client = self.client.clone();
        let is_small = bindings.len() <= INLINE_MAX;
        let pass = pass.asked(client.cache(), &bindings).await;
        let turn = match &pass.keeper {
            Some(keeper) => Some(keeper.turn().await),
            None => None,
        };
        let decide = move || {
            let results = pass.renewed(client.cache()).run(bindings);
            // The reservations are recorded, so another decision may begin.
            drop(turn);
            split_for_admission(&client, results)
        };
        let (to_check, results) = match is_small {
            true => decide(),
            false => run_blocking(decide).await.unwrap_or_default(),
        };
        let mut worked = BatchOutcome::default();
        self.commit_all(results, now, &mut worked).await;
        if !waits {
            worked.deferred = to_check.into_iter().map(|result| self.clone().question(result, now)).collect();
            return worked;
        }
        // Without the shared batch: its lock may be held by a task that cannot proceed until this
        // pass is over.
        let alone = PassCommitter { approved: None, ..self };
        let questions = to_check.into_iter().map(|result| alone.clone().question(result, now));
        let answers = stream::iter(questions).map(|question| question.answer.then(|rest| rest));
        let mut answers = answers.buffer_unordered(DEFERRED_MAX);
        while let Some(answered) = answers.next().await {
            worked.outcomes.extend(answered.outcomes);
        }
        worked
    }

    /// Returns the deferred admission check of a placement, which writes the placement if it is
    /// approved.
    fn question(self, result: PassResult, now: Time) -> DeferredWork {
        let key = result.key.clone();
        // The write after the check is a separate future: the worker's bound applies to checks
        // only.
        #[expect(clippy::async_yields_async)]
        let answer = async move {
            let decision = match &result.change {
                Some((base, edits)) => self.client.check_admission("scheduler", base, edits).await,
                None => AdmissionDecision::Allowed,
            };
            self.apply_decision(result, decision, now).boxed()
        };
        DeferredWork { key, answer: answer.boxed() }
    }

    async fn apply_decision(self, result: PassResult, decision: AdmissionDecision, now: Time) -> BatchOutcome {
        let mut worked = BatchOutcome::default();
        match decision {
            AdmissionDecision::Allowed => match &self.approved {
                Some(batch) => return self.write_approved(batch, result, now).await,
                None => self.commit_all(vec![result], now, &mut worked).await,
            },
            AdmissionDecision::Outdated => worked.outcomes.push(KeyOutcome::new(result.key, Next::Again)),
            AdmissionDecision::Unknown => worked.outcomes.push(KeyOutcome::new(result.key, Next::Retry)),
            AdmissionDecision::Refused(status) => {
                let PassResult { key, change, trigger_result, .. } = result;
                record_result(&self.recorder, &key, without_fit(trigger_result));
                let refused = change.map(|(base, _)| RefusedPlacement::by_others(base, &status));
                refused::record_all(&self.client, &self.recorder, refused.into_iter().collect(), now, &mut worked)
                    .await;
            }
        }
        worked
    }

    /// Writes a placement together with all others that are approved when its commit begins.
    async fn write_approved(&self, batch: &ApprovedBatch, result: PassResult, now: Time) -> BatchOutcome {
        let mut receiver = batch.push(result, now);
        let _committing = batch.lock_commit().await;
        if let Ok(worked) = receiver.try_recv() {
            return worked;
        }
        // Lets other tasks with finished checks add their placements first.
        tokio::task::yield_now().await;
        let together = batch.take();
        let now = together.iter().map(|approved| approved.decided).fold(now, Time::max);
        let (mut senders, mut results) = (HashMap::new(), Vec::with_capacity(together.len()));
        for approved in together {
            senders.insert(approved.result.key.clone(), approved.outcome);
            results.push(approved.result);
        }
        let mut worked = BatchOutcome::default();
        self.commit_all(results, now, &mut worked).await;
        for outcome in worked.outcomes {
            if let Some(sender) = senders.remove(&outcome.key) {
                // The receiver may have been dropped. The write stands.
                let _ = sender.send(outcome.into());
            }
        }
        // Without an outcome, a binding is decided again.
        receiver.try_recv().unwrap_or_default()
    }

    async fn commit_all(&self, results: Vec<PassResult>, now: Time, worked: &mut BatchOutcome) {
        let PassCommitter { client, recorder, .. } = self;
        let mut writing = Vec::new();
        for mut result in results {
            match result.change.take() {
                None => {
                    let (key, next, seen) = (result.key.clone(), result.next, result.revision);
                    result.record(recorder);
                    worked.outcomes.push(KeyOutcome { key, next, seen });
                }
                Some((base, edits)) => {
                    let resource = base.key.resource;
                    let edit = Change::Edit { base: Arc::clone(&base), edits };
                    writing.push(((base, result), (resource, edit)));
                }
            }
        }
        if writing.is_empty() {
            return;
        }
        tracing::debug!(bindings = writing.len(), "committing a pass");
        let mut refused = Vec::new();
        for ((base, result), outcome) in commit_each(client, writing).await {
            let (key, next) = (result.key.clone(), result.next);
            match &outcome {
                Ok(_) => {
                    result.waited_seconds.into_iter().for_each(metrics::trigger_answered);
                    result.record(recorder);
                }
                Err(status) if status.reason == quota::QUOTA_EXCEEDED => {
                    record_result(recorder, &key, without_fit(result.trigger_result));
                    refused.push(RefusedPlacement::by_quota(base, status.message.clone()));
                    continue;
                }
                Err(_) => {}
            }
            worked.outcomes.push(KeyOutcome::of_write(key, next, outcome));
        }
        refused::record_all(client, recorder, refused, now, worked).await;
    }
}

impl PassResult {
    /// Records the metric, the result of the trigger and the events of a pass that is over.
    fn record(self, recorder: &Recorder) {
        self.metric.into_iter().for_each(metrics::scheduled);
        record_result(recorder, &self.key, self.trigger_result);
        self.events.into_iter().for_each(|events| events.record(recorder));
        // The view contains the reserved replicas by now.
        drop(self.claim);
    }
}

/// Splits the results into those with an admission check and the rest.
fn split_for_admission(client: &Client, results: Vec<PassResult>) -> (Vec<PassResult>, Vec<PassResult>) {
    if !client.may_need_check(&BINDINGS) {
        return (Vec::new(), results);
    }
    results.into_iter().partition(|result| {
        let change = result.change.as_ref();
        change.is_some_and(|(base, edits)| client.needs_check(base, edits))
    })
}

/// Replaces the result by `NoFit`. The trigger of a placement that was refused stays pending.
fn without_fit(result: Option<(Option<Revision>, TriggerResult)>) -> Option<(Option<Revision>, TriggerResult)> {
    result.map(|(pending_pass, _)| (pending_pass, TriggerResult::NoFit))
}

/// Records the result of the trigger that a pass served. When the last trigger of a requester has
/// its result, an event summarizes all of them.
fn record_result(recorder: &Recorder, key: &Key, result: Option<(Option<Revision>, TriggerResult)>) {
    if let Some((pending_pass, result)) = result {
        recorder.record_summary(recorder.triggers().record_result(key, pending_pass, &result));
    }
}
