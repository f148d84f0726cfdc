//! The part of the log's task that runs while this process leads: it numbers the changes, commits
//! all waiting calls as one transaction, publishes them, and then responds to the callers.
//!
//! One transaction is in flight at a time. Calls that arrive meanwhile are planned as the next
//! transaction, on the view that results from the first one. Once the first is stored, the next one
//! is sent to the store at once, and only then is the first published and its callers get their
//! responses, so the store is never idle. If the first is not stored, its view is dropped, and the
//! calls of the next one are planned again.
//!
//! *Invariants.* Revisions have no gaps: the counter is the revision of the newest view and moves
//! only with it. A call is never split over two transactions. Each commit carries the term, and the
//! store rejects an ended term without storing anything. When the store fails, only the calls of
//! that batch fail. The next batch tries again, so writing resumes by itself once the disk has
//! space.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::Instrument;

use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_store::{self as store, Term};

use super::batch::{Batch, WriteOutcome};
use super::commit_hook::CommitHookFactory;
use super::follower::Follower;
use super::log_throttle::{LogThrottle, OutageEnd};
use super::writer::{Call, Calls, WriteError};
use super::{Limits, View};

/// The idle time after which the leader reads the end of the log, to settle a commit in doubt and
/// to detect that another replica leads.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A transaction with fewer rows yields once to the runtime, so that callers that just got a
/// response can join it. A commit costs as much as twenty rows.
const FEW_ROWS: usize = 24;

/// The reason for the end of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The store refused a commit: another process leads.
    Deposed,
    /// The election has withdrawn the leadership.
    Revoked,
    /// All writes are stored, and the last `Writer` is dropped.
    Closed,
}

pub(super) struct Leader<'a> {
    log: &'a mut Follower,
    term: Term,
    /// Whether no other process can write.
    is_alone: bool,
    /// The last stored transaction, if it is not published yet.
    stored: Option<Stored>,
    /// The next transaction, planned while another one is in flight.
    next: Option<PendingTransaction>,
    /// A batch that may or may not be durable, because the store did not respond.
    doubt: Option<Batch>,
    log_throttle: LogThrottle,
}

/// The outcome of a batch after a failed commit.
enum CommitOutcome {
    /// The batch is durable nevertheless, and was published.
    Stored,
    NotStored,
    /// Another process has written, so this one does not lead any more.
    Overtaken,
    /// The log does not respond. The batch is kept in `doubt`.
    Unknown(store::Error),
}

/// A call, and the outcome of its writes if the transaction is stored; `None` if its fence no
/// longer holds.
type PlannedCall = (Call, Option<Vec<WriteOutcome>>);

/// Calls, and the transaction that stores their writes.
struct PendingTransaction {
    batch: Batch,
    calls: Vec<PlannedCall>,
    rows: usize,
    bytes: usize,
}

/// A transaction that is stored and not published yet.
struct Stored {
    pending: PendingTransaction,
    /// When the transaction was sent to the store.
    sent: tokio::time::Instant,
}

impl PendingTransaction {
    fn after(view: &View, time_ms: i64, hooks: Option<&dyn CommitHookFactory>) -> PendingTransaction {
        PendingTransaction { batch: Batch::after(view, time_ms, hooks), calls: Vec::new(), rows: 0, bytes: 0 }
    }

    fn add(&mut self, call: Call) {
        let is_allowed = call.fence.as_ref().is_none_or(|is_held| is_held());
        let outcomes = is_allowed.then(|| self.batch.add(&call.writes, call.atomicity));
        self.rows += call.writes.len();
        self.bytes += call.bytes;
        self.calls.push((call, outcomes));
    }

    /// Returns whether a further call fits.
    fn has_room(&self, limits: &Limits) -> bool {
        self.rows < limits.batch_rows_max && self.bytes < limits.batch_bytes_max
    }

    /// Returns whether a fence has stopped holding since its call was planned.
    fn is_outdated(&self) -> bool {
        let mut planned = self.calls.iter().filter(|(_, outcomes)| outcomes.is_some());
        planned.any(|(call, _)| call.fence.as_ref().is_some_and(|is_held| !is_held()))
    }
}

impl<'a> Leader<'a> {
    pub fn new(log: &'a mut Follower, term: Term, is_alone: bool) -> Leader<'a> {
        Leader { log, term, is_alone, stored: None, next: None, doubt: None, log_throttle: LogThrottle::default() }
    }

    /// Leads until the term ends. `wanted` is the term in which the election wants this process to
    /// lead.
    pub async fn run(
        &mut self,
        calls: &mut Calls,
        wanted: &mut watch::Receiver<Option<Term>>,
    ) -> Result<Ended, store::Error> {
        loop {
            if *wanted.borrow() != Some(self.term) {
                self.finish();
                let next = self.take_next().unwrap_or_default();
                next.into_iter().for_each(|call| call.caller.answer(Err(WriteError::Following)));
                return Ok(Ended::Revoked);
            }
            let pending = match self.next.take() {
                Some(pending) => pending,
                None => {
                    self.finish();
                    let is_looked_at = !self.is_alone || self.doubt.is_some();
                    tokio::select! {
                        biased;
                        call = calls.next() => match call {
                            Some(first) => self.plan(vec![first], calls),
                            None => return Ok(Ended::Closed),
                        },
                        () = changed(wanted) => continue,
                        () = tokio::time::sleep(LOOK_EVERY), if is_looked_at => match self.look().await? {
                            ControlFlow::Continue(()) => continue,
                            ControlFlow::Break(()) => return Ok(Ended::Deposed),
                        },
                    }
                }
            };
            if self.store(pending, calls).await?.is_break() {
                if let Some(next) = self.take_next() {
                    depose(next);
                }
                return Ok(Ended::Deposed);
            }
        }
    }

    /// Takes the calls of the next transaction, because the one before it may not be stored.
    fn take_next(&mut self) -> Option<Vec<Call>> {
        self.next.take().map(|next| unplanned(next.calls))
    }

    /// Plans the calls as one transaction on the newest view.
    fn plan(&mut self, waiting: Vec<Call>, calls: &Calls) -> PendingTransaction {
        let mut pending = PendingTransaction::after(&self.log.cache.view(), self.time_ms(), calls.hooks().as_deref());
        waiting.into_iter().for_each(|call| pending.add(call));
        pending
    }

    /// Returns the current time. Times in the log never decrease, even when the clock is set back.
    fn time_ms(&mut self) -> i64 {
        self.log.time_ms = self.log.time_ms.max(self.log.clock.now_ms());
        self.log.time_ms
    }

    /// Stores a transaction. Breaks when this process does not lead any more. An error ends the
    /// process, because writing has become impossible.
    async fn store(
        &mut self,
        mut pending: PendingTransaction,
        calls: &mut Calls,
    ) -> Result<ControlFlow<()>, store::Error> {
        if let Some(doubtful) = self.doubt.take() {
            let waiting = unplanned(pending.calls);
            match self.settle(doubtful).await? {
                CommitOutcome::Stored | CommitOutcome::NotStored => pending = self.plan(waiting, calls),
                CommitOutcome::Unknown(error) => {
                    self.refuse(waiting, error, WriteError::Unavailable);
                    return Ok(ControlFlow::Continue(()));
                }
                CommitOutcome::Overtaken => {
                    depose(waiting);
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.gather(&mut pending, calls).await;
        if pending.is_outdated() {
            self.finish();
            pending = self.plan(unplanned(pending.calls), calls);
        }
        pending.batch.close();
        if pending.batch.changes.is_empty() {
            // The results may contain objects of the previous transaction.
            self.finish();
            acknowledge(pending.calls);
            return Ok(ControlFlow::Continue(()));
        }
        let sent = tokio::time::Instant::now();
        match self.commit(&pending, calls).await {
            Ok(()) => {
                if let Some(OutageEnd { calls, lasted }) = self.log_throttle.over(tokio::time::Instant::now()) {
                    tracing::info!(calls, ?lasted, "changes are stored again; so many calls were refused");
                }
                self.stored = Some(Stored { pending, sent });
                Ok(ControlFlow::Continue(()))
            }
            Err(error) => {
                let failed = self.fail(pending, error).await?;
                // If the transaction was stored nevertheless, it is in the view now.
                if let Some(next) = self.take_next() {
                    self.next = Some(self.plan(next, calls));
                }
                Ok(failed)
            }
        }
    }

    /// Drains queued calls into the transaction, to spread the cost of the commit. A small
    /// transaction yields first, so that callers that write again right after their response can
    /// join it.
    async fn gather(&mut self, pending: &mut PendingTransaction, calls: &mut Calls) {
        if pending.rows < FEW_ROWS {
            self.finish();
            tokio::task::yield_now().await;
        }
        while pending.has_room(self.log.cache.limits())
            && let Some(call) = calls.waiting()
        {
            pending.add(call);
        }
    }

    /// Commits a transaction. The previous one is published while this one is in flight, and
    /// arriving calls are planned as the next one.
    async fn commit(&mut self, pending: &PendingTransaction, calls: &mut Calls) -> Result<(), store::Error> {
        let (store, changes, started) = (Arc::clone(&self.log.store), &pending.batch.changes, Instant::now());
        let span = tracing::debug_span!("store_commit", changes = changes.len());
        let mut committing = pin!(store.commit(self.term, changes).instrument(span));
        let begun = futures_util::poll!(committing.as_mut());
        self.finish();
        let committed = match begun {
            Poll::Ready(committed) => committed,
            Poll::Pending => loop {
                let has_room = self.next.as_ref().is_none_or(|next| next.has_room(self.log.cache.limits()));
                tokio::select! {
                    biased;
                    committed = &mut committing => break committed,
                    Some(call) = calls.next(), if has_room => self.plan_next(&pending.batch.view, call, calls),
                }
            },
        };
        metrics::store_commit(changes.len(), started.elapsed(), committed.is_ok());
        committed
    }

    /// Plans a call as part of the next transaction, on the view that results from the current one.
    fn plan_next(&mut self, view: &View, call: Call, calls: &Calls) {
        let time_ms = self.time_ms();
        let next = self.next.get_or_insert_with(|| PendingTransaction::after(view, time_ms, calls.hooks().as_deref()));
        next.add(call);
    }

    /// Settles a transaction after a failed commit, and responds to its callers. Breaks when this
    /// process does not lead any more.
    async fn fail(
        &mut self,
        pending: PendingTransaction,
        error: store::Error,
    ) -> Result<ControlFlow<()>, store::Error> {
        if matches!(error, store::Error::Deposed { .. }) && !self.is_alone {
            depose(unplanned(pending.calls));
            return Ok(ControlFlow::Break(()));
        }
        let PendingTransaction { batch, calls, .. } = pending;
        if matches!(error, store::Error::NotSent { .. }) {
            self.refuse(unplanned(calls), error, WriteError::Unavailable);
            return Ok(ControlFlow::Continue(()));
        }
        let changes = batch.changes.len();
        match self.settle(batch).await? {
            CommitOutcome::Stored => {
                let error = telemetry::with_causes(&error);
                tracing::warn!(error, changes, "a commit failed, but its changes are stored");
                acknowledge(calls);
            }
            CommitOutcome::NotStored => self.refuse(unplanned(calls), error, WriteError::Unavailable),
            CommitOutcome::Unknown(_) => self.refuse(unplanned(calls), error, WriteError::InDoubt),
            CommitOutcome::Overtaken => {
                depose(unplanned(calls));
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the error to the callers, and logs it at a limited rate.
    fn refuse(&mut self, waiting: Vec<Call>, error: store::Error, as_error: fn(Arc<store::Error>) -> WriteError) {
        if let Some(calls) = self.log_throttle.refused(waiting.len(), error.reason(), tokio::time::Instant::now()) {
            tracing::error!(error = telemetry::with_causes(&error), calls, "failed to store changes");
        }
        let error = Arc::new(error);
        for call in waiting {
            call.caller.answer(Err(as_error(error.clone())));
        }
    }

    /// Reads the end of the log while there are no writes. Settles a batch in doubt, because
    /// readers wait for it.
    async fn look(&mut self) -> Result<ControlFlow<()>, store::Error> {
        if let Some(doubtful) = self.doubt.take() {
            return Ok(match self.settle(doubtful).await? {
                CommitOutcome::Overtaken => ControlFlow::Break(()),
                CommitOutcome::Stored | CommitOutcome::NotStored | CommitOutcome::Unknown(_) => {
                    ControlFlow::Continue(())
                }
            });
        }
        let (sent, newest) = (tokio::time::Instant::now(), self.log.cache.view().revision);
        if self.is_alone {
            return Ok(ControlFlow::Continue(()));
        }
        let Ok(tip) = self.log.store.tip(newest).await else { return Ok(ControlFlow::Continue(())) };
        if tip.bounds.last == newest && self.log.goes_on(newest, &tip) {
            self.log.cache.freshness().confirm(sent, newest);
            return Ok(ControlFlow::Continue(()));
        }
        // Another process has written, a standby was promoted, or changes were lost, so this
        // process has to follow.
        Ok(ControlFlow::Break(()))
    }

    /// Determines whether a failed commit is durable nevertheless. Otherwise two changes could get
    /// the same revision.
    async fn settle(&mut self, batch: Batch) -> Result<CommitOutcome, store::Error> {
        let asked = async {
            let is_stored = self.log.store.settle(self.term, &batch.changes).await?;
            Ok((is_stored, self.log.store.bounds().await?.last))
        };
        let (is_stored, last) = match asked.await {
            Ok(answers) => answers,
            Err(store::Error::Deposed { .. }) if !self.is_alone => return Ok(CommitOutcome::Overtaken),
            Err(error) => {
                self.doubt = Some(batch);
                return Ok(CommitOutcome::Unknown(error));
            }
        };
        if is_stored {
            self.publish(batch);
            return Ok(CommitOutcome::Stored);
        }
        if last == self.log.cache.view().revision {
            return Ok(CommitOutcome::NotStored);
        }
        if !self.is_alone {
            // The follower publishes the writes of the other process.
            return Ok(CommitOutcome::Overtaken);
        }
        let advice = format!("another process has written to it (it is at revision {last}); stop that one and restart");
        Err(store::Error::Corrupt { advice, source: None })
    }

    /// Publishes the stored transaction, and responds to its callers.
    fn finish(&mut self) {
        let Some(Stored { pending: PendingTransaction { batch, calls, .. }, sent }) = self.stored.take() else {
            return;
        };
        let last = batch.view.revision;
        self.publish(batch);
        self.log.cache.freshness().confirm(sent, last);
        acknowledge(calls);
    }

    fn publish(&mut self, batch: Batch) {
        self.log.origin.row = batch.changes.last().cloned();
        self.log.cache.publish(batch.view, batch.events, self.log.clock.now_ms());
    }
}

fn unplanned(calls: Vec<PlannedCall>) -> Vec<Call> {
    calls.into_iter().map(|(call, _)| call).collect()
}

/// Returns the outcomes of their writes to the callers.
fn acknowledge(calls: Vec<PlannedCall>) {
    calls.into_iter().for_each(|(call, outcomes)| call.caller.answer(outcomes.ok_or(WriteError::Fenced)));
}

fn depose(waiting: Vec<Call>) {
    tracing::warn!(calls = waiting.len(), "another replica leads now: nothing was stored");
    waiting.into_iter().for_each(|call| call.caller.answer(Err(WriteError::Deposed)));
}

/// Resolves when the election changes the wanted term. Never resolves after the election has ended.
pub(super) async fn changed(wanted: &mut watch::Receiver<Option<Term>>) {
    if wanted.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::Caller;
    use crate::{Atomicity, Draft, Expect, Write};
    use ballast_k8s::{Document, GroupResource, Key, Revision};

    #[test]
    fn a_transaction_is_full_at_either_of_its_bounds() {
        let write = |name: &str| Write {
            key: Key::namespaced(GroupResource::new("pods"), "shop", name),
            expect: Expect::Absent,
            draft: Draft::Put(Document::new(serde_json::Map::new())),
        };
        let after_two_calls = |rows_max, bytes_max| {
            let limits = Limits { batch_rows_max: rows_max, batch_bytes_max: bytes_max, ..Limits::default() };
            let mut pending = PendingTransaction::after(&View::empty_at(Revision::ZERO), 0, None);
            for names in [vec!["a", "b"], vec!["c"]] {
                assert!(pending.has_room(&limits));
                let writes = names.into_iter().map(write).collect();
                let (atomicity, caller) = (Atomicity::Each, Caller::gone());
                pending.add(Call { writes, atomicity, fence: None, bytes: 5, caller });
            }
            pending.has_room(&limits)
        };
        assert!(after_two_calls(4, 11));
        assert!(!after_two_calls(3, 11));
        assert!(!after_two_calls(4, 10));
    }
}
