//! The only writer. It numbers the changes, commits all waiting calls as one transaction, makes
//! them visible, and then answers.
//!
//! *Invariants.* Revisions have no gaps: the counter is the revision of the newest view and moves
//! only with it. A call is never split over two transactions. When the store fails, only the calls
//! of that group fail. The next group tries again, so writing resumes by itself once the disk has
//! space.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::Instrument;

use crate::clock::Clock;
use crate::k8s::{Document, Key, Object, Revision, Status};
use crate::metrics;
use crate::store::{self, Store, Term};
use crate::telemetry;

use super::book::Bookkeeper;
use super::plan::{Group, Planned};
use super::{Cache, Limits, View};
use super::{beat, compaction};

/// What happens to the other writes of a call when one is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// A rejected write does not stop the others.
    Each,
    /// If one write is rejected, none of the call is stored.
    All,
}

#[derive(Debug)]
pub struct Write {
    pub key: Key,
    pub expect: Expect,
    pub draft: Draft,
}

/// The state that a write expects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    At(Revision),
}

#[derive(Debug)]
pub enum Draft {
    Put(Document),
    /// Carries the last state, which watchers see.
    Delete(Document),
}

impl Draft {
    fn document(&self) -> &Document {
        match self {
            Draft::Put(document) | Draft::Delete(document) => document,
        }
    }
}

/// Says whether a write may still be stored. It is asked directly before the commit.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

/// Why a write was rejected, with the state that was in its way.
#[derive(Debug)]
pub enum Rejected {
    Exists(Arc<Object>),
    Missing,
    Changed(Arc<Object>),
    /// The books do not allow it.
    Refused(Box<Status>),
    /// Another write of the call was rejected, and the call was `Atomicity::All`.
    NotTried,
}

/// Why a whole call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("too many writes are waiting")]
    Busy,
    /// The store failed, and nothing was acknowledged. In rare cases the write appears later all
    /// the same, when the answer of the disk got lost.
    #[error("nothing can be written now: {}", .0.reason())]
    Unavailable(#[source] Arc<store::Error>),
    /// The fence of the call does not hold any more. Nothing was stored.
    #[error("this replica does not hold the lease")]
    Fenced,
    /// The writer has stopped, and takes no further call.
    #[error("the writer has stopped")]
    Closed,
}

/// A handle to the writer. Clones share it.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Call>,
    /// The free room in the queue, in units of `QUEUE_UNIT` bytes.
    room: Arc<Semaphore>,
    room_max: u32,
    books: Books,
}

/// Who keeps the books, once that is known.
type Books = Arc<OnceLock<Arc<dyn Bookkeeper>>>;

/// A semaphore counts in 32 bits, so the room is counted in kibibytes.
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
    /// Its room in the queue, given back with the answer.
    _room: OwnedSemaphorePermit,
}

type Answer = Result<Vec<Planned>, WriteError>;

impl Writer {
    /// Has `keeper` keep the books of all writes from now on. The first one that is set stays.
    pub fn keep_books(&self, keeper: Arc<dyn Bookkeeper>) {
        let _first_stays = self.books.set(keeper);
    }

    /// What would become of a write at this view, for a dry run.
    pub fn rehearse(&self, view: &View, write: Write) -> Result<(), Rejected> {
        let mut group = Group::after(view, 0, self.books.get().map(|keeper| &**keeper));
        group.add(vec![write], Atomicity::Each).into_iter().try_for_each(|planned| planned.map(drop))
    }

    /// Stores the accepted ones of `writes` in one transaction, and returns once they are durable
    /// and in the newest view. The outcomes are in the order of `writes`, and each write sees the
    /// earlier ones of the call. Dropping the future does not take the writes back.
    pub async fn commit(&self, writes: Vec<Write>, atomicity: Atomicity) -> Result<Vec<Planned>, WriteError> {
        self.commit_behind(None, writes, atomicity).await
    }

    /// As `commit`, but stores nothing unless the fence holds when the call has its turn.
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
    let books = Books::default();
    let turn = Turn { store, clock, cache, limits, calls, doubt: None, time_ms: newest_ms, books: Arc::clone(&books) };
    let run = async move {
        tokio::select! {
            // The beat comes after the turn that it follows. It then needs no wake-up of its own,
            // and on one thread followers hear of a write before its caller does.
            biased;
            ended = turn.run() => ended,
            never = compaction => match never {},
            never = beat => match never {},
        }
    };
    (Writer { queue, room, room_max, books }, run)
}

struct Turn {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Cache,
    limits: Limits,
    calls: mpsc::Receiver<Call>,
    /// A group that may or may not be durable, because the store did not answer.
    doubt: Option<Group>,
    /// The time of the newest change.
    time_ms: i64,
    books: Books,
}

/// What has become of a group whose commit failed.
enum Fate {
    /// It is durable after all, and was published.
    Stored,
    Lost,
    /// The log does not answer. The group is kept in `doubt`.
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

    /// The waiting calls, up to the bounds. While one group is on its way to the disk, the next one
    /// gathers. So groups grow with the load, and a single call does not wait.
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
        // Times in the log never decrease, even when the clock is set back.
        self.time_ms = self.time_ms.max(self.clock.now_ms());
        let mut group = Group::after(&self.cache.view(), self.time_ms, self.books.get().map(|keeper| &**keeper));
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            if call.fence.is_some_and(|is_held| !is_held()) {
                let _ = call.caller.answer.send(Err(WriteError::Fenced));
                continue;
            }
            answers.push((call.caller, group.add(call.writes, call.atomicity)));
        }
        group.close();
        if !group.changes.is_empty()
            && let Some(error) = self.commit(group).await?
        {
            refuse(answers.into_iter().map(|(caller, _)| caller), error);
            return Ok(());
        }
        for (caller, outcomes) in answers {
            // A caller that has gone hears nothing. The write stands.
            let _ = caller.answer.send(Ok(outcomes));
        }
        Ok(())
    }

    /// With the inner error this group fails. The outer error ends the writer.
    async fn commit(&mut self, group: Group) -> Result<Option<store::Error>, store::Error> {
        let started = Instant::now();
        let span = tracing::debug_span!("store_commit", changes = group.changes.len());
        let committed = self.store.commit(Term::default(), &group.changes).instrument(span).await;
        metrics::store_commit(group.changes.len(), started.elapsed(), committed.is_ok());
        let Err(error) = committed else {
            self.publish(group);
            return Ok(None);
        };
        let rows = group.changes.len();
        match self.settle(group).await? {
            Fate::Stored => {
                let error = telemetry::with_causes(&error);
                tracing::warn!(error, rows, "a commit failed, but its changes are stored");
                Ok(None)
            }
            Fate::Lost | Fate::Unknown(_) => Ok(Some(error)),
        }
    }

    /// Finds out whether a failed commit is durable all the same. Going on without knowing could
    /// give the same revision to two changes.
    async fn settle(&mut self, group: Group) -> Result<Fate, store::Error> {
        let asked = async {
            let stored = self.store.settle(Term::default(), &group.changes).await?;
            Ok((stored, self.store.bounds().await?.last))
        };
        let (stored, last) = match asked.await {
            Ok(answers) => answers,
            Err(error) => {
                self.doubt = Some(group);
                return Ok(Fate::Unknown(error));
            }
        };
        if stored {
            self.publish(group);
            return Ok(Fate::Stored);
        }
        if last == self.cache.view().revision {
            return Ok(Fate::Lost);
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
    tracing::error!(error = telemetry::with_causes(&error), calls, "failed to store changes");
    let error = Arc::new(error);
    for caller in callers {
        let _ = caller.answer.send(Err(WriteError::Unavailable(error.clone())));
    }
}
