//! The past beyond the windows: every state in the log can be read exactly.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ballast::clock::ManualClock;
use ballast::k8s::{Key, Revision, Time};
use ballast::store::{self, MemoryStore};
use ballast::watch::{self, Atomicity, Cache, Interest, Limits, PastError};

use super::faulty::FaultyStore;
use super::fixtures::*;
use super::watching::{State, apply, random_writes, state};

const BOTH: [ballast::k8s::GroupResource; 2] = [BINDINGS, CLUSTERS];

/// Writes at random, and returns the state at every revision.
async fn write_history(room: &Room, length: usize) -> Vec<State> {
    let chance = ManualClock::at(Time::from_seconds(0));
    let mut subscriber = room.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
    let mut states = vec![State::new()];
    while states.len() < length {
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
    states
}

async fn oldest_of(cache: &Cache, revision: i64) -> Revision {
    match cache.past(&BOTH, Revision(revision)).await {
        Err(PastError::Expired(expired)) => expired.oldest,
        other => panic!("revision {revision} is {other:?}"),
    }
}

#[tokio::test]
async fn every_state_that_the_log_remembers_is_told_exactly() {
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
        let states = write_history(&room, 400).await;
        let check = async |cache: &Cache, oldest: usize| {
            for (revision, wanted) in states.iter().enumerate().skip(oldest) {
                let past = cache.past(&BOTH, Revision(revision as i64)).await.unwrap();
                assert_eq!((past.revision.0, &state(&past)), (revision as i64, wanted));
            }
        };
        check(&room.cache, 0).await;
        room.close().await;
        while store.compact(Revision(100), 1000).await.unwrap() {}
        let room = Room::open(store, limits).await;
        check(&room.cache, 100).await;
        assert_eq!(oldest_of(&room.cache, 99).await, Revision(100));
        let future = room.cache.past(&BOTH, Revision(100_000)).await.unwrap();
        assert_eq!(Some(&state(&future)), states.last(), "the future is the newest state");
        room.close().await;
    }
}

#[tokio::test]
async fn a_past_state_holds_only_the_kinds_that_were_asked_for() {
    let room = Room::open(Arc::new(MemoryStore::new()), Limits { window_events_max: 1, ..Limits::default() }).await;
    let web = room.put(create(&binding("web"), 1)).await;
    let member = Key::cluster(CLUSTERS, "member1");
    room.put(create(&member, 1)).await;
    let web = room.put(update(&binding("web"), web.revision, 2)).await;
    room.put(delete(&binding("web"), web.revision)).await;
    let past = room.cache.past(&[BINDINGS], Revision(2)).await.unwrap();
    assert_eq!(value(past.get(&binding("web")).unwrap()), 1);
    assert!(past.get(&member).is_none());
    assert!(room.cache.view().get(&binding("web")).is_none(), "the newest state is as it was");
}

#[tokio::test]
async fn a_past_of_too_many_bytes_is_refused() {
    let limits = Limits { window_events_max: 1, past_bytes_max: 600, ..Limits::default() };
    let room = Room::open(Arc::new(MemoryStore::new()), limits).await;
    for number in 0..20 {
        let old = room.put(create(&binding(&format!("web-{number}")), 1)).await;
        room.put(update(&old.key, old.revision, 2)).await;
    }
    // Each of these was created after the first revision, and needs no memory.
    assert!(room.cache.past(&[BINDINGS], Revision::ZERO).await.is_ok());
    let few = room.put(update(&binding("web-0"), Revision(2), 3)).await;
    assert!(room.cache.past(&[BINDINGS], few.revision).await.is_ok());
    for number in 1..20 {
        room.put(update(&binding(&format!("web-{number}")), Revision(2 * number + 2), 3)).await;
    }
    let refused = room.cache.past(&[BINDINGS], Revision(40)).await.unwrap_err();
    assert!(matches!(refused, PastError::TooMuch { bytes_max: 600, .. }), "{refused}");
}

#[tokio::test]
async fn a_log_that_cannot_be_read_tells_no_past_and_harms_nothing() {
    let store = FaultyStore::new();
    let room = Room::open(store.clone(), Limits { window_events_max: 2, ..Limits::default() }).await;
    for number in 0..9 {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
    }
    store.is_silent.store(true, Ordering::SeqCst);
    assert!(matches!(room.cache.past(&BOTH, Revision(1)).await.unwrap_err(), PastError::Unreadable(_)));
    assert_eq!(state(&room.cache.past(&BOTH, Revision(8)).await.unwrap()).len(), 8, "the window needs no log");
    store.is_silent.store(false, Ordering::SeqCst);
    assert_eq!(state(&room.cache.past(&BOTH, Revision(1)).await.unwrap()).len(), 1);
    room.close().await;
}

/// Times on the wire are whole seconds: a write within a second is visible at that second.
#[tokio::test]
async fn a_time_is_the_last_revision_of_its_second() {
    let home = tempfile::tempdir().unwrap();
    let stores = [store::open("memory:", &[]).await.unwrap(), store::open(&url(&home), &[]).await.unwrap()];
    for store in stores {
        let clock = ManualClock::at(Time::from_seconds(1000));
        let limits = Limits { compaction_every: Duration::from_secs(3600), ..Limits::default() };
        let (cache, writer, task) = watch::open(store, clock.clone(), limits).await.unwrap();
        for number in 0..6 {
            let write = create(&binding(&format!("web-{number}")), number);
            writer.commit(vec![write], Atomicity::All).await.unwrap().remove(0).unwrap();
            clock.advance_ms(700);
        }
        // Written at 1000.0, 1000.7, 1001.4, 1002.1, 1002.8 and 1003.5.
        for (second, revision) in [(999, 0), (1000, 2), (1001, 3), (1002, 5), (1003, 6), (9999, 6)] {
            let found = cache.revision_at(Time::from_seconds(second)).await.unwrap();
            assert_eq!(found, Revision(revision), "at {second}");
        }
        drop((cache, writer));
        task.await.unwrap().unwrap();
    }
}
