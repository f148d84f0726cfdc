//! A cursor into the windows that is woken by new events.
//!
//! It holds no events, so a slow reader costs no memory. Once its place in the window is forgotten,
//! it has to list again.

use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use crate::k8s::{GroupResource, Revision};

use super::Cache;
use super::cache::Past;
use super::window::{Event, Expired};

/// The kinds whose events a subscriber gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    All,
    Kinds(Vec<GroupResource>),
}

pub struct Subscriber {
    cache: Cache,
    interest: Interest,
    /// All events of interest up to this revision were given.
    cursor: Revision,
    /// Whether the windows had no further event at the last look. The feeds announce later ones.
    caught_up: bool,
    /// Every event of interest moves one of these.
    feeds: Vec<watch::Receiver<Revision>>,
}

impl Subscriber {
    pub(super) fn new(
        cache: Cache,
        interest: Interest,
        after: Revision,
        feeds: Vec<watch::Receiver<Revision>>,
    ) -> Subscriber {
        Subscriber { cache, interest, cursor: after, caught_up: false, feeds }
    }

    /// Waits for the next events, and returns at least one, oldest first. Many events come in
    /// parts. An error means that this subscriber was too slow and must list again. Dropping the
    /// future loses no event.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        loop {
            if self.caught_up {
                self.moved().await;
            }
            // Marked as seen before the look, so that an event in between wakes the next wait.
            self.feeds.iter_mut().for_each(|feed| drop(feed.borrow_and_update()));
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// All events of interest up to this revision were given, as of the last look.
    pub fn given(&self) -> Revision {
        self.cursor
    }

    /// As `given`, as of now: the revision for a bookmark.
    pub fn position(&self) -> Revision {
        let past = self.cache.read();
        let nothing_waits = past.windows(&self.interest).all(|window| window.after(self.cursor).next().is_none());
        if nothing_waits { self.cursor.max(past.revision()) } else { self.cursor }
    }

    pub(super) fn check(&self) -> Result<(), Expired> {
        self.check_in(&self.cache.read())
    }

    fn check_in(&self, past: &Past) -> Result<(), Expired> {
        let oldest = past.floor(&self.interest);
        if self.cursor < oldest {
            return Err(Expired { asked: self.cursor, oldest });
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        let limit = self.cache.limits().events_per_turn_max;
        let past = self.cache.read();
        self.check_in(&past)?;
        let mut events: Vec<Arc<Event>> = Vec::new();
        for window in past.windows(&self.interest) {
            events.extend(window.after(self.cursor).take(limit).cloned());
        }
        let revision = past.revision();
        drop(past);
        // The first `limit` events of all kinds are among the first `limit` of each kind.
        events.sort_unstable_by_key(|event| event.revision);
        events.truncate(limit);
        self.caught_up = events.len() < limit;
        self.cursor = match events.last() {
            Some(last) if !self.caught_up => last.revision,
            _ => self.cursor.max(revision),
        };
        Ok(events)
    }

    async fn moved(&mut self) {
        // It cannot fail: the senders live in the cache.
        match self.feeds.as_mut_slice() {
            [] => std::future::pending().await,
            [feed] => drop(feed.changed().await),
            feeds => drop(select_all(feeds.iter_mut().map(|feed| Box::pin(feed.changed()))).await),
        }
    }
}
