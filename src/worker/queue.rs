//! The keyed queue of a background loop. A key is ready, in work, waiting for a time, or parked.
//!
//! Invariants: A key has one entry however often it is marked. A key in work is never handed out a
//! second time; a mark that comes meanwhile makes it ready again when the work ends. Higher
//! priority goes first, then the key that became ready first.
//!
//! The queue is pure: `tick` tells it the time, so a manual clock can drive it. Its own time never
//! goes backwards. When the wall clock steps back, a timer is late by that step at most. When the
//! wall clock steps forward, timers fire early, and whoever waits for an instant looks at the clock
//! again.
//!
//! Deliberately absent: a bound. Keys name stored objects, so the store bounds the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::k8s::{Key, Revision};

/// The first backoff. Each further failure in a row doubles it.
pub const BACKOFF_FIRST_MS: i64 = 1_000;
pub const BACKOFF_MAX_MS: i64 = 10_000;
/// A parked key is tried again after this long, even if no change has woken it.
pub const PARKED_MAX_MS: i64 = 5 * 60 * 1_000;

/// What happens to a key after the work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until the key is marked.
    Done,
    /// It is ready again at once, behind the others that are ready.
    Again,
    /// It is ready again after this many milliseconds, or when it is marked.
    After(i64),
    /// The work failed and may succeed later without a change here: backoff.
    Retry,
    /// It waits for a change (`wake_parked`, or a mark), for `PARKED_MAX_MS` at most.
    Park,
}

#[derive(Debug)]
enum State {
    Ready {
        sequence: u64,
    },
    Working {
        marked: Marked,
        /// What the key may be parked for has happened since the work began.
        woken: bool,
    },
    Waiting {
        due: i64,
    },
    Parked {
        due: i64,
        since: i64,
    },
}

/// What was marked while the key was in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marked {
    No,
    /// The object changed, at the latest at this revision. The mark is void if the work has seen
    /// that revision.
    Changed(Revision),
    Yes,
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    /// The number of `Retry` and `Park` results in a row.
    failures: u32,
    state: State,
}

#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<Key, Entry>,
    /// By negated priority, so that the highest comes first, then in the order of becoming ready.
    ready: BTreeMap<(i64, u64), Key>,
    due: BTreeSet<(i64, Key)>,
    parked: BTreeSet<Key>,
    /// The revisions that finished work has seen and whose events may still come.
    seen: HashMap<Key, Revision>,
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

    /// Sets the time and makes ready what is due.
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

    /// Marks a key, whatever was seen of its object before.
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

    fn mark_as(&mut self, key: Key, priority: i32, mark: Marked) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return self.insert_ready(key, priority, 0);
        };
        match &mut entry.state {
            State::Working { marked, .. } => {
                entry.priority = priority;
                *marked = match (*marked, mark) {
                    (Marked::Yes, _) | (_, Marked::Yes) => Marked::Yes,
                    (Marked::Changed(old), Marked::Changed(new)) => Marked::Changed(old.max(new)),
                    (old, Marked::No) => old,
                    (Marked::No, new) => new,
                };
            }
            State::Ready { .. } if entry.priority == priority => {}
            State::Ready { sequence } => {
                let sequence = *sequence;
                self.ready.remove(&(-i64::from(entry.priority), sequence));
                entry.priority = priority;
                self.ready.insert((-i64::from(priority), sequence), key);
            }
            State::Waiting { .. } | State::Parked { .. } => {
                entry.priority = priority;
                self.make_ready(&key);
            }
        }
    }

    /// Wakes the parked keys for which `concerned` is true, each no sooner than its backoff allows.
    /// Otherwise clusters that report every second would turn parking into a busy loop.
    pub fn wake_parked(&mut self, concerned: impl Fn(&Key) -> bool) {
        let woken: Vec<Key> = self.parked.iter().filter(|key| concerned(key)).cloned().collect();
        for key in woken {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let State::Parked { due, since } = entry.state else { continue };
            self.parked.remove(&key);
            self.due.remove(&(due, key.clone()));
            let due = since + backoff_ms(entry.failures);
            entry.state = State::Waiting { due };
            self.due.insert((due, key));
        }
        // The change that a key will wait for may come while its work goes on with an older view.
        for key in self.working.iter().filter(|key| concerned(key)) {
            if let Some(Entry { state: State::Working { woken, .. }, .. }) = self.entries.get_mut(key) {
                *woken = true;
            }
        }
        self.tick_again();
    }

    /// Repeats the work in progress on these keys, because it is based on an outdated state.
    pub fn mark_working(&mut self, concerned: impl Fn(&Key) -> bool) {
        for key in self.working.iter().filter(|key| concerned(key)) {
            if let Some(Entry { state: State::Working { marked, .. }, .. }) = self.entries.get_mut(key) {
                *marked = Marked::Yes;
            }
        }
    }

    /// Hands out up to `limit` keys. Give each back with `finish`.
    pub fn take(&mut self, limit: usize) -> Vec<Key> {
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some((_, key)) = self.ready.pop_first()
        {
            let entry = self.entries.get_mut(&key).expect("a ready key has an entry");
            entry.state = State::Working { marked: Marked::No, woken: false };
            self.working.insert(key.clone());
            taken.push(key);
        }
        taken
    }

    /// Ends the work on a key. `seen` is the newest revision of its object that the work read or
    /// wrote.
    pub fn finish(&mut self, key: &Key, next: Next, seen: Option<Revision>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let State::Working { marked, woken } = entry.state else { return };
        self.working.remove(key);
        if let Some(revision) = seen {
            self.seen.insert(key.clone(), revision);
            self.seen_order.push_back((revision, key.clone()));
        }
        let dirty = match marked {
            Marked::No => false,
            Marked::Changed(revision) => seen.is_none_or(|seen| revision > seen),
            Marked::Yes => true,
        };
        entry.failures = match next {
            Next::Retry | Next::Park => entry.failures.saturating_add(1),
            Next::Done | Next::Again | Next::After(_) => 0,
        };
        let (priority, failures) = (entry.priority, entry.failures);
        if dirty || next == Next::Again {
            return self.insert_ready(key.clone(), priority, failures);
        }
        let state = match next {
            Next::Done | Next::Again => {
                self.entries.remove(key);
                return;
            }
            Next::After(wait_ms) => State::Waiting { due: self.now.saturating_add(wait_ms.max(0)) },
            Next::Park if !woken => State::Parked { due: self.now + PARKED_MAX_MS, since: self.now },
            Next::Retry | Next::Park => State::Waiting { due: self.now + backoff_ms(failures) },
        };
        match state {
            State::Waiting { due } => {
                self.due.insert((due, key.clone()));
            }
            State::Parked { due, .. } => {
                self.due.insert((due, key.clone()));
                self.parked.insert(key.clone());
            }
            State::Ready { .. } | State::Working { .. } => {}
        }
        entry.state = state;
        self.tick_again();
    }

    /// Forgets the revisions up to `position`: all their events have been noticed.
    pub fn noticed(&mut self, position: Revision) {
        while let Some((revision, key)) = self.seen_order.front() {
            if *revision > position {
                break;
            }
            if self.seen.get(key) == Some(revision) {
                self.seen.remove(key);
            }
            self.seen_order.pop_front();
        }
    }

    /// Milliseconds until the next timer. `None`: there is none.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| (due - self.now).max(0))
    }

    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn working(&self) -> usize {
        self.working.len()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The keys that are due: ready, or in work.
    pub fn depth(&self) -> usize {
        self.entries.len() - self.waiting()
    }

    /// The keys that wait for a time or for a change.
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
            State::Waiting { due } | State::Parked { due, .. } => {
                self.due.remove(&(due, key.clone()));
                self.parked.remove(key);
            }
            State::Ready { .. } | State::Working { .. } => return,
        }
        let (priority, failures) = (entry.priority, entry.failures);
        self.insert_ready(key.clone(), priority, failures);
    }

    fn insert_ready(&mut self, key: Key, priority: i32, failures: u32) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.ready.insert((-i64::from(priority), sequence), key.clone());
        self.entries.insert(key, Entry { priority, failures, state: State::Ready { sequence } });
    }
}

fn backoff_ms(failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    (BACKOFF_FIRST_MS << doublings).min(BACKOFF_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::GroupResource;

    fn key(name: &str) -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", name)
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().map(|key| &*key.name).collect()
    }

    fn queue() -> Queue {
        let mut queue = Queue::new();
        queue.tick(1_000_000);
        queue
    }

    #[test]
    fn a_key_marked_twice_is_handed_out_once() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.mark(key("a"), 0);
        assert_eq!(names(&queue.take(10)), ["a"]);
        queue.finish(&key("a"), Next::Done, None);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_waits_is_no_part_of_the_depth() {
        let mut queue = queue();
        for name in ["timer", "parked", "failed", "working", "ready"] {
            queue.mark(key(name), 0);
        }
        assert_eq!((queue.depth(), queue.waiting()), (5, 0));
        queue.take(4);
        queue.finish(&key("timer"), Next::After(3_600_000), None);
        queue.finish(&key("parked"), Next::Park, None);
        queue.finish(&key("failed"), Next::Retry, None);
        assert_eq!((queue.depth(), queue.waiting()), (2, 3));
        queue.tick(1_000_000 + 3_600_000);
        assert_eq!((queue.depth(), queue.waiting()), (5, 0));
    }

    #[test]
    fn priority_goes_first_then_whoever_came_first() {
        let mut queue = queue();
        queue.mark(key("early"), 0);
        queue.mark(key("late"), 0);
        queue.mark(key("urgent"), 5);
        queue.mark(key("late"), 0);
        assert_eq!(names(&queue.take(2)), ["urgent", "early"]);
        assert_eq!(names(&queue.take(2)), ["late"]);
    }

    #[test]
    fn a_key_marked_while_in_work_is_worked_on_again() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.mark(key("a"), 0);
        assert_eq!(queue.take(1), []);
        queue.finish(&key("a"), Next::Done, None);
        assert_eq!(names(&queue.take(1)), ["a"]);
    }

    #[test]
    fn the_echo_of_its_own_write_does_not_wake_a_key() {
        let mut queue = queue();
        queue.mark_changed(key("a"), 0, Revision(7));
        queue.take(1);
        queue.mark_changed(key("a"), 0, Revision(9));
        queue.finish(&key("a"), Next::Done, Some(Revision(9)));
        queue.mark_changed(key("a"), 0, Revision(9));
        assert!(!queue.is_ready());
        queue.mark_changed(key("a"), 0, Revision(10));
        assert!(queue.is_ready());
    }

    #[test]
    fn a_change_that_the_work_had_not_seen_wakes_the_key() {
        let mut queue = queue();
        queue.mark_changed(key("a"), 0, Revision(7));
        queue.take(1);
        queue.mark_changed(key("a"), 0, Revision(9));
        queue.finish(&key("a"), Next::Done, Some(Revision(8)));
        assert!(queue.is_ready());
    }

    #[test]
    fn a_mark_for_another_reason_is_not_an_echo() {
        let mut queue = queue();
        queue.mark_changed(key("a"), 0, Revision(7));
        queue.take(1);
        queue.mark(key("a"), 0);
        queue.finish(&key("a"), Next::Done, Some(Revision(9)));
        assert!(queue.is_ready());
    }

    #[test]
    fn what_was_seen_is_forgotten_once_its_events_were_noticed() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.finish(&key("a"), Next::Done, Some(Revision(9)));
        queue.noticed(Revision(8));
        assert_eq!(queue.seen.len(), 1);
        queue.noticed(Revision(9));
        assert!(queue.seen.is_empty() && queue.seen_order.is_empty());
    }

    #[test]
    fn failures_wait_one_second_doubling_to_ten() {
        let mut queue = queue();
        let mut wall = 1_000_000;
        queue.mark(key("a"), 0);
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(queue.take(1).len(), 1);
            queue.finish(&key("a"), Next::Retry, None);
            let wait = queue.next_due_ms().unwrap();
            waits.push(wait);
            wall += wait;
            queue.tick(wall);
        }
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }

    #[test]
    fn a_mark_ends_every_wait() {
        for next in [Next::After(60_000), Next::Retry, Next::Park] {
            let mut queue = queue();
            queue.mark(key("a"), 0);
            queue.take(1);
            queue.finish(&key("a"), next, None);
            assert!(!queue.is_ready(), "{next:?}");
            queue.mark(key("a"), 0);
            assert!(queue.is_ready(), "{next:?}");
            assert_eq!(queue.next_due_ms(), None, "{next:?}");
        }
    }

    #[test]
    fn what_is_parked_returns_when_woken_or_after_five_minutes() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.finish(&key("a"), Next::Park, None);
        queue.tick(1_000_000 + PARKED_MAX_MS - 1);
        assert!(!queue.is_ready());
        queue.wake_parked(|_| true);
        assert!(queue.is_ready());

        queue.take(1);
        queue.finish(&key("a"), Next::Park, None);
        queue.tick(1_000_000 + 2 * PARKED_MAX_MS - 1);
        assert!(queue.is_ready());
    }

    #[test]
    fn waking_respects_the_backoff() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.finish(&key("a"), Next::Park, None);
        queue.wake_parked(|_| true);
        assert!(!queue.is_ready());
        assert_eq!(queue.next_due_ms(), Some(BACKOFF_FIRST_MS));
    }

    #[test]
    fn a_wake_that_comes_while_the_key_is_in_work_is_not_lost() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.wake_parked(|_| true);
        queue.finish(&key("a"), Next::Park, None);
        assert_eq!(queue.next_due_ms(), Some(BACKOFF_FIRST_MS));
    }

    #[test]
    fn only_whom_it_concerns_is_woken() {
        let mut queue = queue();
        for name in ["a", "b", "c", "d"] {
            queue.mark(key(name), 0);
        }
        queue.take(4);
        for name in ["a", "b"] {
            queue.finish(&key(name), Next::Park, None);
        }
        let concerned = |key: &Key| ["a", "c"].contains(&&*key.name);
        queue.wake_parked(concerned);
        for name in ["c", "d"] {
            queue.finish(&key(name), Next::Park, None);
        }
        queue.tick(1_000_000 + BACKOFF_FIRST_MS);
        assert_eq!(names(&queue.take(4)), ["a", "c"]);
    }

    #[test]
    fn work_on_what_is_no_longer_so_is_repeated() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.mark(key("b"), 0);
        queue.take(2);
        queue.mark_working(|key| &*key.name == "a");
        queue.finish(&key("a"), Next::Done, Some(Revision(9)));
        queue.finish(&key("b"), Next::Done, Some(Revision(9)));
        assert_eq!(names(&queue.take(2)), ["a"]);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_lengthen_a_wait() {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.finish(&key("a"), Next::After(5_000), None);
        queue.tick(1_000_000 - 3_600_000);
        assert_eq!(queue.next_due_ms(), Some(5_000));
        queue.tick(1_000_000 - 3_600_000 + 5_000);
        assert!(queue.is_ready());
    }
}
