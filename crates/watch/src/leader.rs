//! What the one process does that leads, on top of its follower: it numbers the changes, commits
//! all waiting calls as one transaction, makes them visible, and then answers.
//!
//! One transaction is on its way at a time. Meanwhile the calls that come are planned as the next
//! one, on the view that this one leads to. When it is stored, the next one goes to the store at
//! once, and only then is the stored one published and answered: the store waits for nobody. If it
//! is not stored, its view never was, and the calls behind it are planned anew.
//!
//! *Invariants.* Revisions have no gaps: the counter is the revision of the newest view and moves
//! only with it. A call is never split over two transactions. Each commit carries the term, and the
//! store refuses that of a term that is over; nothing of it is stored then. When the store fails,
//! only the calls of that group fail. The next group tries again, so writing resumes by itself once
//! the disk has space.

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

use super::commit_hook::CommitHookFactory;
use super::follower::Follower;
use super::plan::{Group, Planned};
use super::replica::changed;
use super::trouble::{Over, Trouble};
use super::writer::{Call, Calls, WriteError};
use super::{Limits, View};

/// Where nobody writes, the log is looked at after this time: to settle a doubt, and to notice that
/// another replica leads.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A transaction of fewer rows waits one turn of the runtime, so that who was just answered can
/// join it. A commit costs as much as twenty rows.
const FEW_ROWS: usize = 24;

/// Why a term has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The store refused a commit: another process leads.
    Deposed,
    /// The election does not want this process to lead any more.
    Revoked,
    /// All writes are stored, and nobody can bring another.
    Closed,
}

pub(super) struct Leader<'a> {
    log: &'a mut Follower,
    term: Term,
    /// Whether no other process can write.
    is_alone: bool,
    /// What the last turn has stored.
    stored: Option<Stored>,
    /// What was planned while that was stored.
    behind: Option<Ready>,
    /// A group that may or may not be durable, because the store did not answer.
    doubt: Option<Group>,
    trouble: Trouble,
}

/// What has become of a group whose commit failed.
enum Fate {
    /// It is durable after all, and was published.
    Stored,
    Lost,
    /// Another process has written: this one does not lead any more.
    Overtaken,
    /// The log does not answer. The group is kept in `doubt`.
    Unknown(store::Error),
}

/// A call with what becomes of its writes if the transaction is stored. `None`: its fence has
/// fallen.
type PlannedCall = (Call, Option<Vec<Planned>>);

/// Calls, and the transaction that they come to.
struct Ready {
    group: Group,
    calls: Vec<PlannedCall>,
    rows: usize,
    bytes: usize,
}

/// A transaction that is stored. It is still to be published.
struct Stored {
    ready: Ready,
    /// When it was sent to the store.
    sent: tokio::time::Instant,
}

impl Ready {
    fn after(view: &View, time_ms: i64, hooks: Option<&dyn CommitHookFactory>) -> Ready {
        Ready { group: Group::after(view, time_ms, hooks), calls: Vec::new(), rows: 0, bytes: 0 }
    }

    fn add(&mut self, call: Call) {
        let is_allowed = call.fence.as_ref().is_none_or(|is_held| is_held());
        let outcomes = is_allowed.then(|| self.group.add(&call.writes, call.atomicity));
        self.rows += call.writes.len();
        self.bytes += call.bytes;
        self.calls.push((call, outcomes));
    }

    /// Whether it takes a further call.
    fn has_room(&self, limits: &Limits) -> bool {
        self.rows < limits.group_rows_max && self.bytes < limits.group_bytes_max
    }

    /// Whether a fence has fallen since the call behind it was planned.
    fn is_outdated(&self) -> bool {
        let mut planned = self.calls.iter().filter(|(_, outcomes)| outcomes.is_some());
        planned.any(|(call, _)| call.fence.as_ref().is_some_and(|is_held| !is_held()))
    }
}

impl<'a> Leader<'a> {
    pub fn new(log: &'a mut Follower, term: Term, is_alone: bool) -> Leader<'a> {
        Leader { log, term, is_alone, stored: None, behind: None, doubt: None, trouble: Trouble::default() }
    }

    /// Leads until the term ends. `wanted` is the term in which this process should lead.
    pub async fn run(
        &mut self,
        calls: &mut Calls,
        wanted: &mut watch::Receiver<Option<Term>>,
    ) -> Result<Ended, store::Error> {
        loop {
            if *wanted.borrow() != Some(self.term) {
                self.finish();
                let behind = self.take_behind().unwrap_or_default();
                behind.into_iter().for_each(|call| call.caller.answer(Err(WriteError::Following)));
                return Ok(Ended::Revoked);
            }
            let ready = match self.behind.take() {
                Some(ready) => ready,
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
            if self.store(ready, calls).await?.is_break() {
                if let Some(behind) = self.take_behind() {
                    depose(behind);
                }
                return Ok(Ended::Deposed);
            }
        }
    }

    /// What was planned behind a transaction that may not be stored.
    fn take_behind(&mut self) -> Option<Vec<Call>> {
        self.behind.take().map(|behind| unplanned(behind.calls))
    }

    /// The calls as the next transaction.
    fn plan(&mut self, waiting: Vec<Call>, calls: &Calls) -> Ready {
        let mut ready = Ready::after(&self.log.cache.view(), self.time_ms(), calls.hooks().as_deref());
        waiting.into_iter().for_each(|call| ready.add(call));
        ready
    }

    /// Times in the log never decrease, even when the clock is set back.
    fn time_ms(&mut self) -> i64 {
        self.log.time_ms = self.log.time_ms.max(self.log.clock.now_ms());
        self.log.time_ms
    }

    /// Has a transaction stored. It breaks when this process does not lead any more. An error ends
    /// the process: nothing can be written any more.
    async fn store(&mut self, mut ready: Ready, calls: &mut Calls) -> Result<ControlFlow<()>, store::Error> {
        if let Some(doubtful) = self.doubt.take() {
            let waiting = unplanned(ready.calls);
            match self.settle(doubtful).await? {
                Fate::Stored | Fate::Lost => ready = self.plan(waiting, calls),
                Fate::Unknown(error) => {
                    self.refuse(waiting, error);
                    return Ok(ControlFlow::Continue(()));
                }
                Fate::Overtaken => {
                    depose(waiting);
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.gather(&mut ready, calls).await;
        if ready.is_outdated() {
            self.finish();
            ready = self.plan(unplanned(ready.calls), calls);
        }
        ready.group.close();
        if ready.group.changes.is_empty() {
            // The answers tell of what was stored before.
            self.finish();
            acknowledge(ready.calls);
            return Ok(ControlFlow::Continue(()));
        }
        let sent = tokio::time::Instant::now();
        match self.commit(&ready, calls).await {
            Ok(()) => {
                if let Some(Over { calls, lasted }) = self.trouble.over(tokio::time::Instant::now()) {
                    tracing::info!(calls, ?lasted, "changes are stored again; so many calls were refused");
                }
                self.stored = Some(Stored { ready, sent });
                Ok(ControlFlow::Continue(()))
            }
            Err(error) => {
                let failed = self.fail(ready, error).await?;
                // What was stored all the same is in the view now, and the rest is not.
                if let Some(behind) = self.take_behind() {
                    self.behind = Some(self.plan(behind, calls));
                }
                Ok(failed)
            }
        }
    }

    /// Takes along whoever waits, because a commit costs much beside its rows. Where only few do,
    /// those come along, too, who write again as soon as they are answered.
    async fn gather(&mut self, ready: &mut Ready, calls: &mut Calls) {
        if ready.rows < FEW_ROWS {
            self.finish();
            tokio::task::yield_now().await;
        }
        while ready.has_room(self.log.cache.limits())
            && let Some(call) = calls.waiting()
        {
            ready.add(call);
        }
    }

    /// Commits a transaction. What was stored before is published once this one is on its way, and
    /// the calls that come are planned behind it.
    async fn commit(&mut self, ready: &Ready, calls: &mut Calls) -> Result<(), store::Error> {
        let (store, changes, started) = (Arc::clone(&self.log.store), &ready.group.changes, Instant::now());
        let span = tracing::debug_span!("store_commit", changes = changes.len());
        let mut committing = pin!(store.commit(self.term, changes).instrument(span));
        let begun = futures_util::poll!(committing.as_mut());
        self.finish();
        let committed = match begun {
            Poll::Ready(committed) => committed,
            Poll::Pending => loop {
                let has_room = self.behind.as_ref().is_none_or(|behind| behind.has_room(self.log.cache.limits()));
                tokio::select! {
                    biased;
                    committed = &mut committing => break committed,
                    Some(call) = calls.next(), if has_room => self.plan_behind(&ready.group.view, call, calls),
                }
            },
        };
        metrics::store_commit(changes.len(), started.elapsed(), committed.is_ok());
        committed
    }

    /// Plans a call on the view that the transaction leads to that is on its way.
    fn plan_behind(&mut self, view: &View, call: Call, calls: &Calls) {
        let time_ms = self.time_ms();
        let behind = self.behind.get_or_insert_with(|| Ready::after(view, time_ms, calls.hooks().as_deref()));
        behind.add(call);
    }

    /// Finds out what has become of a transaction whose commit failed, and tells its callers. It
    /// breaks when this process does not lead any more.
    async fn fail(&mut self, ready: Ready, error: store::Error) -> Result<ControlFlow<()>, store::Error> {
        if matches!(error, store::Error::Deposed { .. }) && !self.is_alone {
            depose(unplanned(ready.calls));
            return Ok(ControlFlow::Break(()));
        }
        let Ready { group, calls, .. } = ready;
        let changes = group.changes.len();
        match self.settle(group).await? {
            Fate::Stored => {
                let error = telemetry::with_causes(&error);
                tracing::warn!(error, changes, "a commit failed, but its changes are stored");
                acknowledge(calls);
            }
            Fate::Lost | Fate::Unknown(_) => self.refuse(unplanned(calls), error),
            Fate::Overtaken => {
                depose(unplanned(calls));
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Tells the callers of a group, and the log from time to time.
    fn refuse(&mut self, waiting: Vec<Call>, error: store::Error) {
        if let Some(calls) = self.trouble.refused(waiting.len(), error.reason(), tokio::time::Instant::now()) {
            tracing::error!(error = telemetry::with_causes(&error), calls, "failed to store changes");
        }
        let error = Arc::new(error);
        for call in waiting {
            call.caller.answer(Err(WriteError::Unavailable(error.clone())));
        }
    }

    /// Looks at the log while nobody writes. Readers wait for what is in doubt.
    async fn look(&mut self) -> Result<ControlFlow<()>, store::Error> {
        if let Some(doubtful) = self.doubt.take() {
            return Ok(match self.settle(doubtful).await? {
                Fate::Overtaken => ControlFlow::Break(()),
                Fate::Stored | Fate::Lost | Fate::Unknown(_) => ControlFlow::Continue(()),
            });
        }
        let (sent, newest) = (tokio::time::Instant::now(), self.log.cache.view().revision);
        let Ok(bounds) = self.log.store.bounds().await else { return Ok(ControlFlow::Continue(())) };
        if bounds.last == newest {
            self.log.cache.freshness().confirm(sent, newest);
            return Ok(ControlFlow::Continue(()));
        }
        // Another process has written, so this one should follow.
        Ok(ControlFlow::Break(()))
    }

    /// Finds out whether a failed commit is durable all the same. Going on without knowing could
    /// give the same revision to two changes.
    async fn settle(&mut self, group: Group) -> Result<Fate, store::Error> {
        let asked = async {
            let is_stored = self.log.store.settle(self.term, &group.changes).await?;
            Ok((is_stored, self.log.store.bounds().await?.last))
        };
        let (is_stored, last) = match asked.await {
            Ok(answers) => answers,
            Err(store::Error::Deposed { .. }) if !self.is_alone => return Ok(Fate::Overtaken),
            Err(error) => {
                self.doubt = Some(group);
                return Ok(Fate::Unknown(error));
            }
        };
        if is_stored {
            self.publish(group);
            return Ok(Fate::Stored);
        }
        if last == self.log.cache.view().revision {
            return Ok(Fate::Lost);
        }
        if !self.is_alone {
            // What another process wrote is news to who does not lead.
            return Ok(Fate::Overtaken);
        }
        let advice = format!("another process has written to it (it is at revision {last}); stop that one and restart");
        Err(store::Error::Corrupt { advice, source: None })
    }

    /// Publishes what the last turn has stored, and answers.
    fn finish(&mut self) {
        let Some(Stored { ready: Ready { group, calls, .. }, sent }) = self.stored.take() else { return };
        let last = group.view.revision;
        self.publish(group);
        self.log.cache.freshness().confirm(sent, last);
        acknowledge(calls);
    }

    fn publish(&self, group: Group) {
        self.log.cache.publish(group.view, group.events, self.log.clock.now_ms());
    }
}

fn unplanned(calls: Vec<PlannedCall>) -> Vec<Call> {
    calls.into_iter().map(|(call, _)| call).collect()
}

/// Tells the callers what has become of their writes, now that all of them are decided.
fn acknowledge(calls: Vec<PlannedCall>) {
    calls.into_iter().for_each(|(call, outcomes)| call.caller.answer(outcomes.ok_or(WriteError::Fenced)));
}

fn depose(waiting: Vec<Call>) {
    tracing::warn!(calls = waiting.len(), "another replica leads now: nothing was stored");
    waiting.into_iter().for_each(|call| call.caller.answer(Err(WriteError::Deposed)));
}
