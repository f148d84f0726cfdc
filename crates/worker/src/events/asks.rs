//! Who asked for which fresh placement, and what came of it: the memory between those who write
//! triggers and the scheduler that answers them (BD11).
//!
//! A trigger names the time of its cause and not its writer. So the writer notes here what it is
//! about to write, by the debt (`work::v1alpha2::OWED`), which no two triggers of a binding share.
//! The debt of a Fleet placement is the time of its trigger (`placement::v1beta1::trigger::debt`).
//! The scheduler finds the writer of a trigger here, and says what its pass came to. When all
//! triggers of one writer have been answered, one event says so on the object that asked.
//!
//! Who writes very many triggers also hears here how many bindings the scheduler has still to look
//! at, and waits before it runs far ahead: what is marked and not decided takes memory, and is
//! packed and unpacked again.
//!
//! Differs from Karmada (D51), where nobody hears.
//!
//! The memory is bounded, and is lost with the process. But a trigger that was not answered yet
//! says on its binding who wrote it (`api::asker`). So after a restart, or at another leader, a
//! pass still has its cause, and what is answered from then on is summed up (`resume`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::watch;

use ballast_api::core::ObjectReference;
use ballast_k8s::{Key, Revision};

/// Triggers that are remembered at once. Those beyond are answered all the same.
const ASKS_MAX: usize = 200_000;
/// Objects that asked and whose answers are awaited. The oldest is given up for one more.
const ASKERS_MAX: usize = 1_000;
/// The workloads that an event names of each kind.
const NAMES_TOLD_MAX: usize = 3;

/// What a pass that answers a trigger came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// So many replicas arrived somewhere else.
    Moved(i64),
    /// A Fleet placement is on so many other clusters.
    Joined(i64),
    Stayed,
    /// No place was found. The trigger waits for one.
    Nowhere,
    /// It is not for this scheduler to place, or is gone.
    LeftAlone,
}

/// What all the passes that one object asked for came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub about: Arc<ObjectReference>,
    pub fits_everywhere: bool,
    pub message: String,
}

#[derive(Clone, Default)]
pub struct Asks {
    inner: Arc<Mutex<Inner>>,
    /// The bindings that are due at the scheduler, as it said last.
    due: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    asks: HashMap<Key, Ask, RandomState>,
    /// By number, in the order in which they first asked.
    askers: BTreeMap<u64, Tally>,
    last: u64,
}

struct Ask {
    owed: Revision,
    asker: u64,
    about: Arc<ObjectReference>,
    /// Whether it was answered once. What fits nowhere is tried again.
    is_counted: bool,
}

#[derive(Default)]
struct Tally {
    about: Arc<ObjectReference>,
    asked: usize,
    /// Asked for beyond what can be remembered.
    unfollowed: usize,
    answered: usize,
    /// Nothing more is asked.
    is_closed: bool,
    /// What was answered before the restart is not known.
    is_resumed: bool,
    moved: Names,
    replicas: i64,
    /// The clusters that Fleet placements moved to.
    clusters: i64,
    stayed: usize,
    nowhere: Names,
    left_alone: usize,
    /// Asked again by somebody else before a pass.
    overtaken: usize,
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

    /// ` (shop/web-deployment, shop/db-statefulset and 3 more)`
    fn told(&self) -> String {
        match self.count - self.first.len() {
            0 if self.first.is_empty() => String::new(),
            0 => format!(" ({})", self.first.join(", ")),
            more => format!(" ({} and {more} more)", self.first.join(", ")),
        }
    }
}

impl Tally {
    fn count(&mut self, key: &Key, answer: &Answer) {
        self.answered += 1;
        match answer {
            Answer::Moved(replicas) => {
                self.moved.add(key);
                self.replicas += replicas;
            }
            Answer::Joined(clusters) => {
                self.moved.add(key);
                self.clusters += clusters;
            }
            Answer::Stayed => self.stayed += 1,
            Answer::Nowhere => self.nowhere.add(key),
            Answer::LeftAlone => self.left_alone += 1,
        }
    }

    /// `4 replicas`, `4 replicas and 1 cluster`, `2 clusters`.
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
        let Tally { asked, moved, stayed, nowhere, left_alone, overtaken, unfollowed, .. } = self;
        let since = if self.is_resumed { " since a restart" } else { "" };
        let mut message = format!(
            "{asked} answered{since}: {} moved with {}{}, {stayed} stayed, {} fit nowhere{}",
            moved.count,
            self.arrived(),
            moved.told(),
            nowhere.count,
            nowhere.told(),
        );
        for (count, what) in
            [(left_alone, "left alone"), (overtaken, "asked for again by others"), (unfollowed, "not followed")]
        {
            if *count > 0 {
                message.push_str(&format!(", {count} {what}"));
            }
        }
        message.push('.');
        Summary { about: self.about.clone(), fits_everywhere: nowhere.count == 0, message }
    }
}

impl Asks {
    /// Notes triggers that this object is about to write, in place of those that are noted for the
    /// same bindings. The sums of those to whom no answer is owed any more.
    pub fn note<'k>(
        &self,
        about: &ObjectReference,
        triggers: impl IntoIterator<Item = (&'k Key, Revision)>,
    ) -> Vec<Summary> {
        let mut inner = self.lock();
        let (asker, about) = inner.asker(about);
        let mut summaries = Vec::new();
        for (key, owed) in triggers {
            inner.withdraw(asker, key);
            summaries.extend(inner.overtake(key));
            let has_room = inner.asks.len() < ASKS_MAX;
            if has_room {
                let ask = Ask { owed, asker, about: Arc::clone(&about), is_counted: false };
                inner.asks.insert(key.clone(), ask);
            }
            let Some(tally) = inner.askers.get_mut(&asker) else { continue };
            tally.is_closed = false;
            match has_room {
                true => tally.asked += 1,
                false => tally.unfollowed += 1,
            }
        }
        summaries
    }

    /// Takes up triggers that were found on their bindings, each with its writer: those that were
    /// written before a restart. What is remembered already stays as it is.
    pub fn resume(&self, found: Vec<(Key, Revision, ObjectReference)>) {
        let mut inner = self.lock();
        for (key, owed, about) in found {
            if inner.asks.len() >= ASKS_MAX {
                return;
            }
            if inner.asks.get(&key).is_some_and(|ask| ask.owed >= owed) {
                continue;
            }
            let (asker, about) = inner.asker(&about);
            let Some(tally) = inner.askers.get_mut(&asker) else { continue };
            let is_new = tally.asked + tally.unfollowed == 0 && !tally.is_closed;
            if is_new || tally.is_resumed {
                tally.asked += 1;
                (tally.is_closed, tally.is_resumed) = (true, true);
                inner.asks.insert(key, Ask { owed, asker, about, is_counted: false });
            }
        }
    }

    /// Forgets triggers that were noted and not written after all.
    pub fn withdraw<'k>(&self, about: &ObjectReference, keys: impl IntoIterator<Item = &'k Key>) {
        let mut inner = self.lock();
        let (asker, _) = inner.asker(about);
        for key in keys {
            inner.withdraw(asker, key);
        }
    }

    /// The object will not ask for more. The sum, if all is answered already.
    pub fn close(&self, about: &ObjectReference) -> Option<Summary> {
        let mut inner = self.lock();
        let (asker, _) = inner.asker(about);
        inner.askers.get_mut(&asker)?.is_closed = true;
        inner.summary(asker)
    }

    /// Who wrote the binding's trigger with this debt.
    pub fn asker(&self, key: &Key, owed: Option<Revision>) -> Option<Arc<ObjectReference>> {
        let inner = self.lock();
        inner.asks.get(key).filter(|ask| Some(ask.owed) == owed).map(|ask| Arc::clone(&ask.about))
    }

    /// Whether no answer is awaited, so that none need be made.
    pub fn is_empty(&self) -> bool {
        self.lock().asks.is_empty()
    }

    /// Says what a pass over the binding with this debt came to. The sum of whoever asked, if this
    /// was its last answer.
    pub fn answered(&self, key: &Key, owed: Option<Revision>, answer: &Answer) -> Option<Summary> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let ask = inner.asks.get_mut(key)?;
        // The pass may have begun before the trigger that is noted here was written.
        if owed.is_none_or(|owed| owed < ask.owed) {
            return None;
        }
        let (asker, was_counted) = (ask.asker, std::mem::replace(&mut ask.is_counted, true));
        let tally = inner.askers.get_mut(&asker);
        if let Some(tally) = tally.filter(|_| !was_counted) {
            match owed > Some(ask.owed) && *answer != Answer::LeftAlone {
                true => {
                    tally.answered += 1;
                    tally.overtaken += 1;
                }
                false => tally.count(key, answer),
            }
        }
        if *answer != Answer::Nowhere {
            inner.asks.remove(key);
        }
        inner.summary(asker)
    }

    /// The scheduler has so many bindings to look at.
    pub fn told_due(&self, bindings: usize) {
        self.due.send_replace(bindings);
    }

    /// Resolves once the scheduler has fewer bindings to look at, or after `patience`: it may wait
    /// for others, or be somewhere else.
    pub async fn until_due_below(&self, bindings: usize, patience: Duration) {
        let mut due = self.due.subscribe();
        // In both cases the caller goes on.
        let _ = tokio::time::timeout(patience, due.wait_for(|due| *due < bindings)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock can panic")
    }
}

impl Inner {
    /// Whoever asks, with a number.
    fn asker(&mut self, about: &ObjectReference) -> (u64, Arc<ObjectReference>) {
        if let Some((number, tally)) = self.askers.iter().find(|(_, tally)| *tally.about == *about) {
            return (*number, Arc::clone(&tally.about));
        }
        if self.askers.len() >= ASKERS_MAX {
            self.askers.pop_first();
        }
        self.last += 1;
        let about = Arc::new(about.clone());
        self.askers.insert(self.last, Tally { about: Arc::clone(&about), ..Tally::default() });
        (self.last, about)
    }

    fn withdraw(&mut self, asker: u64, key: &Key) {
        if self.asks.get(key).is_some_and(|ask| ask.asker == asker && !ask.is_counted) {
            self.asks.remove(key);
            if let Some(tally) = self.askers.get_mut(&asker) {
                tally.asked -= 1;
            }
        }
    }

    /// Somebody else asks for the same, before there was a pass.
    fn overtake(&mut self, key: &Key) -> Option<Summary> {
        let ask = self.asks.remove(key).filter(|ask| !ask.is_counted)?;
        let tally = self.askers.get_mut(&ask.asker)?;
        tally.answered += 1;
        tally.overtaken += 1;
        self.summary(ask.asker)
    }

    /// The sum, once: the asker is forgotten then.
    fn summary(&mut self, asker: u64) -> Option<Summary> {
        let tally = self.askers.get(&asker).filter(|tally| tally.is_closed && tally.answered >= tally.asked)?;
        let summary = tally.summary();
        let has_asked = tally.asked + tally.unfollowed > 0;
        self.askers.remove(&asker);
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

    fn who(name: &str) -> ObjectReference {
        ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() }
    }

    fn at(revision: i64) -> Revision {
        Revision(revision)
    }

    fn noted(asks: &Asks, who: &ObjectReference, names: &[&str], owed: i64) -> Vec<Summary> {
        let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
        asks.note(who, keys.iter().map(|key| (key, at(owed))))
    }

    fn answered(asks: &Asks, name: &str, owed: i64, answer: Answer) -> Option<String> {
        asks.answered(&key(name), Some(at(owed)), &answer).map(|summary| summary.message)
    }

    #[test]
    fn when_all_is_answered_one_sentence_says_what_came_of_it() {
        let asks = Asks::default();
        noted(&asks, &who("r"), &["a", "b"], 5);
        assert_eq!(asks.asker(&key("a"), Some(at(5))).as_deref(), Some(&who("r")));
        assert_eq!(asks.asker(&key("a"), Some(at(4))), None, "another trigger");
        assert_eq!(answered(&asks, "a", 4, Answer::Stayed), None, "a pass that began before");
        assert_eq!(answered(&asks, "a", 5, Answer::Moved(3)), None);
        noted(&asks, &who("r"), &["c", "d"], 5);
        assert_eq!(answered(&asks, "b", 5, Answer::Stayed), None);
        assert_eq!(answered(&asks, "c", 5, Answer::Nowhere), None);
        assert_eq!(asks.close(&who("r")), None);
        let told = "4 answered: 1 moved with 3 replicas (shop/a), 1 stayed, 1 fit nowhere (shop/c), 1 left alone.";
        assert_eq!(answered(&asks, "d", 5, Answer::LeftAlone).as_deref(), Some(told));
        assert_eq!(asks.asker(&key("c"), Some(at(5))).as_deref(), Some(&who("r")), "what waits still has a cause");
        assert_eq!(answered(&asks, "c", 5, Answer::Moved(1)), None, "told once");
        assert!(asks.is_empty());
    }

    #[test]
    fn clusters_that_placements_joined_are_counted_apart_from_replicas() {
        let sum = |answers: &[Answer]| {
            let (asks, names) = (Asks::default(), ["a", "b"]);
            noted(&asks, &who("r"), &names[..answers.len()], 5);
            asks.close(&who("r"));
            let mut told = None;
            for (name, answer) in names.iter().zip(answers) {
                told = answered(&asks, name, 5, answer.clone());
            }
            told.expect("the last answer tells the sum")
        };
        let told = sum(&[Answer::Joined(1)]);
        assert_eq!(told, "1 answered: 1 moved with 1 cluster (shop/a), 0 stayed, 0 fit nowhere.");
        let told = sum(&[Answer::Moved(3), Answer::Joined(2)]);
        assert_eq!(
            told,
            "2 answered: 2 moved with 3 replicas and 2 clusters (shop/a, shop/b), 0 stayed, 0 fit nowhere."
        );
    }

    #[test]
    fn what_others_ask_for_again_or_was_not_written_is_not_awaited() {
        let asks = Asks::default();
        noted(&asks, &who("r"), &["a", "b", "c"], 5);
        asks.withdraw(&who("r"), [&key("b")]);
        assert_eq!(asks.close(&who("r")), None);
        assert_eq!(noted(&asks, &who("s"), &["a"], 6), []);
        let told = "2 answered: 0 moved with 0 replicas, 0 stayed, 0 fit nowhere, 2 asked for again by others.";
        assert_eq!(answered(&asks, "c", 7, Answer::Stayed).as_deref(), Some(told), "a trigger that was not noted");
        assert_eq!(asks.asker(&key("a"), Some(at(6))).as_deref(), Some(&who("s")));
    }

    #[test]
    fn what_was_asked_before_a_restart_is_taken_up_and_summed_up_from_then_on() {
        let asks = Asks::default();
        noted(&asks, &who("s"), &["b"], 9);
        let found = |name: &str, owed: i64| (key(name), at(owed), who("r"));
        asks.resume(vec![found("a", 5), found("b", 6), found("c", 5)]);
        asks.resume(vec![found("a", 5)]);
        assert_eq!(asks.asker(&key("a"), Some(at(5))).as_deref(), Some(&who("r")));
        assert_eq!(asks.asker(&key("b"), Some(at(9))).as_deref(), Some(&who("s")), "a later trigger stays");
        assert_eq!(answered(&asks, "c", 5, Answer::Moved(2)), None);
        let told = "2 answered since a restart: 1 moved with 2 replicas (shop/c), 1 stayed, 0 fit nowhere.";
        assert_eq!(answered(&asks, "a", 5, Answer::Stayed).as_deref(), Some(told));
    }

    #[test]
    fn who_goes_on_asking_after_a_restart_is_answered_when_it_has_asked_for_all() {
        let asks = Asks::default();
        asks.resume(vec![(key("a"), at(5), who("r"))]);
        noted(&asks, &who("r"), &["b"], 7);
        assert_eq!(answered(&asks, "a", 5, Answer::Stayed), None);
        assert_eq!(answered(&asks, "b", 7, Answer::Stayed), None);
        let told = "2 answered since a restart: 0 moved with 0 replicas, 2 stayed, 0 fit nowhere.";
        assert_eq!(asks.close(&who("r")).map(|summary| summary.message).as_deref(), Some(told));
    }

    #[test]
    fn the_oldest_asker_makes_room() {
        let asks = Asks::default();
        for number in 0..=ASKERS_MAX {
            noted(&asks, &who(&number.to_string()), &[&number.to_string()], 5);
        }
        assert_eq!(asks.lock().askers.len(), ASKERS_MAX);
        assert_eq!(answered(&asks, "0", 5, Answer::Stayed), None);
        assert_eq!(asks.close(&who("1")), None);
        assert!(answered(&asks, "1", 5, Answer::Stayed).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_waits_for_the_scheduler_and_not_for_ever() {
        let (asks, patience) = (Asks::default(), Duration::from_secs(10));
        asks.until_due_below(1, patience).await;
        asks.told_due(5);
        let begun = tokio::time::Instant::now();
        asks.until_due_below(5, patience).await;
        assert_eq!(begun.elapsed(), patience);
        let teller = asks.clone();
        let (waited, ()) = tokio::join!(
            async {
                let begun = tokio::time::Instant::now();
                asks.until_due_below(5, patience).await;
                begun.elapsed()
            },
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                teller.told_due(4);
            }
        );
        assert_eq!(waited, Duration::from_secs(1));
    }
}
