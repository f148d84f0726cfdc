//! Full disks, lost responses and long queues.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use ballast::k8s::Revision;
use ballast::store::{self, Error, Store, Term};
use ballast::watch::{Atomicity, Fence, Interest, Limits, Rejected, WriteError};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::faulty::FaultyStore;
use super::fixtures::*;

/// A log over a store that fails on demand.
pub async fn faulty_room() -> (Arc<FaultyStore>, Room) {
    let store = FaultyStore::new();
    let room = Room::open(store.clone(), Limits::default()).await;
    (store, room)
}

#[tokio::test]
async fn a_full_disk_costs_the_write_and_nothing_else() {
    let (store, room) = faulty_room().await;
    let web = room.put(create(&binding("web"), 1)).await;
    let mut subscriber = room.cache.subscribe(Interest::All, web.revision).unwrap();
    store.disk_is_full.store(true, SeqCst);
    for _ in 0..3 {
        let refused = room.writer.commit(vec![create(&binding("api"), 2)], Atomicity::All).await;
        assert!(matches!(refused, Err(WriteError::Unavailable(_))));
        assert_eq!(room.cache.view().revision, web.revision);
    }
    store.disk_is_full.store(false, SeqCst);
    let api = room.put(create(&binding("api"), 3)).await;
    assert_eq!(api.revision, Revision(2), "the counter stood still");
    let events = subscriber.next().await.unwrap();
    assert_eq!((events.len(), value(&events[0].object)), (1, 3), "nobody saw what was not stored");
}

#[tokio::test]
async fn a_write_whose_answer_got_lost_is_found_in_the_log_and_acknowledged() {
    let (store, room) = faulty_room().await;
    store.answers_are_lost.store(true, SeqCst);
    assert_eq!(room.put(create(&binding("web"), 1)).await.revision, Revision(1));
    store.answers_are_lost.store(false, SeqCst);
    assert_eq!(room.put(create(&binding("api"), 1)).await.revision, Revision(2));
}

#[tokio::test]
async fn no_revision_is_given_twice_while_the_fate_of_a_write_is_unknown() {
    for was_stored in [true, false] {
        let (store, room) = faulty_room().await;
        store.answers_are_lost.store(was_stored, SeqCst);
        store.disk_is_full.store(!was_stored, SeqCst);
        store.is_silent.store(true, SeqCst);
        let refused = room.writer.commit(vec![create(&binding("web"), 1)], Atomicity::All).await;
        assert!(matches!(refused, Err(WriteError::InDoubt(_))), "it may have been stored");
        store.answers_are_lost.store(false, SeqCst);
        store.disk_is_full.store(false, SeqCst);
        let refused = room.writer.commit(vec![create(&binding("api"), 1)], Atomicity::All).await;
        assert!(matches!(refused, Err(WriteError::Unavailable(_))), "still unknown");
        assert_eq!(room.cache.view().revision, Revision::ZERO);
        store.is_silent.store(false, SeqCst);
        let api = room.put(create(&binding("api"), 2)).await;
        assert_eq!(api.revision, Revision(1 + i64::from(was_stored)));
        assert_eq!(room.cache.view().get(&binding("web")).is_some(), was_stored);
    }
}

#[tokio::test]
async fn a_log_that_somebody_else_wrote_to_ends_the_writer() {
    let (store, room) = faulty_room().await;
    room.put(create(&binding("web"), 1)).await;
    let mut foreign = store.inner.changes(Revision::ZERO, 1).await.unwrap().remove(0);
    foreign.key = binding("foreign");
    (foreign.revision, foreign.created) = (Revision(2), Revision(2));
    store.inner.commit(Term::default(), &[foreign.clone()]).await.unwrap();
    (foreign.key, foreign.revision) = (binding("foreign-2"), Revision(3));
    store.inner.commit(Term::default(), &[foreign]).await.unwrap();
    let refused = room.writer.commit(vec![create(&binding("api"), 1)], Atomicity::All).await;
    assert!(matches!(refused, Err(WriteError::Closed)));
    let ended = room.task.await.unwrap().unwrap_err();
    assert!(ended.to_string().contains("another process has written to it"), "{ended}");
    let refused = room.writer.commit(vec![create(&binding("api"), 1)], Atomicity::All).await;
    assert!(matches!(refused, Err(WriteError::Closed)));
}

#[tokio::test]
async fn calls_that_find_the_queue_full_are_turned_away() {
    let store = FaultyStore::new();
    // One call is in flight, one is planned behind it, and four wait.
    let limits = Limits { queue_calls_max: 4, batch_rows_max: 1, ..Limits::default() };
    let room = Room::open(store.clone(), limits).await;
    store.hold();
    let calls: Vec<_> = (0..8)
        .map(|number| {
            let writer = room.writer.clone();
            async move { writer.commit(vec![create(&binding(&format!("web-{number}")), 1)], Atomicity::All).await }
        })
        .collect();
    let mut calls: tokio::task::JoinSet<_> = calls.into_iter().collect();
    let mut busy = 0;
    while busy < 2 {
        assert!(matches!(calls.join_next().await.unwrap().unwrap(), Err(WriteError::Busy)));
        busy += 1;
    }
    store.gate.add_permits(8);
    while let Some(outcome) = calls.join_next().await {
        busy += usize::from(matches!(outcome.unwrap(), Err(WriteError::Busy)));
    }
    assert_eq!(room.cache.view().count(BINDINGS, None), 8 - busy);
}

#[tokio::test]
async fn the_bytes_that_wait_are_bounded_but_a_lone_call_may_be_of_any_size() {
    let store = FaultyStore::new();
    let limits = Limits { queue_bytes_max: 4096, ..Limits::default() };
    let room = Room::open(store.clone(), limits).await;
    let large = || {
        let mut large = object(&binding("large"), 1);
        large.insert("data".into(), "x".repeat(10_000).into());
        large
    };
    store.hold();
    let mut first = Box::pin(room.writer.commit(vec![put(&binding("large"), large())], Atomicity::All));
    assert!(futures_util::poll!(&mut first).is_pending());
    let second = room.writer.commit(vec![put(&binding("large-2"), large())], Atomicity::All).await;
    assert!(matches!(second, Err(WriteError::Busy)));
    store.gate.add_permits(2);
    assert!(first.await.unwrap()[0].is_ok());
    assert!(room.writer.commit(vec![put(&binding("large-2"), large())], Atomicity::All).await.unwrap()[0].is_ok());
}

#[tokio::test]
async fn waiting_writes_share_a_transaction_and_see_each_other() {
    let (store, room) = faulty_room().await;
    store.hold();
    let commit = |write| {
        let writer = room.writer.clone();
        tokio::spawn(async move { writer.commit(vec![write], Atomicity::All).await.unwrap().remove(0) })
    };
    let calls =
        [commit(create(&binding("web"), 1)), commit(create(&binding("api"), 1)), commit(create(&binding("api"), 2))];
    tokio::task::yield_now().await;
    // The first call may be in flight alone; there is no third transaction for the third call.
    store.gate.add_permits(2);
    let [first, second, third] = calls;
    assert_eq!(first.await.unwrap().unwrap().revision, Revision(1));
    assert_eq!(second.await.unwrap().unwrap().revision, Revision(2));
    assert!(matches!(third.await.unwrap(), Err(Rejected::Exists(state)) if state.revision == Revision(2)));
}

/// `raise(ROLLBACK)` acts like a full disk: the transaction is rolled back before its end.
#[tokio::test]
async fn a_file_that_refuses_rows_is_written_again_as_soon_as_it_takes_them() {
    let home = tempfile::tempdir().unwrap();
    let store = store::open(&url(&home), &[]).await.unwrap();
    let room = Room::open(store.clone(), Limits::default()).await;
    room.put(create(&binding("web"), 1)).await;
    let mut beside = SqliteConnectOptions::new().filename(file(&home)).connect().await.unwrap();
    for (round, rows) in [1, 7, 300].into_iter().enumerate() {
        let full = "CREATE TRIGGER full BEFORE INSERT ON changes BEGIN SELECT raise(ROLLBACK, 'full'); END";
        sqlx::raw_sql(full).execute(&mut beside).await.unwrap();
        let before = store.bounds().await.unwrap().last;
        let writes = || (0..rows).map(|number| create(&binding(&format!("{round}-{number}")), 1)).collect::<Vec<_>>();
        let refused = room.writer.commit(writes(), Atomicity::All).await;
        let Err(WriteError::Unavailable(error)) = refused else { panic!("{refused:?}") };
        assert!(matches!(&*error, Error::Unavailable { .. }), "{error}");
        assert_eq!(store.bounds().await.unwrap().last, before);
        sqlx::raw_sql("DROP TRIGGER full").execute(&mut beside).await.unwrap();
        let accepted = room.all(writes()).await;
        assert_eq!(accepted[0].as_ref().unwrap().revision, before.next());
    }
}

/// The lease of a replica's workers is lost while their write is queued.
#[tokio::test]
async fn a_write_whose_fence_falls_before_its_turn_is_not_stored() {
    let (store, room) = faulty_room().await;
    store.hold();
    let is_held = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let fence: Fence = {
        let is_held = Arc::clone(&is_held);
        Arc::new(move || is_held.load(SeqCst))
    };
    let (first, second) = (room.writer.clone(), room.writer.clone());
    let first = tokio::spawn(async move { first.commit(vec![create(&binding("web"), 1)], Atomicity::All).await });
    // The first write is in progress when the others are queued.
    tokio::task::yield_now().await;
    let writes = vec![create(&binding("api"), 1)];
    let second = tokio::spawn(async move { second.commit_behind(Some(fence), writes, Atomicity::All).await });
    let third = room.writer.clone();
    let third = tokio::spawn(async move { third.commit(vec![create(&binding("api"), 2)], Atomicity::All).await });
    tokio::task::yield_now().await;
    is_held.store(false, SeqCst);
    store.gate.add_permits(10);
    assert!(first.await.unwrap().is_ok());
    assert!(matches!(second.await.unwrap(), Err(WriteError::Fenced)));
    assert!(third.await.unwrap().unwrap()[0].is_ok(), "what clients write is not fenced");
    let view = room.cache.view();
    assert_eq!(value(view.get(&binding("api")).unwrap()), 2);
    assert_eq!((view.revision, store.bounds().await.unwrap().last), (Revision(2), Revision(2)));
}
