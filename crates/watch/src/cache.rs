//! The newest view, the windows of past events, and the channels that announce both.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use ballast_k8s::{GroupResource, Revision};
use ballast_store::Store;

use super::freshness::Freshness;
use super::history::{HistoryLength, HistoryLoss};
use super::pack_queue::PackQueue;
use super::window::{Event, Expired};
use super::windows::{Interest, Kind, Windows};
use super::{Limits, View};

/// A handle to the cache. Clones share it.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

struct Shared {
    newest: ArcSwap<View>,
    past: RwLock<Windows>,
    /// The revision of the newest view, sent after the view and its events are in place.
    tip: watch::Sender<Revision>,
    /// The store, used only for events that the windows have forgotten. Owned by the task of the
    /// log.
    store: Weak<dyn Store>,
    freshness: Freshness,
    pack_queue: PackQueue,
    limits: Limits,
    /// The last lost history that this process has bumped the log beyond.
    loss: watch::Sender<Option<HistoryLoss>>,
    /// The last length of the history that this process has announced while it was compacting.
    past_length: watch::Sender<Option<HistoryLength>>,
    /// Values that other crates attach to the cache, one of each type.
    companions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Cache {
    /// Creates a cache at `view` that remembers no event up to `start`.
    pub(super) fn new(
        view: View,
        start: Revision,
        store: Weak<dyn Store>,
        freshness: Freshness,
        limits: Limits,
    ) -> Cache {
        let revision = view.revision;
        let past = Windows::new(start, revision);
        let (tip, _) = watch::channel(revision);
        let newest = ArcSwap::from_pointee(view);
        let (past, pack_queue) = (RwLock::new(past), PackQueue::default());
        let (loss, past_length) = (watch::Sender::new(None), watch::Sender::new(None));
        let companions = Mutex::default();
        let shared = Shared { newest, past, tip, store, freshness, pack_queue, limits, loss, past_length, companions };
        Cache { shared: Arc::new(shared) }
    }

    /// Returns the value of type `T` that another crate attaches to this cache, shared by all
    /// clones. The first call creates it. It must not own the cache, which would then never be
    /// dropped.
    pub fn companion<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        // A panic in `make` has added nothing.
        let mut companions = self.shared.companions.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = companions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make()));
        Arc::clone(kept).downcast::<T>().expect("it is kept by its type")
    }

    /// Returns the events of these kinds after one revision up to another, oldest first. All events
    /// of a view that was read before are available, until the windows forget them.
    pub fn events(
        &self,
        kinds: &[GroupResource],
        after: Revision,
        through: Revision,
    ) -> Result<Vec<Arc<Event>>, Expired> {
        let interest = Interest::Kinds(kinds.to_vec());
        let past = self.read();
        let oldest = past.floor(&interest);
        match after < oldest {
            true => Err(Expired { asked: after, oldest }),
            false => Ok(past.between(&interest, after, through)),
        }
    }

    /// Returns the newest state that this process knows. In the leader it contains every
    /// acknowledged write; in other processes, wait with `fresh` first.
    pub fn view(&self) -> Arc<View> {
        self.shared.newest.load_full()
    }

    /// Returns the exact state at a past revision, as far back as the windows reach. For a future
    /// revision it is the newest state; wait with `reached` first.
    pub fn view_at(&self, revision: Revision) -> Result<Arc<View>, Expired> {
        let newest = self.view();
        if revision >= newest.revision {
            return Ok(newest);
        }
        let (later, undo) = {
            let past = self.read();
            let oldest = past.floor(&Interest::All);
            if revision < oldest {
                return Err(Expired { asked: revision, oldest });
            }
            let later = past.views.range(revision..).next().map_or(newest, |(_, view)| view.clone());
            if later.revision == revision {
                return Ok(later);
            }
            let undo = past.between(&Interest::All, revision, later.revision);
            (later, undo)
        };
        // Outside the lock: this may take long, and other readers and the writer need the lock.
        let mut view = View::clone(&later);
        undo.iter().rev().for_each(|event| view.undo(event));
        view.revision = revision;
        let view = Arc::new(view);
        let forgotten = self.write().keep(view.clone(), self.shared.limits.past_views_max);
        drop(forgotten);
        Ok(view)
    }

    /// Resolves when the newest view is at this revision or later.
    pub async fn reached(&self, revision: Revision) {
        let mut tip = self.shared.tip.subscribe();
        // Cannot fail: the sender lives in the cache.
        let _ = tip.wait_for(|&tip| tip >= revision).await;
    }

    /// Makes the next view and its events visible, and wakes their subscribers.
    pub(super) fn publish(&self, view: View, events: Vec<Arc<Event>>, now_ms: i64) {
        let (revision, view) = (view.revision, Arc::new(view));
        let gone = {
            let mut past = self.write();
            past.remember(&events);
            past.revision = revision;
            (past.trim(now_ms, &self.shared.limits), self.shared.newest.swap(view))
        };
        // Notified last, so that a subscriber that wakes up finds the view and the events in place.
        let mut moved: Vec<GroupResource> = events.iter().map(|event| event.object.key.resource).collect();
        moved.dedup();
        moved.sort_unstable();
        moved.dedup();
        let past = self.read();
        moved.iter().for_each(|kind| past.kinds[kind].notify());
        drop(past);
        self.shared.tip.send_replace(revision);
        self.shared.pack_queue.add(&events);
        drop(gone);
    }

    /// Wakes the coalesced subscribers of every kind with events since the last call. Returns their
    /// number.
    pub(super) fn wake_coalesced(&self) -> usize {
        // Outside the lock, which the writer needs.
        let kinds: Vec<(Arc<watch::Sender<Revision>>, Revision)> =
            self.read().kinds.values().map(|kind| (Arc::clone(&kind.coalesced), kind.newest)).collect();
        let mut woken = 0;
        for (coalesced, newest) in kinds {
            if *coalesced.borrow() < newest {
                coalesced.send_replace(newest);
                woken += coalesced.receiver_count();
            }
        }
        woken
    }

    /// Returns a channel with the revision of the newest view.
    pub(super) fn tip(&self) -> watch::Receiver<Revision> {
        self.shared.tip.subscribe()
    }

    /// Fills the windows at the start, with events up to the revision of the view.
    pub(super) fn recall(&self, events: &[Arc<Event>], now_ms: i64) {
        let mut past = self.write();
        past.remember(events);
        let forgotten = past.trim(now_ms, &self.shared.limits);
        drop(past);
        drop(forgotten);
    }

    /// Continues from a state without knowing the events that led to it. Every subscriber with an
    /// earlier position gets `Expired`.
    pub(super) fn begin_anew(&self, view: View) {
        let (revision, view) = (view.revision, Arc::new(view));
        let gone = {
            let mut past = self.write();
            let gone = past.forget_all(revision);
            (gone, self.shared.newest.swap(view))
        };
        self.read().kinds.values().for_each(Kind::notify);
        self.shared.tip.send_replace(revision);
        drop(gone);
    }

    /// Forgets events that have become too old. Without this call, a kind without writes would keep
    /// its old events.
    pub(super) fn forget(&self, now_ms: i64) {
        let forgotten = self.write().trim(now_ms, &self.shared.limits);
        drop(forgotten);
    }

    pub(super) fn pack_queue(&self) -> &PackQueue {
        &self.shared.pack_queue
    }

    pub(super) fn freshness(&self) -> &Freshness {
        &self.shared.freshness
    }

    /// Returns the store; `None` once the task of the log has ended.
    pub(super) fn store(&self) -> Option<Arc<dyn Store>> {
        self.shared.store.upgrade()
    }

    /// Returns a channel with the last lost history, once this process has bumped the log beyond
    /// it.
    pub fn loss(&self) -> watch::Receiver<Option<HistoryLoss>> {
        self.shared.loss.subscribe()
    }

    pub(super) fn announce_loss(&self, loss: HistoryLoss) {
        self.shared.loss.send_replace(Some(loss));
    }

    /// Returns a channel with the length of the history, once a quota starts or stops limiting it
    /// in this process.
    pub fn past_length(&self) -> watch::Receiver<Option<HistoryLength>> {
        self.shared.past_length.subscribe()
    }

    pub(super) fn announce_past_length(&self, past: HistoryLength) {
        self.shared.past_length.send_replace(Some(past));
    }

    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub(super) fn read(&self) -> std::sync::RwLockReadGuard<'_, Windows> {
        self.shared.past.read().expect("no holder of this lock can panic")
    }

    pub(super) fn write(&self) -> std::sync::RwLockWriteGuard<'_, Windows> {
        self.shared.past.write().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use serde_json::json;

    use super::super::Subscriber;
    use super::super::window::EventKind;
    use super::*;
    use ballast_k8s::{Key, Object};
    use ballast_store::MemoryStore;

    const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
    const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

    /// A counter of wake-ups.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn event(number: i64) -> Arc<Event> {
        let key = Key::namespaced(BINDINGS, "default", format!("web-{number}"));
        let text = json!({"metadata": {"name": format!("web-{number}"), "namespace": "default"}}).to_string();
        let object = Arc::new(Object::decode(key, Revision(number), text.into()).unwrap());
        Arc::new(Event::new(Revision(number), EventKind::Created, object, None, 0))
    }

    #[test]
    fn a_commit_wakes_once_who_cares_about_its_kinds_and_nobody_else() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let start = View::empty_at(Revision::ZERO);
        let cache = Cache::new(start, Revision::ZERO, Arc::downgrade(&store), Freshness::alone(), Limits::default());
        let subscribe = |kinds: &[GroupResource]| {
            let interest = Interest::Kinds(kinds.to_vec());
            cache.subscribe(interest, Revision::ZERO).unwrap()
        };
        let (mut of_both, mut of_clusters) = (subscribe(&[BINDINGS, CLUSTERS, BINDINGS]), subscribe(&[CLUSTERS]));
        let wakes: [Arc<Wakes>; 2] = Default::default();
        let await_both = |of_both: &mut Subscriber, of_clusters: &mut Subscriber| {
            for (subscriber, wakes) in [of_both, of_clusters].into_iter().zip(&wakes) {
                let waker = Arc::clone(wakes).into();
                let next = pin!(subscriber.next());
                assert!(next.poll(&mut Context::from_waker(&waker)).is_pending());
            }
        };
        let publish = |numbers: &[i64]| {
            let view = View::empty_at(Revision(*numbers.last().unwrap()));
            cache.publish(view, numbers.iter().map(|&number| event(number)).collect(), 0);
        };
        let woken = || wakes.each_ref().map(|wakes| wakes.0.load(Ordering::Relaxed));
        await_both(&mut of_both, &mut of_clusters);
        publish(&[1, 2]);
        assert_eq!(woken(), [1, 0]);
        publish(&[3]);
        assert_eq!(woken(), [1, 0], "it is awake already");
        assert_eq!(of_both.next_ready().unwrap().unwrap().len(), 3);
        assert!(of_both.next_ready().is_none() && of_clusters.next_ready().is_none());
        await_both(&mut of_both, &mut of_clusters);
        publish(&[4]);
        assert_eq!(woken(), [2, 0]);
        assert_eq!(of_both.next_ready().unwrap().unwrap()[0].revision, Revision(4));
        drop(of_both);
        let _later = subscribe(&[BINDINGS]);
        assert_eq!(cache.read().kinds[&BINDINGS].notifiers.len(), 1, "a dropped subscriber has no notifier");
    }

    #[test]
    fn what_the_windows_forget_is_freed_after_the_lock_is_released() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let limits = Limits { window_events_max: 1, ..Limits::default() };
        let start = View::empty_at(Revision::ZERO);
        let cache = Cache::new(start, Revision::ZERO, Arc::downgrade(&store), Freshness::alone(), limits.clone());
        let oldest = event(1);
        let watched = Arc::downgrade(&oldest);
        let mut past = cache.write();
        past.remember(&[oldest, event(2)]);
        let forgotten = past.trim(0, &limits);
        assert_eq!(forgotten.events.len(), 1);
        drop(past);
        assert!(watched.upgrade().is_some(), "it lives as long as the lock was held");
        drop(forgotten);
        assert!(watched.upgrade().is_none());
    }
}
