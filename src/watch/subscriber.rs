//! A cursor into the windows, and a way to be woken. It holds no events: who reads slowly costs
//! nothing, until its place is forgotten and it has to list again.

use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use crate::k8s::{GroupResource, Revision};

use super::Cache;
use super::cache::Past;
use super::window::{Event, Expired};

/// What a subscriber is told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    All,
    Kinds(Vec<GroupResource>),
}

pub struct Subscriber {
    cache: Cache,
    interest: Interest,
    /// Everything of interest up to here was given.
    cursor: Revision,
    /// Nothing waited when it last looked. What has come since, it is told.
    caught_up: bool,
    /// One of these moves with every event of interest.
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

    /// All events after the last one given, oldest first and never none; a long backlog comes in
    /// parts. An error means that this subscriber was too slow and must list again. Losing the
    /// future loses no event.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        loop {
            if self.caught_up {
                self.moved().await;
            }
            // Marked as seen before looking, so that what comes in between wakes at once.
            self.feeds.iter_mut().for_each(|feed| drop(feed.borrow_and_update()));
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// Everything of interest up to here was given: the revision of a bookmark.
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
        // The first `limit` of all kinds are among the first `limit` of each.
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
        // The senders live in the cache that this holds, so a feed never ends.
        match self.feeds.as_mut_slice() {
            [] => std::future::pending().await,
            [feed] => drop(feed.changed().await),
            feeds => drop(select_all(feeds.iter_mut().map(|feed| Box::pin(feed.changed()))).await),
        }
    }
}
