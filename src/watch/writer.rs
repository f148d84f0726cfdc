//! The one writer: numbers the changes, commits those that wait as one transaction, makes them
//! visible, and only then answers.
//!
//! *Invariants.* Revisions are gapless: the counter is the newest view's revision and moves only
//! with it. A call is never split over two transactions. A store that fails costs the calls of that
//! group; the next group tries anew, so writing resumes by itself when the disk has space again.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::Instrument;

use crate::clock::Clock;
use crate::k8s::{Document, Key, Object, Revision};
use crate::metrics;
use crate::store::{self, Store};

use super::plan::{Group, Planned};
use super::{Cache, Limits};
use super::{beat, compaction};

/// What becomes of the other writes of a call when one is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// A rejected write does not stop the others.
    Each,
    /// Any rejection stores nothing.
    All,
}

#[derive(Debug)]
pub struct Write {
    pub key: Key,
    pub expect: Expect,
    pub draft: Draft,
}

/// The state that a write was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    At(Revision),
}

#[derive(Debug)]
pub enum Draft {
    Put(Document),
    /// With the last state, which watchers are shown.
    Delete(Document),
}

impl Draft {
    fn document(&self) -> &Document {
        match self {
            Draft::Put(document) | Draft::Delete(document) => document,
        }
    }
}

/// Whether a write may still be stored; asked last thing before it is.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

/// Why a write was not done, with the state that stood in its way.
#[derive(Debug)]
pub enum Rejected {
    Exists(Arc<Object>),
    Missing,
    Changed(Arc<Object>),
    /// `Atomicity::All`, and another write was rejected.
    NotTried,
}

/// Why a whole call came to nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("too many writes are waiting")]
    Busy,
    /// The store failed. Nothing was acknowledged; in rare cases (the disk failed while it said
    /// yes) the write appears later all the same.
    #[error("nothing can be written now: {}", .0.reason())]
    Unavailable(#[source] Arc<store::Error>),
    /// The fence that the call came with does not hold any more. Nothing of it was stored.
    #[error("this replica does not hold the lease")]
    Fenced,
    /// The writer has stopped.
    #[error("the writer has stopped")]
    Closed,
}

/// A handle; clones share one writer.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Call>,
    /// Counts what waits, in units of `QUEUE_UNIT`.
    room: Arc<Semaphore>,
    room_max: u32,
}

/// A semaphore counts in 32 bits; kibibytes keep any sensible bound within them.
const QUEUE_UNIT: usize = 1024;

struct Call {
    writes: Vec<Write>,
    atomicity: Atomicity,
    fence: Option<Fence>,
    bytes: usize,
    caller: Caller,
}

struct Caller {
    answer: oneshot::Sender<Answer>,
    /// Given back when the call is answered.
    _room: OwnedSemaphorePermit,
}

type Answer = Result<Vec<Planned>, WriteError>;

impl Writer {
    /// Writes all that is accepted of `writes` in one transaction, and returns when it is durable
    /// and in the newest view. Outcomes are in the order of `writes`; a later write of the call
    /// sees the earlier ones. Dropping the future does not take the writes back.
    pub async fn commit(&self, writes: Vec<Write>, atomicity: Atomicity) -> Result<Vec<Planned>, WriteError> {
        self.commit_behind(None, writes, atomicity).await
    }

    /// As `commit`, but nothing is stored unless the fence holds when it is the call's turn.
    pub async fn commit_behind(
        &self,
        fence: Option<Fence>,
        writes: Vec<Write>,
        atomicity: Atomicity,
    ) -> Result<Vec<Planned>, WriteError> {
        let bytes = writes.iter().map(|write| write.draft.document().len()).sum();
        let units = u32::try_from(bytes / QUEUE_UNIT).unwrap_or(u32::MAX).min(self.room_max);
        let room = self.room.clone().try_acquire_many_owned(units).map_err(|_| WriteError::Busy)?;
        let (answer, answered) = oneshot::channel();
        let call = Call { writes, atomicity, fence, bytes, caller: Caller { answer, _room: room } };
        self.queue.try_send(call).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => WriteError::Busy,
            mpsc::error::TrySendError::Closed(_) => WriteError::Closed,
        })?;
        let span = tracing::debug_span!("write", bytes);
        answered.instrument(span).await.unwrap_or(Err(WriteError::Closed))
    }
}

/// The handle, and the loop to run.
pub(super) fn start(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Cache,
    newest_ms: i64,
    limits: Limits,
) -> (Writer, impl Future<Output = Result<(), store::Error>>) {
    let (queue, calls) = mpsc::channel(limits.queue_calls_max);
    let room_max = u32::try_from(limits.queue_bytes_max / QUEUE_UNIT).unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(room_max as usize));
    let beat = beat::run(cache.tip(), cache.clone(), limits.clone());
    let compaction = compaction::run(store.clone(), clock.clone(), cache.clone(), limits.clone());
    let turn = Turn { store, clock, cache, limits, calls, doubt: None, time_ms: newest_ms };
    let run = async move {
        tokio::select! {
            // The beat after the turn that it follows: it needs no wake-up of its own, and on one
            // thread nobody sees a write acknowledged of which the followers were not told.
            biased;
            ended = turn.run() => ended,
            never = compaction => match never {},
            never = beat => match never {},
        }
    };
    (Writer { queue, room, room_max }, run)
}

struct Turn {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Cache,
    limits: Limits,
    calls: mpsc::Receiver<Call>,
    /// A group of which the store could not say whether it is durable.
    doubt: Option<Group>,
    /// Of the newest change.
    time_ms: i64,
}

/// What the log says about a group whose commit failed.
enum Fate {
    /// It is durable after all, and published now.
    Stored,
    Lost,
    /// The log does not answer; the group is kept in doubt.
    Unknown(store::Error),
}

impl Turn {
    async fn run(mut self) -> Result<(), store::Error> {
        while let Some(first) = self.calls.recv().await {
            let calls = self.gather(first);
            self.write(calls).await?;
        }
        Ok(())
    }

    /// What waits, up to the bounds. While one group is on its way to the disk the next one
    /// gathers, so groups grow with the load and a lone call waits for nobody.
    fn gather(&mut self, first: Call) -> Vec<Call> {
        let (mut rows, mut bytes) = (first.writes.len(), first.bytes);
        let mut calls = vec![first];
        while rows < self.limits.group_rows_max && bytes < self.limits.group_bytes_max {
            let Ok(call) = self.calls.try_recv() else { break };
            rows += call.writes.len();
            bytes += call.bytes;
            calls.push(call);
        }
        calls
    }

    async fn write(&mut self, calls: Vec<Call>) -> Result<(), store::Error> {
        if let Some(doubtful) = self.doubt.take()
            && let Fate::Unknown(error) = self.settle(doubtful).await?
        {
            refuse(calls.into_iter().map(|call| call.caller), error);
            return Ok(());
        }
        // A clock that steps back must not turn the times of the log around.
        self.time_ms = self.time_ms.max(self.clock.now_ms());
        let mut group = Group::after(&self.cache.view(), self.time_ms);
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            if call.fence.is_some_and(|is_held| !is_held()) {
                let _ = call.caller.answer.send(Err(WriteError::Fenced));
                continue;
            }
            answers.push((call.caller, group.add(call.writes, call.atomicity)));
        }
        if !group.changes.is_empty()
            && let Some(error) = self.commit(group).await?
        {
            refuse(answers.into_iter().map(|(caller, _)| caller), error);
            return Ok(());
        }
        for (caller, outcomes) in answers {
            // Nobody listens where the caller has gone; the write stands.
            let _ = caller.answer.send(Ok(outcomes));
        }
        Ok(())
    }

    /// The inner error costs this group, the outer one ends the writer.
    async fn commit(&mut self, group: Group) -> Result<Option<store::Error>, store::Error> {
        let started = Instant::now();
        let span = tracing::debug_span!("store_commit", changes = group.changes.len());
        let committed = self.store.commit(&group.changes).instrument(span).await;
        metrics::store_commit(group.changes.len(), started.elapsed(), committed.is_ok());
        let Err(error) = committed else {
            self.publish(group);
            return Ok(None);
        };
        let rows = group.changes.len();
        match self.settle(group).await? {
            Fate::Stored => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    rows,
                    "a commit failed, but its changes are stored"
                );
                Ok(None)
            }
            Fate::Lost | Fate::Unknown(_) => Ok(Some(error)),
        }
    }

    /// A commit that failed may have become durable all the same. Going on without knowing could
    /// give a revision twice.
    async fn settle(&mut self, group: Group) -> Result<Fate, store::Error> {
        let last = match self.store.bounds().await {
            Ok(bounds) => bounds.last,
            Err(error) => {
                self.doubt = Some(group);
                return Ok(Fate::Unknown(error));
            }
        };
        if last == self.cache.view().revision {
            return Ok(Fate::Lost);
        }
        if last == group.view.revision {
            self.publish(group);
            return Ok(Fate::Stored);
        }
        let advice = format!("another process has written to it (it is at revision {last}); stop that one and restart");
        Err(store::Error::Corrupt { advice, source: None })
    }

    fn publish(&self, group: Group) {
        self.cache.publish(group.view, group.events, self.clock.now_ms());
    }
}

/// Tells the callers of a group, and the log in one line for all of them.
fn refuse(callers: impl ExactSizeIterator<Item = Caller>, error: store::Error) {
    let calls = callers.len();
    tracing::error!(error = &error as &dyn std::error::Error, calls, "failed to store changes");
    let error = Arc::new(error);
    for caller in callers {
        let _ = caller.answer.send(Err(WriteError::Unavailable(error.clone())));
    }
}
