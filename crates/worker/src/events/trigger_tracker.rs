//! Tracks which object wrote which trigger, and counts the results of the passes that serve them
//! (BD11).
//!
//! ```text
//!   writer of triggers ── record ──► TriggerTracker ◄── requester ────── scheduler
//!   (WorkloadRebalancer,              │         ▲ └──── record_result ────┘
//!    RescheduleTask)      ── close ───┼─────────┘
//!                                     └──► Summary: one event on the object that requested
//! ```
//!
//! A trigger contains the time of its cause but not its writer, so the writer records here which
//! triggers it is about to write. A trigger is identified by the binding's key and the revision
//! that its pending pass names (`work::v1alpha2::PENDING_PASS`), which no two triggers of a binding
//! share. For a Fleet placement, that revision is derived from the trigger timestamp
//! (`placement::v1beta1::trigger::pending_pass`). The scheduler looks the writer up here, and
//! records the result of its pass. When all triggers of one writer have results, one event on that
//! object summarizes them.
//!
//! The scheduler also publishes the number of due bindings here. A writer of very many triggers
//! waits for this number to fall (`until_due_below`), because bindings that are triggered and not
//! decided yet take memory, and are compressed and decompressed again.
//!
//! Differs from Karmada (D51), which reports no results to the writer of a trigger.
//!
//! The memory is bounded, and is lost with the process. But the binding of a pending trigger names
//! the trigger's writer (`api::requester`). So after a restart, or on another leader, a pass still
//! has its cause, and later results are summarized (`resume`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::watch;

use ballast_api::core::ObjectReference;
use ballast_k8s::{Key, Revision};

/// Maximum number of tracked triggers. Further triggers are served without tracking.
const TRIGGERS_MAX: usize = 200_000;
/// Maximum number of requesters that wait for results. The oldest is forgotten for a new one.
const REQUESTERS_MAX: usize = 1_000;
/// Maximum number of workloads that an event names for each kind of result.
const NAMES_TOLD_MAX: usize = 3;

/// The result of the pass that served a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerResult {
    /// The number of replicas that moved to other clusters.
    Moved(i64),
    /// The number of clusters that a Fleet placement was added to.
    Joined(i64),
    Stayed,
    /// No cluster fits. The trigger stays pending.
    NoFit,
    /// Another scheduler handles the binding, or the binding has been deleted.
    LeftAlone,
}

/// The results of all passes that one object requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub about: Arc<ObjectReference>,
    pub fits_everywhere: bool,
    pub message: String,
}

#[derive(Clone, Default)]
pub struct TriggerTracker {
    inner: Arc<Mutex<Inner>>,
    /// The number of due bindings that the scheduler last published.
    due: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    pending: HashMap<Key, PendingTrigger, RandomState>,
    /// The requesters by number, in the order of their first trigger.
    requesters: BTreeMap<u64, RequesterTotals>,
    last: u64,
}

struct PendingTrigger {
    pending_pass: Revision,
    requester: u64,
    about: Arc<ObjectReference>,
    /// Whether a result was counted already. A trigger that fits nowhere is retried.
    is_counted: bool,
}

#[derive(Default)]
struct RequesterTotals {
    about: Arc<ObjectReference>,
    asked: usize,
    /// Triggers beyond the tracking limit.
    untracked: usize,
    completed: usize,
    /// Whether the requester writes no more triggers.
    is_closed: bool,
    /// Whether results from before a restart are unknown.
    is_resumed: bool,
    moved: Names,
    replicas: i64,
    /// The number of clusters that Fleet placements moved to.
    clusters: i64,
    stayed: usize,
    no_fit: Names,
    left_alone: usize,
    /// Triggers that another requester replaced before a pass.
    superseded: usize,
}

#[derive(Default)]
struct Names {
    count: usize,
    first: Vec<String>,
}

impl Names {
    fn add(&mut self, key: &Key) {
        self.count += 1;
        if self.first.len() < NAMES_TOLD_MAX {
            self.first.push(match &*key.namespace {
                "" => key.name.to_string(),
                namespace => format!("{namespace}/{}", key.name),
            });
        }
    }

    /// Formats the names: ` (shop/web-deployment, shop/db-statefulset and 3 more)`.
    fn told(&self) -> String {
        match self.count - self.first.len() {
            0 if self.first.is_empty() => String::new(),
            0 => format!(" ({})", self.first.join(", ")),
            more => format!(" ({} and {more} more)", self.first.join(", ")),
        }
    }
}

impl RequesterTotals {
    fn count(&mut self, key: &Key, result: &TriggerResult) {
        self.completed += 1;
        match result {
            TriggerResult::Moved(replicas) => {
                self.moved.add(key);
                self.replicas += replicas;
            }
            TriggerResult::Joined(clusters) => {
                self.moved.add(key);
                self.clusters += clusters;
            }
            TriggerResult::Stayed => self.stayed += 1,
            TriggerResult::NoFit => self.no_fit.add(key),
            TriggerResult::LeftAlone => self.left_alone += 1,
        }
    }

    /// Formats the moved amounts: `4 replicas`, `4 replicas and 1 cluster`, `2 clusters`.
    fn arrived(&self) -> String {
        let (replicas, clusters) = (self.replicas, self.clusters);
        let joined = if clusters == 1 { "1 cluster".to_owned() } else { format!("{clusters} clusters") };
        match (replicas, clusters) {
            (_, 0) => format!("{replicas} replicas"),
            (0, _) => joined,
            _ => format!("{replicas} replicas and {joined}"),
        }
    }

    fn summary(&self) -> Summary {
        let RequesterTotals { asked, moved, stayed, no_fit, left_alone, superseded, untracked, .. } = self;
        let since = if self.is_resumed { " since a restart" } else { "" };
        let mut message = format!(
            "{asked} answered{since}: {} moved with {}{}, {stayed} stayed, {} fit nowhere{}",
            moved.count,
            self.arrived(),
            moved.told(),
            no_fit.count,
            no_fit.told(),
        );
        for (count, what) in
            [(left_alone, "left alone"), (superseded, "asked for again by others"), (untracked, "not followed")]
        {
            if *count > 0 {
                message.push_str(&format!(", {count} {what}"));
            }
        }
        message.push('.');
        Summary { about: self.about.clone(), fits_everywhere: no_fit.count == 0, message }
    }
}

impl TriggerTracker {
    /// Records triggers that this object is about to write. They replace earlier ones of the same
    /// bindings. Returns the summaries of requesters that are complete because of that.
    pub fn record<'k>(
        &self,
        about: &ObjectReference,
        triggers: impl IntoIterator<Item = (&'k Key, Revision)>,
    ) -> Vec<Summary> {
        let mut inner = self.lock();
        let (requester, about) = inner.requester(about);
        let mut summaries = Vec::new();
        for (key, pending_pass) in triggers {
            inner.withdraw(requester, key);
            summaries.extend(inner.supersede(key));
            let has_room = inner.pending.len() < TRIGGERS_MAX;
            if has_room {
                let trigger = PendingTrigger { pending_pass, requester, about: Arc::clone(&about), is_counted: false };
                inner.pending.insert(key.clone(), trigger);
            }
            let Some(totals) = inner.requesters.get_mut(&requester) else { continue };
            totals.is_closed = false;
            match has_room {
                true => totals.asked += 1,
                false => totals.untracked += 1,
            }
        }
        summaries
    }

    /// Records triggers that were found on bindings, each with its writer, because they were
    /// written before a restart. Already recorded triggers are not changed.
    pub fn resume(&self, found: Vec<(Key, Revision, ObjectReference)>) {
        let mut inner = self.lock();
        for (key, pending_pass, about) in found {
            if inner.pending.len() >= TRIGGERS_MAX {
                return;
            }
            if inner.pending.get(&key).is_some_and(|trigger| trigger.pending_pass >= pending_pass) {
                continue;
            }
            let (requester, about) = inner.requester(&about);
            let Some(totals) = inner.requesters.get_mut(&requester) else { continue };
            let is_new = totals.asked + totals.untracked == 0 && !totals.is_closed;
            if is_new || totals.is_resumed {
                totals.asked += 1;
                (totals.is_closed, totals.is_resumed) = (true, true);
                inner.pending.insert(key, PendingTrigger { pending_pass, requester, about, is_counted: false });
            }
        }
    }

    /// Forgets triggers that were recorded but not written.
    pub fn withdraw<'k>(&self, about: &ObjectReference, keys: impl IntoIterator<Item = &'k Key>) {
        let mut inner = self.lock();
        let (requester, _) = inner.requester(about);
        for key in keys {
            inner.withdraw(requester, key);
        }
    }

    /// Records that the object writes no more triggers. Returns its summary if all have results
    /// already.
    pub fn close(&self, about: &ObjectReference) -> Option<Summary> {
        let mut inner = self.lock();
        let (requester, _) = inner.requester(about);
        inner.requesters.get_mut(&requester)?.is_closed = true;
        inner.summary(requester)
    }

    /// Returns the object that wrote the binding's trigger with this pending pass.
    pub fn requester(&self, key: &Key, pending_pass: Option<Revision>) -> Option<Arc<ObjectReference>> {
        let inner = self.lock();
        inner
            .pending
            .get(key)
            .filter(|trigger| Some(trigger.pending_pass) == pending_pass)
            .map(|trigger| Arc::clone(&trigger.about))
    }

    /// Returns whether no requester waits for a result.
    pub fn is_empty(&self) -> bool {
        self.lock().pending.is_empty()
    }

    /// Records the result of a pass over the binding with this pending pass. Returns the
    /// requester's summary when it is complete.
    pub fn record_result(&self, key: &Key, pending_pass: Option<Revision>, result: &TriggerResult) -> Option<Summary> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let trigger = inner.pending.get_mut(key)?;
        // The pass may have started before the recorded trigger was written.
        if pending_pass.is_none_or(|pending_pass| pending_pass < trigger.pending_pass) {
            return None;
        }
        let (requester, was_counted) = (trigger.requester, std::mem::replace(&mut trigger.is_counted, true));
        let totals = inner.requesters.get_mut(&requester);
        if let Some(totals) = totals.filter(|_| !was_counted) {
            match pending_pass > Some(trigger.pending_pass) && *result != TriggerResult::LeftAlone {
                true => {
                    totals.completed += 1;
                    totals.superseded += 1;
                }
                false => totals.count(key, result),
            }
        }
        if *result != TriggerResult::NoFit {
            inner.pending.remove(key);
        }
        inner.summary(requester)
    }

    /// Publishes the number of due bindings.
    pub fn set_due(&self, bindings: usize) {
        self.due.send_replace(bindings);
    }

    /// Resolves once fewer than `bindings` are due, or after `patience`, because the scheduler may
    /// wait for other servers, or run in another process.
    pub async fn until_due_below(&self, bindings: usize, patience: Duration) {
        let mut due = self.due.subscribe();
        // In both cases the caller continues.
        let _ = tokio::time::timeout(patience, due.wait_for(|due| *due < bindings)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock can panic")
    }
}

impl Inner {
    /// Returns the number of the requester; assigns a new one if it is unknown.
    fn requester(&mut self, about: &ObjectReference) -> (u64, Arc<ObjectReference>) {
        if let Some((number, totals)) = self.requesters.iter().find(|(_, totals)| *totals.about == *about) {
            return (*number, Arc::clone(&totals.about));
        }
        if self.requesters.len() >= REQUESTERS_MAX {
            self.requesters.pop_first();
        }
        self.last += 1;
        let about = Arc::new(about.clone());
        self.requesters.insert(self.last, RequesterTotals { about: Arc::clone(&about), ..RequesterTotals::default() });
        (self.last, about)
    }

    fn withdraw(&mut self, requester: u64, key: &Key) {
        if self.pending.get(key).is_some_and(|trigger| trigger.requester == requester && !trigger.is_counted) {
            self.pending.remove(key);
            if let Some(totals) = self.requesters.get_mut(&requester) {
                totals.asked -= 1;
            }
        }
    }

    /// Removes the trigger because another requester triggers the binding before a pass. Returns
    /// the first requester's summary when it is complete.
    fn supersede(&mut self, key: &Key) -> Option<Summary> {
        let trigger = self.pending.remove(key).filter(|trigger| !trigger.is_counted)?;
        let totals = self.requesters.get_mut(&trigger.requester)?;
        totals.completed += 1;
        totals.superseded += 1;
        self.summary(trigger.requester)
    }

    /// Returns the summary and forgets the requester, if all triggers have results.
    fn summary(&mut self, requester: u64) -> Option<Summary> {
        let totals =
            self.requesters.get(&requester).filter(|totals| totals.is_closed && totals.completed >= totals.asked)?;
        let summary = totals.summary();
        let has_asked = totals.asked + totals.untracked > 0;
        self.requesters.remove(&requester);
        has_asked.then_some(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::GroupResource;

    fn key(name: &str) -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", name)
    }

    fn requester(name: &str) -> ObjectReference {
        ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() }
    }

    fn at(revision: i64) -> Revision {
        Revision(revision)
    }

    fn noted(tracker: &TriggerTracker, writer: &ObjectReference, names: &[&str], pending_pass: i64) -> Vec<Summary> {
        let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
        tracker.record(writer, keys.iter().map(|key| (key, at(pending_pass))))
    }

    fn answered(tracker: &TriggerTracker, name: &str, pending_pass: i64, result: TriggerResult) -> Option<String> {
        tracker.record_result(&key(name), Some(at(pending_pass)), &result).map(|summary| summary.message)
    }

    #[test]
    fn when_all_is_answered_one_sentence_says_what_came_of_it() {
        let tracker = TriggerTracker::default();
        noted(&tracker, &requester("r"), &["a", "b"], 5);
        assert_eq!(tracker.requester(&key("a"), Some(at(5))).as_deref(), Some(&requester("r")));
        assert_eq!(tracker.requester(&key("a"), Some(at(4))), None, "another trigger");
        assert_eq!(answered(&tracker, "a", 4, TriggerResult::Stayed), None, "a pass that began before");
        assert_eq!(answered(&tracker, "a", 5, TriggerResult::Moved(3)), None);
        noted(&tracker, &requester("r"), &["c", "d"], 5);
        assert_eq!(answered(&tracker, "b", 5, TriggerResult::Stayed), None);
        assert_eq!(answered(&tracker, "c", 5, TriggerResult::NoFit), None);
        assert_eq!(tracker.close(&requester("r")), None);
        let told = "4 answered: 1 moved with 3 replicas (shop/a), 1 stayed, 1 fit nowhere (shop/c), 1 left alone.";
        assert_eq!(answered(&tracker, "d", 5, TriggerResult::LeftAlone).as_deref(), Some(told));
        assert_eq!(
            tracker.requester(&key("c"), Some(at(5))).as_deref(),
            Some(&requester("r")),
            "what waits still has a cause"
        );
        assert_eq!(answered(&tracker, "c", 5, TriggerResult::Moved(1)), None, "told once");
        assert!(tracker.is_empty());
    }

    #[test]
    fn clusters_that_placements_joined_are_counted_apart_from_replicas() {
        let sum = |answers: &[TriggerResult]| {
            let (tracker, names) = (TriggerTracker::default(), ["a", "b"]);
            noted(&tracker, &requester("r"), &names[..answers.len()], 5);
            tracker.close(&requester("r"));
            let mut told = None;
            for (name, result) in names.iter().zip(answers) {
                told = answered(&tracker, name, 5, result.clone());
            }
            told.expect("the last answer tells the sum")
        };
        let told = sum(&[TriggerResult::Joined(1)]);
        assert_eq!(told, "1 answered: 1 moved with 1 cluster (shop/a), 0 stayed, 0 fit nowhere.");
        let told = sum(&[TriggerResult::Moved(3), TriggerResult::Joined(2)]);
        assert_eq!(
            told,
            "2 answered: 2 moved with 3 replicas and 2 clusters (shop/a, shop/b), 0 stayed, 0 fit nowhere."
        );
    }

    #[test]
    fn what_others_ask_for_again_or_was_not_written_is_not_awaited() {
        let tracker = TriggerTracker::default();
        noted(&tracker, &requester("r"), &["a", "b", "c"], 5);
        tracker.withdraw(&requester("r"), [&key("b")]);
        assert_eq!(tracker.close(&requester("r")), None);
        assert_eq!(noted(&tracker, &requester("s"), &["a"], 6), []);
        let told = "2 answered: 0 moved with 0 replicas, 0 stayed, 0 fit nowhere, 2 asked for again by others.";
        assert_eq!(
            answered(&tracker, "c", 7, TriggerResult::Stayed).as_deref(),
            Some(told),
            "a trigger that was not noted"
        );
        assert_eq!(tracker.requester(&key("a"), Some(at(6))).as_deref(), Some(&requester("s")));
    }

    #[test]
    fn what_was_asked_before_a_restart_is_taken_up_and_summed_up_from_then_on() {
        let tracker = TriggerTracker::default();
        noted(&tracker, &requester("s"), &["b"], 9);
        let found = |name: &str, pending_pass: i64| (key(name), at(pending_pass), requester("r"));
        tracker.resume(vec![found("a", 5), found("b", 6), found("c", 5)]);
        tracker.resume(vec![found("a", 5)]);
        assert_eq!(tracker.requester(&key("a"), Some(at(5))).as_deref(), Some(&requester("r")));
        assert_eq!(
            tracker.requester(&key("b"), Some(at(9))).as_deref(),
            Some(&requester("s")),
            "a later trigger stays"
        );
        assert_eq!(answered(&tracker, "c", 5, TriggerResult::Moved(2)), None);
        let told = "2 answered since a restart: 1 moved with 2 replicas (shop/c), 1 stayed, 0 fit nowhere.";
        assert_eq!(answered(&tracker, "a", 5, TriggerResult::Stayed).as_deref(), Some(told));
    }

    #[test]
    fn a_requester_that_goes_on_after_a_restart_is_answered_when_it_has_asked_for_all() {
        let tracker = TriggerTracker::default();
        tracker.resume(vec![(key("a"), at(5), requester("r"))]);
        noted(&tracker, &requester("r"), &["b"], 7);
        assert_eq!(answered(&tracker, "a", 5, TriggerResult::Stayed), None);
        assert_eq!(answered(&tracker, "b", 7, TriggerResult::Stayed), None);
        let told = "2 answered since a restart: 0 moved with 0 replicas, 2 stayed, 0 fit nowhere.";
        assert_eq!(tracker.close(&requester("r")).map(|summary| summary.message).as_deref(), Some(told));
    }

    #[test]
    fn the_oldest_requester_makes_room() {
        let tracker = TriggerTracker::default();
        for number in 0..=REQUESTERS_MAX {
            noted(&tracker, &requester(&number.to_string()), &[&number.to_string()], 5);
        }
        assert_eq!(tracker.lock().requesters.len(), REQUESTERS_MAX);
        assert_eq!(answered(&tracker, "0", 5, TriggerResult::Stayed), None);
        assert_eq!(tracker.close(&requester("1")), None);
        assert!(answered(&tracker, "1", 5, TriggerResult::Stayed).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_requester_waits_for_the_scheduler_and_not_for_ever() {
        let (tracker, patience) = (TriggerTracker::default(), Duration::from_secs(10));
        tracker.until_due_below(1, patience).await;
        tracker.set_due(5);
        let begun = tokio::time::Instant::now();
        tracker.until_due_below(5, patience).await;
        assert_eq!(begun.elapsed(), patience);
        let scheduler = tracker.clone();
        let (waited, ()) = tokio::join!(
            async {
                let begun = tokio::time::Instant::now();
                tracker.until_due_below(5, patience).await;
                begun.elapsed()
            },
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                scheduler.set_due(4);
            }
        );
        assert_eq!(waited, Duration::from_secs(1));
    }
}
