//! The loop behind the recorder: it passes waiting notes to the sinks, and deletes expired events.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};

use super::{Recorder, Sink, plan};
use crate::{BatchOutcome, KeyOutcome, Next, Queue, Work, commit_each};
use ballast_api::core::EVENTS;
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Time};
use ballast_registry::{Change, Client};
use ballast_watch::{Event, EventKind, View};

/// The interval in which waiting notes are posted.
const POST_EVERY_MS: i64 = 1_000;
/// Maximum number of notes per post. Together with the recorder's queue this bounds the cost of
/// events for the store.
const POSTED_MAX: usize = 500;
/// Maximum number of expired events that one batch checks and deletes.
const BATCH_MAX: usize = 500;

/// Waiting notes take precedence over expired events.
const POST_PRIORITY: i32 = 1;

pub struct Events {
    recorder: Recorder,
    sinks: Vec<Arc<dyn Sink>>,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Events {
    /// Creates the loop. `client` deletes expired events.
    pub fn new(recorder: Recorder, sinks: Vec<Arc<dyn Sink>>, client: Client, clock: Arc<dyn Clock>) -> Events {
        Events { recorder, sinks, client, clock }
    }
}

/// Returns a key that names no event: its work posts the waiting notes.
fn post() -> Key {
    Key::cluster(EVENTS, "")
}

impl Work for Events {
    fn name(&self) -> &'static str {
        "events"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![EVENTS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        queue.mark(post(), POST_PRIORITY);
        for object in view.list(EVENTS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        // The event may have been counted again since. Its expiry then gives it more time.
        if event.kind == EventKind::Created {
            queue.mark(event.object.key.clone(), 0);
        }
    }

    fn begin(&mut self, mut keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (recorder, sinks) = (self.recorder.clone(), self.sinks.clone());
        let (client, now) = (self.client.clone(), self.clock.now());
        async move {
            let mut worked = BatchOutcome::default();
            let count = keys.len();
            keys.retain(|key| *key != post());
            if keys.len() < count {
                worked.outcomes.push(KeyOutcome::new(post(), hand_out(&recorder, &sinks).await));
            }
            expire(&client, keys, now, &mut worked).await;
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

async fn hand_out(recorder: &Recorder, sinks: &[Arc<dyn Sink>]) -> Next {
    let notes = recorder.take(POSTED_MAX);
    if notes.is_empty() && !sinks.iter().any(|sink| sink.has_more()) {
        return Next::After(POST_EVERY_MS);
    }
    let mut left = Vec::new();
    for (index, sink) in sinks.iter().enumerate() {
        let given_back = sink.post(notes.clone()).await;
        if !given_back.is_empty() {
            tracing::debug!(sink = sink.name(), notes = given_back.len(), "events given back");
        }
        // Only the first sink retries. The other sinks would get the note twice.
        if index == 0 {
            left = given_back;
        }
    }
    let next = if left.is_empty() { Next::After(POST_EVERY_MS) } else { Next::Retry };
    recorder.put_back(left);
    next
}

async fn expire(client: &Client, keys: Vec<Key>, now: Time, worked: &mut BatchOutcome) {
    let view = client.view();
    let mut deletes = Vec::new();
    for key in keys {
        let seconds_left = view.get(&key).map(|object| {
            let left = object.value().map_or(0, |event| plan::seconds_left(&event, now));
            (object.revision, left)
        });
        match seconds_left {
            None => worked.outcomes.push(KeyOutcome::new(key, Next::Done)),
            Some((revision, 0)) => {
                let delete = Change::Delete { key: key.clone(), revision: Some(revision) };
                deletes.push((key, (EVENTS, delete)));
            }
            Some((_, seconds)) => {
                worked.outcomes.push(KeyOutcome::new(key, Next::After(seconds.saturating_mul(1_000))));
            }
        }
    }
    for (key, outcome) in commit_each(client, deletes).await {
        worked.outcomes.push(KeyOutcome::of_write(key, Next::Done, outcome));
    }
}
