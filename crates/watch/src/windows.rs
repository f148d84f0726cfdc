//! The windows of all kinds, with the subscribers to notify, and recently requested past views.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::notifier::Notifier;
use super::window::{Event, Window};
use super::{Limits, View};
use ballast_k8s::{GroupResource, Revision};

/// The kinds of events that a subscriber gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    All,
    Kinds(Vec<GroupResource>),
}

/// The windows of all kinds. Their lock is held only for as long as it takes to copy pointers.
pub(super) struct Windows {
    /// The floor of windows that are created later.
    start: Revision,
    /// The revision up to which all events were put into the windows.
    pub revision: Revision,
    pub kinds: BTreeMap<GroupResource, Kind>,
    /// Recently requested past states. The next page of a list requests the same one.
    pub views: BTreeMap<Revision, Arc<View>>,
}

/// Events and views that the windows have forgotten. Must be dropped after the lock on the windows
/// is released, because that may free thousands of objects.
#[must_use = "it should be dropped outside the lock"]
#[derive(Default)]
pub(super) struct Forgotten {
    pub events: Vec<Arc<Event>>,
    views: Vec<Arc<View>>,
}

pub(super) struct Kind {
    window: Window,
    /// The revision of the newest event.
    pub newest: Revision,
    /// The notifiers of the subscribers that each commit notifies. Dropped ones are removed when
    /// the next one is added.
    pub notifiers: Vec<Weak<Notifier>>,
    /// The revision of the newest event at the last wake-up of the coalesced subscribers.
    pub coalesced: Arc<watch::Sender<Revision>>,
}

impl Windows {
    /// Creates windows without events, at the revision of the first view. No event up to `start` is
    /// known.
    pub fn new(start: Revision, revision: Revision) -> Windows {
        Windows { start, revision, kinds: BTreeMap::new(), views: BTreeMap::new() }
    }

    /// Returns the windows of the kinds of `interest`.
    pub fn windows<'a>(&'a self, interest: &'a Interest) -> impl Iterator<Item = &'a Window> {
        let (all, some) = match interest {
            Interest::All => (Some(self.kinds.values()), None),
            Interest::Kinds(kinds) => (None, Some(kinds.iter().filter_map(|kind| self.kinds.get(kind)))),
        };
        all.into_iter().flatten().chain(some.into_iter().flatten()).map(|kind| &kind.window)
    }

    /// Returns the revision up to which an event of `interest` may be forgotten.
    pub fn floor(&self, interest: &Interest) -> Revision {
        self.windows(interest).map(Window::floor).fold(self.start, Revision::max)
    }

    /// Returns the events of `interest` after one revision up to another, oldest first.
    pub fn between(&self, interest: &Interest, after: Revision, through: Revision) -> Vec<Arc<Event>> {
        let mut events: Vec<Arc<Event>> = self
            .windows(interest)
            .flat_map(|window| window.after(after).take_while(|event| event.revision <= through))
            .cloned()
            .collect();
        events.sort_unstable_by_key(|event| event.revision);
        events
    }

    pub fn kind(&mut self, resource: GroupResource) -> &mut Kind {
        let (start, revision) = (self.start, self.revision);
        self.kinds.entry(resource).or_insert_with(|| Kind {
            window: Window::new(start),
            newest: revision,
            notifiers: Vec::new(),
            coalesced: Arc::new(watch::Sender::new(revision)),
        })
    }

    pub fn remember(&mut self, events: &[Arc<Event>]) {
        for event in events {
            let kind = self.kind(event.object.key.resource);
            kind.newest = event.revision;
            kind.window.push(event.clone());
        }
    }

    pub fn trim(&mut self, now_ms: i64, limits: &Limits) -> Forgotten {
        let mut forgotten = Forgotten::default();
        for kind in self.kinds.values_mut() {
            kind.window.trim(now_ms, limits, &mut forgotten.events);
        }
        let oldest = self.floor(&Interest::All);
        while self.views.first_key_value().is_some_and(|(&revision, _)| revision < oldest) {
            forgotten.views.extend(self.views.pop_first().map(|(_, view)| view));
        }
        forgotten
    }

    /// Forgets all events up to a revision, because the events that lead to it are not known.
    pub fn forget_all(&mut self, revision: Revision) -> Forgotten {
        let mut forgotten = Forgotten::default();
        for kind in self.kinds.values_mut() {
            forgotten.events.extend(kind.window.restart(revision));
            kind.newest = revision;
        }
        forgotten.views.extend(std::mem::take(&mut self.views).into_values());
        (self.start, self.revision) = (revision, revision);
        forgotten
    }

    pub fn keep(&mut self, view: Arc<View>, views_max: usize) -> Forgotten {
        let mut forgotten = Forgotten::default();
        forgotten.views.extend(self.views.insert(view.revision, view));
        while self.views.len() > views_max {
            forgotten.views.extend(self.views.pop_first().map(|(_, view)| view));
        }
        forgotten
    }
}

impl Kind {
    pub fn attach(&mut self, notifier: &Arc<Notifier>) {
        self.notifiers.retain(|notifier| notifier.strong_count() > 0);
        self.notifiers.push(Arc::downgrade(notifier));
    }

    pub fn notify(&self) {
        self.notifiers.iter().filter_map(Weak::upgrade).for_each(|notifier| notifier.notify());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_past_views_are_kept_as_the_limit_says_and_the_newest_of_them() {
        let mut windows = Windows::new(Revision::ZERO, Revision(3));
        for revision in 1..=3 {
            drop(windows.keep(Arc::new(View::empty_at(Revision(revision))), 2));
        }
        assert!(windows.views.keys().eq(&[Revision(2), Revision(3)]));
    }
}
