//! A database that loses commits: replicas over one memory store.

use std::sync::Arc;
use std::time::Duration;

use ballast::k8s::Revision;
use ballast::store::{MemoryStore, Store, Term};
use ballast::watch::{Interest, Joined, Limits, Stale, Subscriber, WriteError};
use tokio::time::timeout;

use super::fixtures::*;
use super::replicas::{Link, PATIENCE, join, join_with, lead, next, put};

async fn reached(replica: &Joined, revision: Revision) {
    timeout(PATIENCE, replica.cache.reached(revision)).await.unwrap();
}

fn watch_all(replica: &Joined, after: Revision) -> Subscriber {
    replica.cache.subscribe(Interest::All, after).unwrap()
}

async fn is_told(watching: &mut Subscriber) {
    assert!(timeout(PATIENCE, watching.next()).await.unwrap().is_err(), "it is told to list again");
}

/// Waits until a consistent read succeeds again.
async fn is_fresh(replica: &Joined) {
    let fresh = async {
        while replica.cache.fresh().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, fresh).await.unwrap();
}

/// ha-01: the log is shorter than the state that both replicas have seen.
#[tokio::test]
async fn re11_a_log_that_was_taken_back_is_lifted_beyond_all_that_was_seen() {
    let store = Arc::new(MemoryStore::new());
    let (mut one, mut two) = (join(&store).await, join(&store).await);
    lead(&*store, &mut one, "one").await;
    let kept = put(&one, create(&binding("kept"), 1)).await.unwrap();
    let standby = store.standby();
    let mut seen = kept;
    for number in 0..20 {
        seen = put(&one, create(&binding(&format!("lost-{number}")), number)).await.unwrap();
    }
    reached(&two, seen).await;
    let mut watching = [watch_all(&one, seen), watch_all(&two, seen)];

    store.fail_over(standby);
    // The leader has lost its authority: it stores nothing on a server that it has not accepted.
    let refused = put(&one, create(&binding("late"), 1)).await;
    assert!(matches!(refused, Err(WriteError::Deposed | WriteError::Following)), "{refused:?}");
    timeout(PATIENCE, one.role.lost()).await.unwrap().unwrap();
    lead(&*store, &mut two, "two").await;

    let first = put(&two, create(&binding("lost-7"), 70)).await.unwrap();
    assert!(first > seen.next(), "no revision is given out again: {first}");
    reached(&one, first).await;
    for (replica, watching) in [&one, &two].into_iter().zip(&mut watching) {
        is_told(watching).await;
        is_fresh(replica).await;
        let view = replica.cache.view();
        assert_eq!(view.count(BINDINGS, None), 2);
        assert_eq!(value(view.get(&binding("lost-7")).unwrap()), 70);
        // One lift causes one 410: a watch from the new list continues.
        let mut again = watch_all(replica, first);
        assert!(again.next_ready().is_none_or(|events| events.is_ok()));
        assert!(replica.cache.subscribe(Interest::All, seen).is_err(), "and nothing resumes from before");
    }
    let loss = two.cache.loss().borrow().unwrap();
    assert_eq!((loss.after, loss.through, loss.revisions()), (kept, seen, 20));
}

/// ha-02: a replica was cut off, and returns when the log has passed its view. The others did not
/// know of it, since its row in the list was missing.
#[tokio::test]
async fn re10_a_replica_that_comes_back_to_another_history_shows_nothing_of_its_own() {
    for is_update in [false, true] {
        let store = Arc::new(MemoryStore::new());
        let link = Arc::new(Link::new(store.clone()));
        let (mut one, mut cut) = (join(&store).await, join_with(link.clone(), Limits::default()).await);
        lead(&*store, &mut one, "one").await;
        let kept = put(&one, create(&binding("web"), 1)).await.unwrap();
        let standby = store.standby();
        // ha-03: the same with updates. The log is complete, and no backup must be restored.
        let write = |number: i64, at: Revision| match is_update {
            true => update(&binding("web"), at, number),
            false => create(&binding(&format!("b-{number}")), number),
        };
        let mut seen = kept;
        for number in 0..5 {
            seen = put(&one, write(number, seen)).await.unwrap();
        }
        reached(&cut, seen).await;
        let mut watching = watch_all(&cut, seen);
        link.cut();
        drop(one);
        store.fail_over(standby);
        let mut two = join(&store).await;
        lead(&*store, &mut two, "two").await;
        let mut at = kept;
        for number in 100..120 {
            at = put(&two, write(number, at)).await.unwrap();
        }
        assert!(at > seen, "the log has passed the view");

        link.mend();
        timeout(PATIENCE, two.role.lost()).await.unwrap().unwrap();
        assert!(cut.cache.is_taken_back() && cut.cache.is_outdated() && cut.cache.is_cut_off());
        assert_eq!(cut.cache.fresh().await, Err(Stale::TakenBack));
        let refused = put(&two, create(&binding("early"), 1)).await;
        assert!(matches!(refused, Err(WriteError::Deposed | WriteError::Following)), "{refused:?}");
        // It does not lead from its view, and lifts the log if it is elected.
        lead(&*store, &mut cut, "cut").await;
        is_told(&mut watching).await;
        is_fresh(&cut).await;
        reached(&two, cut.cache.view().revision).await;
        let texts = |replica: &Joined| -> Vec<_> {
            replica.cache.view().list(BINDINGS, None).map(|it| (it.revision, it.text.whole())).collect()
        };
        assert_eq!(texts(&cut), texts(&two), "updates: {is_update}");
        let first = put(&cut, create(&binding("more"), 1)).await.unwrap();
        assert!(first.0 > at.0 + 1);
    }
}

/// A mark, a lift and the first write are three steps. A process may die between them.
#[tokio::test]
async fn re11_who_dies_between_the_mark_the_lift_and_the_first_write_leaves_the_rest_to_the_next() {
    for is_lifted in [false, true] {
        let store = Arc::new(MemoryStore::new());
        let mut one = join(&store).await;
        lead(&*store, &mut one, "one").await;
        put(&one, create(&binding("web"), 1)).await.unwrap();
        let standby = store.standby();
        let seen = put(&one, create(&binding("lost"), 1)).await.unwrap();
        store.fail_over(standby);
        timeout(PATIENCE, one.role.lost()).await.unwrap().unwrap();
        let marked = async {
            while store.losses().await.unwrap().marked != seen {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, marked).await.unwrap();
        let mut lifted_to = None;
        if is_lifted {
            lead(&*store, &mut one, "one").await;
            lifted_to = Some(store.bounds().await.unwrap().last);
        }
        one.task.abort();
        drop(one);

        // The next process knows nothing of it.
        let mut next = join(&store).await;
        lead(&*store, &mut next, "next").await;
        let first = put(&next, create(&binding("lost"), 2)).await.unwrap();
        match lifted_to {
            Some(to) => assert_eq!(first, to.next(), "it is lifted once"),
            None => assert!(first > seen.next()),
        }
    }
}

/// A second failover reverts the lift. Another lift may lead to the same revision, from another
/// state.
#[tokio::test]
async fn re10_a_lift_that_was_lost_is_not_taken_for_another_one() {
    let store = Arc::new(MemoryStore::new());
    let link = Arc::new(Link::new(store.clone()));
    let (mut one, mut cut) = (join(&store).await, join_with(link.clone(), Limits::default()).await);
    lead(&*store, &mut one, "one").await;
    put(&one, create(&binding("web"), 1)).await.unwrap();
    let term = lead(&*store, &mut one, "one").await;
    let standby = store.standby();
    const TO: Revision = Revision(5000);
    put(&one, create(&binding("lost"), 1)).await.unwrap();
    store.bump_revision(term, TO).await.unwrap();
    reached(&cut, TO).await;
    link.cut();
    one.task.abort();
    drop(one);
    store.fail_over(standby);
    let other = ballast::store::Candidate { name: "other".into(), address: String::new() };
    let term = store.lead_in(&other, Term(100), Duration::from_secs(60)).await.unwrap().term;
    store.accept(term).await.unwrap();
    store.bump_revision(term, TO).await.unwrap();
    store.resign(term).await.unwrap();

    link.mend();
    let noticed = async {
        while !cut.cache.is_taken_back() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, noticed).await.unwrap();
    lead(&*store, &mut cut, "cut").await;
    assert!(cut.cache.view().get(&binding("lost")).is_none());
    assert!(cut.cache.view().revision > TO);
}

/// Nothing was lost: a synchronous standby takes over, and no client lists again.
#[tokio::test]
async fn re11_a_standby_that_has_everything_costs_no_watch() {
    let store = Arc::new(MemoryStore::new());
    let (mut one, mut two) = (join(&store).await, join(&store).await);
    lead(&*store, &mut one, "one").await;
    let at = put(&one, create(&binding("web"), 1)).await.unwrap();
    reached(&two, at).await;
    let mut watching = watch_all(&two, at);
    store.fail_over(store.standby());
    timeout(PATIENCE, one.role.lost()).await.unwrap().unwrap();
    lead(&*store, &mut two, "two").await;
    assert_eq!(put(&two, create(&binding("api"), 1)).await.unwrap(), at.next());
    assert_eq!(next(&mut watching, 1).await[0].revision, at.next());
    assert!(two.cache.loss().borrow().is_none());
}
