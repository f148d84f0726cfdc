//! What a loop notices: the events of its kinds, or what changed in sum where it missed events.
//!
//! The feed keeps a base: a view of what the loop has noticed, and what it has noticed since, no
//! more and no less. A loop that falls out of the watch window is given the difference between that
//! and the newest view. So it never has to list again, and each event still says what the loop knew
//! before.
//!
//! *Memory.* A loop that has caught up shares all of its base with the newest view, as other kinds
//! are not in it. While it is late, its base keeps what was replaced since. That is at most one
//! more version of each object of its kinds, however late it is. And it is less late after each
//! difference, in which an object is one event, however often it changed.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::{spawn_blocking, yield_now};

use ballast_k8s::{GroupResource, Revision};
use ballast_watch::{Cache, Difference, Event, Expired, Interest, Subscriber, View};

pub struct Feed {
    cache: Cache,
    interest: Vec<GroupResource>,
    subscriber: Subscriber,
    /// Where there is a difference, the view that it leads to.
    base: View,
    /// What was noticed after the base: no more than a window holds.
    since: VecDeque<Arc<Event>>,
    /// The base once everything up to its revision is noticed.
    ahead: View,
    /// What is still to be noticed before the next event.
    missed: Option<Difference>,
}

/// What a feed gives at once.
pub enum FeedItem {
    /// Events, oldest first. With them, everything up to the revision was given.
    Events(Vec<Arc<Event>>, Revision),
    /// Events are gone that were not given. What has changed comes next.
    Missed,
    /// Some of the objects that have changed.
    Changes(Vec<Arc<Event>>),
    /// All objects that have changed by this revision were given. There were so many.
    CaughtUp { revision: Revision, changed: usize },
}

impl Feed {
    /// A feed of everything that happens after the view.
    pub fn new(cache: Cache, interest: Vec<GroupResource>) -> (Arc<View>, Feed) {
        let (view, subscriber) = subscribe(&cache, &interest);
        let base = view.only(&interest);
        let (since, ahead) = (VecDeque::new(), base.clone());
        (view, Feed { cache, interest, subscriber, base, since, ahead, missed: None })
    }

    /// Whether the loop has missed events, and not yet been given all that has changed.
    pub fn is_behind(&self) -> bool {
        self.missed.is_some()
    }

    /// The revision of the newest view.
    pub fn newest(&self) -> Revision {
        self.cache.view().revision
    }

    /// Whether everything up to a revision was given.
    pub fn has_delivered(&self, revision: Revision) -> bool {
        self.missed.is_none() && self.subscriber.given() >= revision
    }

    /// Waits for what comes next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> FeedItem {
        if self.missed.is_some() {
            // It never waits, so others would not get their turn on this thread.
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

    /// As `next`, without waiting: `None` if nothing has come.
    pub fn next_ready(&mut self) -> Option<FeedItem> {
        self.next_change().or_else(|| {
            let events = self.subscriber.next_ready()?;
            Some(self.give(events))
        })
    }

    /// Takes note that everything was noticed that was given, these events last. Returns whether
    /// that is all there is: then whatever was read before is known, too.
    pub fn delivered(&mut self, events: &[Arc<Event>]) -> bool {
        if self.missed.is_some() {
            return false;
        }
        // The view comes first: nothing that is in it may wait.
        let view = self.cache.view();
        let is_all = self.subscriber.position() >= view.revision;
        if is_all {
            self.begin_from(view.only(&self.interest));
            return true;
        }
        // To bring the base forward event by event would cost more than to notice them.
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

    /// Exactly what was noticed.
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
        // It may be the last one who holds a million objects.
        drop(spawn_blocking(move || drop(missed)));
        Some(FeedItem::CaughtUp { revision, changed })
    }
}

/// A view, and what happens after it.
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
