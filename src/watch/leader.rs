//! What the one process does that leads, on top of its follower: it numbers the changes, commits
//! all waiting calls as one transaction, makes them visible, and then answers.
//!
//! *Invariants.* Revisions have no gaps: the counter is the revision of the newest view and moves
//! only with it. A call is never split over two transactions. Each commit carries the term, and the
//! store refuses that of a term that is over; nothing of it is stored then. When the store fails,
//! only the calls of that group fail. The next group tries again, so writing resumes by itself once
//! the disk has space.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::Instrument;

use crate::metrics;
use crate::store::{self, Term};
use crate::telemetry;

use super::book::Bookkeeper;
use super::follower::Follower;
use super::plan::Group;
use super::replica::changed;
use super::writer::{Call, Caller, Calls, WriteError};

/// Where nobody writes, the log is looked at after this time: to settle a doubt, and to notice that
/// another replica leads.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why a term has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The store refused a commit: another process leads.
    Deposed,
    /// The election took the office away.
    Revoked,
    /// All writes are stored, and nobody can bring another.
    Closed,
}

pub(super) struct Leader<'a> {
    log: &'a mut Follower,
    term: Term,
    /// Whether no other process can write.
    is_alone: bool,
    /// A group that may or may not be durable, because the store did not answer.
    doubt: Option<Group>,
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

/// What has become of a group.
enum Outcome {
    Stored,
    Failed(store::Error),
    Deposed,
}

impl<'a> Leader<'a> {
    pub fn new(log: &'a mut Follower, term: Term, is_alone: bool) -> Leader<'a> {
        Leader { log, term, is_alone, doubt: None }
    }

    /// Leads until the term ends. `wanted` is the term in which this process should lead.
    pub async fn run(
        &mut self,
        calls: &mut Calls,
        wanted: &mut watch::Receiver<Option<Term>>,
    ) -> Result<Ended, store::Error> {
        while *wanted.borrow() == Some(self.term) {
            let first = tokio::select! {
                biased;
                call = calls.next() => call,
                () = changed(wanted) => continue,
                () = tokio::time::sleep(LOOK_EVERY), if !self.is_alone || self.doubt.is_some() => {
                    if self.look().await?.is_break() {
                        return Ok(Ended::Deposed);
                    }
                    continue;
                }
            };
            let Some(first) = first else { return Ok(Ended::Closed) };
            // Whoever is ready to write comes along. A commit costs much beside its rows, and under
            // load most callers of the last one have not had their turn yet. When nobody is ready,
            // this returns at once.
            tokio::task::yield_now().await;
            let group = calls.gather(first, self.log.cache.limits());
            if self.write(group, calls.keeper().as_deref()).await?.is_break() {
                return Ok(Ended::Deposed);
            }
        }
        Ok(Ended::Revoked)
    }

    async fn write(
        &mut self,
        calls: Vec<Call>,
        keeper: Option<&dyn Bookkeeper>,
    ) -> Result<ControlFlow<()>, store::Error> {
        if let Some(doubtful) = self.doubt.take() {
            match self.settle(doubtful).await? {
                Fate::Stored | Fate::Lost => {}
                Fate::Unknown(error) => {
                    refuse(calls.into_iter().map(|call| call.caller), error);
                    return Ok(ControlFlow::Continue(()));
                }
                Fate::Overtaken => return Ok(depose(calls.into_iter().map(|call| call.caller))),
            }
        }
        // Times in the log never decrease, even when the clock is set back.
        self.log.time_ms = self.log.time_ms.max(self.log.clock.now_ms());
        let mut group = Group::after(&self.log.cache.view(), self.log.time_ms, keeper);
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            if call.fence.is_some_and(|is_held| !is_held()) {
                call.caller.answer(Err(WriteError::Fenced));
                continue;
            }
            answers.push((call.caller, group.add(call.writes, call.atomicity)));
        }
        group.close();
        let outcome = if group.changes.is_empty() { Outcome::Stored } else { self.commit(group).await? };
        match outcome {
            Outcome::Stored => answers.into_iter().for_each(|(caller, outcomes)| caller.answer(Ok(outcomes))),
            Outcome::Failed(error) => refuse(answers.into_iter().map(|(caller, _)| caller), error),
            Outcome::Deposed => return Ok(depose(answers.into_iter().map(|(caller, _)| caller))),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// An error ends the process: nothing can be written any more.
    async fn commit(&mut self, group: Group) -> Result<Outcome, store::Error> {
        let (started, sent) = (Instant::now(), tokio::time::Instant::now());
        let span = tracing::debug_span!("store_commit", changes = group.changes.len());
        let committed = self.log.store.commit(self.term, &group.changes).instrument(span).await;
        metrics::store_commit(group.changes.len(), started.elapsed(), committed.is_ok());
        let error = match committed {
            Ok(()) => {
                let last = group.view.revision;
                self.publish(group);
                self.log.cache.freshness().confirm(sent, last);
                return Ok(Outcome::Stored);
            }
            Err(store::Error::Deposed { .. }) if !self.is_alone => return Ok(Outcome::Deposed),
            Err(error) => error,
        };
        let rows = group.changes.len();
        match self.settle(group).await? {
            Fate::Stored => {
                let error = telemetry::with_causes(&error);
                tracing::warn!(error, rows, "a commit failed, but its changes are stored");
                Ok(Outcome::Stored)
            }
            Fate::Lost | Fate::Unknown(_) => Ok(Outcome::Failed(error)),
            Fate::Overtaken => Ok(Outcome::Deposed),
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

    fn publish(&self, group: Group) {
        self.log.cache.publish(group.view, group.events, self.log.clock.now_ms());
    }
}

/// Tells the callers of a group, and the log in one line for all of them.
fn refuse(callers: impl ExactSizeIterator<Item = Caller>, error: store::Error) {
    let calls = callers.len();
    tracing::error!(error = telemetry::with_causes(&error), calls, "failed to store changes");
    let error = Arc::new(error);
    for caller in callers {
        caller.answer(Err(WriteError::Unavailable(error.clone())));
    }
}

fn depose(callers: impl ExactSizeIterator<Item = Caller>) -> ControlFlow<()> {
    tracing::warn!(calls = callers.len(), "another replica leads now: nothing was stored");
    callers.for_each(|caller| caller.answer(Err(WriteError::Deposed)));
    ControlFlow::Break(())
}
