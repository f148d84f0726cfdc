//! The guarantees of the writer, with the memory store.

use std::sync::Arc;

use ballast::k8s::{Key, Revision};
use ballast::store::MemoryStore;
use ballast::watch::{Atomicity, EventKind, Interest, Limits, Rejected};

use super::fixtures::*;

#[tokio::test]
async fn a_write_is_in_the_view_when_it_is_acknowledged() {
    let room = Room::in_memory().await;
    let made = room.put(create(&binding("web"), 1)).await;
    assert_eq!(made.revision, Revision(1));
    let view = room.cache.view();
    assert_eq!(view.revision, Revision(1));
    assert_eq!(value(view.get(&binding("web")).unwrap()), 1);
    let changed = room.put(update(&binding("web"), made.revision, 2)).await;
    assert_eq!((changed.revision, changed.created), (Revision(2), Revision(1)));
    room.put(delete(&binding("web"), changed.revision)).await;
    assert!(room.cache.view().get(&binding("web")).is_none());
    assert_eq!(value(view.get(&binding("web")).unwrap()), 1, "an old view never changes");
}

#[tokio::test]
async fn unmet_expectations_are_rejected_with_the_state_that_stood_in_the_way() {
    let room = Room::in_memory().await;
    let web = room.put(create(&binding("web"), 1)).await;
    let writes = vec![
        create(&binding("web"), 2),
        update(&binding("web"), Revision(9), 3),
        update(&binding("api"), Revision(1), 4),
        create(&binding("db"), 5),
    ];
    let outcomes = room.writer.commit(writes, Atomicity::Each).await.unwrap();
    assert!(matches!(&outcomes[0], Err(Rejected::Exists(state)) if state.revision == web.revision));
    assert!(matches!(&outcomes[1], Err(Rejected::Changed(state)) if state.revision == web.revision));
    assert!(matches!(&outcomes[2], Err(Rejected::Missing)));
    assert_eq!(outcomes[3].as_ref().unwrap().revision, Revision(2), "rejected writes use no revision");
}

#[tokio::test]
async fn one_rejection_stores_nothing_where_all_or_none_was_asked() {
    let room = Room::in_memory().await;
    let outcomes = room.all(vec![create(&binding("web"), 1), delete(&binding("api"), Revision(1))]).await;
    assert!(matches!(outcomes[..], [Err(Rejected::NotTried), Err(Rejected::Missing)]));
    assert_eq!(room.cache.view().revision, Revision::ZERO);
    assert_eq!(room.put(create(&binding("web"), 1)).await.revision, Revision(1));
}

#[tokio::test]
async fn a_later_write_of_a_call_sees_the_earlier_ones() {
    let room = Room::in_memory().await;
    let key = binding("web");
    let writes = vec![create(&key, 1), update(&key, Revision(1), 2), delete(&key, Revision(2)), create(&key, 3)];
    let outcomes = room.all(writes).await;
    let revisions: Vec<i64> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap().revision.0).collect();
    assert_eq!(revisions, [1, 2, 3, 4]);
    let mut subscriber = room.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
    let kinds: Vec<EventKind> = subscriber.next().await.unwrap().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Created, EventKind::Updated, EventKind::Deleted, EventKind::Created]);
    assert_eq!(subscriber.position(), Revision(4));
}

#[tokio::test]
async fn the_writer_ends_when_nobody_can_write_any_more_and_the_state_is_there_again() {
    let store = Arc::new(MemoryStore::new());
    let room = Room::open(store.clone(), Limits::default()).await;
    let web = room.put(create(&binding("web"), 1)).await;
    room.put(create(&Key::cluster(CLUSTERS, "member1"), 2)).await;
    room.put(update(&binding("web"), web.revision, 3)).await;
    room.close().await;
    let room = Room::open(store, Limits::default()).await;
    let view = room.cache.view();
    assert_eq!((view.revision, view.count(BINDINGS, None), view.count(CLUSTERS, None)), (Revision(3), 1, 1));
    let mut resumed = room.cache.subscribe(Interest::Kinds(vec![BINDINGS]), Revision(1)).unwrap();
    let events = resumed.next().await.unwrap();
    assert_eq!((events.len(), events[0].previous.as_deref().map(value)), (1, Some(1)));
    assert_eq!(value(room.cache.view_at(Revision(2)).unwrap().get(&binding("web")).unwrap()), 1);
}
