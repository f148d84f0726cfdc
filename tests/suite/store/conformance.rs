//! One suite for every back end: the same calls must return the same results. The memory store is
//! the reference.

use std::sync::Arc;
use std::time::Duration;

use ballast::clock::{Clock, ManualClock};
use ballast::k8s::{Key, Revision, Time};
use ballast::store::{self, Bounds, Candidate, Change, Error, HistoryOf, Operation, ReplicaReport, Span, Store, Term};
use bytes::Bytes;

use super::fixtures::*;
use super::lost_marks::*;
use super::replaced::*;
use crate::support::{postgres::Cluster, wait_for};

/// The term before the first leader.
const FIRST: Term = Term(0);

macro_rules! over_every_back_end {
    ($($rule:ident)*) => {
        mod memory {
            $(#[tokio::test] async fn $rule() { super::$rule(store_in_memory().await).await; })*
            use super::store_in_memory;
        }
        mod sqlite {
            $(#[tokio::test] async fn $rule() {
                let home = tempfile::tempdir().unwrap();
                super::$rule(store_in_file(&home).await).await;
            })*
            use super::store_in_file;
        }
        mod postgres {
            $(#[tokio::test] async fn $rule() {
                let Some(cluster) = Cluster::shared() else { return };
                super::$rule(store::open(&cluster.schema().await, &[]).await.unwrap()).await;
            })*
            use super::{Cluster, store};
        }
    };
}

over_every_back_end! {
    an_empty_store_is_at_zero what_was_committed_is_read_back the_newest_row_of_a_key_is_its_state
    a_batch_is_stored_as_a_whole_or_not_at_all revisions_have_no_gaps
    a_state_that_is_no_longer_the_newest_cannot_be_replaced
    pages_show_one_moment_whatever_is_written_meanwhile pages_cross_a_long_history
    one_leads_and_the_others_hear_who a_term_from_elsewhere_leads_if_it_is_later_than_all_before
    a_lease_ends_by_itself replicas_hear_of_each_other_and_who_of_them_leads
    so_many_replicas_are_told_and_no_more nothing_is_stored_for_a_leader_of_the_past
    what_became_of_a_commit_is_known news_come_with_a_commit_and_when_a_leader_resigns
    compaction_keeps_what_was_the_state compaction_goes_in_slices_and_can_be_repeated
    a_compacted_deletion_does_not_turn_the_counter_back
    a_deleted_key_stays_deleted_however_far_compaction_has_come revisions_are_found_by_time
    a_lifted_log_begins_after_all_that_was_before an_empty_log_can_be_lifted only_who_leads_lifts
    re10_the_end_of_the_log_is_told_with_its_row_and_its_lift
    re11_a_lost_history_is_marked_until_the_log_is_lifted_beyond_it
    re11_what_a_replica_has_seen_is_known_to_the_next_leader large_batches_keep_their_order
    the_past_of_a_kind_is_told_with_what_it_replaced
    the_past_of_a_key_is_what_the_past_of_its_kind_tells_of_it
    what_the_keys_of_a_kind_had_before_their_first_change_is_told what_history_takes_is_told_for_each_change
}

async fn store_in_memory() -> Arc<dyn Store> {
    store::open("memory:", &[]).await.unwrap()
}

async fn store_in_file(home: &tempfile::TempDir) -> Arc<dyn Store> {
    store::open(&url(home), &[]).await.unwrap()
}

/// Builds changes: numbers them, and tracks the states that they replace.
#[derive(Clone, Default)]
pub struct Rows {
    last: i64,
    pub rows: Vec<Change>,
}

impl Rows {
    pub fn after(last: i64) -> Rows {
        Rows { last, rows: Vec::new() }
    }

    pub fn create(self, key: &Key) -> Rows {
        let created = self.last + 1;
        self.row(key, Operation::Create, created, 0)
    }

    pub fn update(self, key: &Key, created: i64, previous: i64) -> Rows {
        self.row(key, Operation::Update, created, previous)
    }

    pub fn delete(self, key: &Key, created: i64, previous: i64) -> Rows {
        self.row(key, Operation::Delete, created, previous)
    }

    fn row(mut self, key: &Key, operation: Operation, created: i64, previous: i64) -> Rows {
        self.last += 1;
        let object = match self.last % 3 {
            0 => format!(r#"{{"metadata":{{"name":"{}","resourceVersion":"{}"}}}}"#, key.name, self.last),
            words => managed(key, self.last, words),
        };
        self.rows.push(Change {
            revision: Revision(self.last),
            key: key.clone(),
            operation,
            created: Revision(created),
            previous: Revision(previous),
            time_ms: self.last * 1000,
            object: Bytes::from(object),
        });
        self
    }
}

/// Returns an object with managed fields of several managers, at distinct times.
fn managed(key: &Key, revision: i64, words: i64) -> String {
    let time = Time::from_seconds(revision);
    format!(
        r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{{"f:spec":{{"f:part-{words}":{{}}}}}},"manager":"kubectl","time":"{time}"}},{{"manager":"ballast-scheduler","subresource":"status","time":"2026-11-24T08:00:00Z"}}],"name":"{}","resourceVersion":"{revision}"}}}}"#,
        key.name
    )
}

pub fn anna() -> Candidate {
    Candidate { name: "anna".into(), address: "anna:7443".into() }
}

pub fn bert() -> Candidate {
    Candidate { name: "bert".into(), address: "bert:7443".into() }
}

pub async fn commit(store: &Arc<dyn Store>, rows: Rows) -> Vec<Change> {
    store.commit(FIRST, &rows.rows).await.unwrap();
    rows.rows
}

pub async fn compact(store: &Arc<dyn Store>, through: i64) {
    while store.compact(Revision(through), 2).await.unwrap() {}
}

async fn revisions(store: &Arc<dyn Store>) -> Vec<i64> {
    let all: Vec<Revision> = (1..=store.bounds().await.unwrap().last.0).map(Revision).collect();
    store.rows(&all).await.unwrap().iter().map(|row| row.revision.0).collect()
}

async fn an_empty_store_is_at_zero(store: Arc<dyn Store>) {
    assert_eq!(store.bounds().await.unwrap(), Bounds { last: Revision(0), compacted: Revision(0) });
    assert_eq!(states(&store).await, []);
    assert_eq!(store.changes(Revision(0), 10).await.unwrap(), []);
    assert_eq!(store.revision_before(i64::MAX).await.unwrap(), Revision(0));
    assert!(!store.compact(Revision(10), 10).await.unwrap());
    assert_eq!(store.bounds().await.unwrap().compacted, Revision(0), "only what is there can be compacted");
    store.commit(FIRST, &[]).await.unwrap();
}

async fn what_was_committed_is_read_back(store: Arc<dyn Store>) {
    let key = Key::namespaced(BINDINGS, "shop", "web-ü'\"\\");
    let mut rows = Rows::default().create(&key).create(&Key::cluster(CLUSTERS, "member1"));
    rows.rows[0].object = Bytes::from("{\"metadata\":{},\"spec\":\"ü\\u0001 'quoted' \\\\ 😀\"}");
    let rows = commit(&store, rows).await;
    assert_eq!(store.changes(Revision(0), 10).await.unwrap(), rows);
    assert_eq!(states(&store).await, rows);
    assert_eq!(store.rows(&[Revision(2), Revision(1), Revision(3)]).await.unwrap(), rows);
    assert_eq!(store.changes(Revision(1), 10).await.unwrap(), rows[1..]);
    assert_eq!(store.changes(Revision(0), 1).await.unwrap(), rows[..1]);
}

async fn the_newest_row_of_a_key_is_its_state(store: Arc<dyn Store>) {
    let (web, api) = (binding("web"), binding("api"));
    let rows = Rows::default().create(&web).create(&api).update(&web, 1, 1).delete(&api, 2, 2).create(&api);
    let rows = commit(&store, rows).await;
    assert_eq!(states(&store).await, [rows[2].clone(), rows[4].clone()]);
    commit(&store, Rows::after(5).delete(&api, 5, 5)).await;
    assert_eq!(states(&store).await, [rows[2].clone()]);
}

async fn a_batch_is_stored_as_a_whole_or_not_at_all(store: Arc<dyn Store>) {
    let (web, api) = (binding("web"), binding("api"));
    commit(&store, Rows::default().create(&web)).await;
    for size in [1, 4, 5, 70] {
        let mut rows = Rows::after(1);
        for number in 1..size {
            rows = rows.create(&binding(&format!("other-{number}")));
        }
        let error = store.commit(FIRST, &rows.update(&api, 1, 1).rows).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { key } if key == api), "a batch of {size}");
        assert_eq!(revisions(&store).await, [1]);
    }
    commit(&store, Rows::after(1).create(&api)).await;
}

async fn revisions_have_no_gaps(store: Arc<dyn Store>) {
    commit(&store, Rows::default().create(&binding("web"))).await;
    for last in [0, 2, 7] {
        let error = store.commit(FIRST, &Rows::after(last).create(&binding("api")).rows).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "after {last}");
    }
    let mut holed = Rows::after(1).create(&binding("a")).create(&binding("b")).create(&binding("c"));
    holed.rows.remove(1);
    assert!(
        matches!(store.commit(FIRST, &holed.rows).await.unwrap_err(), Error::Conflict { key } if key == binding("c"))
    );
    assert_eq!(store.bounds().await.unwrap().last, Revision(1));
}

async fn a_state_that_is_no_longer_the_newest_cannot_be_replaced(store: Arc<dyn Store>) {
    let (web, api) = (binding("web"), binding("api"));
    commit(&store, Rows::default().create(&web).update(&web, 1, 1).create(&api).delete(&api, 3, 3)).await;
    let refused = [
        ("an old revision", Rows::after(4).update(&web, 1, 1)),
        ("a key that exists", Rows::after(4).create(&web)),
        ("a deleted key", Rows::after(4).update(&api, 3, 4)),
        ("a deletion twice", Rows::after(4).delete(&api, 3, 3)),
        ("an update of nothing", Rows::after(4).update(&binding("db"), 0, 0)),
        ("the same twice in a batch", Rows::after(4).update(&web, 1, 2).update(&web, 1, 2)),
    ];
    for (case, rows) in refused {
        assert!(matches!(store.commit(FIRST, &rows.rows).await, Err(Error::Conflict { .. })), "{case}");
    }
    commit(&store, Rows::after(4).update(&web, 1, 2).delete(&web, 1, 5).create(&web).create(&api)).await;
}

async fn pages_show_one_moment_whatever_is_written_meanwhile(store: Arc<dyn Store>) {
    let key = |number: usize| binding(&format!("key-{number}"));
    let rows = (0..7).fold(Rows::default(), |rows, number| rows.create(&key(number)));
    let rows = commit(&store, rows.update(&key(1), 2, 2).delete(&key(2), 3, 3)).await;
    let mut seen = store.page(Revision(9), Revision::ZERO, 3).await.unwrap();
    assert_eq!(seen, [rows[0].clone(), rows[3].clone(), rows[4].clone()]);
    // A state with a previous version, one without, a deletion and a creation.
    commit(&store, Rows::after(9).update(&key(0), 1, 1).update(&key(5), 6, 6).delete(&key(6), 7, 7).create(&key(8)))
        .await;
    for expected in [3, 0] {
        let page = store.page(Revision(9), seen.last().unwrap().revision, 3).await.unwrap();
        assert_eq!(page.len(), expected);
        seen.extend(page);
    }
    assert_eq!(seen.iter().map(|row| row.revision.0).collect::<Vec<_>>(), [1, 4, 5, 6, 7, 8]);
    compact(&store, 10).await;
    let error = store.page(Revision(9), Revision::ZERO, 3).await.unwrap_err();
    assert!(matches!(error, Error::Compacted { asked: Revision(9), compacted: Revision(10) }));
    assert_eq!(states(&store).await.iter().map(|row| row.revision.0).collect::<Vec<_>>(), [4, 5, 8, 10, 11, 13]);
}

/// States far apart, with replacements and deletions between them.
async fn pages_cross_a_long_history(store: Arc<dyn Store>) {
    let (first, busy, gone, last) = (binding("first"), binding("busy"), binding("gone"), binding("last"));
    let mut rows = Rows::default().create(&first).create(&busy).create(&gone).delete(&gone, 3, 3);
    for revision in 5..=600 {
        rows = rows.update(&busy, 2, if revision == 5 { 2 } else { revision - 1 });
    }
    commit(&store, rows.create(&last)).await;
    let newest = [1, 600, 601];
    let pages = async |at: i64, limit: usize| {
        let (mut found, mut after) = (Vec::new(), Revision::ZERO);
        loop {
            let page = store.page(Revision(at), after, limit).await.unwrap();
            found.extend(page.iter().map(|row| row.revision.0));
            match page.last() {
                Some(last) if page.len() == limit => after = last.revision,
                _ => return found,
            }
        }
    };
    for limit in [1, 2, 3, 1000] {
        assert_eq!(pages(601, limit).await, newest);
        assert_eq!(pages(300, limit).await, [1, 300]);
        assert_eq!(pages(3, limit).await, [1, 2, 3]);
    }
    // A compaction that is half done, and one that is complete.
    assert!(store.compact(Revision(400), 150).await.unwrap());
    assert_eq!(pages(601, 2).await, newest);
    assert_eq!(pages(450, 2).await, [1, 450]);
    compact(&store, 601).await;
    assert_eq!(pages(601, 2).await, newest);
}

async fn one_leads_and_the_others_hear_who(store: Arc<dyn Store>) {
    let lease = Duration::from_secs(60);
    let led = store.lead(&anna(), lease).await.unwrap();
    assert!(led.is_held_by(&anna()) && led.term == Term(1) && led.address == "anna:7443", "{led:?}");
    assert!(led.remaining <= lease && led.remaining > lease / 2, "{led:?}");
    let heard = store.lead(&bert(), lease).await.unwrap();
    assert!(heard.is_held_by(&anna()) && !heard.is_held_by(&bert()) && heard.term == Term(1), "{heard:?}");
    assert_eq!(store.lead(&anna(), lease).await.unwrap().term, Term(1), "renewed");
    store.resign(Term(0)).await.unwrap();
    assert_eq!(store.lead(&bert(), lease).await.unwrap().holder, "anna", "a term that has ended ends nothing");
    store.resign(Term(1)).await.unwrap();
    let led = store.lead(&bert(), lease).await.unwrap();
    assert!(led.is_held_by(&bert()) && led.term > Term(1), "{led:?}");
}

async fn a_lease_ends_by_itself(store: Arc<dyn Store>) {
    let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
    let first = store.lead(&anna(), short).await.unwrap();
    let taken = wait_for("the lease to end", async || {
        let heard = store.lead(&bert(), long).await.unwrap();
        heard.is_held_by(&bert()).then_some(heard)
    });
    let taken = taken.await;
    assert!(taken.term > first.term, "{taken:?}");
    assert_eq!(store.lead(&anna(), long).await.unwrap().holder, "bert");
}

/// Returns the report of a replica that lags by this much.
fn announcement(replica: Candidate, missing: u64) -> ReplicaReport {
    let lag = Duration::from_millis(7 * missing);
    ReplicaReport { replica, version: "0.1.0".into(), seen: Revision(40), missing, lag }
}

async fn replicas_hear_of_each_other_and_who_of_them_leads(store: Arc<dyn Store>) {
    let patience = Duration::from_secs(600);
    let alone = store.announce(&announcement(bert(), 0)).await.unwrap();
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert!(alone[0].announcement == announcement(bert(), 0) && !alone[0].leads, "{alone:?}");

    store.lead(&bert(), patience).await.unwrap();
    let both = store.announce(&announcement(anna(), 3)).await.unwrap();
    let told: Vec<&ReplicaReport> = both.iter().map(|sighting| &sighting.announcement).collect();
    assert_eq!(told, [&announcement(anna(), 3), &announcement(bert(), 0)], "by name");
    assert_eq!(both.iter().map(|sighting| sighting.leads).collect::<Vec<_>>(), [false, true]);
    assert!(both.iter().all(|sighting| sighting.silent < patience), "{both:?}");

    // The last report counts, and a silent replica is silent for longer and longer.
    wait_for("silence", async || {
        let heard = store.announce(&announcement(anna(), 1)).await.unwrap();
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert_eq!(heard[0].announcement, announcement(anna(), 1));
        (heard[1].silent > Duration::from_millis(50)).then_some(())
    })
    .await;

    let term = store.lead(&bert(), patience).await.unwrap().term;
    store.resign(term).await.unwrap();
    store.depart("bert").await.unwrap();
    store.depart("bert").await.unwrap();
    let left = store.announce(&announcement(anna(), 0)).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].announcement == announcement(anna(), 0) && !left[0].leads, "{left:?}");
    assert_eq!(store.bounds().await.unwrap().last, Revision::ZERO, "the log has nothing of it");
}

async fn so_many_replicas_are_told_and_no_more(store: Arc<dyn Store>) {
    let named = |number: usize| Candidate { name: format!("replica-{number:02}"), address: String::new() };
    for number in 0..40 {
        let heard = store.announce(&announcement(named(number), 0)).await.unwrap();
        assert_eq!(heard.len(), (number + 1).min(32));
        assert!(heard.iter().any(|sighting| sighting.announcement.replica == named(number)), "itself");
    }
}

async fn a_term_from_elsewhere_leads_if_it_is_later_than_all_before(store: Arc<dyn Store>) {
    let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
    let nobody = store.lead_in(&anna(), Term(0), long).await.unwrap();
    assert!(nobody.holder.is_empty() && nobody.term == Term(0), "{nobody:?}");
    let led = store.lead_in(&anna(), Term(7), long).await.unwrap();
    assert!(led.is_held_by(&anna()) && led.term == Term(7) && led.remaining > long / 2, "{led:?}");
    assert_eq!(store.lead_in(&anna(), Term(7), short).await.unwrap().term, Term(7), "renewed");
    for term in [Term(0), Term(6), Term(7)] {
        let heard = store.lead_in(&bert(), term, long).await.unwrap();
        assert_eq!((&*heard.holder, heard.term, &*heard.address), ("anna", Term(7), "anna:7443"), "{term}");
    }
    // The end of the lease makes no replica the leader.
    wait_for("the lease to end", async || {
        let heard = store.lead_in(&bert(), Term(7), long).await.unwrap();
        assert!(!heard.is_held_by(&bert()), "{heard:?}");
        (!heard.is_held_by(&anna())).then_some(())
    })
    .await;
    let rows = Rows::default().create(&binding("web"));
    store.commit(Term(7), &rows.rows).await.unwrap();
    assert!(store.lead_in(&bert(), Term(9), long).await.unwrap().is_held_by(&bert()), "before the other ends");
    let late = Rows::after(1).create(&binding("api"));
    let refused = store.commit(Term(7), &late.rows).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { current: Term(9), .. }), "{refused:?}");
    assert!(!store.lead_in(&anna(), Term(7), long).await.unwrap().is_held_by(&anna()), "its term is over");
    store.commit(Term(9), &late.rows).await.unwrap();
    store.resign(Term(9)).await.unwrap();
    assert!(!store.lead_in(&bert(), Term(9), long).await.unwrap().is_held_by(&bert()), "it was given back");
}

async fn nothing_is_stored_for_a_leader_of_the_past(store: Arc<dyn Store>) {
    let lease = Duration::from_secs(60);
    let first = store.lead(&anna(), lease).await.unwrap().term;
    let rows = Rows::default().create(&binding("web"));
    let refused = store.commit(Term(0), &rows.rows).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { asked: Term(0), current } if current == first), "{refused:?}");
    store.commit(first, &rows.rows).await.unwrap();
    store.resign(first).await.unwrap();
    let second = store.lead(&bert(), lease).await.unwrap().term;
    let late = Rows::after(1).create(&binding("api"));
    let refused = store.commit(first, &late.rows).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { current, .. } if current == second), "{refused:?}");
    assert!(!store.settle(first, &late.rows).await.unwrap());
    assert_eq!(store.bounds().await.unwrap().last, Revision(1));
    store.commit(second, &late.rows).await.unwrap();
}

async fn what_became_of_a_commit_is_known(store: Arc<dyn Store>) {
    let rows = commit(&store, Rows::default().create(&binding("web"))).await;
    assert!(store.settle(FIRST, &rows).await.unwrap());
    let others = Rows::default().create(&binding("api")).rows;
    assert!(!store.settle(FIRST, &others).await.unwrap(), "the same revision with other contents");
    assert!(!store.settle(FIRST, &Rows::after(1).create(&binding("db")).rows).await.unwrap());
    commit(&store, Rows::after(1).create(&binding("db"))).await;
}

async fn news_come_with_a_commit_and_when_a_leader_resigns(store: Arc<dyn Store>) {
    commit(&store, Rows::default().create(&binding("web"))).await;
    store.news(Revision(0)).await.unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            while store.bounds().await.unwrap().last <= Revision(1) {
                store.news(Revision(1)).await.unwrap();
            }
        }
    });
    commit(&store, Rows::after(1).create(&binding("api"))).await;
    let deadline = Duration::from_secs(20);
    tokio::time::timeout(deadline, waiting).await.unwrap().unwrap();
    let term = store.lead(&anna(), deadline).await.unwrap().term;
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            while store.lead(&bert(), deadline).await.unwrap().holder == "anna" {
                // A resignation just before is not reported.
                let _ = tokio::time::timeout(deadline / 40, store.news(Revision(2))).await;
            }
        }
    });
    tokio::task::yield_now().await;
    store.resign(term).await.unwrap();
    tokio::time::timeout(deadline, waiting).await.unwrap().unwrap();
}

async fn compaction_keeps_what_was_the_state(store: Arc<dyn Store>) {
    let (web, api, db) = (binding("web"), binding("api"), binding("db"));
    let rows = Rows::default()
        .create(&web)
        .create(&api)
        .update(&web, 1, 1)
        .create(&db)
        .delete(&api, 2, 2)
        .update(&web, 1, 3)
        .create(&api);
    let rows = commit(&store, rows).await;
    compact(&store, 5).await;
    // At revision 5, web was row 3 and db row 4; row 6 replaced web only later.
    assert_eq!(revisions(&store).await, [3, 4, 6, 7]);
    assert_eq!(store.bounds().await.unwrap(), Bounds { last: Revision(7), compacted: Revision(5) });
    assert_eq!(store.changes(Revision(5), 10).await.unwrap(), rows[5..]);
    let error = store.changes(Revision(4), 10).await.unwrap_err();
    assert!(matches!(error, Error::Compacted { asked: Revision(4), compacted: Revision(5) }));
    compact(&store, 3).await;
    assert_eq!(store.bounds().await.unwrap().compacted, Revision(5), "compaction never goes back");
    compact(&store, 100).await;
    assert_eq!(revisions(&store).await, [4, 6, 7]);
    assert_eq!(store.bounds().await.unwrap(), Bounds { last: Revision(7), compacted: Revision(7) });
    assert_eq!(states(&store).await.len(), 3);
}

async fn compaction_goes_in_slices_and_can_be_repeated(store: Arc<dyn Store>) {
    let web = binding("web");
    let rows = (1..10).fold(Rows::default().create(&web), |rows, previous| rows.update(&web, 1, previous));
    commit(&store, rows).await;
    assert!(store.compact(Revision(9), 4).await.unwrap());
    let bounds = store.bounds().await.unwrap();
    assert_eq!(bounds.compacted, Revision(9), "said before it is done");
    assert!(revisions(&store).await.len() > 2);
    assert!(store.compact(Revision(9), 4).await.unwrap());
    assert!(!store.compact(Revision(9), 4).await.unwrap());
    assert!(!store.compact(Revision(9), 4).await.unwrap());
    assert_eq!(revisions(&store).await, [9, 10]);
}

async fn a_compacted_deletion_does_not_turn_the_counter_back(store: Arc<dyn Store>) {
    let web = binding("web");
    commit(&store, Rows::default().create(&web).delete(&web, 1, 1)).await;
    compact(&store, 2).await;
    assert_eq!(revisions(&store).await, [0; 0]);
    assert_eq!(store.bounds().await.unwrap(), Bounds { last: Revision(2), compacted: Revision(2) });
    assert!(matches!(store.commit(FIRST, &Rows::default().create(&web).rows).await, Err(Error::Conflict { .. })));
    commit(&store, Rows::after(2).create(&web)).await;
    assert_eq!(revisions(&store).await, [3]);
}

async fn a_deleted_key_stays_deleted_however_far_compaction_has_come(store: Arc<dyn Store>) {
    let web = binding("web");
    commit(&store, Rows::default().create(&web).update(&web, 1, 1).delete(&web, 1, 2).create(&binding("api"))).await;
    loop {
        let more = store.compact(Revision(4), 1).await.unwrap();
        assert_eq!(states(&store).await.len(), 1);
        if !more {
            break;
        }
    }
    assert_eq!(revisions(&store).await, [4]);
}

async fn revisions_are_found_by_time(store: Arc<dyn Store>) {
    let web = binding("web");
    let rows = (1..20).fold(Rows::default().create(&web), |rows, previous| rows.update(&web, 1, previous));
    commit(&store, rows).await;
    let before = async |time_ms| store.revision_before(time_ms).await.unwrap().0;
    assert_eq!([before(0).await, before(1000).await, before(1001).await, before(7500).await], [0, 0, 1, 7]);
    assert_eq!(before(i64::MAX).await, 20);
    compact(&store, 10).await;
    assert_eq!([before(7500).await, before(10_001).await, before(15_001).await], [0, 10, 15]);
}

/// Revisions that clients have seen elsewhere: too many to iterate over.
const LIFTED: i64 = 3_000_000_000;

async fn lifted_log(store: &Arc<dyn Store>) -> Vec<Change> {
    let (web, api, db) = (binding("web"), binding("api"), binding("db"));
    let rows = Rows::default().create(&web).create(&api).update(&web, 1, 1).delete(&api, 2, 2).create(&db);
    let rows = commit(store, rows).await;
    store.bump_revision(FIRST, Revision(LIFTED)).await.unwrap();
    vec![rows[2].clone(), rows[4].clone()]
}

async fn a_lifted_log_begins_after_all_that_was_before(store: Arc<dyn Store>) {
    let (web, api) = (binding("web"), binding("api"));
    let kept = lifted_log(&store).await;
    let bounds = Bounds { last: Revision(LIFTED), compacted: Revision(LIFTED) };
    assert_eq!(store.bounds().await.unwrap(), bounds);
    assert_eq!(states(&store).await, kept);
    let all: Vec<Revision> = (1..=5).map(Revision).collect();
    assert_eq!(store.rows(&all).await.unwrap(), kept, "nothing is left but the states");
    for asked in [0, 5, 6, LIFTED - 1].map(Revision) {
        let span = Span { after: asked, through: Revision(i64::MAX) };
        for refused in [
            store.changes(asked, 10).await.map(drop),
            store.history(&HistoryOf::Kind(BINDINGS), span, 10).await.map(drop),
            store.replaced(BINDINGS, span, Revision::ZERO, 10).await.map(drop),
            store.page(asked, Revision::ZERO, 10).await.map(drop),
        ] {
            let is_past = matches!(refused, Err(Error::Compacted { compacted: Revision(LIFTED), .. }));
            assert!(is_past, "{asked}: {refused:?}");
        }
    }
    store.news(Revision(5)).await.unwrap();
    assert_eq!(store.changes(Revision(LIFTED), 10).await.unwrap(), []);

    // The log continues from there, and is compacted as usual.
    let refused = store.commit(FIRST, &Rows::after(5).create(&api).rows).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
    let rows = Rows::after(LIFTED).update(&web, 1, 3).create(&api).delete(&api, LIFTED + 2, LIFTED + 2);
    let mut rows = rows.rows;
    rows.iter_mut().for_each(|row| row.time_ms = 6000);
    store.commit(FIRST, &rows).await.unwrap();
    assert_eq!(store.changes(Revision(LIFTED), 10).await.unwrap(), rows);
    assert_eq!(states(&store).await, [kept[1].clone(), rows[0].clone()]);
    assert_eq!(store.page(Revision(LIFTED), Revision::ZERO, 10).await.unwrap(), kept);
    let before = async |time_ms| store.revision_before(time_ms).await.unwrap().0;
    assert_eq!(before(7000).await, LIFTED + 3);
    assert!((5..=LIFTED).contains(&before(6000).await));
    compact(&store, LIFTED + 3).await;
    assert_eq!(states(&store).await, [kept[1].clone(), rows[0].clone()]);
    assert_eq!(store.rows(&[Revision(3), Revision(LIFTED + 3)]).await.unwrap(), []);

    // A later log is not lifted, and the end never goes back.
    for to in [0, LIFTED, LIFTED + 3] {
        store.bump_revision(FIRST, Revision(to)).await.unwrap();
        assert_eq!(store.bounds().await.unwrap().last, Revision(LIFTED + 3), "{to}");
    }
    store.bump_revision(FIRST, Revision(2 * LIFTED)).await.unwrap();
    commit(&store, Rows::after(2 * LIFTED).create(&api)).await;
    assert_eq!(states(&store).await.len(), 3);
}

async fn an_empty_log_can_be_lifted(store: Arc<dyn Store>) {
    store.bump_revision(FIRST, Revision(LIFTED)).await.unwrap();
    assert_eq!(states(&store).await, []);
    assert_eq!(store.revision_before(i64::MAX).await.unwrap(), Revision(0));
    let rows = commit(&store, Rows::after(LIFTED).create(&binding("web"))).await;
    assert_eq!(states(&store).await, rows);
}

async fn only_who_leads_lifts(store: Arc<dyn Store>) {
    let term = store.lead(&anna(), Duration::from_secs(60)).await.unwrap().term;
    let rows = Rows::default().create(&binding("web")).update(&binding("web"), 1, 1);
    store.commit(term, &rows.rows).await.unwrap();
    let refused = store.bump_revision(FIRST, Revision(LIFTED)).await.unwrap_err();
    assert!(matches!(refused, Error::Deposed { asked: FIRST, current } if current == term), "{refused:?}");
    assert_eq!(store.bounds().await.unwrap(), Bounds { last: Revision(2), compacted: Revision(0) });
    assert_eq!(revisions(&store).await, [1, 2]);
    store.bump_revision(term, Revision(LIFTED)).await.unwrap();
    store.commit(term, &Rows::after(LIFTED).create(&binding("api")).rows).await.unwrap();
}

async fn large_batches_keep_their_order(store: Arc<dyn Store>) {
    let mut last = 0;
    for size in [1, 2, 15, 63, 64, 65, 255, 256, 257, 320, 321, 1000] {
        let rows = (0..size).fold(Rows::after(last), |rows, number| rows.create(&binding(&format!("{last}-{number}"))));
        let rows = commit(&store, rows).await;
        assert_eq!(store.changes(Revision(last), 2000).await.unwrap(), rows);
        last += size;
    }
    assert_eq!(store.bounds().await.unwrap().last, Revision(last));
    // A back end with a disk reports its usage.
    assert!(store.size().await.unwrap().is_none_or(|size| size.bytes > 100_000 && size.free < Some(size.bytes)));
}

/// Random calls cover cases that the rules above miss.
#[tokio::test]
async fn random_calls_have_the_same_answers_everywhere() {
    const ROUNDS: usize = 400;
    let home = tempfile::tempdir().unwrap();
    let memory = store_in_memory().await;
    let mut others = vec![store_in_file(&home).await];
    let cluster = Cluster::shared();
    if let Some(cluster) = &cluster {
        others.push(store::open(&cluster.schema().await, &[]).await.unwrap());
    }
    let chance = ManualClock::at(Time::from_seconds(0));
    let below = |bound: u64| (chance.random() % bound) as i64;
    for round in 0..ROUNDS {
        let last = memory.bounds().await.unwrap().last.0;
        let mut rows = Rows::after(last - i64::from(below(20) == 0));
        for _ in 0..=below(6) {
            let key = binding(&format!("key-{}", below(5)));
            let known = state(&memory, &key).await;
            let previous = known.map_or(0, |state| state.revision.0);
            let operation = match (below(8), previous) {
                (0, _) => Operation::Create,
                (1 | 2, _) => Operation::Delete,
                (_, 0) => Operation::Create,
                _ => Operation::Update,
            };
            rows = rows.row(&key, operation, 1, if operation == Operation::Create { 0 } else { previous });
        }
        let lifts = (below(50) == 0).then(|| Revision(last + below(30)));
        let (compacts, through) = (below(10) == 0, Revision(below(last as u64 + 2)));
        let (limit, after, shift_ms) = (1 + below(20) as usize, Revision(below(last as u64 + 2)), below(3) - 1);
        let answers = async |store: &Arc<dyn Store>| {
            // Which of several keys is named is unspecified.
            let committed = match store.commit(FIRST, &rows.rows).await {
                Err(Error::Conflict { .. }) => "refused".to_owned(),
                other => format!("{other:?}"),
            };
            let compacted = if compacts { Some(store.compact(through, limit).await) } else { None };
            let lifted = match lifts {
                Some(to) => Some(store.bump_revision(FIRST, to).await),
                None => None,
            };
            let changes = store.changes(after, 7).await;
            let page = store.page(Revision(last), after, 3).await;
            let rows = store.rows(&[after, after.next()]).await;
            let bounds = store.bounds().await;
            let before = store.revision_before(after.0 * 1000 + shift_ms).await;
            format!("{committed}\n{compacted:?}\n{lifted:?}\n{changes:?}\n{page:?}\n{rows:?}\n{bounds:?}\n{before:?}")
        };
        let expected = answers(&memory).await;
        for other in &others {
            assert_eq!(answers(other).await, expected, "round {round}");
        }
    }
    assert!(memory.bounds().await.unwrap().last > Revision(100), "most calls were accepted");
}
