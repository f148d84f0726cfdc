//! `Writer`, the handle that queues writes for the leader, and the queue itself. `leader` drains
//! it. A process that follows refuses each call.

use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::Instrument;

use ballast_k8s::{GroupResource, MemberPath};
use ballast_store as store;

use super::batch::{Batch, WriteOutcome};
use super::commit_hook::CommitHookFactory;
use super::write::{Atomicity, Rejected, Write};
use super::{Limits, View};

/// A predicate that is true while a write may be stored. Called directly before the commit.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

/// The reason for the failure of a whole call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("too many writes are waiting")]
    Busy,
    /// The store failed, and nothing was stored.
    #[error("nothing can be written now: {}", .0.reason())]
    Unavailable(#[source] Arc<store::Error>),
    /// The store's response to the commit was lost, so the write may be stored, or appear later.
    #[error("it may have been stored: {}", .0.reason())]
    InDoubt(#[source] Arc<store::Error>),
    /// The fence of the call no longer holds. Nothing was stored.
    #[error("this replica does not hold the lease")]
    Fenced,
    /// This process does not lead. Nothing was stored.
    #[error("this replica does not lead")]
    Following,
    /// Another replica took over while the call waited. Nothing was stored.
    #[error("another replica leads now")]
    Deposed,
    /// The writer has stopped, and accepts no further calls.
    #[error("the writer has stopped")]
    Closed,
}

/// A handle to the writer. Clones share it.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Call>,
    /// The free capacity of the queue, in units of `QUEUE_UNIT` bytes.
    room: Arc<Semaphore>,
    room_max: u32,
    hooks: Hooks,
}

/// The commit hooks, once they are set.
type Hooks = Arc<OnceLock<Arc<dyn CommitHookFactory>>>;

/// A semaphore counts in 32 bits, so the capacity is counted in kibibytes.
const QUEUE_UNIT: usize = 1024;

pub(super) struct Call {
    pub writes: Vec<Write>,
    pub atomicity: Atomicity,
    pub fence: Option<Fence>,
    pub bytes: usize,
    pub caller: Caller,
}

pub(super) struct Caller {
    answer: oneshot::Sender<Answer>,
    /// The capacity that the call occupies in the queue, released with the response.
    _room: OwnedSemaphorePermit,
}

type Answer = Result<Vec<WriteOutcome>, WriteError>;

impl Writer {
    /// Sets the hooks for all later writes. Only the first call has an effect.
    pub fn set_commit_hooks(&self, hooks: Arc<dyn CommitHookFactory>) {
        let _first_stays = self.hooks.set(hooks);
    }

    /// Returns the members of the status of this kind that only commit hooks write.
    pub fn hook_owned_members(&self, resource: GroupResource) -> &'static [MemberPath] {
        self.hooks.get().map_or(&[], |hooks| hooks.owned_members(resource))
    }

    /// Returns the outcome that a write would have at this view, for a dry run.
    pub fn rehearse(&self, view: &View, write: Write) -> Result<(), Rejected> {
        let mut batch = Batch::after(view, 0, self.hooks.get().map(|hooks| &**hooks));
        batch.add(&[write], Atomicity::Each).into_iter().try_for_each(|planned| planned.map(drop))
    }

    /// Stores the accepted writes in one transaction, and returns once they are durable and in the
    /// newest view. The outcomes are in the order of `writes`, and each write sees the earlier ones
    /// of the call. Dropping the future does not cancel the writes.
    pub async fn commit(&self, writes: Vec<Write>, atomicity: Atomicity) -> Result<Vec<WriteOutcome>, WriteError> {
        self.commit_behind(None, writes, atomicity).await
    }

    /// Commits like [`Writer::commit`], but stores nothing unless the fence holds when the
    /// transaction is sent.
    pub async fn commit_behind(
        &self,
        fence: Option<Fence>,
        writes: Vec<Write>,
        atomicity: Atomicity,
    ) -> Result<Vec<WriteOutcome>, WriteError> {
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

/// Creates the handle and the queue.
pub(super) fn queue(limits: &Limits) -> (Writer, Calls) {
    let (queue, calls) = mpsc::channel(limits.queue_calls_max);
    let room_max = u32::try_from(limits.queue_bytes_max / QUEUE_UNIT).unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(room_max as usize));
    let hooks = Hooks::default();
    (Writer { queue, room, room_max, hooks: Arc::clone(&hooks) }, Calls { waiting: calls, hooks })
}

/// The calls that wait in the queue.
pub(super) struct Calls {
    waiting: mpsc::Receiver<Call>,
    hooks: Hooks,
}

impl Calls {
    /// Returns the commit hooks, if they are set.
    pub fn hooks(&self) -> Option<Arc<dyn CommitHookFactory>> {
        self.hooks.get().map(Arc::clone)
    }

    /// Waits for the next call; `None` once the last `Writer` is dropped and the queue is empty.
    pub async fn next(&mut self) -> Option<Call> {
        self.waiting.recv().await
    }

    /// Returns the next call, if one is waiting.
    pub fn waiting(&mut self) -> Option<Call> {
        self.waiting.try_recv().ok()
    }
}

impl Caller {
    /// Sends the response. If the caller has dropped the future of `commit`, only the response is
    /// dropped, not the writes.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }

    /// Creates a caller that does not wait for its response.
    #[cfg(test)]
    pub fn gone() -> Caller {
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("nobody else has taken it");
        Caller { answer: oneshot::channel().0, _room: room }
    }
}
