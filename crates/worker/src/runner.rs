//! The run loop: it delivers events, starts work on ready keys, and sleeps until the next event or
//! timer.
//!
//! Invariants: Events are delivered while batches are in progress, so a slow commit does not push
//! the loop out of the watch window. A loop that falls out of the window receives a difference, and
//! does not list again. A batch starts only when all available events were delivered. Shutdown lets
//! the batches in progress end and starts no new one.
//!
//! A difference skips intermediate states: a cluster that failed and recovered is unchanged. Only
//! work that ran meanwhile can have read such states, so the keys of that work are processed again.
//!
//! Deferred work waits for other servers concurrently with the batches, a bounded number at once.
//! The rest of the work on a key runs after the response. A key that is marked before its request
//! is sent is processed again instead. Shutdown does not wait for responses.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::feed::{Feed, FeedItem};
use super::queue::{Next, Queue};
use super::run_blocking::run_alone;
use super::{BatchOutcome, DeferredWork, Work};

use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_k8s::{Key, Object, Revision};
use ballast_watch::{Cache, Event, EventKind, View};

/// The clock is read at least this often while a timer runs, because the clock may be set forward.
const SLEEP_MAX_MS: i64 = 1_000;

/// Events that are delivered without a yield. Delivering a thousand events takes milliseconds,
/// which would block other tasks of this thread.
const EVENTS_PER_TURN: usize = 128;

/// The work on an object with more bytes takes milliseconds or more. It runs on another thread, so
/// that requests are served meanwhile.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of requests of deferred work in flight.
pub const DEFERRED_MAX: usize = 64;
/// Maximum number of keys with work in progress after a response. Beyond it, no further request is
/// sent.
const ANSWERED_MAX: usize = 1_000;
/// Maximum number of waiting requests. The work on a key beyond it is repeated later.
const DEFERRED_WAITING_MAX: usize = 10_000;
const NO_ROOM_PAUSE_MS: i64 = 1_000;

/// A batch in progress: its keys and their outcomes. A key without an outcome is put back.
type Batch = BoxFuture<'static, (Vec<Key>, BatchOutcome)>;

/// A request in flight, and the rest of the work on its key.
type Asked = BoxFuture<'static, (Key, BoxFuture<'static, BatchOutcome>)>;

pub struct Runner {
    work: Box<dyn Work>,
    queue: Queue,
    clock: Arc<dyn Clock>,
    feed: Feed,
    /// The keys of the last batches, each with the newest revision that its work can have read,
    /// until everything up to that revision is delivered.
    doubtful: VecDeque<(Revision, Key)>,
    /// Keys of large objects that were delivered.
    large: HashSet<Key>,
    batches: FuturesUnordered<Batch>,
    deferred: VecDeque<DeferredWork>,
    asked: FuturesUnordered<Asked>,
    /// The number of requests in flight per namespace.
    asked_of: HashMap<Arc<str>, usize>,
    /// The rest of the work on keys after their response.
    answered: FuturesUnordered<Batch>,
}

impl Runner {
    pub fn new(work: Box<dyn Work>, cache: Cache, clock: Arc<dyn Clock>) -> Runner {
        UnlistedRunner::new(work, cache, clock).list()
    }

    pub fn name(&self) -> &'static str {
        self.work.name()
    }

    /// Runs until `shutdown`, then until the batches in progress have ended. Requests in flight are
    /// dropped.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let gauges = metrics::QueueGauges::of(self.name());
        let debounce = self.work.debounce();
        loop {
            // Includes the writes of the last batch, which the next batch should see.
            self.drain_feed().await;
            let debounced = tokio::time::Instant::now() + debounce;
            self.queue.tick(self.clock.now_ms());
            let own_due = self.work.on_time(&mut self.queue);
            self.ask();
            self.begin();
            gauges.set(self.queue.depth(), self.queue.waiting());
            self.work.on_due_count(self.queue.depth());
            let next_due = [self.queue.next_due_ms(), own_due].into_iter().flatten().min();
            let sleep_ms = next_due.map(|due| due.clamp(1, SLEEP_MAX_MS).unsigned_abs());
            let due = async {
                match sleep_ms {
                    Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    None => std::future::pending().await,
                }
            };
            let is_behind = self.feed.is_behind();
            let given = async {
                if !is_behind {
                    tokio::time::sleep_until(debounced).await;
                }
                self.feed.next().await
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some((keys, worked)) = self.batches.next() => self.finish(keys, worked),
                Some((keys, worked)) = self.answered.next() => self.finish(keys, worked),
                Some((key, rest)) = self.asked.next() => {
                    self.go_on(key, rest);
                    self.take_answers();
                }
                given = given => self.apply(given).await,
                () = due => {}
            }
        }
        self.asked.clear();
        self.asked_of.clear();
        self.work.on_due_count(0);
        self.work.end();
        while let Some((keys, worked)) = self.batches.next().await {
            self.finish(keys, worked);
        }
        while let Some((keys, worked)) = self.answered.next().await {
            self.finish(keys, worked);
        }
    }

    /// Runs one turn without waiting for events or timers: delivers events, starts work on ready
    /// keys, and ends one batch. Processes the available responses, and waits for none. Returns
    /// whether there was anything to do.
    pub async fn turn(&mut self) -> bool {
        let mut busy = self.drain_feed().await;
        self.queue.tick(self.clock.now_ms());
        self.work.on_time(&mut self.queue);
        self.ask();
        self.begin();
        busy |= self.take_answers();
        while let Some((keys, worked)) = self.answered.next().await {
            self.finish(keys, worked);
        }
        if let Some((keys, worked)) = self.batches.next().await {
            self.finish(keys, worked);
            busy = true;
        }
        busy
    }

    /// Delivers all available events, without waiting for others. A difference is delivered in
    /// steps, one per call. Returns whether there was anything to deliver.
    async fn drain_feed(&mut self) -> bool {
        let (mut any, newest) = (false, self.feed.newest());
        while let Some(given) = self.feed.next_ready() {
            self.apply(given).await;
            if self.feed.is_behind() {
                return true;
            }
            any = true;
            // More events may arrive all the time, but the keys have to be processed, too.
            if self.feed.has_delivered(newest) {
                break;
            }
            yield_now().await;
        }
        if !self.doubtful.is_empty() {
            self.confirm_delivered(&[]);
        }
        any
    }

    fn begin(&mut self) {
        if self.feed.is_behind() {
            // The writes of the last batches may not be delivered yet.
            return;
        }
        while self.batches.len() < self.work.concurrency() {
            let keys = self.queue.take_weighed(self.work.batch(), |key| self.work.weight(key));
            if keys.is_empty() {
                break;
            }
            let is_large = !self.large.is_empty() && keys.iter().any(|key| self.large.contains(key));
            let mut work = self.work.begin(keys.clone());
            if is_large {
                work = poll_fn(move |context| {
                    let waker = context.waker().clone();
                    run_alone(|| work.poll_unpin(&mut Context::from_waker(&waker)))
                })
                .boxed();
            }
            let name = self.work.name();
            let timed = async move {
                let started = Instant::now();
                let span = tracing::debug_span!("work", worker = name, keys = keys.len());
                let worked = work.instrument(span).await;
                metrics::worked(name, keys.len(), started.elapsed());
                (keys, worked)
            };
            self.batches.push(timed.boxed());
        }
    }

    /// Takes the next waiting request, from the namespace with the fewest requests in flight.
    /// Otherwise a namespace with slow servers would delay the requests of all others.
    fn next_deferred(&mut self) -> Option<DeferredWork> {
        let count = |work: &DeferredWork| self.asked_of.get(&work.key.namespace).copied().unwrap_or_default();
        let unasked = self.deferred.iter().position(|work| count(work) == 0);
        let (least, _) = match unasked {
            Some(place) => (place, 0),
            None => self.deferred.iter().map(count).enumerate().min_by_key(|(_, count)| *count)?,
        };
        self.deferred.remove(least)
    }

    /// Sends waiting requests up to the bounds.
    fn ask(&mut self) {
        while self.asked.len() < DEFERRED_MAX
            && self.answered.len() < ANSWERED_MAX
            && let Some(DeferredWork { key, answer }) = self.next_deferred()
        {
            match self.queue.is_outdated(&key) {
                true => self.queue.finish(&key, Next::Again, None),
                false => {
                    *self.asked_of.entry(Arc::clone(&key.namespace)).or_default() += 1;
                    self.asked.push(async move { (key, answer.await) }.boxed());
                }
            }
        }
    }

    /// Processes the available responses, so that the resulting changes can be written together.
    /// Returns whether there were any.
    fn take_answers(&mut self) -> bool {
        let mut any = false;
        while let Some(Some((key, rest))) = self.asked.next().now_or_never() {
            self.go_on(key, rest);
            any = true;
        }
        any
    }

    /// Starts the rest of the work on a key after its response.
    fn go_on(&mut self, key: Key, rest: BoxFuture<'static, BatchOutcome>) {
        if let Some(count) = self.asked_of.get_mut(&key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.asked_of.remove(&key.namespace);
            }
        }
        self.answered.push(async move { (vec![key], rest.await) }.boxed());
    }

    fn finish(&mut self, keys: Vec<Key>, worked: BatchOutcome) {
        self.queue.tick(self.clock.now_ms());
        let newest = self.feed.newest();
        for outcome in &worked.outcomes {
            self.queue.finish(&outcome.key, outcome.next, outcome.seen);
            self.doubtful.push_back((newest, outcome.key.clone()));
        }
        if worked.outcomes.len() + worked.deferred.len() < keys.len() {
            // Otherwise a key without an outcome would never be processed again.
            let asked: HashSet<&Key> = worked.deferred.iter().map(|deferred| &deferred.key).collect();
            for key in keys.iter().filter(|key| !asked.contains(key)) {
                self.queue.finish(key, Next::Retry, None);
            }
        }
        for deferred in worked.deferred {
            match self.deferred.len() < DEFERRED_WAITING_MAX {
                true => self.deferred.push_back(deferred),
                false => self.queue.finish(&deferred.key, Next::After(NO_ROOM_PAUSE_MS), None),
            }
        }
        for (key, priority) in worked.found {
            self.queue.mark(key, priority);
        }
    }

    async fn apply(&mut self, given: FeedItem) {
        match given {
            FeedItem::Events(events, through) => {
                self.deliver(&events).await;
                self.queue.set_delivered(through);
                self.confirm_delivered(&events);
            }
            FeedItem::Missed => {
                let ended = std::mem::take(&mut self.doubtful).into_iter().map(|(_, key)| key);
                let working: Vec<Key> = self.queue.working_keys().cloned().collect();
                for key in ended.chain(working) {
                    self.work.invalidate(&key);
                    self.queue.mark_again(key);
                }
            }
            FeedItem::Changes(events) => self.deliver(&events).await,
            FeedItem::CaughtUp { revision, changed } => {
                self.queue.set_delivered(revision);
                let (worker, revision) = (self.work.name(), revision.0);
                tracing::info!(worker, changed, revision, "missed events, and looked at what has changed instead");
                metrics::caught_up(worker, changed);
            }
        }
    }

    async fn deliver(&mut self, events: &[Arc<Event>]) {
        for (turn, events) in events.chunks(EVENTS_PER_TURN).enumerate() {
            if turn > 0 {
                yield_now().await;
            }
            for event in events {
                let stays_large = is_large(&event.object);
                match stays_large || event.previous.as_deref().is_some_and(is_large) {
                    true => run_alone(|| self.work.on_event(event, &mut self.queue)),
                    false => self.work.on_event(event, &mut self.queue),
                }
                if stays_large && event.kind != EventKind::Deleted {
                    self.large.insert(event.object.key.clone());
                } else if !self.large.is_empty() {
                    self.large.remove(&event.object.key);
                }
            }
        }
    }

    /// Forgets finished work that has read only delivered states.
    fn confirm_delivered(&mut self, events: &[Arc<Event>]) {
        if self.feed.delivered(events) {
            self.doubtful.clear();
        }
        while self.doubtful.front().is_some_and(|(read, _)| self.feed.has_delivered(*read)) {
            self.doubtful.pop_front();
        }
    }
}

/// A loop that has not listed yet. It receives all events from now on.
pub struct UnlistedRunner {
    work: Box<dyn Work>,
    clock: Arc<dyn Clock>,
    view: Arc<View>,
    feed: Feed,
}

impl UnlistedRunner {
    pub fn new(work: Box<dyn Work>, cache: Cache, clock: Arc<dyn Clock>) -> UnlistedRunner {
        let (view, feed) = Feed::new(cache, work.interest());
        UnlistedRunner { work, clock, view, feed }
    }

    /// Lists the objects. Takes long if there are many.
    pub fn list(self) -> Runner {
        let UnlistedRunner { mut work, clock, view, feed } = self;
        let mut queue = if work.takes_turns() { Queue::taking_turns() } else { Queue::new() };
        queue.tick(clock.now_ms());
        queue.set_delivered(view.revision);
        work.list(&view, &mut queue);
        let (doubtful, large, batches, deferred, asked, asked_of, answered) = Default::default();
        Runner { work, queue, clock, feed, doubtful, large, batches, deferred, asked, asked_of, answered }
    }
}

#[cfg(test)]
mod tests;

fn is_large(object: &Object) -> bool {
    object.text.content_len() > INLINE_BYTES_MAX
}
