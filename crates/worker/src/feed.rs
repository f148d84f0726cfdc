//! The input of a loop: the events of its kinds, or the difference between two views if it missed
//! events.
//!
//! The feed keeps exactly the state that the loop has received: a base view, and the events since.
//! A loop that falls out of the watch window receives the difference between that state and the
//! newest view. So it never has to list again, and the previous state in each event is the last
//! state that the loop saw.
//!
//! *Memory.* A loop that has caught up shares its whole base with the newest view; the base
//! contains no other kinds. While a loop is behind, its base keeps objects that were replaced
//! since: at most one more version of each object of its kinds, however far it is behind. It
//! catches up with each difference, in which an object has one event, however often it changed.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::{spawn_blocking, yield_now};

use ballast_k8s::{GroupResource, Revision};
use ballast_watch::{Cache, Difference, Event, Expired, Interest, Subscriber, View};

pub struct Feed {
    cache: Cache,
    interest: Vec<GroupResource>,
    subscriber: Subscriber,
    /// The base view; during a difference, the view that it leads to.
    base: View,
    /// The events after the base that were delivered: at most as many as a window holds.
    since: VecDeque<Arc<Event>>,
    /// The next base, used once everything up to its revision is delivered.
    ahead: View,
    /// The difference that is delivered before the next event.
    missed: Option<Difference>,
}

/// An item that a feed returns.
pub enum FeedItem {
    /// Events, oldest first. With them, everything up to the revision was returned.
    Events(Vec<Arc<Event>>, Revision),
    /// The window has forgotten events that were not returned. The difference follows.
    Missed,
    /// Some of the changed objects.
    Changes(Vec<Arc<Event>>),
    /// The difference is complete: everything up to the revision was returned, `changed` objects in
    /// total.
    CaughtUp { revision: Revision, changed: usize },
}

impl Feed {
    /// Creates a feed of all events after the returned view.
    pub fn new(cache: Cache, interest: Vec<GroupResource>) -> (Arc<View>, Feed) {
        let (view, subscriber) = subscribe(&cache, &interest);
        let base = view.only(&interest);
        let (since, ahead) = (VecDeque::new(), base.clone());
        (view, Feed { cache, interest, subscriber, base, since, ahead, missed: None })
    }

    /// Returns whether the loop has missed events, and the difference is not complete.
    pub fn is_behind(&self) -> bool {
        self.missed.is_some()
    }

    /// Returns the revision of the newest view.
    pub fn newest(&self) -> Revision {
        self.cache.view().revision
    }

    /// Returns whether everything up to a revision was returned.
    pub fn has_delivered(&self, revision: Revision) -> bool {
        self.missed.is_none() && self.subscriber.given() >= revision
    }

    /// Waits for the next item. Dropping the future loses nothing.
    pub async fn next(&mut self) -> FeedItem {
        if self.missed.is_some() {
            // A difference never waits, so other tasks of this thread would be blocked.
            yield_now().await;
        }
        match self.next_change() {
            Some(given) => given,
            None => {
                let events = self.subscriber.next().await;
                self.give(events)
            }
        }
    }

    /// Returns the next item without waiting: `None` if there is none.
    pub fn next_ready(&mut self) -> Option<FeedItem> {
        self.next_change().or_else(|| {
            let events = self.subscriber.next_ready()?;
            Some(self.give(events))
        })
    }

    /// Records that all returned items were delivered to the work, these events last. Returns
    /// whether everything that the work can have read so far was delivered.
    pub fn delivered(&mut self, events: &[Arc<Event>]) -> bool {
        if self.missed.is_some() {
            return false;
        }
        // Read before the position: everything in the view must have been delivered.
        let view = self.cache.view();
        let is_all = self.subscriber.position() >= view.revision;
        if is_all {
            self.begin_from(view.only(&self.interest));
            return true;
        }
        // Applying each event to the base would cost more than delivering it.
        self.since.extend(events.iter().cloned());
        if self.subscriber.given() >= self.ahead.revision {
            self.base = std::mem::replace(&mut self.ahead, view.only(&self.interest));
            while self.since.front().is_some_and(|event| event.revision <= self.base.revision) {
                self.since.pop_front();
            }
        }
        false
    }

    fn begin_from(&mut self, base: View) {
        self.since.clear();
        (self.base, self.ahead) = (base.clone(), base);
    }

    /// Returns a view of exactly the delivered state.
    fn known(&self) -> View {
        let mut known = self.base.clone();
        self.since.iter().for_each(|event| known.apply(event));
        known
    }

    fn give(&mut self, events: Result<Vec<Arc<Event>>, Expired>) -> FeedItem {
        match events {
            Ok(events) => FeedItem::Events(events, self.subscriber.given()),
            Err(_) => {
                let (newest, subscriber) = subscribe(&self.cache, &self.interest);
                self.subscriber = subscriber;
                let newest = newest.only(&self.interest);
                self.missed = Some(Difference::new(self.known(), newest.clone()));
                self.begin_from(newest);
                FeedItem::Missed
            }
        }
    }

    fn next_change(&mut self) -> Option<FeedItem> {
        let mut missed = self.missed.take()?;
        if let Some(events) = missed.next(self.cache.limits().events_per_turn_max) {
            self.missed = Some(missed);
            return Some(FeedItem::Changes(events));
        }
        let (revision, changed) = (missed.newest().revision, missed.changed());
        // The difference may hold the last references to a million objects.
        drop(spawn_blocking(move || drop(missed)));
        Some(FeedItem::CaughtUp { revision, changed })
    }
}

/// Returns a view, and a subscriber to the events after it.
fn subscribe(cache: &Cache, interest: &[GroupResource]) -> (Arc<View>, Subscriber) {
    loop {
        let view = cache.view();
        if let Ok(subscriber) = cache.subscribe(Interest::Kinds(interest.to_vec()), view.revision) {
            return (view, subscriber);
        }
    }
}

#[cfg(test)]
mod tests;
