//! Calls that are planned while an earlier transaction is in flight.

use std::sync::atomic::Ordering::SeqCst;

use ballast::k8s::Revision;
use ballast::store::Store;
use ballast::watch::{Atomicity, Limits, Rejected, Write, WriteError, Writer};
use tokio::task::{JoinHandle, yield_now};

use super::faults::faulty_room;
use super::faulty::FaultyStore;
use super::fixtures::*;
use super::replicas::{PATIENCE, join_with, lead};

type Answer = Result<Result<Revision, Rejected>, WriteError>;

/// Starts a call of one write, and returns its task.
fn call(writer: &Writer, write: Write) -> JoinHandle<Answer> {
    let writer = writer.clone();
    tokio::spawn(async move {
        let mut outcomes = writer.commit(vec![write], Atomicity::All).await?;
        Ok(outcomes.remove(0).map(|object| object.revision))
    })
}

/// The creation of `web` is in flight to a blocked store. Its change, a second creation, and the
/// creation of another object are planned behind it.
async fn one_behind_the_other(store: &FaultyStore, writer: &Writer) -> (JoinHandle<Answer>, [JoinHandle<Answer>; 3]) {
    let (web, api) = (binding("web"), binding("api"));
    store.hold();
    let first = call(writer, create(&web, 1));
    while store.held.load(SeqCst) == 0 {
        yield_now().await;
    }
    let writes = [update(&web, Revision(1), 2), create(&web, 3), create(&api, 4)];
    let behind = writes.map(|write| call(writer, write));
    for _ in 0..10 {
        yield_now().await;
    }
    (first, behind)
}

async fn answers<const N: usize>(calls: [JoinHandle<Answer>; N]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for call in calls {
        answers.push(tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap());
    }
    answers
}

#[tokio::test]
async fn a_call_sees_what_is_on_its_way_and_hears_nothing_before_that_is_stored() {
    let (store, room) = faulty_room().await;
    let (first, behind) = one_behind_the_other(&store, &room.writer).await;
    assert!(behind.iter().all(|call| !call.is_finished()), "even a rejection tells of what is not stored yet");
    assert_eq!(room.cache.view().revision, Revision::ZERO);
    store.gate.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().unwrap(), Revision(1));
    assert_eq!(room.cache.view().revision, Revision(1), "it is not answered later than needed");
    assert!(behind.iter().all(|call| !call.is_finished()));
    store.gate.add_permits(1);
    let answers = answers(behind).await;
    assert!(matches!(answers[0], Ok(Ok(Revision(2)))), "{answers:?}");
    assert!(matches!(&answers[1], Ok(Err(Rejected::Exists(state))) if state.revision == Revision(2)), "{answers:?}");
    assert!(matches!(answers[2], Ok(Ok(Revision(3)))), "{answers:?}");
    let log = store.changes(Revision::ZERO, 10).await.unwrap();
    let previous: Vec<Revision> = log.iter().map(|change| change.previous).collect();
    assert_eq!(previous, [Revision::ZERO, Revision(1), Revision::ZERO]);
}

#[tokio::test]
async fn calls_behind_what_is_not_stored_are_planned_anew() {
    let (store, room) = faulty_room().await;
    let (first, behind) = one_behind_the_other(&store, &room.writer).await;
    store.disk_is_full.store(true, SeqCst);
    store.gate.add_permits(1);
    assert!(matches!(first.await.unwrap(), Err(WriteError::Unavailable(_))));
    assert!(behind.iter().all(|call| !call.is_finished()));
    store.disk_is_full.store(false, SeqCst);
    store.gate.add_permits(1);
    let answers = answers(behind).await;
    assert!(matches!(answers[0], Ok(Err(Rejected::Missing))), "{answers:?}");
    assert!(matches!(answers[1], Ok(Ok(Revision(1)))), "{answers:?}");
    assert!(matches!(answers[2], Ok(Ok(Revision(2)))), "{answers:?}");
    assert_eq!(value(room.cache.view().get(&binding("web")).unwrap()), 3);
}

#[tokio::test]
async fn calls_behind_what_is_stored_although_its_answer_got_lost_go_on_from_it() {
    let (store, room) = faulty_room().await;
    let (first, behind) = one_behind_the_other(&store, &room.writer).await;
    store.answers_are_lost.store(true, SeqCst);
    store.gate.add_permits(2);
    assert_eq!(first.await.unwrap().unwrap().unwrap(), Revision(1));
    let answers = answers(behind).await;
    assert!(matches!(answers[0], Ok(Ok(Revision(2)))), "{answers:?}");
    assert!(matches!(&answers[1], Ok(Err(Rejected::Exists(_)))), "{answers:?}");
    assert!(matches!(answers[2], Ok(Ok(Revision(3)))), "{answers:?}");
}

#[tokio::test]
async fn calls_behind_what_nobody_knows_the_fate_of_are_refused() {
    let (store, room) = faulty_room().await;
    let (first, behind) = one_behind_the_other(&store, &room.writer).await;
    store.answers_are_lost.store(true, SeqCst);
    store.is_silent.store(true, SeqCst);
    store.gate.add_permits(1 << 20);
    assert!(matches!(first.await.unwrap(), Err(WriteError::InDoubt(_))), "it may have been stored");
    for answer in answers(behind).await {
        assert!(matches!(answer, Err(WriteError::Unavailable(_))), "{answer:?}");
    }
    store.answers_are_lost.store(false, SeqCst);
    store.is_silent.store(false, SeqCst);
    assert_eq!(room.put(create(&binding("db"), 5)).await.revision, Revision(2));
    assert_eq!(value(room.cache.view().get(&binding("web")).unwrap()), 1, "the first one was stored all the same");
}

#[tokio::test]
async fn re2_a_leader_whose_term_is_over_stores_nothing_of_what_it_has_planned() {
    let store = FaultyStore::new();
    let mut old = join_with(store.clone(), Limits::default()).await;
    lead(&*store, &mut old, "one").await;
    let (first, behind) = one_behind_the_other(&store, &old.writer).await;
    let mut new = join_with(store.clone(), Limits::default()).await;
    lead(&*store, &mut new, "two").await;
    store.gate.add_permits(1 << 20);
    assert!(matches!(first.await.unwrap(), Err(WriteError::Deposed)));
    for answer in answers(behind).await {
        assert!(matches!(answer, Err(WriteError::Deposed)), "{answer:?}");
    }
    assert_eq!(store.bounds().await.unwrap().last, Revision::ZERO);
}

#[tokio::test]
async fn a_leader_that_is_asked_to_leave_ends_its_commit_and_refuses_what_it_has_planned() {
    let store = FaultyStore::new();
    let mut leader = join_with(store.clone(), Limits::default()).await;
    lead(&*store, &mut leader, "one").await;
    let (first, behind) = one_behind_the_other(&store, &leader.writer).await;
    let (left, ()) = tokio::join!(leader.role.follow(), async {
        yield_now().await;
        store.gate.add_permits(1 << 20);
    });
    left.unwrap();
    assert_eq!(first.await.unwrap().unwrap().unwrap(), Revision(1));
    for answer in answers(behind).await {
        assert!(matches!(answer, Err(WriteError::Following)), "{answer:?}");
    }
    assert_eq!(store.bounds().await.unwrap().last, Revision(1));
}
