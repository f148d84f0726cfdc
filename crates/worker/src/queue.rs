//! The keyed queue of a background loop. A key is ready, in progress, waiting for a time, or in the
//! unschedulable queue.
//!
//! Invariants: A key has one entry however often it is marked. A key in progress is never handed
//! out a second time; a mark that arrives meanwhile makes it ready again when the work ends. Keys
//! are ordered by priority, then by when they became ready.
//!
//! With `taking_turns`, this order applies within a namespace, and the namespaces share the work
//! fairly: the next key belongs to the namespace that has consumed the least, in terms of the keys'
//! weights. A namespace that becomes ready starts with the consumption of the namespace served last
//! (start-time fair queueing), so it neither waits behind the keys of others nor makes up for idle
//! time.
//!
//! The queue is pure: `tick` sets the time, so a manual clock can drive it. Its internal time never
//! goes backwards. When the wall clock steps back, a timer is late by at most that step. When the
//! wall clock steps forward, timers fire early, and the work checks the clock again.
//!
//! Deliberately absent: a bound. Keys name stored objects, so the store bounds the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;

use ballast_k8s::{Key, Revision};

/// The first backoff. Each further consecutive failure doubles it.
pub const BACKOFF_FIRST_MS: i64 = 1_000;
pub const BACKOFF_MAX_MS: i64 = 10_000;
/// The maximum time that a key stays in the unschedulable queue without a change that wakes it.
pub const UNSCHEDULABLE_MAX_MS: i64 = 5 * 60 * 1_000;

/// Maps with a smaller capacity are not shrunk.
const SPARE_MIN: usize = 10_000;
/// A map is shrunk when less than this fraction of its capacity is in use.
const SPARE_SHARE: usize = 8;

/// The state of a key after the work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Idle, until the key is marked.
    Done,
    /// Ready again at once, behind the other ready keys.
    Again,
    /// Ready again after this many milliseconds, or when it is marked.
    After(i64),
    /// The work failed and may succeed later without a change here: backoff.
    Retry,
    /// Waits for a change (`wake_unschedulable`, or a mark), for `UNSCHEDULABLE_MAX_MS` at most.
    Unschedulable,
}

#[derive(Debug)]
enum State {
    Ready {
        sequence: u64,
    },
    Working {
        marked: Marked,
        /// Whether a change that the key may wait for has happened since the work started.
        woken: bool,
    },
    Waiting {
        due: i64,
    },
    Unschedulable {
        due: i64,
        since: i64,
    },
}

/// The marks of a key while it was in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marked {
    No,
    /// The object changed, at the latest at this revision. The mark is void if the work has seen
    /// that revision.
    Changed(Revision),
    Yes,
}

impl Marked {
    fn and(self, mark: Marked) -> Marked {
        match (self, mark) {
            (Marked::Yes, _) | (_, Marked::Yes) => Marked::Yes,
            (Marked::Changed(old), Marked::Changed(new)) => Marked::Changed(old.max(new)),
            (old, Marked::No) => old,
            (Marked::No, new) => new,
        }
    }
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    /// The number of consecutive `Retry` and `Unschedulable` results.
    failures: u32,
    state: State,
}

/// The ready keys of one namespace.
#[derive(Debug, Default)]
struct Share {
    /// The keys by negated priority, so that the highest comes first, then in the order of becoming
    /// ready.
    ready: BTreeMap<(i64, u64), Key>,
    /// The virtual time of the share: its consumed weight, starting from `Queue::served` when it
    /// becomes ready.
    had: u64,
    /// The sequence number of the key that made the share ready. It breaks ties between namespaces.
    since: u64,
}

#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<Key, Entry, RandomState>,
    takes_turns: bool,
    /// The ready keys by namespace; without fair sharing, all under the empty name. Cleared when no
    /// key is ready.
    shares: HashMap<Arc<str>, Share, RandomState>,
    /// The namespaces with ready keys, by their consumption.
    turns: BTreeSet<(u64, u64, Arc<str>)>,
    /// The consumption of the namespace that was served last.
    served: u64,
    /// The name of the only share without fair sharing.
    whole: Arc<str>,
    due: BTreeSet<(i64, Key)>,
    unschedulable: BTreeSet<Key>,
    /// The revision up to which all events have been delivered.
    delivered: Revision,
    /// The revisions that finished work has seen before their events arrived.
    seen: HashMap<Key, Revision, RandomState>,
    seen_order: VecDeque<(Revision, Key)>,
    sequence: u64,
    working: BTreeSet<Key>,
    now: i64,
    wall: Option<i64>,
}

impl Queue {
    pub fn new() -> Queue {
        Queue::default()
    }

    /// Creates a queue that the namespaces share fairly.
    pub fn taking_turns() -> Queue {
        Queue { takes_turns: true, ..Queue::default() }
    }

    /// Sets the time, and makes due keys ready.
    pub fn tick(&mut self, wall_ms: i64) {
        let elapsed = self.wall.map_or(0, |last| wall_ms.saturating_sub(last).max(0));
        self.wall = Some(wall_ms);
        self.now = self.now.saturating_add(elapsed);
        while let Some((due, key)) = self.due.first().cloned() {
            if due > self.now {
                break;
            }
            self.make_ready(&key);
        }
    }

    /// Marks a key, regardless of the revisions that were seen of its object.
    pub fn mark(&mut self, key: Key, priority: i32) {
        self.mark_as(key, priority, Marked::Yes);
    }

    /// Marks a key because its object changed at `revision`. Work that has seen that revision is
    /// not repeated.
    pub fn mark_changed(&mut self, key: Key, priority: i32, revision: Revision) {
        if self.seen.get(&key).is_some_and(|&seen| revision <= seen) {
            return;
        }
        self.mark_as(key, priority, Marked::Changed(revision));
    }

    /// Marks a key like [`Queue::mark_changed`], but only if it is in progress. Returns true if the
    /// key is in progress or finished work has seen the revision; otherwise no mark is set.
    pub fn mark_overtaken(&mut self, key: &Key, revision: Revision) -> bool {
        if self.seen.get(key).is_some_and(|&seen| revision <= seen) {
            return true;
        }
        let Some(Entry { state: State::Working { marked, .. }, .. }) = self.entries.get_mut(key) else { return false };
        *marked = marked.and(Marked::Changed(revision));
        true
    }

    fn mark_as(&mut self, key: Key, priority: i32, mark: Marked) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return self.insert_ready(key, priority, 0);
        };
        match &mut entry.state {
            State::Working { marked, .. } => {
                entry.priority = priority;
                *marked = marked.and(mark);
            }
            State::Ready { .. } if entry.priority == priority => {}
            State::Ready { sequence } => {
                let place = (-i64::from(entry.priority), *sequence);
                let moved = (-i64::from(priority), *sequence);
                entry.priority = priority;
                let share = self.share_of(&key);
                if let Some(share) = self.shares.get_mut(&share) {
                    share.ready.remove(&place);
                    share.ready.insert(moved, key);
                }
            }
            State::Waiting { .. } | State::Unschedulable { .. } => {
                entry.priority = priority;
                self.make_ready(&key);
            }
        }
    }

    /// Wakes the unschedulable keys for which `concerned` is true, each no sooner than its backoff
    /// allows. Otherwise clusters that report every second would cause a busy loop.
    pub fn wake_unschedulable(&mut self, concerned: impl Fn(&Key) -> bool) {
        let woken: Vec<Key> = self.unschedulable.iter().filter(|key| concerned(key)).cloned().collect();
        for key in woken {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let State::Unschedulable { due, since } = entry.state else { continue };
            self.unschedulable.remove(&key);
            self.due.remove(&(due, key.clone()));
            let due = since + backoff_ms(entry.failures);
            entry.state = State::Waiting { due };
            self.due.insert((due, key));
        }
        // The change that a key will wait for may arrive while its work still uses an older view.
        for key in self.working.iter().filter(|key| concerned(key)) {
            if let Some(Entry { state: State::Working { woken, .. }, .. }) = self.entries.get_mut(key) {
                *woken = true;
            }
        }
        self.tick_again();
    }

    /// Marks the keys in progress for which `concerned` is true, because their work is based on an
    /// outdated state.
    pub fn mark_working(&mut self, concerned: impl Fn(&Key) -> bool) {
        for key in self.working.iter().filter(|key| concerned(key)) {
            if let Some(Entry { state: State::Working { marked, .. }, .. }) = self.entries.get_mut(key) {
                *marked = Marked::Yes;
            }
        }
    }

    /// Marks a key with its current priority, or 0 if it is not in the queue.
    pub fn mark_again(&mut self, key: Key) {
        let priority = self.entries.get(&key).map_or(0, |entry| entry.priority);
        self.mark(key, priority);
    }

    /// Returns the keys in progress.
    pub fn working_keys(&self) -> impl Iterator<Item = &Key> {
        self.working.iter()
    }

    /// Returns whether a key in progress was marked since the work started.
    pub fn is_outdated(&self, key: &Key) -> bool {
        let state = self.entries.get(key).map(|entry| &entry.state);
        matches!(state, Some(State::Working { marked, .. }) if *marked != Marked::No)
    }

    /// Hands out up to `limit` keys. Each must be returned with `finish`.
    pub fn take(&mut self, limit: usize) -> Vec<Key> {
        self.take_weighed(limit, |_| 1)
    }

    /// Hands out keys until their weights reach `limit`.
    pub fn take_weighed(&mut self, limit: usize, weight: impl Fn(&Key) -> usize) -> Vec<Key> {
        let (mut taken, mut weights) = (Vec::new(), 0);
        while weights < limit
            && let Some((had, since, name)) = self.turns.pop_first()
        {
            self.served = had;
            let share = self.shares.get_mut(&name).expect("a namespace in turn has a share");
            let (_, key) = share.ready.pop_first().expect("a namespace in turn has a ready key");
            let weighs = weight(&key).max(1);
            weights += weighs;
            share.had = had.saturating_add(weighs as u64);
            if !share.ready.is_empty() {
                self.turns.insert((share.had, since, name));
            }
            let entry = self.entries.get_mut(&key).expect("a ready key has an entry");
            entry.state = State::Working { marked: Marked::No, woken: false };
            self.working.insert(key.clone());
            taken.push(key);
        }
        if self.turns.is_empty() {
            self.shares.clear();
        }
        taken
    }

    /// Ends the work on a key. `seen` is the newest revision of its object that the work read or
    /// wrote.
    pub fn finish(&mut self, key: &Key, next: Next, seen: Option<Revision>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let State::Working { marked, woken } = entry.state else { return };
        self.working.remove(key);
        if let Some(revision) = seen.filter(|revision| *revision > self.delivered) {
            self.seen.insert(key.clone(), revision);
            self.seen_order.push_back((revision, key.clone()));
        }
        let dirty = match marked {
            Marked::No => false,
            Marked::Changed(revision) => seen.is_none_or(|seen| revision > seen),
            Marked::Yes => true,
        };
        entry.failures = match next {
            Next::Retry | Next::Unschedulable => entry.failures.saturating_add(1),
            Next::Done | Next::Again | Next::After(_) => 0,
        };
        let (priority, failures) = (entry.priority, entry.failures);
        if dirty || next == Next::Again {
            return self.insert_ready(key.clone(), priority, failures);
        }
        let state = match next {
            Next::Done | Next::Again => {
                self.entries.remove(key);
                give_back(&mut self.entries);
                return;
            }
            Next::After(wait_ms) => State::Waiting { due: self.now.saturating_add(wait_ms.max(0)) },
            Next::Unschedulable if !woken => {
                State::Unschedulable { due: self.now + UNSCHEDULABLE_MAX_MS, since: self.now }
            }
            Next::Retry | Next::Unschedulable => State::Waiting { due: self.now + backoff_ms(failures) },
        };
        match state {
            State::Waiting { due } => {
                self.due.insert((due, key.clone()));
            }
            State::Unschedulable { due, .. } => {
                self.due.insert((due, key.clone()));
                self.unschedulable.insert(key.clone());
            }
            State::Ready { .. } | State::Working { .. } => {}
        }
        entry.state = state;
        self.tick_again();
    }

    /// Records that all events up to `position` have been delivered, and forgets the seen revisions
    /// up to it.
    pub fn set_delivered(&mut self, position: Revision) {
        self.delivered = position;
        while let Some((revision, key)) = self.seen_order.front() {
            if *revision > position {
                break;
            }
            if self.seen.get(key) == Some(revision) {
                self.seen.remove(key);
            }
            self.seen_order.pop_front();
        }
        give_back(&mut self.seen);
        if self.seen_order.capacity() > SPARE_MIN && self.seen_order.len() < self.seen_order.capacity() / SPARE_SHARE {
            self.seen_order.shrink_to(2 * self.seen_order.len());
        }
    }

    /// Returns the milliseconds until the next timer; `None` if there is none.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| (due - self.now).max(0))
    }

    pub fn is_ready(&self) -> bool {
        !self.turns.is_empty()
    }

    pub fn working(&self) -> usize {
        self.working.len()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of keys that are ready or in progress.
    pub fn depth(&self) -> usize {
        self.entries.len() - self.waiting()
    }

    /// Returns the number of keys that wait for a time or for a change.
    pub fn waiting(&self) -> usize {
        self.due.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn tick_again(&mut self) {
        if let Some(wall) = self.wall {
            self.tick(wall);
        }
    }

    fn make_ready(&mut self, key: &Key) {
        let Some(entry) = self.entries.get(key) else { return };
        match entry.state {
            State::Waiting { due } | State::Unschedulable { due, .. } => {
                self.due.remove(&(due, key.clone()));
                self.unschedulable.remove(key);
            }
            State::Ready { .. } | State::Working { .. } => return,
        }
        let (priority, failures) = (entry.priority, entry.failures);
        self.insert_ready(key.clone(), priority, failures);
    }

    fn share_of(&self, key: &Key) -> Arc<str> {
        Arc::clone(if self.takes_turns { &key.namespace } else { &self.whole })
    }

    fn insert_ready(&mut self, key: Key, priority: i32, failures: u32) {
        self.sequence += 1;
        let sequence = self.sequence;
        let name = self.share_of(&key);
        let share = self.shares.entry(Arc::clone(&name)).or_default();
        if share.ready.is_empty() {
            (share.had, share.since) = (share.had.max(self.served), sequence);
            self.turns.insert((share.had, share.since, name));
        }
        share.ready.insert((-i64::from(priority), sequence), key.clone());
        self.entries.insert(key, Entry { priority, failures, state: State::Ready { sequence } });
    }
}

/// Shrinks a map after a peak: the work on a million objects marks all of them, but hardly any
/// later.
fn give_back<K: Eq + Hash, V>(map: &mut HashMap<K, V, impl BuildHasher>) {
    if map.capacity() > SPARE_MIN && map.len() < map.capacity() / SPARE_SHARE {
        map.shrink_to(2 * map.len());
    }
}

fn backoff_ms(failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    (BACKOFF_FIRST_MS << doublings).min(BACKOFF_MAX_MS)
}

#[cfg(test)]
mod tests;
