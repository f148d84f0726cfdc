//! A cursor into the windows that is woken by new events.
//!
//! It holds no events, so a slow reader costs no memory. Once the window has forgotten its
//! position, it has to list again, or to compare two views (`Difference`).

use std::sync::Arc;

use tokio::sync::watch;

use ballast_k8s::{GroupResource, Revision};

use super::Cache;
use super::notifier::Notifier;
use super::window::{Event, Expired};
use super::windows::{Interest, Windows};

pub struct Subscriber {
    cache: Cache,
    interest: Interest,
    /// The revision up to which all events of interest were returned.
    cursor: Revision,
    /// Whether the windows had no further event at the last read. `wakeup` announces later ones.
    caught_up: bool,
    wakeup: Wakeup,
}

/// The channel that announces further events.
enum Wakeup {
    /// For this subscriber only: notified by each commit with an event of interest.
    Notifier(Arc<Notifier>),
    /// Shared by many subscribers, which are woken together.
    Channel(watch::Receiver<Revision>),
}

impl Wakeup {
    async fn moved(&mut self) {
        match self {
            Wakeup::Notifier(notifier) => notifier.notified().await,
            // Cannot fail: the sender lives in the cache.
            Wakeup::Channel(moves) => drop(moves.changed().await),
        }
    }

    /// Returns without waiting whether an announcement has arrived, and clears it.
    fn has_moved(&mut self) -> bool {
        match self {
            Wakeup::Notifier(notifier) => notifier.take(),
            Wakeup::Channel(moves) => moves.borrow_and_update().has_changed(),
        }
    }
}

impl Cache {
    /// Creates a cursor over the events of `interest` after a revision, which may lie in the
    /// future. Only commits with such an event wake it.
    pub fn subscribe(&self, mut interest: Interest, after: Revision) -> Result<Subscriber, Expired> {
        let wakeup = match &mut interest {
            Interest::All => Wakeup::Channel(self.tip()),
            Interest::Kinds(kinds) => {
                kinds.sort_unstable();
                kinds.dedup();
                let notifier = Arc::new(Notifier::default());
                let mut past = self.write();
                kinds.iter().for_each(|&kind| past.kind(kind).attach(&notifier));
                Wakeup::Notifier(notifier)
            }
        };
        let subscriber = Subscriber::new(self.clone(), interest, after, wakeup);
        subscriber.check()?;
        Ok(subscriber)
    }

    /// Subscribes to a kind that may have thousands of watchers. They are woken together, and once
    /// for several commits in quick succession (`coalesce`).
    pub fn subscribe_coalesced(&self, resource: GroupResource, after: Revision) -> Result<Subscriber, Expired> {
        let wakeup = self.write().kind(resource).coalesced.subscribe();
        let interest = Interest::Kinds(vec![resource]);
        let subscriber = Subscriber::new(self.clone(), interest, after, Wakeup::Channel(wakeup));
        subscriber.check()?;
        Ok(subscriber)
    }
}

impl Subscriber {
    fn new(cache: Cache, interest: Interest, after: Revision, wakeup: Wakeup) -> Subscriber {
        Subscriber { cache, interest, cursor: after, caught_up: false, wakeup }
    }

    /// Waits for the next events, and returns at least one, oldest first. Many events are split
    /// over several calls. An error means that this subscriber was too slow and must list again.
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        loop {
            if self.caught_up {
                self.wakeup.moved().await;
            }
            // Cleared before the read, so that an event in between wakes the next wait, and one
            // that is returned now does not.
            self.wakeup.has_moved();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// Returns the next events without waiting: `None` if there is no event of interest. Reads the
    /// windows only after a notification.
    pub fn next_ready(&mut self) -> Option<Result<Vec<Arc<Event>>, Expired>> {
        if self.caught_up && !self.wakeup.has_moved() {
            return None;
        }
        self.take().map(|events| (!events.is_empty()).then_some(events)).transpose()
    }

    /// Returns the revision up to which all events of interest were returned, as of the last read.
    pub fn given(&self) -> Revision {
        self.cursor
    }

    /// Returns the revision for a bookmark: like `given`, but as of now.
    pub fn position(&self) -> Revision {
        let past = self.cache.read();
        // If the window has forgotten events that were not returned, some are missing although none
        // is waiting.
        let nothing_waits = self.check_in(&past).is_ok()
            && past.windows(&self.interest).all(|window| window.after(self.cursor).next().is_none());
        if nothing_waits { self.cursor.max(past.revision) } else { self.cursor }
    }

    fn check(&self) -> Result<(), Expired> {
        self.check_in(&self.cache.read())
    }

    fn check_in(&self, past: &Windows) -> Result<(), Expired> {
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
        let revision = past.revision;
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
}
