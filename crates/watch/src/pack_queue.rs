//! Recently published states, until they are idle and can be packed (`packing`). Most states of a
//! busy object are replaced before that, and cost nothing more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use ballast_k8s::Object;

use super::window::Event;

/// Maximum number of waiting states. Beyond it, the oldest are dropped; the next pass over all
/// objects finds them.
const STATES_MAX: usize = 256 * 1024;

#[derive(Default)]
pub(super) struct PackQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// The states of each commit, oldest first.
    commits: VecDeque<(Instant, Vec<Weak<Object>>)>,
    states: usize,
}

impl PackQueue {
    /// Adds the states of a commit. Keeps only weak references.
    pub fn add(&self, events: &[Arc<Event>]) {
        let states: Vec<Weak<Object>> = events.iter().map(|event| Arc::downgrade(&event.object)).collect();
        let mut let_go = Vec::new();
        let mut queue = self.held();
        queue.states += states.len();
        queue.commits.push_back((Instant::now(), states));
        while queue.states > STATES_MAX {
            let oldest = queue.take();
            let_go.extend(oldest);
        }
        drop(queue);
        // Freed outside the lock, which the writer needs.
        drop(let_go);
    }

    /// Takes commits that were published at least `after` ago, oldest first, with about `about`
    /// states together. Returns the states that still exist. `None` if there is no such commit.
    pub fn take_idle(&self, after: Duration, about: usize) -> Option<Vec<Arc<Object>>> {
        let (now, mut commits, mut states) = (Instant::now(), Vec::new(), 0);
        let mut queue = self.held();
        while states < about && queue.commits.front().is_some_and(|(at, _)| now.duration_since(*at) >= after) {
            let oldest = queue.take().unwrap_or_default();
            states += oldest.len();
            commits.push(oldest);
        }
        drop(queue);
        let still_there = || commits.iter().flatten().filter_map(Weak::upgrade).collect();
        (!commits.is_empty()).then(still_there)
    }

    fn held(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn take(&mut self) -> Option<Vec<Weak<Object>>> {
        let (_, states) = self.commits.pop_front()?;
        self.states -= states.len();
        Some(states)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::window::EventKind;
    use super::*;
    use ballast_k8s::{GroupResource, Key, Revision};

    const AFTER: Duration = Duration::from_secs(4);

    fn event(number: i64) -> Arc<Event> {
        let kind = GroupResource::new("resourcebindings.work.karmada.io");
        let key = Key::namespaced(kind, "default", format!("web-{number}"));
        let text = json!({"metadata": {"name": format!("web-{number}"), "namespace": "default"}}).to_string();
        let object = Arc::new(Object::decode(key, Revision(number), text.into()).unwrap());
        Arc::new(Event::new(Revision(number), EventKind::Created, object, None, 0))
    }

    fn revisions(idle: Option<Vec<Arc<Object>>>) -> Option<Vec<i64>> {
        Some(idle?.iter().map(|object| object.revision.0).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_has_rested_that_is_still_there_after_a_while() {
        let queue = PackQueue::default();
        let events: Vec<_> = (1..=5).map(event).collect();
        queue.add(&events[..2]);
        queue.add(&events[2..4]);
        tokio::time::advance(AFTER / 2).await;
        queue.add(&events[4..]);
        assert_eq!(revisions(queue.take_idle(AFTER, 100)), None);
        let left: Vec<_> = events.into_iter().skip(1).filter(|event| event.revision.0 != 3).collect();
        tokio::time::advance(AFTER / 2).await;
        assert_eq!(revisions(queue.take_idle(AFTER, 1)), Some(vec![2]), "the other one was replaced");
        assert_eq!(revisions(queue.take_idle(AFTER, 100)), Some(vec![4]));
        assert_eq!(revisions(queue.take_idle(AFTER, 100)), None);
        drop(left);
        tokio::time::advance(AFTER / 2).await;
        assert_eq!(
            revisions(queue.take_idle(AFTER, 100)),
            Some(vec![]),
            "there was a commit, and nothing is left of it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_fit_are_let_go_and_the_oldest_first() {
        let queue = PackQueue::default();
        let events: Vec<_> = (1..=16).map(event).collect();
        for _ in 0..STATES_MAX / events.len() {
            queue.add(&events);
        }
        let last = [event(17)];
        queue.add(&last);
        tokio::time::advance(AFTER).await;
        let idle = revisions(queue.take_idle(AFTER, usize::MAX)).unwrap();
        assert_eq!((idle.len(), idle.last()), (STATES_MAX - events.len() + 1, Some(&17)));
    }
}
