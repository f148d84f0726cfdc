//! The guarantees to readers: exact views, and complete events in order. Readers never block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ballast::clock::{Clock, ManualClock};
use ballast::k8s::{GroupResource, Key, Object, Revision, Time};
use ballast::store::{self, HistoryOf, MemoryStore, Store};
use ballast::watch::{
    self, Atomicity, Cache, CatchUpError, Event, EventKind, Interest, Limits, Rejected, View, Write, Writer,
};
use futures_util::FutureExt;

use super::faulty::FaultyStore;
use super::fixtures::*;

fn kinds(kinds: &[GroupResource]) -> Interest {
    Interest::Kinds(kinds.to_vec())
}

fn small_window(events: usize) -> Limits {
    Limits { window_events_max: events, ..Limits::default() }
}

/// Fails instead of hanging when no event comes.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it came soon")
}

#[tokio::test]
async fn a_slow_watcher_is_cut_off_and_nobody_waits_for_it() {
    let room = Room::open(Arc::new(MemoryStore::new()), small_window(10)).await;
    let mut slow = room.cache.subscribe(kinds(&[BINDINGS]), Revision::ZERO).unwrap();
    let mut quick = room.cache.subscribe(kinds(&[BINDINGS]), Revision::ZERO).unwrap();
    for number in 0..50 {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
        let events = quick.next().await.unwrap();
        assert_eq!((events.len(), value(&events[0].object)), (1, number));
    }
    let expired = slow.next().await.unwrap_err();
    assert_eq!((expired.asked, expired.oldest), (Revision::ZERO, Revision(40)));
    assert_eq!(room.cache.subscribe(Interest::All, Revision(39)).err().unwrap().oldest, Revision(40));
    let mut again = room.cache.subscribe(Interest::All, Revision(40)).unwrap();
    assert_eq!(again.next().await.unwrap().len(), 10);
}

/// For tests with paused time, which advances only while a task waits for it.
#[tokio::test(start_paused = true)]
async fn followers_are_woken_together_and_for_the_first_event_at_once() {
    const FOLLOWERS: usize = 1000;
    const WRITES: i64 = 100;
    let room = Room::in_memory().await;
    let follow = |room: &Room| room.cache.subscribe_coalesced(BINDINGS, Revision::ZERO).unwrap();
    let mut followers: Vec<_> = (0..FOLLOWERS).map(|_| follow(&room)).collect();
    let mut eager = room.cache.subscribe(kinds(&[BINDINGS]), Revision::ZERO).unwrap();
    let pause = Limits::default().coalesce_max;
    let begun = tokio::time::Instant::now();
    room.put(create(&binding("first"), 0)).await;
    for follower in &mut followers {
        assert_eq!(follower.next().await.unwrap().len(), 1);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waits for the first event after a pause");
    for number in 1..WRITES {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
    }
    let mut seen = 0;
    while seen < WRITES {
        seen += i64::try_from(eager.next().await.unwrap().len()).unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "workers are told of every commit");
    for follower in &mut followers {
        assert_eq!(follower.next().await.unwrap().len(), WRITES as usize - 1, "the others come together");
    }
    assert_eq!(begun.elapsed(), pause);
    let (mut few, mut again) = (follow(&room), followers.swap_remove(0));
    drop(followers);
    assert_eq!(few.next().await.unwrap().len(), WRITES as usize, "what has been does not wait for a beat");
    tokio::time::advance(pause).await;
    let begun = tokio::time::Instant::now();
    for number in 0..3 {
        room.put(create(&binding(&format!("later-{number}")), number)).await;
        assert_eq!((few.next().await.unwrap().len(), again.next().await.unwrap().len()), (1, 1));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "a few wait for nothing");
}

/// The writer's task runs first when the write is already queued.
#[tokio::test]
async fn a_follower_is_told_of_a_write_that_was_there_before_the_writer_began() {
    let clock = ManualClock::at(Time::from_seconds(0));
    let (cache, writer, _task) = watch::open(Arc::new(MemoryStore::new()), clock, Limits::default()).await.unwrap();
    let mut follower = cache.subscribe_coalesced(BINDINGS, Revision::ZERO).unwrap();
    assert!(follower.next().now_or_never().is_none(), "from here on it has to be told");
    let write = vec![create(&binding("web"), 1)];
    writer.commit(write, Atomicity::All).await.unwrap().remove(0).unwrap();
    assert_eq!(soon(follower.next()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_busy_kind_does_not_shorten_the_memory_of_a_quiet_one() {
    let room = Room::open(Arc::new(MemoryStore::new()), small_window(10)).await;
    room.put(create(&Key::cluster(CLUSTERS, "member1"), 1)).await;
    let waiting = room.cache.subscribe(kinds(&[CLUSTERS]), Revision(1)).unwrap();
    for number in 0..50 {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
    }
    assert_eq!(waiting.position(), Revision(51), "nothing of its kind came, so it has seen everything");
    let mut late = room.cache.subscribe(kinds(&[CLUSTERS]), Revision::ZERO).unwrap();
    assert_eq!(late.next().await.unwrap().len(), 1);
    assert!(room.cache.subscribe(kinds(&[CLUSTERS, BINDINGS]), Revision::ZERO).is_err());
}

#[tokio::test]
async fn bytes_and_age_bound_the_window_too() {
    let clock = ManualClock::at(Time::from_seconds(1000));
    let limits = Limits { window_bytes_max: 10 << 10, window_age_max: Duration::from_secs(60), ..Limits::default() };
    let (cache, writer, _task) = watch::open(Arc::new(MemoryStore::new()), clock.clone(), limits).await.unwrap();
    let commit = async |write| writer.commit(vec![write], Atomicity::All).await.unwrap().remove(0).unwrap().revision;
    commit(create(&binding("old"), 1)).await;
    clock.advance_seconds(61);
    commit(create(&binding("young"), 1)).await;
    assert_eq!(cache.subscribe(Interest::All, Revision::ZERO).err().unwrap().oldest, Revision(1));
    let mut large = object(&binding("large"), 1);
    large.insert("data".into(), "x".repeat(9 << 10).into());
    commit(put(&binding("large"), large)).await;
    assert_eq!(cache.subscribe(Interest::All, Revision(1)).err().unwrap().oldest, Revision(2));
}

#[tokio::test]
async fn a_long_backlog_comes_in_parts_and_in_order() {
    let limits = Limits { events_per_turn_max: 7, ..Limits::default() };
    let room = Room::open(Arc::new(MemoryStore::new()), limits).await;
    for number in 0..25 {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
        room.put(create(&Key::cluster(CLUSTERS, format!("member-{number}")), number)).await;
    }
    let mut subscriber = room.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
    let mut seen = Vec::new();
    while subscriber.position() < Revision(50) {
        let events = subscriber.next().await.unwrap();
        assert!(events.len() <= 7);
        seen.extend(events.iter().map(|event| event.revision.0));
        assert_eq!(subscriber.position().0, *seen.last().unwrap());
    }
    assert!(seen.into_iter().eq(1..=50));
}

#[tokio::test]
async fn a_watch_of_the_future_waits_for_it() {
    let room = Room::in_memory().await;
    let mut subscriber = room.cache.subscribe(kinds(&[BINDINGS]), Revision(2)).unwrap();
    let reached = tokio::spawn({
        let cache = room.cache.clone();
        async move { cache.reached(Revision(3)).await }
    });
    for number in 0..3 {
        assert!(!reached.is_finished());
        room.put(create(&binding(&format!("web-{number}")), number)).await;
    }
    soon(reached).await.unwrap();
    let events = soon(subscriber.next()).await.unwrap();
    assert_eq!(events.iter().map(|event| event.revision.0).collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn losing_the_future_of_next_loses_no_event() {
    let room = Room::in_memory().await;
    let mut subscriber = room.cache.subscribe(kinds(&[BINDINGS, CLUSTERS]), Revision::ZERO).unwrap();
    for number in 0..5 {
        assert!(futures_util::poll!(Box::pin(subscriber.next())).is_pending());
        room.put(create(&binding(&format!("web-{number}")), number)).await;
        let events = soon(subscriber.next()).await.unwrap();
        assert_eq!((events.len(), value(&events[0].object)), (1, number));
    }
}

#[tokio::test]
async fn lists_are_ranges_of_the_key_order() {
    let room = Room::in_memory().await;
    let chance = ManualClock::at(Time::from_seconds(0));
    let namespaces = ["", "a", "a-b", "a0", "aa", "b"];
    let mut model: BTreeMap<(String, String), i64> = BTreeMap::new();
    for number in 0..600 {
        let namespace = namespaces[chance.random() as usize % namespaces.len()];
        let key = Key::namespaced(BINDINGS, namespace, format!("n{}", chance.random() % 150));
        if room.writer.commit(vec![create(&key, number)], Atomicity::All).await.unwrap()[0].is_ok() {
            model.insert((namespace.to_owned(), key.name.to_string()), number);
        }
    }
    let view = room.cache.view();
    let found = |objects: &mut dyn Iterator<Item = &Arc<Object>>| {
        objects
            .map(|object| ((object.key.namespace.to_string(), object.key.name.to_string()), value(object)))
            .collect::<Vec<_>>()
    };
    let expected = |wanted: &dyn Fn(&(String, String)) -> bool| {
        model
            .iter()
            .filter(|(place, _)| wanted(place))
            .map(|(place, value)| (place.clone(), *value))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&mut view.list(BINDINGS, None)), expected(&|_| true));
    assert_eq!((view.count(BINDINGS, None), view.count(CLUSTERS, None)), (model.len(), 0));
    assert_eq!(view.list(CLUSTERS, Some("a")).count(), 0);
    for namespace in namespaces.into_iter().chain(["missing"]) {
        let wanted = expected(&|place| place.0 == namespace);
        assert_eq!(found(&mut view.list(BINDINGS, Some(namespace))), wanted, "{namespace:?}");
        assert_eq!(view.count(BINDINGS, Some(namespace)), wanted.len());
    }
    let places =
        model.keys().cloned().chain([("a".into(), "".into()), ("zz".into(), "zz".into()), ("".into(), "".into())]);
    for after in places.step_by(3) {
        let seek = (after.0.as_str(), after.1.as_str());
        assert_eq!(found(&mut view.list_after(BINDINGS, None, seek)), expected(&|place| *place > after), "{after:?}");
        for namespace in ["a", "a0", "missing"] {
            let listed = found(&mut view.list_after(BINDINGS, Some(namespace), seek));
            let wanted = expected(&|place| place.0 == namespace && *place > after);
            assert_eq!(listed, wanted, "{namespace:?} after {after:?}");
        }
    }
}

/// A simple model of the state.
pub type State = BTreeMap<Key, (Revision, i64)>;

pub fn state(view: &View) -> State {
    let objects = [BINDINGS, CLUSTERS].into_iter().flat_map(|kind| view.list(kind, None).cloned().collect::<Vec<_>>());
    objects.map(|object| (object.key.clone(), (object.revision, value(&object)))).collect()
}

pub fn apply(state: &mut State, event: &Event) {
    let key = &event.object.key;
    let before = event.previous.as_ref().map(|previous| (previous.revision, value(previous)));
    assert_eq!(state.get(key), before.as_ref(), "an event follows the state before it");
    assert_eq!(event.kind == EventKind::Created, before.is_none());
    assert_eq!(event.object.revision, event.revision);
    match event.kind {
        EventKind::Created | EventKind::Updated => state.insert(key.clone(), (event.revision, value(&event.object))),
        EventKind::Deleted => state.remove(key),
    };
}

/// A few writes in one call, some of which will be rejected.
pub fn random_writes(view: &View, chance: &dyn Clock) -> Vec<Write> {
    (0..1 + chance.random() % 5)
        .map(|_| {
            let name = format!("n{}", chance.random() % 12);
            let key = if chance.random().is_multiple_of(4) { Key::cluster(CLUSTERS, name) } else { binding(&name) };
            let value = (chance.random() >> 20) as i64;
            match view.get(&key) {
                Some(state) if chance.random().is_multiple_of(3) => delete(&key, state.revision),
                Some(state) => update(&key, state.revision, value),
                None => create(&key, value),
            }
        })
        .collect()
}

#[tokio::test]
async fn every_past_state_in_the_window_is_told_exactly_also_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let stores = [store::open("memory:", &[]).await.unwrap(), store::open(&url(&home), &[]).await.unwrap()];
    for store in stores {
        let limits = Limits { window_events_max: 120, past_views_max: 5, ..Limits::default() };
        let room = Room::open(store.clone(), limits.clone()).await;
        let chance = ManualClock::at(Time::from_seconds(0));
        let mut subscriber = room.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
        let mut states = vec![State::new()];
        while states.len() < 400 {
            let writes = random_writes(&room.cache.view(), &*chance);
            room.writer.commit(writes, Atomicity::Each).await.unwrap();
            if subscriber.position() < room.cache.view().revision {
                for event in subscriber.next().await.unwrap() {
                    let mut next = states.last().unwrap().clone();
                    apply(&mut next, &event);
                    states.push(next);
                }
            }
        }
        check_past(&room.cache, &states, &chance);
        room.close().await;
        let room = Room::open(store, limits).await;
        check_past(&room.cache, &states, &chance);
        let mut resumed = room.cache.subscribe(Interest::All, Revision(states.len() as i64 - 51)).unwrap();
        let mut resumed_state = states[states.len() - 51].clone();
        resumed.next().await.unwrap().iter().for_each(|event| apply(&mut resumed_state, event));
        assert_eq!(Some(&resumed_state), states.last());
        room.close().await;
    }
}

#[tokio::test]
async fn a_log_of_any_length_fills_the_window_of_the_next_start() {
    let store = store::open("memory:", &[]).await.unwrap();
    let mut written = 0;
    // Near the size of the pages of log reads, and beyond several of them.
    for length in [1, 1023, 1024, 1025, 3000] {
        let room = Room::open(store.clone(), Limits::default()).await;
        room.all((written..length).map(|i| create(&binding(&format!("n{i}")), i)).collect()).await;
        room.close().await;
        written = length;
        let room = Room::open(store.clone(), Limits::default()).await;
        let mut events = 0;
        let mut subscriber = room.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
        while subscriber.position() < room.cache.view().revision {
            events += subscriber.next().await.unwrap().len() as i64;
        }
        assert_eq!(events, length, "a log of {length} changes");
        room.close().await;
    }
}

/// A log has thousands of changes of two kinds. For each kind, the catch-up read returns the same
/// events as the subscribers received, for any page size, also after a restart. A compacted range
/// is an error.
#[tokio::test]
async fn the_log_goes_on_where_the_window_ends() {
    let home = tempfile::tempdir().unwrap();
    let stores = [store::open("memory:", &[]).await.unwrap(), store::open(&url(&home), &[]).await.unwrap()];
    for store in stores {
        let limits = Limits {
            window_events_max: 20,
            catch_up_page_bytes: 1000,
            catch_up_revisions_max: 70,
            ..Limits::default()
        };
        let room = Room::open(store.clone(), limits.clone()).await;
        let chance = ManualClock::at(Time::from_seconds(0));
        let mut live = room.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
        let mut told: Vec<Told> = Vec::new();
        while told.len() < 1000 {
            let writes = random_writes(&room.cache.view(), &*chance);
            room.writer.commit(writes, Atomicity::Each).await.unwrap();
            if live.position() < room.cache.view().revision {
                told.extend(live.next().await.unwrap().iter().map(|event| tell(event)));
            }
        }
        room.close().await;
        while store.compact(Revision(100), 1000).await.unwrap() {}
        let room = Room::open(store, limits).await;
        for kind in [BINDINGS, CLUSTERS] {
            for after in [100, 101, 500, 990] {
                let caught_up = catch_up(&room.cache, HistoryOf::Kind(kind), Revision(after)).await.unwrap();
                let wanted = told.iter().filter(|told| told.0 > Revision(after) && told.2.resource == kind);
                assert!(caught_up.iter().eq(wanted), "{kind} after {after}");
                let key = &told.iter().find(|told| told.2.resource == kind).expect("each kind was written").2;
                let caught_up = catch_up(&room.cache, HistoryOf::Key(key.clone()), Revision(after)).await.unwrap();
                let wanted = told.iter().filter(|told| told.0 > Revision(after) && told.2 == *key);
                assert!(caught_up.iter().eq(wanted), "{key} after {after}");
            }
            let lost = catch_up(&room.cache, HistoryOf::Kind(kind), Revision(99)).await.unwrap_err();
            assert!(matches!(lost, CatchUpError::Expired(expired) if expired.oldest == Revision(100)), "{lost}");
        }
        room.close().await;
    }
}

/// Revision, kind of change, key, and the texts after and before.
type Told = (Revision, EventKind, Key, bytes::Bytes, Option<bytes::Bytes>);

fn tell(event: &Event) -> Told {
    let before = event.previous.as_ref().map(|before| before.text.whole());
    (event.revision, event.kind, event.object.key.clone(), event.object.text.whole(), before)
}

/// Returns all events after a revision, first from the log and then from the window.
async fn catch_up(cache: &Cache, of: HistoryOf, after: Revision) -> Result<Vec<Told>, CatchUpError> {
    let key = of.key().cloned();
    let mut read = cache.catch_up_read(of, after);
    let mut told = Vec::new();
    let mut live = loop {
        match read.join() {
            Some(live) => break live,
            None => {
                let page = read.next().await?;
                let is_other = |event: &Arc<Event>| key.as_ref().is_some_and(|key| event.object.key != *key);
                assert!(!page.iter().any(is_other), "only what was asked for is read");
                told.extend(page.iter().map(|event| tell(event)));
            }
        }
    };
    while live.position() < cache.view().revision {
        told.extend(live.next().await?.iter().map(|event| tell(event)));
    }
    told.retain(|told| key.as_ref().is_none_or(|key| told.2 == *key));
    Ok(told)
}

#[tokio::test]
async fn a_log_that_cannot_be_read_ends_a_backlog_and_nothing_else() {
    let store = FaultyStore::new();
    let room = Room::open(store.clone(), small_window(2)).await;
    for number in 0..9 {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
    }
    store.is_silent.store(true, Ordering::SeqCst);
    let lost = room.cache.catch_up_read(HistoryOf::Kind(BINDINGS), Revision(1)).next().await.unwrap_err();
    assert!(matches!(lost, CatchUpError::Unreadable(_)));
    store.is_silent.store(false, Ordering::SeqCst);
    assert_eq!(catch_up(&room.cache, HistoryOf::Kind(BINDINGS), Revision(1)).await.unwrap().len(), 8);
    room.close().await;
}

fn check_past(cache: &Cache, states: &[State], chance: &ManualClock) {
    let mut told = 0;
    for _ in 0..300 {
        let revision = chance.random() as usize % states.len();
        match cache.view_at(Revision(revision as i64)) {
            Ok(view) => {
                assert_eq!(view.revision, Revision(revision as i64));
                assert_eq!(state(&view), states[revision], "at {revision}");
                told += 1;
            }
            Err(expired) => assert!(expired.oldest > Revision(revision as i64)),
        }
    }
    assert!(told > 50, "the window holds about a third of the past");
    assert_eq!(state(&cache.view()), *states.last().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn list_and_watch_equal_a_later_list_under_concurrent_writers() {
    const WRITERS: usize = 4;
    const WATCHERS: usize = 12;
    const CALLS: usize = 150;
    let home = tempfile::tempdir().unwrap();
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..WRITERS {
        writers.spawn(write_much(room.cache.clone(), room.writer.clone(), number, CALLS));
    }
    let mut watchers = tokio::task::JoinSet::new();
    for number in 0..WATCHERS {
        let cache = room.cache.clone();
        watchers.spawn(async move {
            cache.reached(Revision(number as i64 * 20)).await;
            let view = cache.view();
            let mut known = state(&view);
            let mut last = view.revision;
            let mut subscriber = cache.subscribe(Interest::All, view.revision).unwrap();
            loop {
                for event in soon(subscriber.next()).await.unwrap() {
                    assert_eq!(event.revision, last.next(), "every change, once, in order");
                    last = event.revision;
                    apply(&mut known, &event);
                }
                assert!(subscriber.position() >= last);
                if known.contains_key(&binding("the-end")) {
                    return known;
                }
            }
        });
    }
    writers.join_all().await;
    room.put(create(&binding("the-end"), 0)).await;
    let expected = state(&room.cache.view());
    for known in soon(watchers.join_all()).await {
        assert_eq!(known, expected);
    }
}

async fn write_much(cache: Cache, writer: Writer, seed: usize, calls: usize) {
    let chance = ManualClock::at(Time::from_seconds(0));
    (0..seed * 1000).for_each(|_| drop(chance.random().to_string()));
    for _ in 0..calls {
        let view = cache.view();
        let writes = random_writes(&view, &*chance);
        let atomicity = if chance.random().is_multiple_of(2) { Atomicity::Each } else { Atomicity::All };
        let outcomes = writer.commit(writes, atomicity).await.unwrap();
        let newest = cache.view();
        for outcome in &outcomes {
            match outcome {
                Ok(object) => assert!(newest.revision >= object.revision, "a write is visible when it is acknowledged"),
                Err(Rejected::NotTried) => assert!(atomicity == Atomicity::All),
                Err(_) => {}
            }
        }
    }
}

#[tokio::test]
async fn the_log_is_compacted_by_count_and_watches_go_on() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let limits = Limits {
        compaction_every: Duration::from_millis(1),
        log_rows_max: 20,
        log_rows_per_object: 0,
        compaction_rows_max: 3,
        ..Limits::default()
    };
    let room = Room::open(store.clone(), limits.clone()).await;
    let mut state = room.put(create(&binding("web"), 0)).await;
    room.put(create(&binding("quiet"), 7)).await;
    for number in 1..100 {
        state = room.put(update(&binding("web"), state.revision, number)).await;
    }
    let compacted = async || store.bounds().await.unwrap().compacted;
    soon(async {
        while compacted().await < Revision(81) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(room.cache.subscribe(Interest::All, Revision::ZERO).is_ok(), "memory goes further back than the log here");
    room.close().await;
    let room = Room::open(store, limits).await;
    assert_eq!(value(room.cache.view().get(&binding("quiet")).unwrap()), 7);
    assert_eq!(room.cache.subscribe(Interest::All, Revision(80)).err().unwrap().oldest, Revision(81));
    let mut resumed = room.cache.subscribe(Interest::All, Revision(81)).unwrap();
    assert_eq!(resumed.next().await.unwrap().len(), 20);
}

/// For tests with paused time, which advances only while a task waits for it.
#[tokio::test(start_paused = true)]
async fn what_has_rested_is_packed_and_reads_as_before() {
    let room = Room::in_memory().await;
    let keys: Vec<Key> = (0..5_000).map(|number| binding(&format!("web-{number}"))).collect();
    let long = |key: &Key, value: i64| {
        let mut object = object(key, value);
        object["spec"]["note"] = "a member that many objects have alike ".repeat(20).into();
        put(key, object)
    };
    let writes = keys.iter().zip(0..).map(|(key, value)| long(key, value)).collect();
    room.all(writes).await;
    let (rested, early) = (room.cache.view(), room.cache.view().revision);
    let wholes = |view: &View| view.list(BINDINGS, None).map(|object| object.text.whole()).collect::<Vec<_>>();
    let before = wholes(&rested);
    let is_packed = |object: &Arc<Object>| object.text.is_packed();
    assert!(!rested.list(BINDINGS, None).any(is_packed), "it has just been written");

    let packed = async {
        while !rested.list(BINDINGS, None).all(is_packed) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let Limits { pack_after, pack_every, .. } = Limits::default();
    tokio::time::timeout(pack_after + 2 * pack_every, packed).await.expect("one look after that is enough");
    assert_eq!(wholes(&rested), before);
    let mut replay = room.cache.subscribe(kinds(&[BINDINGS]), Revision::ZERO).unwrap();
    let replayed = replay.next().await.unwrap();
    assert_eq!((replayed.len(), value(&replayed[3].object)), (Limits::default().events_per_turn_max, 3));
    let replaced = room.put(update(&keys[7], rested.get(&keys[7]).unwrap().revision, 70)).await;
    assert!(!replaced.text.is_packed() && value(&replaced) == 70);
    assert_eq!(room.cache.view_at(early).map(|view| wholes(&view)).unwrap(), before);
}
